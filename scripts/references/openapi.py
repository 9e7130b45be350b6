"""docs/openapi.json: what each endpoint takes and may answer, from the code's own types.

Bodies are the structs that the gateway decodes and encodes, errors the classes that it raises. What
those cannot tell (fields that are read in a second look, what an endpoint is for) stands here.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from vivace.errors import (
    CannotDrain,
    Forbidden,
    InvalidRequest,
    KeyBusy,
    KeyReuse,
    NotFound,
    RequestError,
    ServerFault,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from vivace.gateway.fleet_api import DrainAsked, Drained
from vivace.gateway.refusals import HEAD_TOO_LARGE, LATE
from vivace.gateway.shown import Shown
from vivace.protocol import chat, events, requests
from vivace.protocol.items import Item, Message, Tool
from vivace.protocol.messages_api import types as messages

_REF = "#/components/schemas/{name}"
_CHOICE = {
    "anyOf": [
        {"enum": ["none", "auto", "required"]},
        {"$ref": _REF.format(name="NamedTool")},
        {"$ref": _REF.format(name="AllowedTools")},
    ]
}
_HOSTED = {
    "description": "A tool that the client hopes for, such as web search: echoed, never offered.",
    "type": "object",
    "properties": {"type": {"type": "string"}},
    "required": ["type"],
}
_TEXT = {"type": "string"}
_EVENT = {
    "description": "A server-sent event; its data is JSON, and of the last one [DONE].",
    "type": "object",
    "properties": {"event": _TEXT, "data": _TEXT},
    "required": ["data"],
}


# -- types that the code has in another form -------------------------------------------------------


def shaped(struct: type[Struct], name: str = "", **shapes: Any) -> type[Struct]:
    """The struct with some of its fields as what they are in the end, not as they are read."""
    fields: list[Any] = []
    for known in msgspec.structs.fields(struct):
        shape = shapes.get(known.name, known.type)
        if known.required:
            fields.append((known.name, shape))
        elif known.name in shapes:
            fields.append((known.name, shape | msgspec.UnsetType, msgspec.UNSET))
        elif known.default is not msgspec.NODEFAULT:
            fields.append((known.name, shape, known.default))
        else:
            fields.append((known.name, shape, field(default_factory=known.default_factory)))
    return msgspec.defstruct(name or struct.__name__, fields, kw_only=True)


Free = dict[str, Any]
CreateBody = shaped(
    requests.CreateBody,
    input=str | list[Item] | None,
    tools=list[Tool] | None,
    tool_choice=None,
    conversation=None,
    prompt=None,
    client_metadata=Free | None,
)
SteerBody = shaped(requests.SteerBody, input=str | list[Message])
CompactBody = shaped(requests.CompactBody, input=str | list[Item] | None)
Response = shaped(events.Response, tools=list[Free], tool_choice=None)


class Error(Struct):
    error: events.ErrorPayload


class Deleted(Struct):
    id: str
    object: Literal["response.deleted"]
    deleted: Literal[True]


class InputItems(Struct):
    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Steered(Struct):
    type: Literal["response.steer.accepted", "response.steer.pending"]
    sequence_number: int
    steer: events.SteerReceipt
    successor_id: str | None


class InterruptReceipt(Struct):
    type: Literal["response.interrupt.accepted"]
    response_id: str


class Model(Struct):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    context_window: int
    fill_in_the_middle: bool
    service_tier: bool
    reasoning_efforts: list[str]
    default_reasoning_effort: str | None


class Models(Struct):
    object: Literal["list"]
    data: list[Model]


MessagesBody = shaped(
    messages.MessagesRequest,
    "MessagesBody",
    messages=list[Free],
    system=str | list[Free] | None,
    tools=list[Free] | None,
    tool_choice=Free | None,
    thinking=Free | None,
    output_config=Free | None,
    output_format=Free | None,
)
MessagesAnswer = shaped(messages.Message, "MessagesAnswer", content=list[Free], usage=Free)


class MessagesError(Struct):
    type: Literal["error"]
    error: messages.ErrorBody
    request_id: str


class Completion(Struct):
    """Of Chat Completions, or of Completions."""

    id: str
    object: Literal["chat.completion", "text_completion"]
    created: int
    model: str
    choices: list[Free]
    usage: Free | None


# -- endpoints -------------------------------------------------------------------------------------


class Operation(Struct, kw_only=True):
    id: str
    at: str
    """Method and path."""
    does: str
    takes: type[Struct] | None = None
    gives: type[Struct] | str
    """A type, or the media type of what is not JSON."""
    streams: bool = False
    """Whether the answer may be server-sent events."""
    query: dict[str, Any] = {}
    header: dict[str, Any] = {}
    may: tuple[type[RequestError], ...] = ()
    """How it may refuse, beside what any endpoint may do."""
    keyless: bool = False
    error: type[Struct] = Error
    """The form of its refusals."""


_BODY = (InvalidRequest, TooLarge)
_TURN = (*_BODY, NotFound, TooManyRequests, ServerFault, Unavailable)
_KEPT = (NotFound, ServerFault, Unavailable)
_ONE = "/v1/responses/{id}"
_KEY = {"Idempotency-Key": _TEXT | {"minLength": 1, "maxLength": 256}}
"""The same as the field ``idempotency_key``."""

OPERATIONS = (
    Operation(
        id="createResponse",
        at="POST /v1/responses",
        does="Ask for a turn. A GET with an upgrade at this path opens the WebSocket.",
        takes=CreateBody,
        gives=Response,
        streams=True,
        header=_KEY,
        may=(*_TURN, KeyBusy, KeyReuse),
    ),
    Operation(
        id="compact",
        at="POST /v1/responses/compact",
        does="A long conversation in short, to start a new one with.",
        takes=CompactBody,
        gives=events.Compacted,
        may=_TURN,
    ),
    Operation(
        id="retrieveResponse",
        at=f"GET {_ONE}",
        does="A response that runs or is kept. With stream, the events of a background response.",
        gives=Response,
        streams=True,
        query={
            "stream": _TEXT | {"enum": ["true", "false", "1", "0"]},
            "starting_after": {"type": "integer", "minimum": 0, "maximum": 10**9},
        },
        may=(InvalidRequest, *_KEPT),
    ),
    Operation(
        id="deleteResponse",
        at=f"DELETE {_ONE}",
        does="Stop it if it runs, and forget it.",
        gives=Deleted,
        may=_KEPT,
    ),
    Operation(
        id="cancelResponse",
        at=f"POST {_ONE}/cancel",
        does="Stop it if it runs; answers with how it ended.",
        gives=Response,
        may=_KEPT,
    ),
    Operation(
        id="steerResponse",
        at=f"POST {_ONE}/steer",
        does="Send the answer another way while it is written.",
        takes=SteerBody,
        gives=Steered,
        header=_KEY,
        may=(*_BODY, *_KEPT, KeyReuse),
    ),
    Operation(
        id="interruptResponse",
        at=f"POST {_ONE}/interrupt",
        does="End it now and drop the item in the making.",
        gives=InterruptReceipt,
        may=(InvalidRequest, *_KEPT),
    ),
    Operation(
        id="listInputItems",
        at=f"GET {_ONE}/input_items",
        does="What a kept response was asked, page by page.",
        gives=InputItems,
        query={
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            "order": _TEXT | {"enum": ["asc", "desc"], "default": "desc"},
            "after": _TEXT,
        },
        may=(InvalidRequest, *_KEPT),
    ),
    Operation(
        id="createChatCompletion",
        at="POST /v1/chat/completions",
        does="The same turns for clients of the older API.",
        takes=chat.ChatRequest,
        gives=Completion,
        streams=True,
        may=_TURN,
    ),
    Operation(
        id="createCompletion",
        at="POST /v1/completions",
        does="Text continued, or a gap filled when there is a suffix.",
        takes=chat.CompletionRequest,
        gives=Completion,
        streams=True,
        may=_TURN,
    ),
    Operation(
        id="createMessage",
        at="POST /v1/messages",
        does="The same turns for clients of Anthropic's Messages API.",
        takes=MessagesBody,
        gives=MessagesAnswer,
        streams=True,
        may=_TURN,
        error=MessagesError,
    ),
    Operation(
        id="countTokens",
        at="POST /v1/messages/count_tokens",
        does="How many tokens such a request is.",
        takes=MessagesBody,
        gives=messages.TokenCount,
        may=(*_BODY, NotFound),
        error=MessagesError,
    ),
    Operation(
        id="listModels",
        at="GET /v1/models",
        does="What can be named as a model.",
        gives=Models,
    ),
    Operation(
        id="retrieveModel",
        at="GET /v1/models/{name}",
        does="One of them.",
        gives=Model,
        may=(NotFound,),
    ),
    Operation(
        id="health",
        at="GET /healthz",
        does="Whether the process answers.",
        gives="text/plain",
        keyless=True,
    ),
    Operation(
        id="readiness",
        at="GET /readyz",
        does="Whether turns can be run; 503 says what stands in the way.",
        gives="text/plain",
        keyless=True,
    ),
    Operation(
        id="metrics",
        at="GET /metrics",
        does="For Prometheus.",
        gives="text/plain; version=0.0.4; charset=utf-8",
    ),
    Operation(
        id="showFleet",
        at="GET /fleet",
        does="Gateways and engine nodes: what each has to do, and when it was heard of.",
        gives=Shown,
        may=(Unavailable,),
    ),
    Operation(
        id="drain",
        at="POST /fleet/drain",
        does="Have a gateway or an engine node take no more work, or take it again. It takes an "
        "admin key.",
        takes=DrainAsked,
        gives=Drained,
        may=(*_BODY, NotFound, CannotDrain),
    ),
)

_ANYWHERE = (InvalidRequest("it is not HTTP"), Forbidden("Host or Origin"), LATE, HEAD_TOO_LARGE)
"""What any request may get before an endpoint hears of it."""

_WORDS = {
    400: "The request cannot be read, or contradicts the conversation.",
    401: "There is no key, or it is not known.",
    403: "The Host or the Origin is not allowed, or it takes an admin key.",
    404: "There is no such model or response.",
    408: "The request did not arrive in time.",
    409: "The idempotency key's response is in progress, and cannot be told of here yet; or nobody "
    "else could go on with the work of what is to be drained.",
    413: "The body is larger than this server takes.",
    422: "The idempotency key stands for another request.",
    429: "Over a limit; retry-after says how long.",
    431: "The headers are more than this server takes.",
    500: "A fault of the server's, or a stored response that cannot be read.",
    503: "Shutting down, no engine can take it, or the store is away; retry-after says how long.",
}


# -- the document ----------------------------------------------------------------------------------


def document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        method, path = operation.at.split()
        paths.setdefault(path, {})[method.lower()] = _operation(operation, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Vivace",
            "version": "1",
            "summary": "The HTTP side of the gateway; written from the code by scripts/reference.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8765"}],
        "security": [{"key": []}, {"anthropic": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "anthropic": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
            "responses": {
                str(status): {"description": words, "content": _json(Error)}
                for status, words in _WORDS.items()
            },
            "schemas": _schemas(),
        },
    }


def _schemas() -> dict[str, Any]:
    types = [Error, MessagesError, requests.NamedTool, requests.AllowedTools]
    for operation in OPERATIONS:
        types += [each for each in (operation.takes, operation.gives) if isinstance(each, type)]
    _, schemas = msgspec.json.schema_components(dict.fromkeys(types), ref_template=_REF)
    # What msgspec has no word for: unions of structs that only their fields tell apart.
    body, response = schemas["CreateBody"]["properties"], schemas["Response"]["properties"]
    body["tool_choice"] = {"anyOf": [*_CHOICE["anyOf"], {"type": "null"}]}
    response["tool_choice"] = _CHOICE
    body["tools"]["anyOf"][0]["items"]["anyOf"].append(_HOSTED)
    schemas["AdditionalTools"]["required"].remove("tools")
    # Those of Chat Completions are private to their module; here they need names.
    names = {
        name: "Chat" + name.lstrip("_").removeprefix("Chat") for name in schemas if name[0] == "_"
    }
    text = json.dumps(schemas)
    for private, name in names.items():
        text = text.replace(json.dumps(private), json.dumps(name)).replace(
            json.dumps(_REF.format(name=private)), json.dumps(_REF.format(name=name))
        )
    return dict(json.loads(text))


def _operation(operation: Operation, path: str) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": operation.id, "summary": operation.does}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _TEXT | {"minLength": 1}}
        for name in re.findall(r"{(\w+)}", path)
    ] + [
        {"name": name, "in": place, "schema": schema}
        for place, known in (("query", operation.query), ("header", operation.header))
        for name, schema in known.items()
    ]
    if parameters:
        made["parameters"] = parameters
    if operation.takes is not None:
        made["requestBody"] = {"required": True, "content": _json(operation.takes)}
    if operation.keyless:
        made["security"] = []
    made["responses"] = {"200": _answer(operation), **_refusals(operation)}
    return made


def _json(kind: type[Struct]) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}


def _answer(operation: Operation) -> dict[str, Any]:
    if isinstance(operation.gives, str):
        return {"description": "As asked.", "content": {operation.gives: {"schema": _TEXT}}}
    content = _json(operation.gives)
    if operation.streams:
        content["text/event-stream"] = {"schema": _EVENT}
    answer: dict[str, Any] = {"description": "As asked.", "content": content}
    if operation.id == "createResponse":
        answer["links"] = {
            each.id: {"operationId": each.id, "parameters": {"id": "$response.body#/id"}}
            for each in OPERATIONS
            if _ONE in each.at
        }
    return answer


def _refusals(operation: Operation) -> dict[str, Any]:
    own = {error.status for error in operation.may} | {error.status for error in _ANYWHERE}
    own |= {TooManyRequests.status, Unavailable.status}  # too many connections
    if not operation.keyless:
        own.add(Unauthorized.status)
    refusals = {str(status): _refusal(status, operation.error) for status in sorted(own)}
    if operation.id == "readiness":
        refusals["503"] = {
            "description": "What is down.",
            "content": {"text/plain": {"schema": _TEXT}},
        }
    return refusals


def _refusal(status: int, form: type[Struct]) -> dict[str, Any]:
    if form is Error or status in (LATE.status, HEAD_TOO_LARGE.status):  # before it has a path
        return {"$ref": f"#/components/responses/{status}"}
    return {"description": _WORDS[status], "content": _json(form)}


def text() -> str:
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"
