"""vLLM inside our own process tree: its ``AsyncLLM``, without its HTTP server.

With ``vllm_reading`` all that knows vLLM, but for drafts. Written for the version below; its
renderers, parsers and ``AsyncLLM`` are not a stable interface, so ``start`` refuses another minor
version by name rather than failing somewhere inside.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import logging
import os
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import active_children
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace
from prometheus_client import REGISTRY, generate_latest

from vivace.completion import fim
from vivace.conversation.deltas import Delta, Finished, ReasoningDelta, Tokens
from vivace.conversation.so_far import Strayed
from vivace.engines.base import Card, Chat, Continues, Sampling, Work
from vivace.engines.hub_template import HubTemplate
from vivace.engines.messages import estimate_tokens
from vivace.engines.old_code import carried
from vivace.engines.thinking import MARKS, Marks, ThoughtSplitter, template_arguments
from vivace.engines.token_chain import ChainBook, Outline, Prompt, classify, end_of_thoughts
from vivace.engines.tool_forms import ToolForms
from vivace.engines.vllm_answer import Answer, Trace
from vivace.engines.vllm_memory import GIB, chosen_by_person, kv_cache_bytes, weights_in
from vivace.engines.vllm_precision import better_in_float32, processor_flags
from vivace.engines.vllm_ranks import Ranks, ranks_of
from vivace.engines.vllm_reading import ParsedReading, PlainReading, Reading
from vivace.engines.watchdog import Watchdog
from vivace.errors import (
    CannotContinue,
    ConfigError,
    EngineAbsent,
    EngineDied,
    EngineError,
    EngineOverflow,
    EngineRefused,
)
from vivace.extras import how_to_install
from vivace.interpreter import children_environment
from vivace.memory import free_memory
from vivace.models import Fim, Thinking
from vivace.protocol.items import Item, Message, ToolOutput, text_of
from vivace.protocol.requests import Fill, PlainFormat
from vivace.supervisor import Supervisor

__all__ = ["WRITTEN_FOR", "VllmEngine"]

log = logging.getLogger("vivace.vllm")

WRITTEN_FOR = "0.32"
_NO_REPORTS = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
_LOOK = 0.5
"""Seconds between two looks at the processes of an engine that is being loaded."""
_SHORT = 1000
"""Tokens that are written on the event loop itself: a millisecond of work, about what a thread
takes to reach where many streams run (measured: 0.1 to 1 ms). Longer ones those streams would feel.
"""
_END_OF_PROMPT = 16
"""Tokens in which a template opens thoughts, if it does: the mark and what stands around it."""


class VllmEngine:
    continues: Continues = "ids"
    counts = True

    def __init__(
        self,
        name: str,
        card: Card,
        model: str,
        *,
        arguments: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        tool_parser: str | None = None,
        reasoning_parser: str | None = None,
        thinking: Thinking | None = None,
        template: Path | None = None,
        fim: Fim | None = None,
        speculation: Literal["edits", "exact"] | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """``model`` is a folder or a hub id. ``arguments`` are vLLM's own engine arguments,
        ``environment`` its variables; both reach it as they are. ``thinking``: how the model is
        told to think, if it is known. ``reasoning_parser``: one of vLLM's, for marks that are more
        than text. ``template``: a chat template instead of the model's own. ``speculation``: draft
        answers from the text they rewrite. ``supervisor`` keeps the watch alive."""
        if importlib.util.find_spec("vllm") is None:
            raise ConfigError(
                f"Engine {name!r} needs vLLM, which is not installed. Run: "
                f"{how_to_install('vllm')} (or, without a GPU, see docs/start/gpu-server.md)."
            )
        self.name = name
        self.cards: Sequence[Card] = (card,)
        self._model = model
        self._arguments = {"max_model_len": card.context, **(arguments or {})}
        self._environment = dict(environment or {})
        self._by_priority = self._arguments.get("scheduling_policy", "priority") == "priority"
        self._tool_parser = tool_parser
        self._thinking = thinking
        self._marks = Marks(thinking.opens, thinking.closes) if thinking else MARKS
        self._reasoning_parser = reasoning_parser or (thinking.parser if thinking else None)
        self.template = template
        self._end_of_thoughts = ""
        """How the model's template closes them."""
        self._fim = fim
        self._speculation = speculation
        self._drafts = False
        """Whether the engine takes drafts of ours."""
        self._engine: Any = None
        self._ranks = Ranks(1, 1)
        self._template: HubTemplate | None = None
        self._book: ChainBook | None = None
        self._writer = ThreadPoolExecutor(1, f"{name}-prompts")
        """Renders and tokenises what is long. One at a time: it shall not take the machine."""
        self._defaults: dict[str, Any] = {}
        """How the model wants to be sampled; vLLM reads that from disk whenever it is asked."""
        self._supervisor = supervisor or Supervisor()
        self._watching: asyncio.Task[None] | None = None
        self._watchdog: Watchdog | None = None

    # -- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        await self._launch()
        if self._watching is None or self._watching.done():
            self._watching = self._supervisor.watch(f"engine-{self.name}", self._watch)

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        engine, self._engine = self._engine, None
        if engine is not None:
            await asyncio.to_thread(engine.shutdown)
        if self._watchdog is not None:
            self._watchdog.close()
            self._watchdog = None

    def healthy(self) -> bool:
        return self._engine is not None and not self._engine.errored

    def running(self) -> int:
        if not self.healthy():
            return 0
        unfinished: int = self._engine.output_processor.get_num_unfinished_requests()
        return unfinished

    async def _launch(self) -> None:
        # Loading takes a minute; the gateway must answer /healthz and signals meanwhile.
        engine = await self._guarded(asyncio.to_thread(self._load))
        try:
            self._learn(engine)
        except Exception:
            await asyncio.to_thread(engine.shutdown)
            raise
        self._engine = engine

    async def _guarded(self, loading: Coroutine[Any, Any, Any]) -> Any:
        """Its processes would outlive ours, and keep the memory, from the moment they are there."""
        self._watchdog = watchdog = self._watchdog or Watchdog()
        task = asyncio.create_task(loading)
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK)
            watchdog.guard(each.pid for each in active_children() if each.pid is not None)
        return task.result()

    def _learn(self, engine: Any) -> None:
        """What its model wants: how to be sampled, and how conversations are written for it."""
        self._ranks = ranks_of(engine.vllm_config)
        self._defaults = engine.model_config.get_diff_sampling_param()
        self._defaults.pop("max_tokens", None)
        if self._speculation is not None and self._defaults.pop("min_p", None):
            log.warning(
                "%s: vLLM takes no min_p beside drafts; the model's own is left out", self.name
            )
        kept_as = self._thinking.kept_as if self._thinking else "reasoning_content"
        self._template = template = HubTemplate(
            engine.renderer.tokenizer,
            chat_template=self.template.read_text("utf-8") if self.template else None,
            thoughts_as=kept_as,
        )
        self._end_of_thoughts = end_of_thoughts(template, self._marks)
        growth = classify(template)
        if growth != "append_only":
            log.warning(
                "%s: the chat template is %s; long conversations are rendered whole %s",
                self.name,
                growth.replace("_", " "),
                "at every turn" if growth == "unstable" else "when the user speaks",
            )
        self._book = ChainBook(template, growth, thinking=self._thinking)

    def _load(self) -> Any:
        with children_environment({**_NO_REPORTS, **self._environment}):
            import vllm
            from vllm.engine.arg_utils import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM

            if not vllm.__version__.startswith(WRITTEN_FOR + "."):
                raise ConfigError(
                    f"vLLM {vllm.__version__} is installed and Vivace was written for "
                    f"{WRITTEN_FOR}. Install vllm=={WRITTEN_FOR}.*."
                )
            defaults = {
                "disable_log_stats": True,
                "enable_prefix_caching": True,
                "scheduling_policy": "priority",
                # No step is filled by one long prompt while somebody waits for a keystroke.
                "long_prefill_token_threshold": min(512, self._arguments["max_model_len"]),
                **self._speculative_arguments(),
            }
            try:
                arguments = AsyncEngineArgs(model=self._model, **{**defaults, **self._arguments})
                config = arguments.create_engine_config()
                if self._slow_in_bfloat16(config.model_config):
                    arguments.dtype = "float32"
                    config = arguments.create_engine_config()
            except (TypeError, ValueError, OSError) as error:
                raise ConfigError(f"vLLM does not take these settings: {error}.") from error
            self._fit_memory(config)
            try:
                return AsyncLLM.from_vllm_config(
                    config,
                    enable_log_requests=arguments.enable_log_requests,
                    disable_log_stats=arguments.disable_log_stats,
                )
            except Exception as error:
                raise EngineDied(f"vLLM could not start: {error}") from error

    def _slow_in_bfloat16(self, model: Any) -> bool:
        import torch
        from vllm.platforms import current_platform

        chosen = "dtype" in self._arguments or model.quantization is not None
        if chosen or model.dtype != torch.bfloat16 or not current_platform.is_cpu():
            return False
        slow = better_in_float32(processor_flags(), weights_in(self._model), free_memory())
        if slow:
            log.info(
                "%s: float32, since this processor has no instructions for bfloat16; dtype under "
                "[engines.arguments] sets another precision",
                self.name,
            )
        return slow

    def _fit_memory(self, config: Any) -> None:
        """On a processor: a cache that fits beside what else runs here, unless one is set."""
        from vllm.platforms import current_platform

        if not current_platform.is_cpu() or chosen_by_person(self._arguments, os.environ):
            return
        model, parallel = config.model_config, config.parallel_config
        a_token = 2 * model.get_num_layers(parallel) * model.get_num_kv_heads(parallel)
        a_token *= model.get_head_size() * model.dtype.itemsize
        processes, free = parallel.world_size, free_memory()
        stored = getattr(model.hf_text_config, "dtype", None) or model.dtype
        weights = weights_in(self._model) * model.dtype.itemsize // stored.itemsize
        room = kv_cache_bytes(
            free // processes,
            weights // processes,
            a_token * model.max_model_len,
            config.scheduler_config.max_num_seqs,
        )
        config.cache_config.kv_cache_memory_bytes = room
        log.info(
            "%s: %.1f GiB for the KV cache (%d tokens), of %.1f GiB that are free; "
            "VLLM_CPU_KVCACHE_SPACE sets another size",
            self.name,
            room / GIB,
            room // a_token,
            free / GIB,
        )

    def _speculative_arguments(self) -> dict[str, Any]:
        self._drafts = False
        if self._speculation is None:
            return {}
        try:
            from vivace.engines import vllm_edits
        except (ImportError, AttributeError) as error:
            return self._repetitions(error)
        self._drafts = True
        return vllm_edits.engine_arguments(self._speculation)

    def _repetitions(self, why: Exception) -> dict[str, Any]:
        """vLLM's own drafts, for one that takes none from us."""
        from vllm.platforms import current_platform

        if current_platform.is_cpu():  # where these spoil what is sampled, see vllm_edits.py
            log.warning("%s: this vLLM takes no drafts from us (%s)", self.name, why)
            return {}
        log.warning(
            "%s: this vLLM takes no drafts from us (%s); it drafts from repetitions instead",
            self.name,
            why,
        )
        repeat = {"prompt_lookup_min": 3, "prompt_lookup_max": 5, "num_speculative_tokens": 16}
        return {"speculative_config": {"method": "ngram", **repeat}}

    async def _watch(self) -> None:
        """Whenever it dies, start it again; where that fails, the supervisor has us try later."""
        while True:
            await asyncio.sleep(0.5)
            if self.healthy():
                continue
            log.warning("%s died; starting it again", self.name)
            dead, self._engine = self._engine, None
            if dead is not None:
                await asyncio.to_thread(dead.shutdown)
            try:
                await self._launch()
            except (EngineError, ConfigError) as error:
                log.warning("%s: %s", self.name, str(error))
                raise
            log.info("%s is running again", self.name)

    # -- work -------------------------------------------------------------------------------------

    def count(self, items: Sequence[Item], model: str) -> int:
        """A guess while there is room, exact when it matters: counting costs what encoding does."""
        guess = estimate_tokens(items)
        if self._template is None or guess < self.cards[0].context // 2:
            return guess
        return self._template.count([*map(_words, items)]) + 8 * len(items)

    def metrics(self) -> bytes:
        """vLLM's own, when its statistics are on (disable_log_stats = false)."""
        return b"" if self._arguments.get("disable_log_stats", True) else generate_latest(REGISTRY)

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        if not self.healthy():
            raise EngineAbsent(f"{self.name} is not running.")
        book = self._book
        assert book is not None
        chat = work.prompt if isinstance(work.prompt, Chat) else Chat(items=())
        forms = ToolForms(chat.toolbox, chat.tool_choice)
        prompt, old = await self._written(work, forms, book)
        if not self.healthy():
            raise EngineDied(f"{self.name} died before it could begin.")
        reading = self._reading(work, forms, prompt.ids)
        trace = Trace(prompt, old)
        work.tally.trace = trace
        if old:  # the request carries the text that its answer may repeat
            reading.sampling.extra_args = {**(reading.sampling.extra_args or {}), **old}
        work.tally.input = len(prompt.ids)
        answer = Answer(trace, reading, work)
        try:
            async with contextlib.aclosing(self._deltas(work, reading, answer)) as pieces:
                async for deltas in pieces:
                    for delta in deltas:
                        yield delta
        finally:
            # Thoughts that were broken off are no turn to go on from: templates leave them out.
            thinks = answer.kind is ReasoningDelta
            if isinstance(work.prompt, Chat) and not reading.cut and not thinks:
                book.keep(work.id, prompt, trace.generated, answer.items)
        accepted, rejected = _drafted(answer.last)
        tokens = Tokens(
            input=len(prompt.ids),
            output=work.tally.output,
            cached=work.tally.cached,
            reasoning=max(0, answer.thoughts - answer.said),
            accepted=accepted,
            rejected=rejected,
        )
        cut = work.generate and answer.last.outputs[0].finish_reason == "length"
        yield Finished("length" if cut else "stop", tokens)

    async def _deltas(
        self, work: Work, reading: Reading, answer: Answer
    ) -> AsyncGenerator[list[Delta], None]:
        """What each step of the engine adds to the answer."""
        try:
            for deltas in answer.repeat():
                yield deltas
                await asyncio.sleep(0)  # others move meanwhile
            stream = self._stream(work, answer.trace.prompt, reading)
            async with contextlib.aclosing(stream) as outputs:
                async for output in outputs:
                    deltas = answer.read(output)
                    work.tally.steps += 1
                    work.tally.output = answer.new
                    work.tally.cached = output.num_cached_tokens or 0
                    yield deltas
                    if reading.reached:
                        break
            answer.end()
        except Strayed as error:
            raise CannotContinue(
                f"{self.name} does not read what was said of this turn as it was said."
            ) from error

    async def _written(
        self, work: Work, forms: ToolForms, book: ChainBook
    ) -> tuple[Prompt, dict[str, Any]]:
        """The prompt as tokens, and what goes with it of the text that its answer may repeat."""
        from jinja2 import TemplateError

        if work.said is not None and isinstance(work.said.trace, Trace):
            # As the one before has written it, and not as it is rendered anew.
            return work.said.trace.prompt, work.said.trace.old
        if work.thoughts is not None and isinstance(work.thoughts.trace, Trace):
            # What the model has thought in its own tokens, which its cache has.
            began = work.thoughts.trace
            told = [*began.prompt.ids, *began.generated[: began.told]]
            return self._with_end_of_thoughts(began.prompt, told, work.thoughts.text), {}
        if isinstance(work.prompt, Chat):
            outline = book.begin(work.prompt, forms, work.parent_id, work.owner)
            write = functools.partial(self._write_chat, work, forms, book, outline)
            short = not self._drafts and outline.estimate() <= _SHORT
        else:
            parts = self._parts(work.prompt)
            write = functools.partial(self._write_fill, parts)
            short = sum(map(len, parts)) <= 3 * _SHORT
        try:
            if short:
                return write()
            return await asyncio.get_running_loop().run_in_executor(self._writer, write)
        except TemplateError as error:
            raise EngineRefused(
                f"The model's chat template does not take this conversation: {error}"
            ) from error

    def _write_chat(
        self, work: Work, forms: ToolForms, book: ChainBook, outline: Outline
    ) -> tuple[Prompt, dict[str, Any]]:
        assert self._template is not None
        assert isinstance(work.prompt, Chat)
        prompt = book.finish(outline)
        if work.thoughts is not None:  # another engine's
            opening = "" if self._opens_thoughts(prompt.ids) else f"{self._marks.opens}\n"
            thoughts = self._template.encode(opening + work.thoughts.text)
            prompt = self._with_end_of_thoughts(
                prompt, [*prompt.ids, *thoughts], work.thoughts.text
            )
        elif self._has_a_form(work.prompt, forms) and self._opens_thoughts(prompt.ids):
            # The form holds from the first token on, and thoughts could never end.
            prompt = self._with_end_of_thoughts(prompt, prompt.ids, "\n")
        encode = self._template.encode
        return prompt, carried(work.prompt, encode) if self._drafts else {}

    def _opens_thoughts(self, prompt: Sequence[int]) -> bool:
        assert self._template is not None
        return self._marks.are_open_in(self._template.decode(prompt[-_END_OF_PROMPT:]))

    def _has_a_form(self, chat: Chat, forms: ToolForms) -> bool:
        if "reasoning_parser" in self._arguments:  # then vLLM waits for the end of the thoughts
            return False
        forced = forms.mode == "required" and bool(forms.declarations())
        return forced or not isinstance(chat.format, PlainFormat)

    def _with_end_of_thoughts(self, prompt: Prompt, ids: Sequence[int], thoughts: str) -> Prompt:
        assert self._template is not None
        end = self._end_of_thoughts
        closing = self._template.encode(end.lstrip("\n") if thoughts.endswith("\n") else end)
        return replace(prompt, ids=[*ids, *closing])

    def _write_fill(self, parts: Sequence[str]) -> tuple[Prompt, dict[str, Any]]:
        assert self._template is not None
        return Prompt(self._template.encode_parts(parts), "", 0, None), {}

    async def _stream(
        self, work: Work, prompt: Prompt, reading: Reading
    ) -> AsyncGenerator[Any, None]:
        from vllm.exceptions import VLLMClientError, VLLMError
        from vllm.inputs import TokensPrompt
        from vllm.v1.engine.exceptions import EngineDeadError

        said = _said(work)
        asked = TokensPrompt(prompt_token_ids=[*prompt.ids, *said] if said else prompt.ids)
        if work.owner:
            asked["cache_salt"] = work.owner
        urgency = {"priority": work.priority} if self._by_priority else {}
        name = work.id if work.thoughts is None else f"{work.id}-answer"
        name = f"{name}-{len(said)}" if said else name
        try:
            async with contextlib.AsyncExitStack() as stack:
                rank = stack.enter_context(self._ranks.chosen(work))
                answer = self._engine.generate(asked, reading.sampling, name, **urgency, **rank)
                async for output in await stack.enter_async_context(contextlib.aclosing(answer)):
                    if output.outputs[0].finish_reason in ("abort", "error"):
                        raise EngineDied(f"{self.name} was stopped in the middle of its answer.")
                    yield output
        except EngineDeadError as error:
            raise EngineDied(f"{self.name} died in the middle of its answer.") from error
        except (ValueError, VLLMClientError) as error:
            raise EngineRefused(f"{self.name} refused the request: {error}") from error
        except VLLMError as error:
            raise EngineError(f"{self.name} failed: {error}") from error

    def _parts(self, fill: Fill) -> list[str]:
        if fill.is_gap and self._fim is not None:
            return fim.render(fill, self._fim)
        return [fill.prefix + fill.typed]

    def _reading(self, work: Work, forms: ToolForms, prompt: list[int]) -> Reading:
        said = _said(work)
        room = self.cards[0].context - len(prompt) - len(said)
        if room < 1:
            raise EngineOverflow(
                f"The prompt is {len(prompt)} tokens long and leaves no room to answer."
            )
        limit = min(work.sampling.max_tokens or room, room) if work.generate else 1
        assert self._template is not None
        reading = self._reading_for(work, forms, limit, prompt)
        can = not said or reading.go_on()
        reading.decode(self._template, prompt)
        if not can or (said and not reading.decodes):
            raise CannotContinue(f"{self.name} cannot go on from the middle of such an answer.")
        return reading

    def _reading_for(
        self, work: Work, forms: ToolForms, limit: int, prompt: Sequence[int]
    ) -> Reading:
        settings = self._settings(work.sampling, limit)
        splitter: ThoughtSplitter | None = None
        if isinstance(work.prompt, Chat) and self._reasoning_parser is None:
            splitter = ThoughtSplitter(self._marks, thinking=self._opens_thoughts(prompt))
        if isinstance(work.prompt, Chat) and (forms.declarations() or self._reasoning_parser):
            return ParsedReading(
                self._engine,
                work.prompt,
                forms,
                settings,
                stop=work.sampling.stop,
                tool_parser=self._tool_parser,
                reasoning_parser=self._reasoning_parser,
                arguments=template_arguments(self._thinking, work.prompt.effort),
                splitter=splitter,
            )
        ends: list[int] = []
        if isinstance(work.prompt, Fill) and self._fim is not None:
            assert self._template is not None
            # The marks are special tokens, which never reach the text, so they stop by their ids.
            coded = map(self._template.encode, fim.stops(self._fim))
            ends = [ids[0] for ids in coded if len(ids) == 1]
        return PlainReading(work, settings, ends, splitter)

    def _settings(self, asked: Sampling, limit: int) -> dict[str, Any]:
        """Sampling as asked, else as the model's own defaults say."""
        wanted = {
            "temperature": asked.temperature,
            "top_p": asked.top_p,
            "presence_penalty": asked.presence_penalty,
            "frequency_penalty": asked.frequency_penalty,
            "seed": asked.seed,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        return {**self._defaults, **given, "max_tokens": limit}


def _said(work: Work) -> list[int]:
    """The tokens of what another has said."""
    return (work.said.ids or []) if work.said is not None else []


def _drafted(output: Any) -> tuple[int, int]:
    """How many drafted tokens were accepted, and how many not."""
    counted = getattr(output.outputs[0], "spec_decode_metrics", None)
    if counted is None:
        return 0, 0
    accepted = sum(length * times for length, times in enumerate(counted.histogram))
    return accepted, counted.num_draft_tokens - accepted


def _words(item: Item) -> str:
    if isinstance(item, Message):
        return text_of(item.content)
    if isinstance(item, ToolOutput):
        return text_of(item.output)
    return msgspec.json.encode(item).decode()
