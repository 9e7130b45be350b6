"""How vLLM is asked for one answer, and what it says is read.

Nothing of vLLM is imported before it is used: it takes seconds, and is not always there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vivace.completion import beginnings
from vivace.conversation.deltas import Delta, ReasoningDelta, TextDelta
from vivace.engines.base import Chat, Fill, Work
from vivace.engines.chunks import CallDelta, ChunkReader, FunctionDelta, MessageDelta
from vivace.engines.hub_template import HubTemplate
from vivace.engines.stop_strings import StopStrings
from vivace.engines.thinking import ThoughtSplitter
from vivace.engines.token_text import TokenText
from vivace.engines.tool_forms import ToolForms
from vivace.protocol.requests import JsonObjectFormat, JsonSchemaFormat, TextFormat

__all__ = ["ParsedReading", "PlainReading", "Reading"]

_HARMONY = "openai_gptoss"
"""The parser of a family whose form vLLM reads as a whole."""


class Reading:
    """Settings for one request, and the reading of what comes back."""

    sampling: Any
    cut = False
    """Whether text was cut off behind a stop string, so that the tokens say more than was sent."""
    takes_many = False
    """Whether it does not matter how many tokens are read at once."""
    prompt: Sequence[int] = ()
    """What the answer follows; some parsers look for marks in it."""
    _words: TokenText | None = None
    _stops: StopStrings | None = None
    """Where we look for stop strings ourselves."""
    _splitter: ThoughtSplitter | None = None
    """Tells thoughts from the answer, where no parser of vLLM's does."""

    @property
    def holds(self) -> bool:
        """Whether tokens came that were not told yet, since they may be a part of a mark."""
        return self._splitter is not None and self._splitter.holds

    @property
    def reached(self) -> bool:
        """Whether a stop string was found of which vLLM does not know."""
        return self._stops is not None and self._stops.reached

    def read(self, output: Any) -> Iterator[Delta]:
        raise NotImplementedError

    def decode(self, template: HubTemplate, prompt: list[int]) -> None:
        """Make text of the tokens here, unless vLLM must, to find stop strings in it."""
        self.prompt = prompt
        sampling = self.sampling
        spaced = sampling.skip_special_tokens or sampling.spaces_between_special_tokens
        if sampling.stop or not spaced:
            return
        self._words = template.words_after(prompt, special=not sampling.skip_special_tokens)
        sampling.detokenize = self._words is None

    def go_on(self) -> bool:
        """Before ``decode``, for an answer that another has begun: whether that can be. vLLM will
        not see the text before, in which a stop string may begin."""
        self._stops = StopStrings(self.sampling.stop) if self.sampling.stop else None
        self.sampling.stop = []
        return self.sampling.structured_outputs is None

    @property
    def decodes(self) -> bool:
        return self._words is not None

    def text(self, piece: Any) -> str:
        if self._words is None:
            return str(piece.text)
        ended = piece.finish_reason == "stop"  # by a token, which is no part of the text
        tokens = piece.token_ids[:-1] if ended else piece.token_ids
        return self._told(self._words.read(tokens), last=piece.finish_reason is not None)

    def _told(self, text: str, *, last: bool) -> str:
        if self._stops is None:
            return text
        told = self._stops.feed(text) + (self._stops.rest() if last else "")
        self.cut = self._stops.reached
        return told


class PlainReading(Reading):
    """Text without tools: nothing stands between the engine and the delta, once thoughts ended."""

    takes_many = True

    def __init__(
        self,
        work: Work,
        settings: Mapping[str, Any],
        ends: Sequence[int],
        splitter: ThoughtSplitter | None,
    ) -> None:
        """``ends``: tokens that end the answer."""
        from vllm.sampling_params import (
            RequestOutputKind,
            SamplingParams,
            StructuredOutputsParams,
        )

        form = _form(work.prompt) if work.generate else {}
        self.sampling = SamplingParams(
            **settings,
            stop=list(work.sampling.stop),
            stop_token_ids=list(ends),
            structured_outputs=StructuredOutputsParams(**form) if form else None,
            output_kind=RequestOutputKind.DELTA,
        )
        self._splitter = splitter

    def read(self, output: Any) -> Iterator[Delta]:
        piece = output.outputs[0]
        self.cut = self.cut or isinstance(piece.stop_reason, str)
        text = self.text(piece)
        if self._splitter is None or self._splitter.answering:
            if text:
                yield TextDelta(text)
            return
        yield from self._splitter.feed(text)
        if output.finished:
            yield from self._splitter.rest()


