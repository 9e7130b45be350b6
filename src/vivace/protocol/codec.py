"""Between bytes and values. Nothing else in Vivace parses or prints the wire's JSON.

What a client sends is read in two steps: the body's own fields are typed at once, while items
and tools are looked at one by one, because their type decides their shape and may be left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from vivace.errors import InvalidRequest, RequestError
from vivace.protocol import foreign, tracing
from vivace.protocol.bounds import MAX_STEER_ITEMS, check_items, check_tools
from vivace.protocol.events import ErrorFrame, ErrorPayload
from vivace.protocol.items import (
    AdditionalTools,
    Compaction,
    CustomTool,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    InputText,
    Item,
    ItemReference,
    Message,
    NamespaceTool,
    Reasoning,
    Role,
    Tool,
    ToolCall,
    ToolOutput,
    check_depth,
    text_of,
)
from vivace.protocol.once import key_of, needs_store, once_of
from vivace.protocol.requests import (
    AllowedTools,
    ClientEvent,
    CompactBody,
    CompactRequest,
    CreateBody,
    CreateResponse,
    Interrupt,
    NamedTool,
    Resume,
    Steer,
    SteerBody,
    SteerEvent,
    Toolbox,
    ToolChoice,
    ToolMode,
)
from vivace.protocol.sse import sse

__all__ = [
    "Input",
    "as_text",
    "decode",
    "decode_client_event",
    "decode_compact",
    "decode_create",
    "decode_input",
    "decode_steer",
    "decode_steer_input",
    "encode",
    "error_frame",
    "error_payload",
    "explained",
    "framed",
    "lane_of",
    "refuse_logprobs",
    "retry_headers",
]

T = TypeVar("T")

_NULL = Raw(b"null")

_encoder = msgspec.json.Encoder()
encode = _encoder.encode
"""Any value of the wire as JSON bytes."""


def framed(event: Struct) -> bytes:
    """An event by its name, as it goes over a stream of server-sent events."""
    return sse(str(event.__struct_config__.tag), encode(event))


# -- reading --------------------------------------------------------------------------------------

_PATH = re.compile(r" - at `(?:key` in `)?\$\.?(?P<path>[^`]*)`$")


def as_text(data: bytes | str) -> str:
    """Raw parts are passed on unread, so the whole must be text before any of it is used."""
    try:
        return data if isinstance(data, str) else data.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The request is not valid UTF-8.", code="invalid_json") from None


def decode(decoder: msgspec.json.Decoder[T], data: str | bytes | Raw, where: str = "") -> T:
    """Decode, and speak of what is wrong as the client sees it: by the field's name."""
    try:
        return decoder.decode(as_text(data) if isinstance(data, bytes) else data)
    except msgspec.ValidationError as error:
        raise _wrong_type(str(error), where) from None
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"The request is not valid JSON: {error}", code="invalid_json"
        ) from None
    except RecursionError:
        raise InvalidRequest(
            "The request is nested too deeply; no request needs more than a few hundred levels.",
            code="invalid_json",
        ) from None


def _wrong_type(message: str, where: str) -> InvalidRequest:
    found = _PATH.search(message)
    path = found["path"] if found else ""
    what = message[: found.start()] if found else message
    param = where + ("." if where and path and not path.startswith("[") else "") + path
    missing = re.search(r"missing required field `(\w+)`", what)
    if missing:
        param = f"{param}.{missing[1]}" if param else missing[1]
        return InvalidRequest(
            f"Missing required field '{param}'.", code="missing_required_parameter", param=param
        )
    return InvalidRequest(
        f"Invalid value for '{param}': {what[:1].lower()}{what[1:]}." if param else f"{what}.",
        code="invalid_type",
        param=param or None,
    )


class _Head(Struct):
    type: str | None = None
    role: str | None = None
    id: str | None = None


class _Kind(Struct):
    type: str | None = None


class _Lane(Struct):
    stream_id: str | None = None


_kind: msgspec.json.Decoder[_Kind] = msgspec.json.Decoder(_Kind)
_lane: msgspec.json.Decoder[_Lane] = msgspec.json.Decoder(_Lane)
_fields: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_head: msgspec.json.Decoder[_Head] = msgspec.json.Decoder(_Head)
_create: msgspec.json.Decoder[CreateBody] = msgspec.json.Decoder(CreateBody)
_compact: msgspec.json.Decoder[CompactBody] = msgspec.json.Decoder(CompactBody)
_interrupt: msgspec.json.Decoder[Interrupt] = msgspec.json.Decoder(Interrupt)
_resume: msgspec.json.Decoder[Resume] = msgspec.json.Decoder(Resume)
_steer: msgspec.json.Decoder[SteerEvent] = msgspec.json.Decoder(SteerEvent)
_steer_body: msgspec.json.Decoder[SteerBody] = msgspec.json.Decoder(SteerBody)
_steer_input: msgspec.json.Decoder[str | list[Raw]] = msgspec.json.Decoder(str | list[Raw])
_any: msgspec.json.Decoder[Any] = msgspec.json.Decoder()

