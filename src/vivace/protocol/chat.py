"""Chat Completions and Completions: older front doors to the same turns.

A request is translated into a ``CreateResponse`` and the turn's events into chunks; nothing else
in Vivace knows that these forms exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from vivace.errors import InvalidRequest, RequestError
from vivace.protocol.bounds import check_tools, items_within
from vivace.protocol.codec import decode, encode, explained, refuse_logprobs
from vivace.protocol.events import (
    CustomInputDelta,
    FunctionArgumentsDelta,
    OutputItemAdded,
    OutputTextDelta,
    ReasoningTextDelta,
    Response,
    ResponseCompleted,
    ResponseCreated,
    ResponseEvent,
    ResponseFailed,
    ResponseIncomplete,
    Usage,
)
from vivace.protocol.items import (
    CustomTool,
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Grammar,
    InputImage,
    InputText,
    Item,
    Message,
    Part,
    PlainText,
    Reasoning,
    Role,
    ToolCall,
    check_schema,
    text_of,
)
from vivace.protocol.requests import (
    Count,
    CreateBody,
    CreateResponse,
    Fill,
    JsonObjectFormat,
    JsonSchemaFormat,
    Metadata,
    NamedTool,
    OtherFile,
    Penalty,
    PlainFormat,
    Prediction,
    Probability,
    ReasoningConfig,
    Seed,
    Stops,
    StopText,
    StreamOptions,
    Temperature,
    TextConfig,
    TextFormat,
    Toolbox,
    ToolChoice,
    ToolMode,
)

__all__ = [
    "ChatChunks",
    "ChatRequest",
    "CompletionChunks",
    "CompletionRequest",
    "chat_completion",
    "decode_chat",
    "decode_completion",
    "text_completion",
]


# -- requests -------------------------------------------------------------------------------------


class _ImageUrl(Struct, frozen=True):
    url: str


class _ImagePart(Struct, frozen=True, tag="image_url"):
    image_url: _ImageUrl


class _FunctionBody(Struct, frozen=True):
    name: str
    arguments: str


class _CustomBody(Struct, frozen=True):
    name: str
    input: str


class _Call(Struct, frozen=True, kw_only=True):
    id: str
    type: Literal["function", "custom"] = "function"
    function: _FunctionBody | UnsetType = UNSET
    custom: _CustomBody | UnsetType = UNSET


class _ChatMessage(Struct, frozen=True, kw_only=True):
    role: Role | Literal["tool"]
    content: str | list[PlainText | _ImagePart] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None


class _FunctionDeclaration(Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.parameters:
            check_schema(self.parameters, "parameters")


class _GrammarBody(Struct, frozen=True):
    syntax: Literal["lark", "regex"]
    definition: str


class _CustomFormat(Struct, frozen=True):
    type: Literal["text", "grammar"] = "text"
    grammar: _GrammarBody | None = None


class _CustomDeclaration(Struct, frozen=True):
    name: str
    description: str | None = None
    format: _CustomFormat = msgspec.field(default_factory=_CustomFormat)


class _Tool(Struct, frozen=True, kw_only=True):
    type: Literal["function", "custom"]
    function: _FunctionDeclaration | UnsetType = UNSET
    custom: _CustomDeclaration | UnsetType = UNSET


class _Named(Struct, frozen=True):
    name: str


class _ToolChoice(Struct, frozen=True, kw_only=True):
    type: Literal["function", "custom"]
    function: _Named | UnsetType = UNSET
    custom: _Named | UnsetType = UNSET


class _Schema(Struct, frozen=True, kw_only=True):
    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None

    def __post_init__(self) -> None:
        if self.schema:
            check_schema(self.schema, "schema")


class _ResponseFormat(Struct, frozen=True, kw_only=True):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _Shared(Struct, frozen=True, kw_only=True):
    """What both older APIs have."""

    model: str | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    max_tokens: Count | None = None
    stop: StopText | Stops | None = None
    seed: Seed | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    logprobs: bool | int | None = None
    """A flag in one of the two, a number in the other."""
    top_logprobs: int | None = None

    def stops(self) -> list[str]:
        return [self.stop] if isinstance(self.stop, str) else self.stop or []

    def check(self) -> None:
        if self.n not in (None, 1):
            raise InvalidRequest("Only n=1 is supported; send several requests.", param="n")
        refuse_logprobs(logprobs=self.logprobs, top_logprobs=self.top_logprobs)

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(_Shared, frozen=True, kw_only=True):
    messages: list[_ChatMessage]
    tools: list[_Tool] | None = None
    tool_choice: ToolMode | _ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: _ResponseFormat | None = None
    max_completion_tokens: Count | None = None
    reasoning_effort: str | None = None
    prediction: Prediction | None = None
    metadata: Metadata | None = None

    def explain(self, error: RequestError) -> RequestError:
        words = {".call_id": ".tool_call_id", ".output": ".content"}
        return explained(error, lambda number: f"messages[{self._place(number)}]", words)

    def _place(self, number: int) -> int:
        """Return which message became the item of this number."""
        places = (place for place, each in enumerate(self.messages) for _ in _items(each))
        return next(islice(places, number, None))


class CompletionRequest(_Shared, frozen=True, kw_only=True):
    prompt: str | list[str]
    suffix: str | None = None
    prompt_cache_key: str | None = None
    # Ours: what was typed into the gap and how the answer begins; then where the gap stands, for
    # models that were trained with repositories around it.
    typed: str = ""
    starts_with: str = ""
    repo: str | None = None
    path: str | None = None
    files: tuple[OtherFile, ...] = ()


_chat: msgspec.json.Decoder[ChatRequest] = msgspec.json.Decoder(ChatRequest)
_completion: msgspec.json.Decoder[CompletionRequest] = msgspec.json.Decoder(CompletionRequest)


def decode_chat(data: bytes | str, held: object = None) -> tuple[ChatRequest, CreateResponse]:
    request = decode(_chat, data)
    request.check()
    body = CreateBody(
        model=request.model,
        parallel_tool_calls=request.parallel_tool_calls,
        text=TextConfig(_format(request.response_format)),
        reasoning=ReasoningConfig(request.reasoning_effort) if request.reasoning_effort else None,
        temperature=request.temperature,
        top_p=request.top_p,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        max_output_tokens=request.max_completion_tokens or request.max_tokens,
        stop=request.stops(),
        seed=request.seed,
        prediction=request.prediction,
        metadata=request.metadata,
        store=False,
    )
    items = items_within(item for message in request.messages for item in _items(message))
    toolbox, choice = _toolbox(request.tools), _choice(request)
    return request, CreateResponse(body, items, toolbox, choice, held=held)


def decode_completion(
    data: bytes | str, held: object = None
) -> tuple[CompletionRequest, CreateResponse]:
    request = decode(_completion, data)
    request.check()
    prompt = request.prompt
    if isinstance(prompt, list):
        if len(prompt) != 1:
            raise InvalidRequest("Only one prompt is taken at a time.", param="prompt")
        prompt = prompt[0]
    body = CreateBody(
        model=request.model,
        temperature=request.temperature,
        top_p=request.top_p,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        max_output_tokens=request.max_tokens,
        stop=request.stops(),
        seed=request.seed,
        prompt_cache_key=request.prompt_cache_key,
        store=False,
    )
    fill = Fill(
        prefix=prompt,
        suffix=request.suffix,
        typed=request.typed,
        starts_with=request.starts_with,
        repo=request.repo,
        path=request.path,
        files=request.files,
    )
    return request, CreateResponse(body, fill=fill, held=held)


def _items(message: _ChatMessage) -> Iterator[Item]:
    content = _content(message.content)
    if message.role == "tool":
        if message.tool_call_id is None:
            raise InvalidRequest("A tool message needs its tool_call_id.", param="messages")
        yield FunctionCallOutput(call_id=message.tool_call_id, output=content)
        return
    if content or not message.tool_calls:
        yield Message(role=message.role, content=content)
    for call in message.tool_calls or ():
        if isinstance(call.function, _FunctionBody):
            yield FunctionCall(
                call_id=call.id, name=call.function.name, arguments=call.function.arguments
            )
        elif isinstance(call.custom, _CustomBody):
            yield CustomToolCall(call_id=call.id, name=call.custom.name, input=call.custom.input)
        else:
            raise InvalidRequest(f"Tool call '{call.id}' has no {call.type}.", param="messages")


def _content(content: str | list[PlainText | _ImagePart] | None) -> str | list[Part]:
    if content is None or isinstance(content, str):
        return content or ""
    if all(isinstance(part, PlainText) for part in content):
        return "".join(part.text for part in content if isinstance(part, PlainText))
    return [
        InputText(part.text) if isinstance(part, PlainText) else InputImage(part.image_url.url)
        for part in content
    ]


def _toolbox(tools: list[_Tool] | None) -> Toolbox:
    if not tools:
        return Toolbox()
    check_tools(len(tools))
    known: list[FunctionTool | CustomTool] = []
    for index, tool in enumerate(tools):
        if isinstance(tool.function, _FunctionDeclaration):
            f = tool.function
            known.append(FunctionTool(f.name, f.description, f.parameters, f.strict))
        elif isinstance(tool.custom, _CustomDeclaration):
            c = tool.custom
            grammar = c.format.grammar
            form = Grammar("grammar", grammar.syntax, grammar.definition) if grammar else Grammar()
            known.append(CustomTool(c.name, c.description, form))
        else:
            raise InvalidRequest(
                f"A tool of type {tool.type} needs its {tool.type}.",
                param=f"tools[{index}].{tool.type}",
            )
    return Toolbox(tuple(known), Raw(encode(known)))


def _choice(request: ChatRequest) -> ToolChoice:
    choice = request.tool_choice
    if choice is None or isinstance(choice, str):
        return choice or "auto"
    named = choice.function if choice.type == "function" else choice.custom
    if not isinstance(named, _Named):
        raise InvalidRequest("Name the tool to be called.", param=f"tool_choice.{choice.type}")
    return NamedTool(choice.type, named.name)


def _format(wanted: _ResponseFormat | None) -> TextFormat:
    if wanted is None or wanted.type == "text":
        return PlainFormat()
    if wanted.type == "json_object":
        return JsonObjectFormat()
    schema = wanted.json_schema
    if schema is None:
        raise InvalidRequest(
            "A json_schema format needs its schema.", param="response_format.json_schema"
        )
    return JsonSchemaFormat(
        name=schema.name,
        description=schema.description,
        schema=schema.schema,
        strict=schema.strict,
    )


# -- answers --------------------------------------------------------------------------------------


def _usage(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.input_tokens_details.cached_tokens},
        "completion_tokens_details": msgspec.structs.asdict(usage.output_tokens_details),
    }


def _finish_reason(response: Response) -> str:
    if response.status == "incomplete":
        return "length"
    calls = any(isinstance(item, ToolCall) for item in response.output)
    return "tool_calls" if calls else "stop"


def _call(item: ToolCall) -> dict[str, Any]:
    if isinstance(item, FunctionCall):
        body = {"name": item.name, "arguments": item.arguments}
        return {"id": item.call_id, "type": "function", "function": body}
    return {
        "id": item.call_id,
        "type": "custom",
        "custom": {"name": item.name, "input": item.input},
    }


def chat_completion(response: Response) -> dict[str, Any]:
    text = "".join(text_of(item.content) for item in response.output if isinstance(item, Message))
    thought = "".join(
        text_of(item.content or ()) for item in response.output if isinstance(item, Reasoning)
    )
    calls = [
        _call(item) for item in response.output if isinstance(item, FunctionCall | CustomToolCall)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": _finish_reason(response),
    }
    return {
        "id": _older_id(response, "chatcmpl"),
        "object": "chat.completion",
        "created": response.created_at,
        "model": response.model,
        "choices": [choice],
        "usage": _usage(response.usage),
    }


def text_completion(response: Response) -> dict[str, Any]:
    text = "".join(text_of(item.content) for item in response.output if isinstance(item, Message))
    return {
        "id": _older_id(response, "cmpl"),
        "object": "text_completion",
        "created": response.created_at,
        "model": response.model,
        "choices": [
            {"index": 0, "text": text, "logprobs": None, "finish_reason": _finish_reason(response)}
        ],
        "usage": _usage(response.usage),
    }


def _older_id(response: Response, prefix: str) -> str:
    return f"{prefix}-{response.id.removeprefix('resp_')}"


class _Chunks:
    """Makes server-sent chunks of a turn's events; one object for one stream."""

    kind: str
    prefix: str

    def __init__(self, *, usage: bool) -> None:
        self._usage = usage
        self._response: Response | None = None

    def __call__(self, event: ResponseEvent) -> bytes:
        """Bytes for this event; none when the older form has no word for it."""
        if isinstance(event, ResponseCreated):
            self._response = event.response
            return self.opening()
        if isinstance(event, ResponseCompleted | ResponseIncomplete):
            return self._closing(event.response)
        if isinstance(event, ResponseFailed):
            return _data({"error": event.response.error})
        choice = self.choice(event)
        return self.chunk([choice]) if choice else b""

    def opening(self) -> bytes:
        return b""

    def choice(self, event: ResponseEvent) -> dict[str, Any] | None:
        raise NotImplementedError

    def last_choice(self, reason: str) -> dict[str, Any]:
        raise NotImplementedError

    def chunk(self, choices: list[dict[str, Any]], **more: object) -> bytes:
        assert self._response is not None
        return _data(
            {
                "id": _older_id(self._response, self.prefix),
                "object": self.kind,
                "created": self._response.created_at,
                "model": self._response.model,
                "choices": choices,
                **more,
            }
        )

    def _closing(self, response: Response) -> bytes:
        last = self.chunk([self.last_choice(_finish_reason(response))])
        return last + (self.chunk([], usage=_usage(response.usage)) if self._usage else b"")


