"""A model that costs an engine next to nothing, so that what stands around the engine shows.

Two narrow layers of random weights, which vLLM makes itself from a fixed seed, with the vocabulary
and chat template of a real model. It has nothing to say of its own: ``_tiny_worker`` says it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

CONTEXT = 131_072
SETTINGS: dict[str, Any] = {
    "max_model_len": CONTEXT,
    "load_format": "dummy",
    "worker_extension_cls": "bench._tiny_worker.Extension",
}
"""What vLLM must be started with."""

SAYS = "forced: one sentence again and again, or the prediction with every 100th token another"

_SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": CONTEXT,
    "tie_word_embeddings": True,
}
_VOCABULARY = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


def write(folder: Path, real: Path) -> str:
    """Write it into ``folder``, of the kind of the ``real`` one; returns how it is described."""
    config = json.loads((real / "config.json").read_text()) | _SHAPE
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    for name in _VOCABULARY:
        shutil.copy(real / name, folder)
    layers, width, words = (
        config[key] for key in ("num_hidden_layers", "hidden_size", "vocab_size")
    )
    return (
        f"{config['model_type']}, {layers} layers of width {width}, {words:,} tokens in its "
        f"vocabulary, random weights; {CONTEXT:,} positions"
    )
