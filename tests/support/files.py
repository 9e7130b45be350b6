"""Files that ``scripts/data``, ``scripts/models`` and ``scripts/commits`` bring."""

from __future__ import annotations

import gzip
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from vivace.download.files import cache_root

ROOT = Path(__file__).parents[2]


@cache
def _path(script: str, name: str) -> Path:
    asked = [str(ROOT / "scripts" / script), "--path", name]
    return Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())


def _file(script: str, name: str) -> Path:
    path = _path(script, name)
    if not path.exists():
        pytest.skip(f"needs {name}: run scripts/{script}")
    return path


def data_file(name: str) -> Path:
    """The file, or a skip that says how to get it."""
    return _file("data", name)


def commits() -> list[dict[str, Any]]:
    """The edits that scripts/commits collects, or a skip that says how to get them."""
    beside = ROOT.parent / "shared/data"
    for folder in (cache_root() / "data", beside):
        if (path := folder / "commit-edits.jsonl.gz").exists():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                return [json.loads(line) for line in lines]
    pytest.skip("needs real edits: run scripts/commits")


def model_path(name: str) -> Path:
    """Where the model is, or would be."""
    return _path("models", name)


def model_file(name: str) -> Path:
    """The model, or a skip that says how to get it."""
    return _file("models", name)
