"""In which form a model is asked for an edit, by its size and that of the region: one table.

Small models copy well and quote badly: they rewrite the region, and drafts make the copying cheap.
Large models quote well, and for a large region naming the lines that change is less to write.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from vivace import models
from vivace.models import EditFormat

__all__ = [
    "EXPLAINED",
    "INSTRUCTIONS",
    "SYSTEM",
    "TABLE",
    "WHICH_LINE",
    "Row",
    "ability_of",
    "row_for",
]


class Row(NamedTuple):
    """What a model of this ability does with a region of up to so many lines."""

    ability: EditFormat
    """What our table of models trusts it with."""
    lines: float
    format: EditFormat
    snapshot: bool
    """Whether the whole file is shown before the region; small models would copy it too."""


TABLE: tuple[Row, ...] = (
    Row("region", float("inf"), "region", snapshot=False),
    Row("search_replace", 80, "region", snapshot=True),
    Row("search_replace", float("inf"), "search_replace", snapshot=True),
)
"""The first row that fits."""

_BILLION = 1_000_000_000
_SMALL = 8 * _BILLION
_SIZE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*([bm])\b", re.IGNORECASE)

SYSTEM = (
    "You edit code. You are shown files and told what to change, and how to answer. Change only "
    "what you are told to change."
)
"""For models that are shown files: the same for every form, so that the form may change between
two edits of a conversation."""

INSTRUCTIONS: Mapping[EditFormat, str] = MappingProxyType(
    {
        "region": (
            "You edit code. You are shown a piece of a file and told what to change. Answer with "
            "the whole piece after the change, in one code block, and nothing else.\n"
            "Change only what you are told to change. Copy every other line exactly, with its "
            "indentation, comments and empty lines. Never leave lines out and never write "
            "placeholders such as '... existing code ...'."
        ),
        "search_replace": (
            "You edit code. You are shown a file and told what to change. Answer with blocks of "
            "this form and nothing else:\n"
            "path/of/the/file\n"
            "<<<<<<< SEARCH\n"
            "lines as they stand in the file\n"
            "=======\n"
            "lines to put in their place\n"
            ">>>>>>> REPLACE\n"
            "Copy the lines to search for exactly, with their indentation, and enough of them "
            "that they stand in the file only once. Change only what you are told to change. "
            "An empty SEARCH makes a new file."
        ),
    }
)


EXPLAINED = (
    "You fix code. You are shown a piece of a file and told what is wrong with it. First say in "
    "one or two sentences which line of that piece has to be different, and why. Then give the "
    "whole piece with that line changed, in one code block.\n"
    "Change only what has to be. Copy every other line exactly, and leave none out."
)
"""Instead of ``region``, where there is a bug: a small model that goes straight to the code copies
it. Who has said what has to be different writes something different."""
WHICH_LINE = "Which line of the code to change is wrong, and why? Then that code, fixed."
"""Comes last then."""


def ability_of(model: str) -> EditFormat:
    """By our table; for a model that is not in it, by the size in its name, and else small."""
    known = models.find(model)
    if known is not None:
        return known.edit_format
    sizes = [
        float(number) * (_BILLION if unit.lower() == "b" else 1_000_000)
        for number, unit in _SIZE.findall(re.sub(r"[-_/:]", " ", model))
    ]
    return "search_replace" if max(sizes, default=0) > _SMALL else "region"


def row_for(model: str, lines: int) -> Row:
    ability = ability_of(model)
    return next(row for row in TABLE if row.ability == ability and lines <= row.lines)
