"""Editing tasks on files of real packages, as data: FORMAT.md says how to write them.

A set is written by people who know the format and the packages, and nothing of the edits they
will measure. The files themselves are never kept here; they are brought by name and hash.
"""

from __future__ import annotations

from bench.edit_sets.errors import BadDiff, BadSet, NoPackage, NoTool
from bench.edit_sets.judge import Outcome, Verdict, judge
from bench.edit_sets.reader import EditSet, read, read_all
from bench.edit_sets.schema import Package, Subject, Task
from bench.edit_sets.workspace import original

__all__ = [
    "BadDiff",
    "BadSet",
    "EditSet",
    "NoPackage",
    "NoTool",
    "Outcome",
    "Package",
    "Subject",
    "Task",
    "Verdict",
    "judge",
    "original",
    "read",
    "read_all",
]
