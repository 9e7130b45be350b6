"""Something about code that a person should know of: the one form of all checks.

What speaks against an edit, and what is found while one types, is said twice: to the person, who
may have to decide, and to a model, which may get another try.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from vivace.syntax.hunk import Hunk

__all__ = ["REMARK", "Finding", "Severity"]

Severity = Literal["error", "warning", "note"]

REMARK = "remark"
"""The code of what a model says of a change; no rule has it."""


class Finding(Struct, frozen=True):
    code: str
    """Its kind, the same for all of them: ``syntax``, ``lost`` …"""
    person: str
    """What is wrong, why, and what to do."""
    model: str
    """The same as an order."""
    severity: Severity = "error"
    lines: tuple[int, int] | None = None
    """Where, if anywhere: the first line, from 0, and the line after the last."""
    columns: tuple[int, int] | None = None
    """Where in these lines: the first character in the first, and the one after the last in the
    last; ``None``: all of them."""
    fix: tuple[Hunk, ...] = ()
    """What would mend it."""
    evidence: tuple[str, ...] = ()
    """What it was concluded from."""
