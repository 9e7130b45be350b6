"""A request of the Messages API as the ``CreateResponse`` it means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from vivace.errors import InvalidRequest, RequestError
from vivace.protocol.bounds import check_tools, items_within
from vivace.protocol.codec import as_text, decode, encode, explained
from vivace.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Item,
    Reasoning,
    ReasoningText,
)
from vivace.protocol.items import Message as MessageItem
from vivace.protocol.messages_api.thoughts import thought_in
from vivace.protocol.messages_api.types import (
    BLOCKS,
    Document,
    Image,
    MessageParam,
    MessagesRequest,
    SearchResult,
    TextBlock,
    ThinkingBlock,
    ToolReference,
    ToolResult,
    ToolUse,
)
from vivace.protocol.requests import (
    CreateBody,
    CreateResponse,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedTool,
    PlainFormat,
    ReasoningConfig,
    TextConfig,
    TextFormat,
    Toolbox,
    ToolChoice,
)

__all__ = ["Asked", "decode_messages"]

_CHARACTERS_PER_TOKEN = 4

_BILLING = re.compile(r"\Ax-anthropic-billing-header:[^\n]*\n?")
"""Claude Code's, at the head of its system prompt and another each time: what no cache has read
before, so that nothing behind it would be found either."""

_REFERENCE = "tool_reference"
_LEFT_OUT = "[{} was here. It is left out: this model reads text only.]"


class Asked(Struct, frozen=True):
    """What was asked, and what is needed to answer in the client's words."""

    create: CreateResponse
    stream: bool
    omits_thoughts: bool
    """Whether the client wants to give thoughts back without being shown them."""
    estimate: int
    """About how many tokens there are to read: told before anybody has counted."""
    places: tuple[str, ...]
    """Where each item came from."""

    def explain(self, error: RequestError) -> RequestError:
        words = {".call_id": ".tool_use_id", ".output": ".content"}
        return explained(error, lambda number: self.places[number], words)


class _Kind(Struct):
    type: str | None = None


_request: msgspec.json.Decoder[MessagesRequest] = msgspec.json.Decoder(MessagesRequest)
_kind: msgspec.json.Decoder[_Kind] = msgspec.json.Decoder(_Kind)
_BLOCKS: dict[str, msgspec.json.Decoder[Any]] = {
    str(block.__struct_config__.tag): msgspec.json.Decoder(block) for block in BLOCKS
}


def decode_messages(
    data: bytes | str, held: object = None, conversation: str | None = None
) -> Asked:
    """``conversation``: the client's name for it, which stays the same from turn to turn."""
    request = decode(_request, data)
    placed = _with_reminders(items_within(_conversation(request.messages)))
    items = tuple(item for item, _ in placed)
    _check_end(items)
    thinking = request.thinking
    body = CreateBody(
        model=request.model,
        instructions=_instructions(request.system) or None,
        parallel_tool_calls=_parallel(request),
        text=TextConfig(_format(request)),
        reasoning=ReasoningConfig(effort) if (effort := _effort(request)) else None,
        temperature=request.temperature,
        top_p=request.top_p,
        max_output_tokens=request.max_tokens,
        stop=request.stop_sequences,
        prompt_cache_key=conversation,
        store=False,
    )
    toolbox = _toolbox(
        request, _found_tools(request.messages) if _REFERENCE in as_text(data) else ()
    )
    return Asked(
        CreateResponse(body, items, toolbox, _choice(request, toolbox), held=held),
        stream=bool(request.stream),
        omits_thoughts=thinking is not None and thinking.display == "omitted",
        estimate=len(data) // _CHARACTERS_PER_TOKEN,
        places=tuple(place for _, place in placed),
    )


def _check_end(items: Sequence[Item]) -> None:
    if not items:
        raise InvalidRequest(
            "There is nothing to answer: 'messages' has no text and no tool's result.",
            code="missing_required_parameter",
            param="messages",
        )
    last = items[-1]
    if isinstance(last, FunctionCall | Reasoning) or (
        isinstance(last, MessageItem) and last.role == "assistant"
    ):
        raise InvalidRequest(
            "The last of 'messages' is the assistant's, and this server has no model go on from "
            "words put into its mouth (prefill). End with a message of the user.",
            param="messages",
        )


