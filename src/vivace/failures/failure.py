"""One thing that went wrong, as a command told it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

__all__ = ["Failure", "Found", "Frame", "Kind", "Reader", "caused"]

Kind = Literal["compile", "error", "assertion", "exit"]
"""``compile``: it cannot be built. ``error``: an exception or a panic. ``assertion``: a test
expected something else. ``exit``: a program that ran others says that one of them failed."""


class Frame(Struct, frozen=True):
    """A place in a file that an error names."""

    path: str
    """As it was printed."""
    line: int | None
    """From 0; None where only the function is named."""
    name: str = ""
    """The function, as far as it is told."""


class Failure(Struct, frozen=True, kw_only=True):
    kind: Kind
    message: str
    """What went wrong, in the words of whoever noticed; never empty."""
    frames: tuple[Frame, ...] = ()
    """The innermost first: where it went wrong, then who called that."""
    said: str = ""
    """The lines of the output that tell of it."""
    test: str = ""
    """The test that failed, as far as it is told."""


class Found(Struct, frozen=True):
    """A failure, and which lines of the output are about it."""

    start: int
    end: int
    failure: Failure


def caused(cause: Found, effect: Found) -> Found:
    """One failure of two, of which the one is told as the reason of the other: it went wrong where
    the cause did."""
    one, other = cause.failure, effect.failure
    frames = (*one.frames, *(each for each in other.frames if each not in one.frames))
    first, last = sorted((cause, effect), key=lambda each: each.start)
    return Found(
        first.start,
        last.end,
        Failure(
            kind=one.kind,
            message=f"{one.message}\n{other.message}",
            frames=frames,
            said=f"{first.failure.said}\n{last.failure.said}",
            test=one.test or other.test,
        ),
    )


Reader = Callable[[Sequence[str]], Iterator[Found]]
"""Looks for the errors of one language in clean lines; in time that is linear in their number."""