_ITEMS: dict[str, msgspec.json.Decoder[Any]] = {
    name: msgspec.json.Decoder(kind)
    for name, kind in {
        "message": Message,
        "function_call": FunctionCall,
        "function_call_output": FunctionCallOutput,
        "custom_tool_call": CustomToolCall,
        "custom_tool_call_output": CustomToolCallOutput,
        "reasoning": Reasoning,
        "compaction": Compaction,
        "compaction_summary": Compaction,
        "item_reference": ItemReference,
    }.items()
}
_TOOLS: dict[str, msgspec.json.Decoder[Any]] = {
    "function": msgspec.json.Decoder(FunctionTool),
    "custom": msgspec.json.Decoder(CustomTool),
    "namespace": msgspec.json.Decoder(NamespaceTool),
}


class _RawTools(Struct):
    id: str | None = None
    role: Role = "developer"
    tools: list[Raw] = []


_raw_tools: msgspec.json.Decoder[_RawTools] = msgspec.json.Decoder(_RawTools)


class Input(Struct, frozen=True):
    """What a client sent as input, as far as it means something here."""

    items: tuple[Item, ...] = ()
    skipped: tuple[str, ...] = ()
    """The types of the others, as names that can be counted."""
    compacts: bool = False
    """Whether it asks for the conversation in short."""
    places: tuple[int, ...] = ()
    """Where each item stood in what was sent, if some are not here."""


def decode_input(raw: str | Sequence[Raw] | None, where: str = "input") -> Input:
    if raw is None:
        return Input()
    if isinstance(raw, str):
        return Input((Message(role="user", content=raw),))
    check_items(len(raw))
    reading = _Reading()
    places: list[int] = []
    for index, each in enumerate(raw):
        reading.take(each, f"{where}[{index}]")
        places += [index] * (len(reading.items) - len(places))
    shifted = places != list(range(len(raw)))
    return Input(
        tuple(reading.items),
        tuple(reading.skipped),
        reading.compacts,
        tuple(places) if shifted else (),
    )


