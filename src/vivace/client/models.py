"""Which models a server has."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from vivace.addresses import is_loopback

__all__ = ["served_models"]

_PATIENCE_S = 3.0


class _Row(Struct):
    id: str


class _Listing(Struct):
    data: list[_Row]


async def served_models(url: str, key: str | None = None) -> list[str]:
    """Their names, the default one first; empty where the server does not tell."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    path = urlsplit(url).path.rstrip("/") or "/v1"
    try:
        async with httpx2.AsyncClient(
            timeout=_PATIENCE_S,
            trust_env=not is_loopback(urlsplit(url).hostname or ""),
            verify=url.startswith("https"),  # reading the certificates takes longer than asking
        ) as http:
            answer = await http.get(
                httpx2.URL(url).copy_with(path=f"{path}/models"), headers=headers
            )
        return [row.id for row in msgspec.json.decode(answer.content, type=_Listing).data]
    except (httpx2.RequestError, httpx2.InvalidURL, msgspec.MsgspecError, ValueError):
        return []
