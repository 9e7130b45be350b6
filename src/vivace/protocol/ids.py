"""Ids that clients give back to a server: of responses, and of whatever else it made."""

from __future__ import annotations

__all__ = ["NO_ID", "is_id"]

_MAX_LENGTH = 256
"""Characters; ours have fewer than 64."""
NO_ID = (
    f"There is no response with this id: an id has 1 to {_MAX_LENGTH} printable ASCII characters. "
    "Send the id of a response as this server gave it."
)
"""Error message for any other text."""


def is_id(text: str) -> bool:
    """Return whether this can be an id of ours.

    Printable ASCII is text for every store, log and message; PostgreSQL takes no NUL, and lone
    surrogates are no text anywhere.
    """
    return 0 < len(text) <= _MAX_LENGTH and text.isascii() and text.isprintable()
