"""Lines of a file that are named by their numbers, in a pasted error or by a person."""

from __future__ import annotations

import re

__all__ = ["lines_named"]

_OTHER = r"[\w./\\-]+\.\w+"
"""The name of any file: its numbers are none of ours."""


def lines_named(path: str, text: str, *, bare: bool = False) -> list[int]:
    """The lines of this file, from 0, as compilers and tracebacks name them; with ``bare`` also
    those that stand without a file, as people speak of them."""
    name = re.escape(path.replace("\\", "/").rpartition("/")[2])
    own = rf"(?<![\w.-])(?P<own>(?:[^\s\"]{{0,300}}[/\\])?{name})"
    place = rf"(?:{own}|{_OTHER})\"?(?:,\s*line\s+|, |:|\()(?P<line>\d{{1,9}})"
    said = r"\blines?\s+(?P<bare>\d{1,9})"
    return [
        int(found["line"] or found["bare"]) - 1
        for found in re.finditer(rf"{place}|{said}", text, re.IGNORECASE)
        if found["own"] or (bare and found["bare"])
    ]
