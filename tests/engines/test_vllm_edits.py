"""Drafts of each request's own on a real vLLM; run with ``scripts/test-vllm --all``."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Literal

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.support.vllm import CARD, needs_vllm, new_engine
from vivace.conversation.deltas import Finished, TextDelta, Tokens
from vivace.edits.attempt import Task, plan
from vivace.edits.context import Context
from vivace.engines.base import Chat, Sampling, Work
from vivace.engines.vllm import VllmEngine
from vivace.protocol.items import Message
from vivace.protocol.requests import Prediction

pytestmark = [pytest.mark.release, needs_vllm, pytest.mark.timeout(900)]

CODE = "\n\n".join(
    f"def function_{number}(value):\n    total = value * {number}\n    return total + {number}"
    for number in range(6)
)
LIMITER = """\
export class RateLimiter {
  check(key: string, cost: number): Decision {
    const bucket = this.refill(key);
    if (bucket.tokens > cost) {
      bucket.tokens -= cost;
      return { allowed: true, remaining: Math.floor(bucket.tokens), retryAfter: 0 };
    }
    const missing = cost - bucket.tokens;
    return {
      allowed: false,
      remaining: Math.floor(bucket.tokens),
      retryAfter: Math.ceil((missing / this.perSecond) * 1000),
    };
  }
}
"""
EDIT = plan(
    Task(
        "rateLimiter.ts",
        LIMITER,
        "`check` must allow a request whose cost equals the tokens that are left.",
    ),
    Context(),
    CARD.name,
)
TAKEN = "bucket.tokens -= cost;"
"""A line that the model drops from this edit, by a small margin."""
ASK = f"Repeat this file exactly, and nothing else.\n```python\n{CODE}\n```"


class Answer(Struct):
    text: str
    deltas: int
    tokens: Tokens


class Edits:
    """An engine that drafts, and the one event loop it lives in."""

    def __init__(self, mode: Literal["edits", "exact"]) -> None:
        self._runner = asyncio.Runner()
        self.engine: VllmEngine = new_engine(
            speculation=mode, override_generation_config={"min_p": 0.1}
        )
        self._runner.run(self.engine.start())
        self._number = 0

    def ask(
        self,
        text: str,
        prediction: str | None = None,
        tokens: int = 120,
        temperature: float = 0,
    ) -> Answer:
        return self._runner.run(self._ask(text, prediction, tokens, temperature))

    def ask_many(self, texts: list[str], tokens: int) -> list[Answer]:
        async def all_of() -> list[Answer]:
            return await asyncio.gather(*(self._ask(text, None, tokens) for text in texts))

        return self._runner.run(all_of())

    def ask_both(self, greedy: str, sampled: str, tokens: int) -> tuple[Answer, Answer]:
        async def both() -> tuple[Answer, Answer]:
            return await asyncio.gather(
                self._ask(greedy, None, tokens), self._ask(sampled, None, tokens, 0.3)
            )

        return self._runner.run(both())

    def edit(self, leniency: float, *, beside: str | None = None) -> Answer:
        """An edit that asks for leniency, alone or while something is sampled."""

        async def both() -> Answer:
            others = [self._ask(beside, None, 200, 0.3)] if beside else []
            foretold = Prediction(EDIT.prediction, leniency=leniency)
            edited, *_ = await asyncio.gather(self._answer(EDIT.items, foretold, 200), *others)
            return edited

        return self._runner.run(both())

    def _ask(
        self, text: str, prediction: str | None, tokens: int, temperature: float = 0
    ) -> Coroutine[Any, Any, Answer]:
        foretold = Prediction(prediction) if prediction is not None else None
        return self._answer([Message(role="user", content=text)], foretold, tokens, temperature)

    async def _answer(
        self,
        items: Sequence[Message],
        foretold: Prediction | None,
        tokens: int,
        temperature: float = 0,
    ) -> Answer:
        self._number += 1
        known = [replace(item, id=f"m{self._number}-{at}") for at, item in enumerate(items)]
        sampling = Sampling(temperature=temperature, max_tokens=tokens)
        chat = Chat(items=known, prediction=foretold)
        work = Work(id=f"r{self._number}", model="m", prompt=chat, sampling=sampling)
        pieces, tokens_used = [], Tokens()
        async for delta in self.engine.generate(work):
            if isinstance(delta, TextDelta):
                pieces.append(delta.text)
            elif isinstance(delta, Finished):
                tokens_used = delta.tokens
        return Answer("".join(pieces), len(pieces), tokens_used)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self._runner.run(work)

    def close(self) -> None:
        self._runner.run(self.engine.stop())
        self._runner.close()


@pytest.fixture(scope="module")
def edits() -> Iterator[Edits]:
    running = Edits("edits")
    yield running
    running.close()


def test_wrong_and_hostile_predictions_change_nothing_but_speed(edits: Edits) -> None:
    right = edits.ask(ASK)
    for junk in ("x", "def " * 5000, "<|im_end|>" * 50, "\x00\ud7ff😀" * 100):
        assert edits.ask(ASK, prediction=junk).text == right.text


def test_with_nothing_to_copy_it_answers_as_ever(edits: Edits) -> None:
    answer = edits.ask("Say yes.", tokens=8)
    assert answer.tokens.output >= 1
    assert answer.tokens.accepted == answer.tokens.rejected == 0


def test_several_edits_at_once_each_have_their_own_draft(edits: Edits) -> None:
    texts = [ASK.replace("function_", f"routine_{name}_") for name in "abc"]
    for name, answer in zip("abc", edits.ask_many(texts, 60), strict=True):
        assert f"routine_{name}_0" in answer.text


def test_a_default_of_the_model_that_drafts_rule_out_is_left_out(edits: Edits) -> None:
    """vLLM refuses ``min_p`` beside drafts; this model's defaults have it."""
    assert edits.ask(ASK, tokens=20, temperature=0.5).tokens.output >= 1


