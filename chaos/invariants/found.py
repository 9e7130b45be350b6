"""The form in which an invariant tells what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

__all__ = ["Found", "Violation"]


class Violation(Struct, frozen=True):
    invariant: str
    what: str
    about: tuple[str, ...] = ()
    """Names of responses, steers and streams: an excerpt is what mentions them."""


Found = Iterator[tuple[str, tuple[str, ...]]]
"""What is wrong, and whom it is about."""
