"""Loaded by vLLM in its own processes: lets a request force the text of its answer.

Also the oracle: a drafter that knows which tokens of the wanted answer are copies, and drafts
exactly those.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Any

from bench._force import force
from vivace.engines.vllm_edits import EditScheduler
from vivace.speculation.drafter import Drafter

FORCED = "bench_forced"
ORACLE = "bench_oracle"

force(lambda _, request: (request.sampling_params.extra_args or {}).get(FORCED))


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
