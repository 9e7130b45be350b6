"""Which models a server has."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from vivace.client.get import Unanswered, get

__all__ = ["served_models"]


class _Row(Struct):
    id: str


class _Listing(Struct):
    data: list[_Row]


async def served_models(url: str, key: str | None = None) -> list[str]:
    """Their names, the default one first; empty where the server does not tell."""
    path = urlsplit(url).path.rstrip("/") or "/v1"
    try:
        answer = await get(httpx2.URL(url).copy_with(path=f"{path}/models"), key)
        return [row.id for row in msgspec.json.decode(answer.body, type=_Listing).data]
    except (Unanswered, httpx2.InvalidURL, msgspec.MsgspecError, ValueError, RecursionError):
        return []
