"""Names by rank, where ranks change: who is first is known at once, however many there are."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

__all__ = ["Rank", "Ranking"]

Rank = tuple[float, int]


class Ranking:
    """A heap that forgets late: a rank that was changed stays in it until it comes to the top, or
    until there are more such than others. Every change costs O(log n)."""

    __slots__ = ("_heap", "_ranks")

    def __init__(self) -> None:
        self._ranks: dict[str, Rank] = {}
        self._heap: list[tuple[Rank, str]] = []

    def __len__(self) -> int:
        return len(self._ranks)

    def put(self, name: str, rank: Rank) -> None:
        self._ranks[name] = rank
        heappush(self._heap, (rank, name))
        if len(self._heap) > 2 * len(self._ranks) + 8:
            self._heap = [(rank, name) for name, rank in self._ranks.items()]
            heapify(self._heap)

    def drop(self, name: str) -> None:
        del self._ranks[name]

    def first(self) -> tuple[Rank, str] | None:
        while self._heap:
            rank, name = self._heap[0]
            if self._ranks.get(name) == rank:
                return self._heap[0]
            heappop(self._heap)
        return None