class ParsedReading(Reading):
    """Tool calls and reasoning, taken apart by vLLM's own parsers."""

    def __init__(
        self,
        core: Any,
        chat: Chat,
        forms: ToolForms,
        settings: Mapping[str, Any],
        *,
        stop: Sequence[str],
        tool_parser: str | None,
        reasoning_parser: str | None,
        arguments: Mapping[str, Any],
        splitter: ThoughtSplitter | None,
    ) -> None:
        """``core`` is vLLM's engine; ``arguments`` are those of the chat template, by which some
        parsers know whether the model thinks."""
        from vllm.entrypoints.openai.chat_completion.protocol import (
            ChatCompletionRequest,
        )
        from vllm.parser import ParserManager
        from vllm.sampling_params import RequestOutputKind

        tools = forms.declarations()
        request = ChatCompletionRequest(
            messages=[{"role": "user", "content": ""}],  # the parser looks at tools only
            tools=tools or None,
            tool_choice=forms.mode if tools else None,
            response_format=_response_format(chat.format) if forms.mode == "auto" else None,
            stop=list(stop),
            **{name: value for name, value in settings.items() if name != "max_tokens"},
        )
        parser = ParserManager.get_parser(
            tool_parser_name=tool_parser if tools else None,
            reasoning_parser_name=reasoning_parser,
            enable_auto_tools=bool(tools),
            is_harmony=reasoning_parser == _HARMONY,
            tokenizer=core.renderer.tokenizer,
        )
        self._parser = parser(
            core.renderer.tokenizer,
            request.tools,
            model_config=core.model_config,
            chat_template_kwargs=dict(arguments),
        )
        self._splitter = splitter
        self._request = self._parser.adjust_request(request) or request
        self.sampling = self._request.to_sampling_params(settings["max_tokens"], {})
        self.sampling.output_kind = RequestOutputKind.DELTA
        self._reader = ChunkReader(forms)
        self._parallel = chat.parallel_tool_calls

    def read(self, output: Any) -> Iterator[Delta]:
        piece = output.outputs[0]
        self.cut = self.cut or isinstance(piece.stop_reason, str)
        if self._splitter is None or self._splitter.answering:
            yield from self._parsed(self.text(piece), list(piece.token_ids), output)
        else:
            yield from self._split(piece, output, self._splitter)
        if output.finished:
            yield from self._reader.rest()

    def _split(self, piece: Any, output: Any, splitter: ThoughtSplitter) -> Iterator[Delta]:
        """Thoughts, and what of the answer stands behind them: the parser shall see no other."""
        said: list[str] = []
        ids: list[int] = []
        for text, tokens in self._by_token(piece):
            came = [*splitter.feed(text)]
            yield from (each for each in came if isinstance(each, ReasoningDelta))
            words = [each.text for each in came if isinstance(each, TextDelta)]
            said += words
            ids += tokens if words else []
        if output.finished:
            held = [*splitter.rest()]
            yield from (each for each in held if isinstance(each, ReasoningDelta))
            said += [each.text for each in held if isinstance(each, TextDelta)]
        if said or output.finished:
            yield from self._parsed("".join(said), ids, output)

    def _by_token(self, piece: Any) -> Iterator[tuple[str, list[int]]]:
        """Where vLLM makes the text, to find stop strings in it, all of the piece at once."""
        if self._words is None:
            yield str(piece.text), list(piece.token_ids)
            return
        ended = piece.finish_reason == "stop"
        for token in piece.token_ids[:-1] if ended else piece.token_ids:
            yield self._told(self._words.read([token]), last=False), [token]
        if piece.finish_reason is not None:
            yield self._told("", last=True), []

    def _parsed(self, text: str, ids: list[int], output: Any) -> Iterator[Delta]:
        delta = self._parser.parse_delta(
            text,
            ids,
            self._request,
            prompt_token_ids=self.prompt,
            finished=output.finished,
        )
        if delta is not None:
            yield from self._reader.read(_message_delta(delta, parallel=self._parallel))


def _form(prompt: Chat | Fill) -> dict[str, Any]:
    """What the answer is held to, by vLLM's names."""
    if isinstance(prompt, Fill):
        return {"regex": beginnings.pattern(prompt.starts_with)} if prompt.starts_with else {}
    if isinstance(prompt.format, JsonSchemaFormat):
        return {"json": prompt.format.schema or {}}
    return {"json_object": True} if isinstance(prompt.format, JsonObjectFormat) else {}


def _response_format(form: TextFormat) -> dict[str, Any] | None:
    if isinstance(form, JsonSchemaFormat):
        schema = {"name": form.name, "schema": form.schema or {}}
        return {"type": "json_schema", "json_schema": schema}
    return {"type": "json_object"} if isinstance(form, JsonObjectFormat) else None


def _message_delta(delta: Any, *, parallel: bool) -> MessageDelta:
    calls = [
        CallDelta(
            call.index,
            call.id,
            FunctionDelta(call.function.name, call.function.arguments) if call.function else None,
        )
        for call in delta.tool_calls or ()
        if parallel or not call.index
    ]
    return MessageDelta(delta.content, getattr(delta, "reasoning", None), None, calls)