class _Reading:
    """An input, item by item."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.skipped: list[str] = []
        self.compacts = False
        self._called: set[str] = set()
        self._lost: set[str | None] = set()
        """Calls of items that were skipped: their outputs answer nothing."""

    def take(self, raw: Raw, where: str) -> None:
        head = decode(_head, raw, where)
        kind = head.type or ("message" if head.role else "item_reference" if head.id else None)
        if kind == "compaction_trigger":
            self.compacts = True
            return
        item = _decode_item(raw, where, kind, typed=head.type is not None)
        if item is None:
            self._lost.add(foreign.call_of(raw))
        elif isinstance(item, Compaction) and not item.ours:
            self.items.append(foreign.missing_past(item))
            kind, item = "compaction", None
        elif isinstance(item, ToolOutput) and self._is_orphan(item, foreign=kind not in _ITEMS):
            item = None
        if item is None:
            self.skipped.append(foreign.label(kind or ""))
            return
        if isinstance(item, ToolCall):
            self._called.add(item.call_id)
        self.items.append(item)

    def _is_orphan(self, output: ToolOutput, *, foreign: bool) -> bool:
        return output.call_id not in self._called and (foreign or output.call_id in self._lost)


def decode_steer_input(raw: Raw) -> tuple[Item, ...]:
    """What a user says in the middle of an answer: text, or messages of text."""
    value = decode(_steer_input, raw, "input")
    if isinstance(value, list) and len(value) > MAX_STEER_ITEMS:
        raise InvalidRequest(
            f"A steer has at most {MAX_STEER_ITEMS} messages, and this one has {len(value):,}. "
            "Send one message with all of the text, or begin a new turn with them.",
            param="input",
        )
    read = decode_input(value)
    items = read.items
    if read.skipped or read.compacts:
        raise _no_steer("input")
    for index, item in enumerate(items):
        if not isinstance(item, Message) or item.role != "user":
            raise _no_steer(f"input[{index}]")
        if isinstance(item.content, list) and not all(
            isinstance(part, InputText) for part in item.content
        ):
            raise InvalidRequest("This server reads text only.", param=f"input[{index}].content")
    if not any(isinstance(item, Message) and text_of(item.content) for item in items):
        raise InvalidRequest("A steer says something: its input is empty.", param="input")
    return items


def _no_steer(where: str) -> InvalidRequest:
    problem = "A steer's input is a string, or messages of the user and nothing else."
    return InvalidRequest(problem, param=where)


def _decode_item(raw: Raw, where: str, kind: str | None, *, typed: bool) -> Item | None:
    """None for what another server made and nobody else can read."""
    if kind == "additional_tools":
        listed = decode(_raw_tools, raw, where)
        return AdditionalTools(
            id=listed.id,
            role=listed.role,
            tools=list(_decode_tools(listed.tools, f"{where}.tools")),
        )
    if kind is None:
        raise InvalidRequest(
            f"An item has a type, and '{where}' has none.",
            code="missing_required_parameter",
            param=f"{where}.type",
        )
    decoder = _ITEMS.get(kind)
    if decoder is None:
        return foreign.adopt(kind, raw)
    if kind == "function_call_output" and (alone := foreign.standalone(raw)) is not None:
        return alone
    # A tagged struct wants its tag; a client that left it out or used an alias means this one.
    if typed and kind != "compaction_summary":
        return decode(decoder, raw, where)  # type: ignore[no-any-return]
    fields = decode(_fields, raw, where)
    known = "compaction" if kind == "compaction_summary" else kind
    return decode(decoder, encode(fields | {"type": known}), where)  # type: ignore[no-any-return]


def _decode_tools(raw: Sequence[Raw], where: str) -> Iterable[Tool]:
    """Return the tools a model can be offered; hosted ones (web search …) are none of them."""
    count = len(raw)
    check_tools(count, where)
    for index, each in enumerate(raw):
        here = f"{where}[{index}]"
        decoder = _TOOLS.get(decode(_head, each, here).type or "")
        if decoder is None:
            _check_unread(each, here)
            continue
        tool: Tool = decode(decoder, each, here)
        if isinstance(tool, NamespaceTool):
            count += len(tool.tools)
            check_tools(count, where)
        yield tool


def _check_unread(raw: Raw, where: str) -> None:
    """What is echoed as it came is bounded like what is read: others will read it."""
    try:
        check_depth(decode(_any, raw, where), "it")
    except ValueError as error:
        raise InvalidRequest(f"Invalid value for '{where}': {error}.", param=where) from None


def decode_toolbox(raw: Sequence[Raw] | None, where: str = "tools") -> Toolbox:
    if not raw:
        return Toolbox()
    tools = tuple(_decode_tools(raw, where))
    if len(tools) == len(raw):
        return Toolbox(tools, Raw(encode(tools)))
    # Keep what we don't know as it came, so that the echo is the client's own list.
    known = iter(tools)
    echo = [next(known) if decode(_head, each).type in _TOOLS else each for each in raw]
    return Toolbox(tools, Raw(encode(echo)))


def decode_tool_choice(raw: Raw) -> ToolChoice:
    value = decode(_any, raw)
    if value is None:
        return "auto"
    try:
        # msgspec takes one untagged struct per union, so the type picks the form by hand.
        if not isinstance(value, dict):
            mode: ToolMode = msgspec.convert(value, ToolMode)
            return mode
        if value.get("type") == "allowed_tools":
            return msgspec.convert(value, AllowedTools)
        return msgspec.convert(value, NamedTool)
    except msgspec.ValidationError as error:
        raise _wrong_type(str(error), "tool_choice") from None


def decode_create(data: bytes | str, held: object = None, key: str | None = None) -> CreateResponse:
    """``held`` goes with the request, for whoever counts the memory of what is read here; ``key``
    is an idempotency key that was sent beside it."""
    body = decode(_create, data)
    _check_create(body)
    key = key_of(key, body.idempotency_key)
    if key is not None and (body.store is False or body.fill is not None):
        raise needs_store()
    read = decode_input(body.input)
    return CreateResponse(
        # Raw parts hold on to the whole message; they have been read.
        replace(
            body,
            input=None,
            tools=None,
            tool_choice=_NULL,
            conversation=_NULL,
            prompt=_NULL,
            client_metadata=_NULL,
            fill=None,
            store=body.store if body.fill is None else False,
            idempotency_key=None,
        ),
        read.items,
        decode_toolbox(body.tools),
        "none" if read.compacts else decode_tool_choice(body.tool_choice),
        body.fill,
        held,
        read.skipped,
        read.compacts,
        tracing.in_metadata(body.client_metadata),
        read.places,
        once_of("create", key, decode(_any, data)) if key is not None else None,
    )


def _check_create(body: CreateBody) -> None:
    if body.background and body.store is False:
        raise InvalidRequest(
            "A background response must be stored, or nobody could fetch it.", param="store"
        )
    for name in ("conversation", "prompt"):
        if bytes(getattr(body, name)) != b"null":
            raise InvalidRequest(
                f"'{name}' is not supported here; send the input itself, or continue a response "
                "with previous_response_id.",
                code="unsupported_parameter",
                param=name,
            )
    if body.fill is not None:
        _check_fill(body)
    refuse_logprobs(top_logprobs=body.top_logprobs, include=_LOGPROBS in (body.include or ()))


_NOT_BESIDE_FILL = (
    "input",
    "instructions",
    "previous_response_id",
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "prediction",
    "store",
    "background",
)


def _check_fill(body: CreateBody) -> None:
    """A gap is no conversation: what would make it one is refused rather than ignored."""
    for name in _NOT_BESIDE_FILL:
        if getattr(body, name) not in (None, False, _NULL):
            raise InvalidRequest(
                f"'fill' asks for text in a gap and '{name}' is for an answer in a conversation; "
                "leave one of them out.",
                code="unsupported_parameter",
                param=name,
            )


_LOGPROBS = "message.output_text.logprobs"


def explained(
    error: RequestError, place: Callable[[int], str], words: Mapping[str, str]
) -> RequestError:
    """An error about a request that we made of another API's, in the words of that one.

    ``place`` says where an item came from, ``words`` what its fields are called there.
    """
    ours = error.param or ""
    found = re.fullmatch(r"input(?:\[(\d+)\](.*))?", ours)
    if found is None:
        return error
    error.param = "messages"
    if found[1] is not None:
        rest = found[2]
        for mine, theirs in words.items():
            rest = rest.replace(mine, theirs)
        error.param = place(int(found[1])) + rest
    error.message = error.message.replace(f"'{ours}'", f"'{error.param}'")
    return error


def refuse_logprobs(**asked: object) -> None:
    """Each by the name of the field that asks for them."""
    for name, value in asked.items():
        if value:
            raise InvalidRequest(
                f"'{name}' asks for log probabilities, which this server does not give; leave it "
                "out.",
                code="unsupported_parameter",
                param=name,
            )


def decode_compact(data: bytes | str, held: object = None) -> CompactRequest:
    body = decode(_compact, data)
    read = decode_input(body.input)
    return CompactRequest(replace(body, input=None), read.items, held, read.skipped)


def decode_steer(
    data: bytes | str, held: object = None, *, response_id: str, key: str | None = None
) -> Steer:
    body = decode(_steer_body, data)
    return _steered(response_id, body, held, key)


def _steered(
    response_id: str, said: SteerEvent | SteerBody, held: object, key: str | None = None
) -> Steer:
    given = said.input
    if not bytes(given):
        if said.when != "end_thinking":
            raise InvalidRequest(
                "Missing required field 'input'.",
                code="missing_required_parameter",
                param="input",
            )
        given = Raw(b"null")
    once = once_of(
        f"steer {response_id}",
        key_of(key, said.idempotency_key),
        {"input": decode(_any, given), "when": said.when},
    )
    return Steer(
        previous_response_id=response_id, input=given, when=said.when, held=held, once=once
    )


def decode_client_event(data: bytes | str, held: object = None) -> ClientEvent:
    """One WebSocket message."""
    text = as_text(data)
    match decode(_kind, text).type:
        case "response.create":
            return decode_create(text, held)
        case "response.interrupt":
            return decode(_interrupt, text)
        case "response.resume":
            return decode(_resume, text)
        case "response.steer":
            steer = decode(_steer, text)
            return _steered(steer.previous_response_id, steer, held)
        case unknown:
            raise InvalidRequest(
                f"Invalid value for 'type': {unknown!r} is not a client event "
                "(response.create, response.steer, response.interrupt, response.resume).",
                param="type",
            )


def lane_of(data: bytes | str) -> str | None:
    """The lane that a message was meant for, even when nothing else of it can be read."""
    try:
        return decode(_lane, data).stream_id
    except RequestError:
        return None


# -- errors ---------------------------------------------------------------------------------------


def retry_headers(seconds: float | None) -> dict[str, str]:
    """When to try again, in whole seconds as HTTP has it."""
    if seconds is None:
        return {}
    return {"retry-after": str(max(1, math.ceil(seconds)))}


def error_payload(error: RequestError, request_id: str | None = None) -> ErrorPayload:
    return ErrorPayload(
        type=error.type,
        code=error.code,
        message=error.message,
        param=error.param,
        request_id=request_id or msgspec.UNSET,
        tokens=msgspec.UNSET if error.tokens is None else error.tokens,
        limit=msgspec.UNSET if error.limit is None else error.limit,
        headers=retry_headers(error.retry_after) or msgspec.UNSET,
    )


def error_frame(
    error: RequestError, stream_id: str | None = None, request_id: str | None = None
) -> ErrorFrame:
    return ErrorFrame(
        status=error.status,
        error=error_payload(error, request_id),
        stream_id=stream_id or msgspec.UNSET,
    )
