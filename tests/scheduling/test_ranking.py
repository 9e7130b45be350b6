"""Who is first, whatever changes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.scheduling.ranking import Rank, Ranking

ranks = st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.integers(0, 3))
changes = st.lists(st.tuples(st.sampled_from("abcde"), st.none() | ranks), max_size=60)


@settings(deadline=None)
@given(changes)
def test_the_first_is_the_smallest_after_any_changes(some: list[tuple[str, Rank | None]]) -> None:
    ranking, wanted = Ranking(), dict[str, Rank]()
    for name, rank in some:
        if rank is not None:
            ranking.put(name, rank)
            wanted[name] = rank
        elif name in wanted:
            ranking.drop(name)
            del wanted[name]
        least = min(((rank, name) for name, rank in wanted.items()), default=None)
        assert ranking.first() == least
        assert len(ranking) == len(wanted)


def test_ranks_that_were_changed_take_no_room() -> None:
    ranking = Ranking()
    for number in range(10_000):
        ranking.put("abc"[number % 3], (float(number), 0))
    assert len(ranking._heap) < 20
    assert ranking.first() == ((9997.0, 0), "b")
