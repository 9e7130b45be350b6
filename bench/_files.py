"""Files that ``scripts/data`` and ``scripts/models`` bring."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_SCRIPTS = Path(__file__).parents[1] / "scripts"


def _path(kind: str, name: str) -> Path:
    asked = [str(_SCRIPTS / kind), "--path", name]
    path = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    if not path.exists():
        sys.exit(f"This benchmark needs {name}; run: scripts/{kind} {name}")
    return path


def data(name: str) -> Path:
    return _path("data", name)


def model(name: str) -> Path:
    return _path("models", name)
