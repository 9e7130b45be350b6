"""Pieces of other files that are shown before the one being completed.

Where somebody worked last is likeliest to matter. The oldest comes first, so that a new piece at
the end leaves the others where the engine has read them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from vivace.completion.anchor import Anchor
from vivace.completion.windows import window
from vivace.protocol.requests import OtherFile

__all__ = ["Neighbour", "pieces_of"]

_MOST = 4


class Neighbour(Struct, frozen=True):
    """Another open file, and where in it somebody worked last."""

    path: str
    text: str
    offset: int = 0


def pieces_of(neighbours: Sequence[Neighbour], room: int) -> tuple[OtherFile, ...]:
    """What is shown of files, the newest first, in so many characters together."""
    chosen: list[OtherFile] = []
    for each in neighbours[:_MOST]:
        around = Anchor(each.text[: each.offset], each.text[each.offset :])
        shown = window(each.path, around, room // _MOST)
        if piece := (shown.prefix + shown.suffix).strip("\n"):
            chosen.append(OtherFile(each.path, piece))
    return tuple(reversed(chosen))
