"""A gap in a file, as each kind of server wants to be asked for it over HTTP."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from vivace.client.endpoint import Endpoint
from vivace.client.errors import ClientError
from vivace.client.events import Failure, decode_event
from vivace.client.gap import Gap, those_given
from vivace.client.lane_table import Unspoken
from vivace.completion import beginnings

__all__ = ["Completions", "FillForm", "Infill", "Responses", "knows_fill", "post"]


def knows_fill(refused: ClientError) -> bool:
    """Whether who refuses to fill a gap has understood that one was meant: others do not know the
    field, or miss the ``input`` that stands in its place everywhere else."""
    named = re.findall(r"\w+", f"{refused.param} {refused}")
    foreign = refused.status == 400 and ("fill" in named or "input" in named)
    return refused.param == "model" or not (foreign or refused.status in (404, 405, 422))


class FillForm(Protocol):
    address: str

    def body(self, gap: Gap) -> dict[str, Any] | None:
        """None where there is nothing to ask for."""

    def read(self, data: bytes) -> tuple[str, bool]:
        """Of one event of the answer: what it adds, and whether the answer ends with it."""

    def knows(self, refused: ClientError) -> bool:
        """Whether the server speaks this form, though it said no."""


async def post(endpoint: Endpoint, form: FillForm, gap: Gap) -> AsyncGenerator[str, None]:
    """The text of the answer; closing this closes the request. Raises Unspoken."""
    body = form.body(gap)
    if body is None:
        return
    ended = False
    try:
        async with aclosing(endpoint.post(form.address, body | {"stream": True})) as answer:
            async for data in answer:
                text, ends = ("", True) if data == b"[DONE]" else form.read(data)
                ended = ended or ends
                if text:
                    yield text
    except ClientError as refused:
        if form.knows(refused):
            raise
        raise Unspoken(str(refused)) from None
    if not ended:
        raise endpoint.broke_off()


class Responses:
    """Our own server, where a WebSocket does not get through."""

    def __init__(self, base: str) -> None:
        self.address = f"{base}/responses"

    def body(self, gap: Gap) -> dict[str, Any]:
        return gap.body()

    def read(self, data: bytes) -> tuple[str, bool]:
        event = decode_event(data)
        if event is None:
            return "", False
        if event.type == "error":
            raise event.failure.told()
        if event.type == "response.created" and not (event.response and event.response.fills):
            raise Unspoken("It answers something else.")
        if event.ends and (broken := event.why_broken) is not None:
            raise broken
        return event.text, event.ends

    def knows(self, refused: ClientError) -> bool:
        return knows_fill(refused)


class _Infilled(Struct):
    content: str = ""
    stop: bool = False
    error: Failure | None = None


class Infill:
    """llama.cpp's own server. It puts what is typed behind the prefix, not behind the suffix."""

    def __init__(self, base: str) -> None:
        self.address = f"{base.removesuffix('/v1')}/infill"

    def body(self, gap: Gap) -> dict[str, Any]:
        files = gap.fill.get("files") or ()
        beginning = gap.text("starts_with")
        return {
            "input_prefix": gap.text("prefix"),
            "input_suffix": gap.text("suffix"),
            "prompt": gap.text("typed"),
            "input_extra": [{"filename": file["path"], "text": file["text"]} for file in files],
            "n_predict": gap.max_tokens if gap.generate else 0,
            "temperature": 0,
            **those_given(
                model=gap.model,
                stop=gap.stop,
                grammar=beginning and beginnings.grammar(beginning),
            ),
        }

    def read(self, data: bytes) -> tuple[str, bool]:
        said = _decode(data, _Infilled)
        return said.content, said.stop

    def knows(self, refused: ClientError) -> bool:
        return refused.status not in (403, 404, 405)


class _Choice(Struct):
    text: str | None = None
    finish_reason: str | None = None


class _Completed(Struct):
    choices: list[_Choice] = []
    error: Failure | None = None


class Completions:
    """Any server that has OpenAI's older API, where it and its model know what a suffix is."""

    def __init__(self, base: str) -> None:
        self.address = f"{base}/completions"

    def body(self, gap: Gap) -> dict[str, Any] | None:
        if not gap.generate:  # here it would cost a token, and whether it helps nobody knows
            return None
        return {
            "prompt": gap.text("prefix") + gap.text("typed"),
            "max_tokens": gap.max_tokens,
            "temperature": 0,
            **those_given(model=gap.model, suffix=gap.text("suffix"), stop=gap.stop),
        }

    def read(self, data: bytes) -> tuple[str, bool]:
        choices = _decode(data, _Completed).choices
        text = "".join(choice.text or "" for choice in choices)
        return text, any(choice.finish_reason for choice in choices)

    def knows(self, refused: ClientError) -> bool:
        return refused.param == "model" or refused.status not in (404, 405)


_Answer = TypeVar("_Answer", _Infilled, _Completed)


def _decode(data: bytes, kind: type[_Answer]) -> _Answer:
    try:
        said = msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ClientError("The server sent something that is no completion.") from None
    if said.error is not None:
        raise said.error.told()
    return said
