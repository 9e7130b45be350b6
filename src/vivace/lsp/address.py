"""Where the server is that answers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Address"]


@dataclass(frozen=True)
class Address:
    """A Vivace server, or any other that speaks its protocol."""

    url: str
    key: str | None = None
