"""How vLLM is asked for one answer, and what it says is read.

Nothing of vLLM is imported before it is used: it takes seconds, and is not always there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vivace.completion import beginnings
from vivace.conversation.deltas import Delta, TextDelta
from vivace.engines.base import Chat, Fill, Work
from vivace.engines.chunks import CallDelta, ChunkReader, FunctionDelta, MessageDelta
from vivace.engines.hub_template import HubTemplate
from vivace.engines.token_text import TokenText
from vivace.engines.tool_forms import ToolForms
from vivace.protocol.requests import JsonObjectFormat, JsonSchemaFormat, TextFormat

__all__ = ["ParsedReading", "PlainReading", "Reading"]


class Reading:
    """Settings for one request, and the reading of what comes back."""

    sampling: Any
    cut = False
    """Whether text was cut off behind a stop string, so that the tokens say more than was sent."""
    _words: TokenText | None = None

    def read(self, output: Any) -> Iterator[Delta]:
        raise NotImplementedError

    def decode(self, template: HubTemplate, prompt: list[int]) -> None:
        """Make text of the tokens here, unless vLLM must, to find stop strings in it."""
        sampling = self.sampling
        spaced = sampling.skip_special_tokens or sampling.spaces_between_special_tokens
        if sampling.stop or not spaced:
            return
        self._words = template.words_after(prompt, special=not sampling.skip_special_tokens)
        sampling.detokenize = self._words is None

    def text(self, piece: Any) -> str:
        if self._words is None:
            return str(piece.text)
        ended = piece.finish_reason == "stop"  # by a token, which is no part of the text
        return self._words.read(piece.token_ids[:-1] if ended else piece.token_ids)


class PlainReading(Reading):
    """Text without tools or thoughts: nothing stands between the engine and the delta."""

    def __init__(self, work: Work, settings: Mapping[str, Any], ends: Sequence[int]) -> None:
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

    def read(self, output: Any) -> Iterator[Delta]:
        piece = output.outputs[0]
        self.cut = isinstance(piece.stop_reason, str)
        if text := self.text(piece):
            yield TextDelta(text)


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
    ) -> None:
        """``core`` is vLLM's engine."""
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
            tokenizer=core.renderer.tokenizer,
        )
        self._parser = parser(
            core.renderer.tokenizer, request.tools, model_config=core.model_config
        )
        self._request = self._parser.adjust_request(request) or request
        self.sampling = self._request.to_sampling_params(settings["max_tokens"], {})
        self.sampling.output_kind = RequestOutputKind.DELTA
        self._reader = ChunkReader(forms)
        self._parallel = chat.parallel_tool_calls

    def read(self, output: Any) -> Iterator[Delta]:
        piece = output.outputs[0]
        self.cut = isinstance(piece.stop_reason, str)
        delta = self._parser.parse_delta(
            self.text(piece),
            list(piece.token_ids),
            self._request,
            prompt_token_ids=output.prompt_token_ids,
            finished=output.finished,
        )
        if delta is not None:
            yield from self._reader.read(_message_delta(delta, parallel=self._parallel))
        if output.finished:
            yield from self._reader.rest()


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
