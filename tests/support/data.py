"""Files that ``scripts/data`` brings."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@cache
def _path(name: str) -> Path:
    asked = [str(ROOT / "scripts/data"), "--path", name]
    return Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())


def data_file(name: str) -> Path:
    """The file, or a skip that says how to get it."""
    path = _path(name)
    if not path.exists():
        pytest.skip(f"needs {name}: run scripts/data")
    return path
