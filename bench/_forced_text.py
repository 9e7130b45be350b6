"""Loaded by vLLM in its own processes: lets a request force the text of its answer.

The model computes every step as ever; then, before a token is chosen, the one that the request
wants is lifted above all others. Drafts are accepted or refused against that. Also the oracle:
a drafter that knows which tokens of the wanted answer are copies, and drafts exactly those.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from vllm.v1.worker.gpu_model_runner import GPUModelRunner

from vivace.engines.vllm_edits import EditScheduler
from vivace.speculation.drafter import Drafter

FORCED = "bench_forced"
ORACLE = "bench_oracle"
_LIFT = 1e4

_sample = GPUModelRunner._sample  # noqa: SLF001


def _sample_forced(self: Any, logits: Any, metadata: Any) -> Any:
    if logits is not None:
        row = 0
        for place, name in enumerate(self.input_batch.req_ids):
            drafted = metadata.num_draft_tokens[place] if metadata is not None else 0
            request = self.requests[name]
            wanted = (request.sampling_params.extra_args or {}).get(FORCED)
            if wanted:
                done = len(request.output_token_ids)
                for offset, token in enumerate(wanted[done : done + drafted + 1]):
                    logits[row + offset, token] += _LIFT
            row += drafted + 1
    return _sample(self, logits, metadata)


GPUModelRunner._sample = _sample_forced  # noqa: SLF001


class Extension:
    """Nothing: naming it is what makes vLLM load this module."""


class Oracle(Drafter):
    """Copied tokens whole, new tokens one by one."""

    def __init__(self, old: list[int], new: list[int]) -> None:
        super().__init__(old)
        self._new = new
        self._done = 0
        self._copied_until = [0] * (len(new) + 1)
        matcher = SequenceMatcher(None, old, new, autojunk=False)
        for block in matcher.get_matching_blocks():
            for place in range(block.b, block.b + block.size):
                self._copied_until[place] = block.b + block.size

    def write(self, tokens: Any) -> None:
        self._done += len(list(tokens))

    def chance(self) -> float:
        return 0.995

    def draft(self, most: int) -> list[int]:
        end = self._copied_until[min(self._done, len(self._new))]
        return self._new[self._done : min(end, self._done + most)]


class BenchScheduler(EditScheduler):
    def new_drafter(self, request: Any, old: list[int]) -> Drafter:
        extra = request.sampling_params.extra_args
        return (
            Oracle(old, extra[FORCED]) if extra.get(ORACLE) else super().new_drafter(request, old)
        )
