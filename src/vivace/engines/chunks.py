"""Reads the chunks of an OpenAI-compatible stream into deltas. No I/O: bytes in, deltas out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from vivace.conversation.deltas import (
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    TokenCount,
    Tokens,
)
from vivace.engines.failures import failure_in_stream
from vivace.engines.tool_forms import ToolForms
from vivace.errors import EngineError

__all__ = ["CallDelta", "ChunkReader", "FunctionDelta", "MessageDelta"]


class FunctionDelta(Struct):
    name: str | None = None
    arguments: str | None = None


class CallDelta(Struct):
    index: int = 0
    id: str | None = None
    function: FunctionDelta | None = None


class MessageDelta(Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallDelta] | None = None


class _Choice(Struct):
    delta: MessageDelta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Details(Struct):
    cached_tokens: TokenCount | None = None
    reasoning_tokens: TokenCount | None = None
    accepted_prediction_tokens: TokenCount | None = None
    rejected_prediction_tokens: TokenCount | None = None


class _Usage(Struct):
    prompt_tokens: TokenCount = 0
    completion_tokens: TokenCount = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Progress(Struct):
    """How far llama.cpp has come with a prompt."""

    cache: TokenCount = 0
    processed: TokenCount = 0


class _Chunk(Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    prompt_progress: _Progress | None = None
    error: Raw = Raw(b"null")


_BYTES_PER_TOKEN = 4

_decoder: msgspec.json.Decoder[_Chunk] = msgspec.json.Decoder(_Chunk)


class ChunkReader:
    """One stream. Calls of custom tools are held back until whole, then rewritten.

    ``forced``: the answer is a call written as JSON text (see ``ToolForms.forced_schema``).
    """

    def __init__(self, forms: ToolForms, *, generate: bool = True, forced: bool = False) -> None:
        self._forms = forms
        self._generate = generate
        self._forced: list[str] | None = [] if forced else None
        self._reason = ""
        self._usage: _Usage | None = None
        self._progress = _Progress()
        self._pieces = 0
        self._bytes = 0
        self._open: tuple[int, str | None] | None = None
        self._held: tuple[str, list[str]] | None = None

    def feed(self, data: bytes) -> Iterator[Delta]:
        """The deltas of one event's data."""
        try:
            chunk = _decoder.decode(data)
        except msgspec.MsgspecError as error:
            problem = f"The engine sent something that is no chunk: {error}."
            raise EngineError(problem, blame="always") from None
        if bytes(chunk.error) != b"null":
            raise failure_in_stream(chunk.error)
        self._usage = chunk.usage or self._usage
        self._progress = chunk.prompt_progress or self._progress
        for choice in chunk.choices:
            if self._generate:
                yield from self._choice(choice)
            self._reason = choice.finish_reason or self._reason

    @property
    def complete(self) -> bool:
        """Whether the engine said why it ended; without that, it broke off."""
        return bool(self._reason)

    @property
    def read_so_far(self) -> int:
        """Tokens of the prompt, where the endpoint counts as it goes."""
        return self._usage.prompt_tokens if self._usage is not None else self._progress.processed

    @property
    def cached(self) -> int:
        """Of these, what it had read before, likewise."""
        details = self._usage.prompt_tokens_details if self._usage is not None else None
        return (details.cached_tokens or 0) if details is not None else self._progress.cache

    @property
    def written(self) -> int:
        """Tokens of the answer so far: as the endpoint counts, or one for each piece, or more where
        a piece is many tokens, as those are that were drafted."""
        counted = self._usage.completion_tokens if self._usage is not None else 0
        guessed = math.ceil(self._bytes / _BYTES_PER_TOKEN)
        return max(counted, self._pieces, guessed) if self._generate else 0

    def rest(self) -> Iterator[Delta]:
        """Calls that were held back until they were whole."""
        yield from self._release()
        if self._forced:
            yield from self._forced_call("".join(self._forced))

    def finish(self) -> Iterator[Delta]:
        """What is left when the stream has ended."""
        yield from self.rest()
        usage = self._usage or _Usage(completion_tokens=self.written)
        completion = usage.completion_tokens_details or _Details()
        tokens = Tokens(
            usage.prompt_tokens,
            usage.completion_tokens if self._generate else 0,
            self.cached,
            completion.reasoning_tokens or 0,
            completion.accepted_prediction_tokens or 0,
            completion.rejected_prediction_tokens or 0,
        )
        yield Finished("length" if self._reason == "length" and self._generate else "stop", tokens)

    def _choice(self, choice: _Choice) -> Iterator[Delta]:
        delta = choice.delta or MessageDelta(content=choice.text)
        text = delta.content or delta.reasoning_content or delta.reasoning
        if not text and delta.tool_calls:
            text = "".join(_arguments(call) or " " for call in delta.tool_calls)
        if text:
            self._pieces += 1
            self._bytes += len(text) if text.isascii() else len(text.encode())
        yield from self.read(delta)

    def read(self, delta: MessageDelta) -> Iterator[Delta]:
        """The deltas of one piece of a message, whoever took it out of the stream."""
        thought = delta.reasoning_content or delta.reasoning
        if thought or delta.content:
            yield from self._release()
        if thought:
            yield ReasoningDelta(thought)
        if delta.content and self._forced is not None:
            self._forced.append(delta.content)
        elif delta.content:
            yield TextDelta(delta.content)
        for call in delta.tool_calls or ():
            yield from self._call(call)

    def _call(self, call: CallDelta) -> Iterator[Delta]:
        function = call.function or FunctionDelta()
        if function.name and self._is_new(call):
            yield from self._release()
            self._open = (call.index, call.id)
            yield self._forms.opened(function.name, call.id)
            if self._forms.rewrites(function.name):
                self._held = (function.name, [])
        if not function.arguments:
            return
        if self._held is not None:
            self._held[1].append(function.arguments)
        else:
            yield CallText(function.arguments)

    def _is_new(self, call: CallDelta) -> bool:
        """Some servers number every call 0; some repeat name and id in every piece."""
        if self._open is None or call.index != self._open[0]:
            return True
        return call.id is not None and call.id != self._open[1]

    def _forced_call(self, answer: str) -> Iterator[Delta]:
        call = self._forms.forced_call(answer)
        if call is None:
            yield TextDelta(answer)
            return
        name, arguments = call
        yield self._forms.opened(name, None)
        yield CallText(
            self._forms.rewrite(name, arguments) if self._forms.rewrites(name) else arguments
        )

    def _release(self) -> Iterator[Delta]:
        if self._held is not None:
            name, pieces = self._held
            self._held = None
            yield CallText(self._forms.rewrite(name, "".join(pieces)))


def _arguments(call: CallDelta) -> str | None:
    return call.function.arguments if call.function is not None else None
