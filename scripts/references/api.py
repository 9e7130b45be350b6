"""What becomes of each field of a request, from ``api.toml`` beside this; a test tries it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from scripts.references.tables import code, page, table
from vivace.protocol.chat import ChatRequest, CompletionRequest
from vivace.protocol.messages_api.types import MessagesRequest
from vivace.protocol.requests import CreateBody

__all__ = ["READ", "Api", "Field", "apis", "text"]

READ: dict[str, type[Struct]] = {
    "responses": CreateBody,
    "chat": ChatRequest,
    "completions": CompletionRequest,
    "messages": MessagesRequest,
}
"""What is read of the requests of each."""

_INTRODUCTION = """
Vivace speaks four APIs of others. Here is what becomes of every field that their makers' clients
can send, and of those that are ours. [openapi.json](../openapi.json) has the types of what is read,
and every path and status; what answers and events look like is as their makers document it.

| | |
| --- | --- |
| honoured | it changes what the model is asked, or how the answer comes |
| echoed | it is taken and given back in the response, and has no other effect |
| ignored | it may be sent, and nothing becomes of it |
| refused | the request is answered with an error that names the field |

A field that is not listed is ignored. *Ours* are fields that only Vivace knows.
"""


class Field(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    treatment: Literal["honoured", "echoed", "ignored", "refused"] = field(name="is")
    words: str
    ours: bool = False
    value: Any = field(default=UNSET, name="try")
    without: tuple[str, ...] = ()
    beside: dict[str, Any] = {}
    seen_in: str | UnsetType = UNSET


class Api(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    title: str
    path: str
    words: str
    base: dict[str, Any]
    fields: dict[str, Field]


def apis() -> dict[str, Api]:
    raw = tomllib.loads(Path(__file__).with_name("api.toml").read_text("utf-8"))
    return msgspec.convert(raw, dict[str, Api])


def text() -> str:
    return page("API", _INTRODUCTION, *map(_section, apis().values()))


def _section(api: Api) -> str:
    rows = (
        (code(name), ("*ours*, " if each.ours else "") + each.treatment, each.words)
        for name, each in api.fields.items()
    )
    head = f"## {api.title}\n\n{code('POST ' + api.path)}. {api.words}"
    return f"{head}\n\n{table(('field', 'is', 'what to know'), rows)}"