def _data(value: object) -> bytes:
    return b"data: %b\n\n" % encode(value)


class ChatChunks(_Chunks):
    kind = "chat.completion.chunk"
    prefix = "chatcmpl"

    def __init__(self, *, usage: bool) -> None:
        super().__init__(usage=usage)
        self._calls = -1

    def opening(self) -> bytes:
        return self.chunk([_delta({"role": "assistant", "content": ""})])

    def last_choice(self, reason: str) -> dict[str, Any]:
        return _delta({}, reason)

    def choice(self, event: ResponseEvent) -> dict[str, Any] | None:
        match event:
            case OutputTextDelta():
                return _delta({"content": event.delta})
            case ReasoningTextDelta():
                return _delta({"reasoning_content": event.delta})
            case OutputItemAdded(item=FunctionCall() | CustomToolCall() as item):
                self._calls += 1
                return _delta({"tool_calls": [{"index": self._calls, **_call(item)}]})
            case FunctionArgumentsDelta():
                call = {"index": self._calls, "function": {"arguments": event.delta}}
                return _delta({"tool_calls": [call]})
            case CustomInputDelta():
                call = {"index": self._calls, "custom": {"input": event.delta}}
                return _delta({"tool_calls": [call]})
        return None


def _delta(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


class CompletionChunks(_Chunks):
    kind = "text_completion"
    prefix = "cmpl"

    def choice(self, event: ResponseEvent) -> dict[str, Any] | None:
        return _text(event.delta) if isinstance(event, OutputTextDelta) else None

    def last_choice(self, reason: str) -> dict[str, Any]:
        return _text("", reason)


def _text(text: str, reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": reason}
