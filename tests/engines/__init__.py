"""Suite: change. One suite over all engines; a real llama.cpp and vLLM with a few tests each."""
