"""The old set: small editing tasks on files of our own, in Python, TypeScript, C and C++, as data.

``held_out`` was written by somebody who did not know the prompts and checks, after these had been
tuned on ``tuned_on``: it shows how far that carries. Fix what it finds only by rules that hold
anywhere. The tasks are read like those on real packages (bench/edit_sets), and judged by rules of
their own, which stay as they are so that figures of different times can be compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from bench.edit_sets.reader import OldSet, read_old
from bench.edit_tasks.judge import judge

__all__ = ["Folder", "judge", "sets_of"]

Folder = Literal["tuned_on", "held_out"]

# Runs draw their samples by the order of the tasks.
_ORDER = ("python", "typescript", "c", "cpp")


def sets_of(name: Folder) -> list[OldSet]:
    folder = Path(__file__).with_name(name)
    return [read_old(folder / f"{language}.toml") for language in _ORDER]