def test_what_is_sampled_goes_without_drafts(edits: Edits) -> None:
    answer = edits.ask(ASK, tokens=24, temperature=0.3)
    assert answer.text.startswith("```python\ndef function_0(value):")
    assert answer.tokens.accepted == answer.tokens.rejected == 0


def test_what_is_sampled_at_the_same_time_does_not_spoil_an_edit(edits: Edits) -> None:
    """On CPU, vLLM would verify the drafts of a step with temperatures it never wrote."""
    alone = edits.ask(ASK, tokens=80)
    beside, sampled = edits.ask_both(ASK, "Count from one to forty.", 80)
    assert beside.text == alone.text
    assert "2" in sampled.text


def test_with_leniency_a_line_that_nobody_spoke_of_stays(edits: Edits) -> None:
    strict, lenient = edits.edit(0), edits.edit(4)
    assert TAKEN not in strict.text, "this model no longer does the damage that is to be cured"
    assert TAKEN in lenient.text
    changed = "if (bucket.tokens === cost) {"
    assert changed in strict.text
    assert changed in lenient.text


def test_with_leniency_it_does_not_matter_whether_anything_is_drafted(edits: Edits) -> None:
    """On CPU nothing is, while something is sampled at the same time."""
    alone = edits.edit(4)
    beside = edits.edit(4, beside="Count from one to two hundred.")
    assert beside.text == alone.text
    assert beside.tokens.accepted < alone.tokens.accepted


@pytest.mark.parametrize(("on_cpu", "method"), [(True, None), (False, "ngram")])
def test_a_vllm_without_the_hooks_drafts_by_itself_where_that_is_safe(
    on_cpu: bool, method: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.platforms import current_platform

    monkeypatch.setitem(sys.modules, "vivace.engines.vllm_edits", None)
    monkeypatch.delattr("vivace.engines.vllm_edits", raising=False)
    monkeypatch.setattr(type(current_platform), "is_cpu", lambda self: on_cpu)
    arguments = new_engine(speculation="edits")._speculative_arguments()
    assert arguments.get("speculative_config", {}).get("method") == method


def test_at_one_width_drafts_do_not_change_a_letter() -> None:
    """Some of these part from plain decoding at other widths (``scripts/bench edits``)."""
    exact = Edits("exact")
    try:
        for name in ("a", "b", "c", "d", "e", "f"):
            text = ASK.replace("function_", f"{name}_function_").replace("total", f"sum_{name}")
            exact.ask(text, tokens=1)  # so that both find the prompt in the cache
            good = exact.ask(text, tokens=40)
            junk = exact.ask(text, prediction="zebra " * 400, tokens=40)
            assert good.text == junk.text
            assert good.tokens.accepted > junk.tokens.accepted
        assert exact.edit(4).text == exact.edit(0).text
    finally:
        exact.close()


def test_what_we_use_of_vllm_is_still_there() -> None:
    """Private interfaces: when one of these changes, drafts must be looked at anew."""
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.request import Request
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    for method, parameters in (
        (Scheduler.update_draft_token_ids, ["draft_token_ids"]),
        (Scheduler.update_from_output, ["scheduler_output", "model_runner_output"]),
        (GPUModelRunner.execute_model, ["scheduler_output", "intermediate_tensors"]),
        (GPUModelRunner._sample, ["logits", "spec_decode_metadata"]),
    ):
        assert list(inspect.signature(method).parameters) == ["self", *parameters]
    assert "num_draft_tokens" in SpecDecodeMetadata.__annotations__
    assert "total_num_scheduled_tokens" in inspect.getsource(Scheduler.schedule)
    source = inspect.getsource(Request)
    for name in ("spec_token_ids", "output_token_ids", "max_tokens", "is_prefill_chunk"):
        assert name in source
