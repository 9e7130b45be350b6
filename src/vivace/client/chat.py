"""Chat Completions, read as if it were the Responses API: many servers have nothing newer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vivace.client.errors import ClientError
from vivace.client.events import Failure, Response, ServerEvent
from vivace.client.gap import those_given

__all__ = ["ChatReader", "chat_body"]

_SAME = ("model", "temperature", "seed", "prediction")
"""Fields that are called the same in both."""


def chat_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request whose input is messages, as a chat."""
    messages = [{"role": each["role"], "content": each["content"]} for each in body["input"]]
    same = {name: body[name] for name in _SAME if name in body}
    return {
        "messages": messages,
        **same,
        **those_given(max_tokens=body.get("max_output_tokens")),
    }


class _Delta(Struct):
    content: str | None = None


class _Choice(Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _Chunk(Struct):
    id: str = "chat"
    model: str | None = None
    choices: list[_Choice] = []
    error: Failure | None = None


class ChatReader:
    """The events of one answer."""

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._tokens = 0

    def read(self, data: bytes) -> Iterator[ServerEvent]:
        if data == b"[DONE]":
            return
        chunk = _decode(data)
        if chunk.error is not None:
            raise chunk.error.told()
        if not self._response:
            self._response = {"id": chunk.id, "model": chunk.model}
            yield self._event("response.created", status="in_progress")
        for choice in chunk.choices[:1]:
            if choice.delta.content:
                self._tokens += 1
                yield ServerEvent(type="response.output_text.delta", delta=choice.delta.content)
            if choice.finish_reason is not None:
                yield self._end(cut_off=choice.finish_reason == "length")

    def _end(self, *, cut_off: bool) -> ServerEvent:
        usage = {"output_tokens": self._tokens}
        if not cut_off:
            return self._event("response.completed", status="completed", usage=usage)
        reason = {"reason": "max_output_tokens"}
        return self._event(
            "response.incomplete", status="incomplete", usage=usage, incomplete_details=reason
        )

    def _event(self, kind: str, **more: Any) -> ServerEvent:
        return ServerEvent(type=kind, response=msgspec.convert(self._response | more, Response))


def _decode(data: bytes) -> _Chunk:
    try:
        return msgspec.json.decode(data, type=_Chunk)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ClientError("The server sent something that is no part of a chat.") from None
