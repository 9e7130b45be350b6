"""Drafts of each request's own on vLLM: a scheduler that fills them in.

All that we use of vLLM's private interfaces for this stands here, for the version named in
``vllm.py``: ``Scheduler.update_draft_token_ids`` and ``Request.spec_token_ids``, and the loading of
a proposer by name, which proposes nothing. vLLM imports this module in its own processes.
"""

from __future__ import annotations

from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler

from vivace.speculation.drafter import Drafter

__all__ = ["OLD", "WIDTH", "EditScheduler", "NullProposer", "engine_arguments"]

OLD = "vivace_old"
"""Under this name a request carries the tokens that its answer will repeat."""
WIDTH = 64


def engine_arguments() -> dict[str, Any]:
    """What an engine must be started with."""
    return {
        "scheduler_cls": f"{__name__}.EditScheduler",
        "speculative_config": {
            "method": "custom_class",
            "model": f"{__name__}.NullProposer",
            "num_speculative_tokens": WIDTH,
        },
    }


class NullProposer:
    """vLLM asks it after every step; the scheduler knows better."""

    def __init__(self, config: Any) -> None:
        pass

    def load_model(self, *arguments: Any, **more: Any) -> None:
        pass

    def propose(self, sampled: list[list[int]], *arguments: Any, **more: Any) -> list[list[int]]:
        return [[] for _ in sampled]


class EditScheduler(Scheduler):  # type: ignore[misc]
    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        super().update_draft_token_ids(draft_token_ids)
        width = max(1, WIDTH // max(1, len(self.running)))
        for name in draft_token_ids.req_ids:
            request = self.requests.get(name)
            if request is None or request.is_finished() or request.is_prefill_chunk:
                continue
            drafts = _draft(request, width)
            if drafts:
                request.spec_token_ids = self.structured_output_manager.validate_tokens(
                    request, drafts
                )


def _draft(request: Any, width: int) -> list[int]:
    given = request.sampling_params.extra_args if request.sampling_params else None
    old = given.get(OLD) if given else None
    if not old:
        return []
    drafter: Drafter | None = getattr(request, "vivace_drafter", None)
    if drafter is None:
        drafter = request.vivace_drafter = Drafter(old)
        request.vivace_written = 0
    written = request.output_token_ids
    drafter.write(list(written[request.vivace_written :]))
    request.vivace_written = len(written)
    room = request.max_tokens - len(written) - 1
    return drafter.draft(min(width, room)) if room > 0 else []
