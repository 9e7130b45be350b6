"""Files that ``scripts/data``, ``scripts/models`` and ``scripts/commits`` bring."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from vivace.download.files import cache_root

_SCRIPTS = Path(__file__).parents[1] / "scripts"


def _path(kind: str, name: str) -> Path:
    asked = [str(_SCRIPTS / kind), "--path", name]
    path = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not path.exists():
        sys.exit(f"This benchmark needs {name}; run: scripts/{kind} {name}")
    return path


def vllm_python() -> Path:
    """The environment that scripts/install-vllm makes; $VIVACE_VLLM_PYTHON names another."""
    asked = [str(_SCRIPTS / "install-vllm"), "--path"]
    folder = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    return Path(os.environ.get("VIVACE_VLLM_PYTHON", f"{folder}/bin/python"))


def vllm_model(name: str = "qwen2.5-coder-0.5b") -> Path:
    """A model in the form vLLM loads, beside the file it was made from."""
    folder = _path("models", name).with_name(f"{name}-hf")
    if not folder.exists():
        sys.exit(f"This benchmark needs the model for vLLM; run: scripts/install-vllm {name}")
    return folder


def data(name: str) -> Path:
    return _path("data", name)


def commits() -> Path:
    """Where scripts/commits puts the edits it collects."""
    return cache_root() / "data/commit-edits.jsonl.gz"


def model(name: str) -> Path:
    """The weights for llama.cpp; $VIVACE_WEIGHTS names others of the same model, such as another
    quantisation."""
    given = os.environ.get("VIVACE_WEIGHTS")
    return Path(given) if given else _path("models", name)
