"""Suite: change. Pure logic and its state machines."""
