"""The held-out set is the one that was sealed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import bench.edit_sets

FOLDER = Path(bench.edit_sets.__file__).parent


def test_the_held_out_set_is_what_was_sealed() -> None:
    written, name = (FOLDER / "held_out.sha256").read_text().split()
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == written
