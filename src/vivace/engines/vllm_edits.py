"""Speculative decoding on vLLM with drafts of each request's own: a scheduler that fills them in.

All that we use of vLLM's private interfaces for this stands here, for the version named in
``vllm.py``: three methods of ``Scheduler`` and ``Request.spec_token_ids``, and the loading of a
proposer by name, which proposes nothing. vLLM imports this module in its own processes. What the
worker does of it stands in ``vllm_lenient.py``.
"""

from __future__ import annotations

import time
from typing import Any, Literal

from vllm.platforms import current_platform
from vllm.v1.core.sched.scheduler import Scheduler

from vivace.engines import vllm_lenient
from vivace.engines.old_code import OLD, terms_of
from vivace.engines.vllm_lenient import PREFERRED, Preferred
from vivace.speculation.drafter import Drafter
from vivace.speculation.leniency import Leniency
from vivace.speculation.pace import Pace

__all__ = ["EXACT_WIDTH", "WIDTH", "EditScheduler", "NullProposer", "engine_arguments"]

WIDTH = 64
"""The longest draft."""
EXACT_WIDTH = 15
"""With exact drafts, the length of each: sixteen tokens in every step, drafted or not."""
_EXACT = "vivace_exact"
_PADDING = 0
"""A token, any: what does not belong is refused like every wrong draft."""


def engine_arguments(mode: Literal["edits", "exact"]) -> dict[str, Any]:
    """What an engine must be started with."""
    exact = mode == "exact"
    return {
        "scheduler_cls": f"{__name__}.EditScheduler",
        "speculative_config": {
            "method": "custom_class",
            "model": f"{__name__}.NullProposer",
            "num_speculative_tokens": EXACT_WIDTH if exact else WIDTH,
        },
        "per_request_spec_decode_metrics": "summary",
        "additional_config": {_EXACT: exact},
    }


class NullProposer:
    """vLLM asks it after every step; the scheduler knows better. It is made in the worker."""

    def __init__(self, config: Any) -> None:
        vllm_lenient.install()

    def load_model(self, *arguments: Any, **more: Any) -> None:
        pass

    def propose(self, sampled: list[list[int]], *arguments: Any, **more: Any) -> list[list[int]]:
        return [[] for _ in sampled]


class EditScheduler(Scheduler):  # type: ignore[misc]
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._exact = bool(self.vllm_config.additional_config.get(_EXACT))
        self._pace = Pace()
        self._step_began = 0.0
        self._only_greedy = _sampling_breaks_drafts()

    def schedule(self, *arguments: Any, **more: Any) -> Any:
        if self._only_greedy and not all(map(_greedy, self.requests.values())):
            for request in self.running:
                request.spec_token_ids = []
        output = super().schedule(*arguments, **more)
        if not self._exact:
            setattr(output, PREFERRED, self._preferred(output))
        self._step_began = time.perf_counter()
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        tokens = scheduler_output.total_num_scheduled_tokens
        # Reading a prompt is another kind of step.
        if 0 < tokens <= (WIDTH + 1) * len(scheduler_output.num_scheduled_tokens):
            self._pace.step(tokens, time.perf_counter() - self._step_began)
        return super().update_from_output(scheduler_output, model_runner_output)

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        super().update_draft_token_ids(draft_token_ids)
        writing = [
            request
            for name in draft_token_ids.req_ids
            if (request := self.requests.get(name)) is not None
            and not request.is_finished()
            and not request.is_prefill_chunk
        ]
        drafts = self._exact_drafts(writing) if self._exact else self._drafts(writing)
        for request, draft in zip(writing, drafts, strict=True):
            if draft:
                request.spec_token_ids = self.structured_output_manager.validate_tokens(
                    request, draft
                )

    def _drafts(self, writing: list[Any]) -> list[list[int]]:
        """As long as each is worth, with all that share the step."""
        drafters = [self._drafter(request) for request in writing]
        chances = [drafter.chance() for drafter in drafters if drafter is not None]
        lengths = iter(self._pace.lengths(chances, len(self.running) - len(chances), WIDTH))
        drafts: list[list[int]] = []
        for request, drafter in zip(writing, drafters, strict=True):
            room = request.max_tokens - len(request.output_token_ids) - 1
            drafts.append(drafter.draft(max(0, min(next(lengths), room))) if drafter else [])
        return drafts

    def _exact_drafts(self, writing: list[Any]) -> list[list[int]]:
        """All of one length, so that the engine rounds alike whatever is drafted."""
        drafts = []
        for request in writing:
            drafter = self._drafter(request)
            draft = drafter.draft(EXACT_WIDTH) if drafter else []
            drafts.append(draft + [_PADDING] * (EXACT_WIDTH - len(draft)))
        return drafts

    def _preferred(self, output: Any) -> dict[str, Preferred]:
        """Which old tokens are preferred in this step, of requests that ask for it."""
        found: dict[str, Preferred] = {}
        for name in output.num_scheduled_tokens:
            leniency = self._leniency(self.requests[name])
            if leniency is not None:
                draft = output.scheduled_spec_decode_tokens.get(name, ())
                tokens = leniency.along(draft)
                if any(token is not None for token in tokens):
                    found[name] = leniency.nats, tokens
        return found

    def _leniency(self, request: Any) -> Leniency | None:
        """The request's own, told what has been written; none where it asks for none."""
        if not hasattr(request, "vivace_leniency"):
            request.vivace_leniency = _new_leniency(request)
            request.vivace_followed = 0
        leniency: Leniency | None = request.vivace_leniency
        if leniency is not None:
            written = request.output_token_ids
            leniency.write(list(written[request.vivace_followed :]))
            request.vivace_followed = len(written)
        return leniency

    def _drafter(self, request: Any) -> Drafter | None:
        """The request's own, told what has been written; none where nothing is to be copied."""
        given = request.sampling_params.extra_args
        old = given.get(OLD) if given else None
        if not old:
            return None
        drafter: Drafter | None = getattr(request, "vivace_drafter", None)
        if drafter is None:
            drafter = request.vivace_drafter = self.new_drafter(request, old)
            request.vivace_written = 0
        written = request.output_token_ids
        drafter.write(list(written[request.vivace_written :]))
        request.vivace_written = len(written)
        return drafter

    def new_drafter(self, request: Any, old: list[int]) -> Drafter:
        return Drafter(old)


def _sampling_breaks_drafts() -> bool:
    """Whether a step may hold drafts only if all of its requests are greedy.

    vLLM 0.32 on CPU spreads the temperatures of a step over its drafts and drops the result
    (``cpu_triton_utils``: ``_expand_kernel_impl`` fills a copy), so they are divided by whatever
    stood in that memory. Its own ways to draft suffer the same.
    """
    return bool(current_platform.is_cpu())


def _new_leniency(request: Any) -> Leniency | None:
    """Nothing is the best token where one is sampled, so those requests go without."""
    given = request.sampling_params.extra_args if _greedy(request) else None
    terms = terms_of(given) if given else None
    return Leniency(given[OLD], terms) if given and terms else None


def _greedy(request: Any) -> bool:
    asked = request.sampling_params
    return asked is not None and asked.temperature < 1e-5
