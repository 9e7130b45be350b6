"""What an engine says while it answers, whatever engine it is.

Each has the ids of the tokens that it came from, where the engine knows them: another can go on
from these. A turn's log holds deltas as they are here (``log.py``), so fields are only ever added,
behind the others.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import astuple

__all__ = [
    "ID_BYTES",
    "MAX_TOKENS",
    "CallOpened",
    "CallText",
    "Delta",
    "Finished",
    "ReasoningDelta",
    "TextDelta",
    "TokenCount",
    "Tokens",
    "content_bytes",
]

TokenCount = Annotated[int, Meta(le=2**53)]
"""Count of tokens that stores, links and JSON readers have room for, sums included."""
MAX_TOKENS = 2**31 - 1
"""No engine has counted more, whatever it says; more would not fit where counts are stored."""
ID_BYTES = 8
"""Memory of a token's id in a tuple."""


class TextDelta(Struct, frozen=True, gc=False, array_like=True, tag=0):
    text: str
    logprobs: Annotated[list[Any], Meta(max_length=0)] = []
    """Always empty: no engine gives any, and requests for them are refused. A list of anything
    would take 60 times its bytes in memory when it is decoded."""
    ids: tuple[int, ...] = ()


class ReasoningDelta(Struct, frozen=True, gc=False, array_like=True, tag=1):
    text: str
    ids: tuple[int, ...] = ()


class CallOpened(Struct, frozen=True, gc=False, array_like=True, tag=2):
    """A tool call begins; its arguments or input follow as ``CallText``."""

    name: str
    custom: bool = False
    namespace: str | None = None
    call_id: str | None = None
    ids: tuple[int, ...] = ()


class CallText(Struct, frozen=True, gc=False, array_like=True, tag=3):
    text: str
    ids: tuple[int, ...] = ()


class Tokens(Struct, frozen=True, array_like=True):
    """What the engine counted. ``cached`` is the part of ``input`` it did not compute again."""

    input: TokenCount = 0
    output: TokenCount = 0
    cached: TokenCount = 0
    reasoning: TokenCount = 0
    accepted: TokenCount = 0
    """Tokens of ``output`` that were drafted rather than written one by one."""
    rejected: TokenCount = 0
    """Drafted tokens that the model would not have written."""

    def within(self, most: int) -> Tokens:
        """Return these counts as no less than 0 and no more than ``most``."""
        return Tokens(*(min(max(count, 0), most) for count in astuple(self)))


class Finished(Struct, frozen=True, array_like=True, tag=4):
    """The last delta: why generation ended, and what it cost."""

    reason: Literal["stop", "length"]
    tokens: Tokens


Delta = TextDelta | ReasoningDelta | CallOpened | CallText | Finished
_TEXTS = (TextDelta, ReasoningDelta, CallText)  # as a union it would be made at each token


def content_bytes(delta: Delta) -> int:
    """Return about how many bytes what a delta says takes in memory.

    Both ends of a link to an engine node count by this, so another result needs a new version of
    the link.
    """
    if isinstance(delta, _TEXTS):
        return len(delta.text) + ID_BYTES * len(delta.ids)
    if isinstance(delta, CallOpened):
        names = len(delta.name) + len(delta.namespace or "") + len(delta.call_id or "")
        return names + ID_BYTES * len(delta.ids)
    return 0
