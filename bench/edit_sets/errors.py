"""What can be wrong with a set of edit tasks, said to the person who writes it."""

from __future__ import annotations

__all__ = ["BadDiff", "BadSet", "NoPackage", "NoTool"]


class BadSet(Exception):
    """A file of tasks is not as FORMAT.md says; the message names file, task and field."""


class BadDiff(Exception):
    """A unified diff cannot be read or does not fit its file."""


class NoPackage(Exception):
    """A package could not be brought; the message says what was tried."""


class NoTool(Exception):
    """A compiler or interpreter is missing; the message says what to install."""