# -- messages -------------------------------------------------------------------------------------

_Placed = tuple[Item, str]


def _conversation(messages: Sequence[MessageParam]) -> Iterator[_Placed]:
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        newest = index == len(messages) - 1
        if isinstance(message.content, str):
            if message.content:
                yield MessageItem(role=message.role, content=message.content), where
        elif message.role == "assistant":
            yield from _said(message.content, f"{where}.content")
        else:
            yield from _told(message, message.content, f"{where}.content", newest=newest)


def _with_reminders(placed: Iterable[_Placed]) -> list[_Placed]:
    """Return the items with what the client says as the system in mid-conversation put into the
    turn before it, marked as Claude Code marks it elsewhere: templates take a system's words at the
    beginning only, and a model answers what it reads last."""
    kept: list[_Placed] = []
    words: list[str] = []
    for item, place in placed:
        if kept and isinstance(item, MessageItem) and item.role == "system":
            if not isinstance(kept[-1][0], FunctionCallOutput) and not _is_user(kept[-1][0]):
                kept.append((MessageItem(role="user", content=""), place))
            words.append(f"<system-reminder>\n{item.content}\n</system-reminder>")
            continue
        if words:
            kept[-1], words = _reminded(*kept[-1], words), []
        kept.append((item, place))
    if words:
        kept[-1] = _reminded(*kept[-1], words)
    return kept


def _is_user(item: Item) -> bool:
    return isinstance(item, MessageItem) and item.role == "user"


def _reminded(item: Item, place: str, words: list[str]) -> _Placed:
    """Put reminders before what a user says, the newest of them first, or behind an output."""
    if isinstance(item, FunctionCallOutput):
        return replace(item, output="\n\n".join([str(item.output), *words])), place
    assert isinstance(item, MessageItem)
    said = [str(item.content)] if item.content else []
    return replace(item, content="\n".join([*reversed(words), *said])), place


def _said(content: Sequence[Raw], where: str) -> Iterator[_Placed]:
    """An item for each block, as there was when the model wrote it."""
    for block, place in _blocks(content, where):
        match block:
            case TextBlock() if block.text:
                yield MessageItem(role="assistant", content=block.text), place
            case ThinkingBlock():
                if thought := thought_in(block):
                    yield Reasoning(content=[ReasoningText(thought)]), place
            case ToolUse():
                # Spaced as models write it, so that what is read again is what was written.
                arguments = json.dumps(block.input, ensure_ascii=False)
                call = FunctionCall(call_id=block.id, name=block.name, arguments=arguments)
                yield call, place


def _told(
    message: MessageParam, content: Sequence[Raw], where: str, *, newest: bool
) -> Iterator[_Placed]:
    """Texts that follow each other are one message: many templates take no two of one role."""
    texts: list[str] = []
    begin = where
    for block, place in _blocks(content, where):
        if isinstance(block, ToolResult):
            if texts:
                yield MessageItem(role=message.role, content="\n".join(texts)), begin
                texts = []
            output = _result(block, place)
            yield FunctionCallOutput(call_id=block.tool_use_id, output=output), place
            continue
        if newest and isinstance(block, Image):
            raise InvalidRequest(
                "This model reads text only and cannot take images. Send the text instead.",
                code="unsupported_content",
                param=place,
            )
        if text := _text(block, place):
            begin = begin if texts else place
            texts.append(text)
    if texts:
        yield MessageItem(role=message.role, content="\n".join(texts)), begin


def _blocks(content: Sequence[Raw], where: str) -> Iterator[tuple[Struct, str]]:
    for index, raw in enumerate(content):
        place = f"{where}[{index}]"
        decoder = _BLOCKS.get(decode(_kind, raw, place).type or "")
        if decoder is not None:
            yield decode(decoder, raw, place), place


