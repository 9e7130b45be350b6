"""How much one request may ask of a gateway, told from its text before anything of it is decoded.

A gateway has one event loop. Each value, item and tool of a request costs time on it, or beside it
with the interpreter's lock held, so their number is bounded and not only their bytes. The bounds
are several times what the largest agents send: some thousand items, a hundred tools, and schemas of
some thousand properties.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from vivace.errors import InvalidRequest, TooLarge

__all__ = [
    "MAX_ITEMS",
    "MAX_STEER_ITEMS",
    "MAX_TOOLS",
    "MAX_VALUES",
    "check_items",
    "check_tools",
    "check_values",
    "footprint",
    "items_within",
    "size_of",
]

T = TypeVar("T")

MAX_VALUES = 200_000
"""Objects, arrays and their members in the JSON of one request: decoding as many takes 50 ms."""
MAX_ITEMS = 20_000
"""Items of a conversation, new input included: each takes 20 µs from its bytes to the engine."""
MAX_TOOLS = 2_000
"""Tools of one request, those in namespaces counted one by one."""
MAX_STEER_ITEMS = 256
"""Messages of one steer, of which several may wait for one turn."""

_VALUE_BYTES = 128
"""Memory that a small value takes, with what holds it."""
_REQUEST_BYTES = 640
"""Memory of a request that says next to nothing."""
_PIECE = 65_536
"""Characters that are counted at once, in about a millisecond."""


def footprint(text: str) -> int:
    """Return about how many bytes of memory the values of this JSON will take, and seldom fewer.

    The text counts in the width that Python gives it, and each place where there may be a value as
    an object: ``[[],[],…`` is twenty times its length when it is decoded.
    """
    return _REQUEST_BYTES + sys.getsizeof(text) + _VALUE_BYTES * _marks_in(text)


def size_of(held: object) -> int:
    """Return how many bytes of memory ``held`` counts; 0 for what counts none."""
    size: int = getattr(held, "size", 0)
    return size


def check_values(text: str) -> None:
    """Refuse JSON of more values than ``MAX_VALUES``."""
    if _marks_in(text) > MAX_VALUES and _has_more_values(text, MAX_VALUES):
        raise TooLarge(
            f"The request has more than {MAX_VALUES:,} JSON values, which is what this server "
            "takes: members of objects and arrays, such as items, parts of messages and "
            "properties of schemas. Send fewer, or continue a response instead of sending its "
            "history."
        )


def check_items(count: int) -> None:
    """Refuse a conversation of so many items if it is longer than ``MAX_ITEMS``."""
    if count > MAX_ITEMS:
        raise TooLarge(
            f"This conversation has more than {MAX_ITEMS:,} items, which is what this server "
            "takes. Leave out its oldest items, and compact a conversation (POST "
            "/v1/responses/compact) before it gets as long.",
            param="input",
        )


def items_within(items: Iterable[T]) -> tuple[T, ...]:
    """Return the items of a request as they are made; refuses more than ``MAX_ITEMS``."""
    made = tuple(islice(items, MAX_ITEMS + 1))
    check_items(len(made))
    return made


def check_tools(count: int, where: str = "tools") -> None:
    """Refuse a list of so many tools if it is longer than ``MAX_TOOLS``."""
    if count > MAX_TOOLS:
        raise InvalidRequest(
            f"There are {count:,} tools in '{where}', and this server takes {MAX_TOOLS:,}. Offer "
            "only those that this conversation needs.",
            code="too_many_tools",
            param=where,
        )


def _marks_in(text: str) -> int:
    """Return how many marks of JSON there are before which, or in which, a value may begin; inside
    of strings they count, too."""
    return text.count(",") + text.count("[") + text.count("{")


def _has_more_values(text: str, most: int) -> bool:
    """Whether there are more such marks outside of strings.

    Counted in pieces: one call for all of the text would hold the interpreter's lock throughout.
    """
    count, start, in_string = 0, 0, False
    while start < len(text) and count <= most:
        piece = text[start : start + _PIECE]
        backslashes = len(piece) - len(piece.rstrip("\\"))
        if backslashes % 2:  # the character that it escapes belongs to this piece
            piece = text[start : start + len(piece) + 1]
        start += len(piece)
        if "\\" in piece:
            piece = piece.replace("\\\\", "").replace('\\"', "")
        spans = piece.split('"')
        count += _marks_in("".join(spans[in_string::2]))
        in_string ^= not len(spans) % 2
    return count > most
