"""Which rank of a data-parallel vLLM a conversation goes to.

Each has a prefix cache of its own, and vLLM's balancing looks at queues alone: a conversation that
changes the rank is read again from its beginning.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from vivace.engines.base import Work
from vivace.scheduling.placement import rank

__all__ = ["Ranks", "ranks_of"]


class Ranks:
    def __init__(self, count: int, slots: int) -> None:
        """``slots``: how many answers each works on at once."""
        self._running = [0] * count
        self._slots = slots

    @contextlib.contextmanager
    def chosen(self, work: Work) -> Iterator[dict[str, int]]:
        """What vLLM is told; nothing where it has no choice, or nobody knows better. The rank
        counts one more inside."""
        if len(self._running) < 2 or not work.conversation:
            yield {}
            return
        chosen = rank(work.conversation, self._running, self._slots)
        self._running[chosen] += 1
        try:
            yield {"data_parallel_rank": chosen}
        finally:
            self._running[chosen] -= 1


def ranks_of(config: Any) -> Ranks:
    """Of an engine with this configuration of vLLM's. Where others balance between the ranks, it
    has those of this host."""
    parallel = config.parallel_config
    local = parallel.local_engines_only
    count = parallel.data_parallel_size_local if local else parallel.data_parallel_size
    return Ranks(max(1, count), config.scheduler_config.max_num_seqs)
