"""Turns a GGUF file of a Qwen2 or Llama model into a folder that vLLM can load.

usage: gguf_to_safetensors.py FILE.gguf FOLDER

The weights are dequantised to bfloat16, so the model is the quantised one, not the original; that
is what a comparison of engines on one model wants. Runs in an environment that has torch,
transformers, safetensors and gguf (scripts/install vllm makes one).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from transformers import AutoTokenizer

_ARCHITECTURES = {"qwen2": "Qwen2ForCausalLM", "llama": "LlamaForCausalLM"}
_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def metadata(reader: GGUFReader) -> dict[str, Any]:
    return {name: field.contents() for name, field in reader.fields.items()}


def tensor_name(name: str) -> str:
    block = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    if block:
        return f"model.layers.{block[1]}.{_NAMES[block[2]]}.{block[3]}"
    stem, kind = name.rsplit(".", 1)
    return f"{_NAMES[stem]}.{kind}"


def unpermuted(weights: np.ndarray[Any, Any], heads: int) -> np.ndarray[Any, Any]:
    """llama.cpp stores the rows of Llama's q and k in another order than transformers."""
    rows = weights.shape[0] // heads // 2
    shape = (heads, rows, 2, *weights.shape[1:])
    return weights.reshape(shape).swapaxes(1, 2).reshape(weights.shape)


def main() -> None:
    source, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(source)
    facts = metadata(reader)
    kind = facts["general.architecture"]
    heads, kv_heads = (
        facts[f"{kind}.attention.head_count"],
        facts[f"{kind}.attention.head_count_kv"],
    )
    tensors = {}
    for tensor in reader.tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        if kind == "llama" and re.search(r"attn_[qk]\.weight$", tensor.name):
            weights = unpermuted(weights, heads if "attn_q" in tensor.name else kv_heads)
        if tensor.name != "rope_freqs.weight":
            tensors[tensor_name(tensor.name)] = torch.from_numpy(np.array(weights)).bfloat16()
    tied = "lm_head.weight" not in tensors
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": [_ARCHITECTURES[kind]],
        "model_type": kind,
        "hidden_size": facts[f"{kind}.embedding_length"],
        "intermediate_size": facts[f"{kind}.feed_forward_length"],
        "num_hidden_layers": facts[f"{kind}.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": facts[f"{kind}.context_length"],
        "rms_norm_eps": facts[f"{kind}.attention.layer_norm_rms_epsilon"],
        "rope_theta": facts.get(f"{kind}.rope.freq_base", 10000.0),
        "vocab_size": tensors["model.embed_tokens.weight"].shape[0],
        "tie_word_embeddings": tied,
        "hidden_act": "silu",
        "torch_dtype": "bfloat16",
        "bos_token_id": facts.get("tokenizer.ggml.bos_token_id"),
        "eos_token_id": facts["tokenizer.ggml.eos_token_id"],
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.chat_template = facts["tokenizer.chat_template"]
    tokenizer.save_pretrained(folder)
    print(f"{folder}: {len(tensors)} tensors")


if __name__ == "__main__":
    main()
