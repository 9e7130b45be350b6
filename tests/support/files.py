"""Files that ``scripts/data`` and ``scripts/models`` bring."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

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


def model_path(name: str) -> Path:
    """Where the model is, or would be."""
    return _path("models", name)


def model_file(name: str) -> Path:
    """The model, or a skip that says how to get it."""
    return _file("models", name)
