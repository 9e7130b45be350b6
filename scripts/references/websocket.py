"""What a client and the server say to each other over the WebSocket, from the types of it."""

from __future__ import annotations

import json
import re
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Raw, Struct, UnsetType

from scripts.references.docstrings import attributes, markdown
from scripts.references.tables import code, page, table
from vivace.protocol import events
from vivace.protocol.requests import Interrupt, Resume, SteerEvent

__all__ = ["CLIENT", "OBJECTS", "added_by", "server_events", "text"]

_INTRODUCTION = """
A GET of `/v1/responses` with an upgrade opens a WebSocket. Every message is one JSON object with a
`type`. Turns of one lane (`stream_id`, or none) run one after the other, lanes beside each other.

*Codex's* and *ours* are what OpenAI's own client does not know: the one is what Codex CLI speaks,
the other only Vivace. Clients pass over what they do not know, so nothing need be turned off.
"""
_NUMBERED = """
Each has the `sequence_number` that it has in its response, from 0 without a gap; those of a named
lane have its `stream_id`. Receipts of steers are numbered by themselves. `error`,
`response.interrupt.accepted` and Codex's events have no number.
"""
_RESPONSE = """
The response as OpenAI documents it, with every field there ([openapi.json](../openapi.json) has
their types), and these:
""".strip()
CLIENT: dict[str, type[Struct]] = {
    "response.steer": SteerEvent,
    "response.interrupt": Interrupt,
    "response.resume": Resume,
}
"""What a client may say beside ``response.create``, whose fields are those over HTTP."""
OBJECTS: tuple[type[Struct], ...] = (
    events.Response,
    events.QueuePlace,
    events.Routing,
    events.ErrorPayload,
    events.SteerReceipt,
    events.ReturnedSteer,
    events.RequiredOutput,
    events.CodexWindow,
)
"""What stands in events and is no event."""
_COMMON = ("sequence_number", "stream_id")
_ADDED = re.compile(r"(Ours|Codex's): ?")


def server_events() -> dict[str, type[Struct]]:
    """By their type, in the order of a turn."""
    found = (getattr(events, name) for name in vars(events) if not name.startswith("_"))
    structs = (each for each in found if isinstance(each, type) and issubclass(each, Struct))
    told = {each.__struct_config__.tag: each for each in structs if each.__module__ == _HERE}
    return {str(tag): each for tag, each in told.items() if tag is not None}


_HERE = events.__name__


def added_by(words: str) -> str:
    """Who added it to what OpenAI's client knows; empty if nobody did."""
    found = _ADDED.match(words)
    return found[1].lower().replace("codex", "Codex") if found else ""


def text() -> str:
    create = (
        "`response.create`",
        "The fields of `POST /v1/responses`: [API](api.md#responses).",
        "Asks for a turn.",
    )
    clients = [_row(name, kind) for name, kind in CLIENT.items()]
    servers = [_row(name, kind) for name, kind in server_events().items()]
    heads = ("event", "fields", "meaning")
    return page(
        "WebSocket",
        _INTRODUCTION,
        f"## Client events\n\n{table(heads, [create, *clients])}",
        f"## Server events\n{_NUMBERED}\n{table(heads, servers)}",
        "## Objects in events",
        *map(_object, OBJECTS),
    )


def _row(name: str, kind: type[Struct]) -> tuple[str, str, str]:
    hints, words = get_type_hints(kind, include_extras=True), attributes(kind)
    own = [each for each in kind.__struct_fields__ if each not in _COMMON]
    fields = ", ".join(_field(each, hints[each], words.get(each, "")) for each in own)
    return code(name), fields, _marked(markdown(kind.__doc__ or ""))


def _field(name: str, hint: Any, words: str) -> str:
    by, found = added_by(words), _object_in(hint)
    linked = f"[{code(name)}](#{found.__name__.lower()})" if found else code(name)
    return linked + (f" (*{by}*)" if by else "")


def _object_in(hint: Any) -> type[Struct] | None:
    """The object that a field has, or a list of, if it stands below."""
    if hint in OBJECTS:
        return cast("type[Struct]", hint)
    return next(filter(None, map(_object_in, get_args(hint))), None)


def _marked(words: str) -> str:
    by, said = added_by(words), _ADDED.sub("", words)
    said = said[:1].upper() + said[1:]
    return f"*{by.capitalize()}.* {said}" if by else said


def _object(kind: type[Struct]) -> str:
    hints, words = get_type_hints(kind, include_extras=True), attributes(kind)
    rows = [
        (code(name), _type(hints[name]), _marked(words.get(name, "")))
        for name in kind.__struct_fields__
        if kind is not events.Response or added_by(words.get(name, ""))
    ]
    said = _RESPONSE if kind is events.Response else markdown(kind.__doc__ or "")
    return f"### {kind.__name__}\n\n{said}\n\n{table(('field', 'type', 'meaning'), rows)}"


_TYPES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Any: "anything",
    Raw: "as it was sent",
}


def _type(hint: Any) -> str:
    if hint in _TYPES:
        return _TYPES[hint]
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(inner[0])
    if origin is Literal:
        return " or ".join(code(json.dumps(each)) for each in inner)
    if origin in (Union, UnionType):
        return _choice(inner)
    if origin is list:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"object of {_type(inner[1])}"
    return code(hint.__name__)


def _choice(kinds: tuple[Any, ...]) -> str:
    if len([each for each in kinds if _is_item(each)]) > 1:
        return "item"
    told = dict.fromkeys(_type(each) for each in kinds if each is not UnsetType)
    return " or ".join(told) + (", may be left out" if UnsetType in kinds else "")


def _is_item(kind: Any) -> bool:
    return getattr(kind, "__module__", "").endswith(".items")
