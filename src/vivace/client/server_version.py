"""Which Vivace a server runs, by what it tells Prometheus."""

from __future__ import annotations

import re

import httpx2

from vivace.client.get import Unanswered, get

__all__ = ["server_version"]

_BUILD = re.compile(r'^vivace_build_info\{version="([\w.+-]{1,64})"\}', re.MULTILINE)


async def server_version(url: str, key: str | None = None) -> str | None:
    """None where it is no Vivace, an older one, or does not say."""
    try:
        address = httpx2.URL(url)
        path = address.path.rstrip("/").removesuffix("/v1")
        answer = await get(address.copy_with(path=f"{path}/metrics", query=None), key)
    except (Unanswered, httpx2.InvalidURL, ValueError):
        return None
    found = _BUILD.search(answer.text)
    return found[1] if found else None