def _text(block: Struct, where: str) -> str:
    """What can be read of a block that is no part of a tool's round trip."""
    match block:
        case TextBlock():
            return block.text
        case Image():
            return _LEFT_OUT.format("An image")
        case Document(source=source):
            if source.type == "text":
                return source.data or ""
            if isinstance(source.content, str):
                return source.content
            if source.content is not None:
                return "\n".join(_texts(source.content, f"{where}.source.content"))
            return _LEFT_OUT.format("A document")
        case SearchResult():
            lines = [f"{block.title} ({block.source})", *(part.text for part in block.content)]
            return "\n".join(lines)
        case ToolReference():
            return f"The tool {block.tool_name} can be called now."
    return ""


def _plain(content: str | Sequence[Raw] | None, where: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = (_text(block, place) for block, place in _blocks(content, where))
    return "\n".join(text for text in texts if text)


def _texts(content: Sequence[Raw], where: str) -> Iterator[str]:
    return (block.text for block, _ in _blocks(content, where) if isinstance(block, TextBlock))


def _result(block: ToolResult, where: str) -> str:
    text = _plain(block.content, f"{where}.content")
    if block.is_error and not text.startswith("Error"):
        return f"Error: {text}" if text else "Error"
    return text


def _instructions(system: str | Sequence[Raw] | None) -> str:
    if system is None or isinstance(system, str):
        return _BILLING.sub("", system or "")
    texts = (_BILLING.sub("", text) for text in _texts(system, "system"))
    return "\n\n".join(text for text in texts if text)


# -- settings -------------------------------------------------------------------------------------


def _found_tools(messages: Sequence[MessageParam]) -> Iterator[str]:
    for message in messages:
        content = message.content if isinstance(message.content, list) else ()
        for block, _ in _blocks(content, "messages"):
            if isinstance(block, ToolResult) and isinstance(block.content, list):
                for part, _ in _blocks(block.content, "messages"):
                    if isinstance(part, ToolReference):
                        yield part.tool_name


def _toolbox(request: MessagesRequest, found: Iterable[str]) -> Toolbox:
    """Those that were found come last, so that what stood before them stays where it was."""
    check_tools(len(request.tools or ()))
    names = set(found)
    tools = [tool for tool in request.tools or () if tool.name in names or not tool.defer_loading]
    known = tuple(
        FunctionTool(tool.name, tool.description, tool.input_schema, tool.strict)
        for tool in sorted(tools, key=lambda tool: bool(tool.defer_loading))
        if tool.name and tool.input_schema is not None
    )
    return Toolbox(known, Raw(encode(known))) if known else Toolbox()


def _choice(request: MessagesRequest, toolbox: Toolbox) -> ToolChoice:
    choice = request.tool_choice
    if choice is None or not toolbox.tools:
        return "auto"
    if choice.type == "tool":
        return _named(choice.name, request, toolbox)
    return {"any": "required", "none": "none"}.get(choice.type, "auto")  # type: ignore[return-value]


def _named(name: str | None, request: MessagesRequest, toolbox: Toolbox) -> ToolChoice:
    if any(tool.name == name for tool in toolbox.tools):
        return NamedTool("function", name or "")
    if any(tool.name == name for tool in request.tools or ()):
        return "auto"  # one of the maker's server, which nobody can call here
    raise InvalidRequest(f"There is no tool '{name}' among 'tools'.", param="tool_choice.name")


def _parallel(request: MessagesRequest) -> bool | None:
    choice = request.tool_choice
    return False if choice is not None and choice.disable_parallel_tool_use else None


def _effort(request: MessagesRequest) -> str | None:
    """How much is to be thought, in the words that chat templates know."""
    thinking, config = request.thinking, request.output_config
    if thinking is not None and thinking.type == "disabled":
        return "none"
    if config is not None and config.effort:
        return "xhigh" if config.effort == "max" else config.effort
    if thinking is None or thinking.budget_tokens is None:
        return None
    budget = thinking.budget_tokens
    return "low" if budget <= 4096 else "medium" if budget <= 16_384 else "high"


def _format(request: MessagesRequest) -> TextFormat:
    config = request.output_config
    wanted = (config.format if config is not None else None) or request.output_format
    if wanted is None or wanted.type != "json_schema":
        return PlainFormat()
    if wanted.schema is None:
        return JsonObjectFormat()
    return JsonSchemaFormat(name="answer", schema=wanted.schema, strict=True)
