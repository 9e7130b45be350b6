"""Which models a server has."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2
import msgspec
from msgspec import Struct

from vivace.client.get import Unanswered, get

__all__ = ["Listing", "ServedModel", "list_models", "served_models"]


class ServedModel(Struct, frozen=True):
    id: str
    fill_in_the_middle: bool | None = None
    """Whether it is known to fill gaps; None where the server does not tell."""


class Listing(Struct, frozen=True):
    status: int
    models: tuple[ServedModel, ...] = ()
    """The default one first; empty where the server does not tell."""


class _Rows(Struct):
    data: tuple[ServedModel, ...]


async def list_models(url: str, key: str | None = None) -> Listing:
    """What a server says of its models; raises Unanswered."""
    path = urlsplit(url).path.rstrip("/") or "/v1"
    try:
        address = httpx2.URL(url).copy_with(path=f"{path}/models")
    except (httpx2.InvalidURL, ValueError) as error:
        raise Unanswered from error
    answer = await get(address, key)
    try:
        return Listing(answer.status, msgspec.json.decode(answer.body, type=_Rows).data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return Listing(answer.status)


async def served_models(url: str, key: str | None = None) -> list[str]:
    """Their names, the default one first; empty where the server does not tell."""
    try:
        return [model.id for model in (await list_models(url, key)).models]
    except Unanswered:
        return []
