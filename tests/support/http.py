"""The HTTP side of the wire, as plain as curl sees it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from tests.support.socket import Event

RESPONSES = "/v1/responses"


def sse(lines: Iterable[str]) -> Iterator[Event]:
    """The events of a stream, as they come; ends at ``[DONE]``."""
    for line in lines:
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            return
        if data != line:
            yield json.loads(data)


def said(response: dict[str, Any]) -> str:
    """All text of a response object."""
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def key(owner: str) -> str:
    return f"secret-of-{owner}"


def bearer(owner: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key(owner)}"}


def keys(*owners: str) -> list[dict[str, str]]:
    """The ``[[keys]]`` of a configuration for these owners."""
    return [
        {"name": owner, "sha256": hashlib.sha256(key(owner).encode()).hexdigest()}
        for owner in owners
    ]
