"""Who is next: by kind, then by what each key was given."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.scheduling.queue import KINDS, FairQueue, Job, Kind

numbers = count()


def job(owner: str = "ann", kind: Kind = "agent", cost: float = 1.0, tier: str = "fast") -> Job:
    return Job(
        id=f"j{next(numbers)}",
        owner=owner,
        tier=tier,
        kind=kind,
        place="c",
        cost=cost,
        since=0.0,
    )


def waiting(*jobs: Job) -> FairQueue:
    queue = FairQueue()
    for each in jobs:
        queue.enter(each.owner)
        queue.push(each)
    return queue


def take(queue: FairQueue) -> Job:
    """As the scheduler does: what is started is charged."""
    found = queue.pop(lambda job: True)
    assert found is not None
    queue.charge(found.owner, found.cost)
    return found


def test_interactive_work_goes_before_agents_before_background() -> None:
    late = [job(kind=kind) for kind in reversed(KINDS)]
    queue = waiting(*late)
    assert [take(queue).kind for _ in range(3)] == list(KINDS)


def test_turns_of_one_key_keep_their_order() -> None:
    jobs = [job() for _ in range(5)]
    queue = waiting(*jobs)
    assert [take(queue) for _ in range(5)] == jobs


def test_the_key_that_was_given_least_goes_first() -> None:
    greedy = [job("greedy", cost=10) for _ in range(50)]
    queue = waiting(*greedy, *(job("modest", cost=10) for _ in range(3)))
    first = [take(queue).owner for _ in range(6)]
    assert first.count("modest") == 3


def test_tokens_count_and_not_turns() -> None:
    queue = waiting(*(job("long", cost=100) for _ in range(9)), *(job("short") for _ in range(99)))
    first = [take(queue).owner for _ in range(102)]
    assert first.count("long") <= 3


def test_who_comes_back_after_a_rest_has_saved_nothing_up() -> None:
    queue = waiting(*(job("busy", cost=1) for _ in range(200)))
    for _ in range(100):
        take(queue)
    for _ in range(100):
        each = job("rested", cost=1)
        queue.enter(each.owner)
        queue.push(each)
    assert [take(queue).owner for _ in range(20)].count("rested") <= 11


def test_a_job_without_room_lets_others_pass() -> None:
    blocked, free = job(tier="deep"), job(tier="fast")
    queue = waiting(blocked, free)
    assert queue.pop(lambda each: each.tier == "fast") is free
    assert queue.pop(lambda each: each.tier == "fast") is None
    assert len(queue) == 1


def test_who_leaves_the_queue_is_not_taken() -> None:
    first, second = job(), job()
    queue = waiting(first, second)
    assert queue.remove(first)
    assert not queue.remove(first)
    assert take(queue) is second
    assert len(queue) == 0


jobs = st.lists(
    st.builds(
        job,
        st.sampled_from(["ann", "bob", "cy"]),
        st.sampled_from(KINDS),
        st.floats(0.5, 50),
        st.sampled_from(["fast", "deep"]),
    ),
    min_size=1,
    max_size=30,
)


@settings(deadline=None)
@given(jobs)
def test_the_position_told_is_the_order_taken(some: list[Job]) -> None:
    queue = waiting(*some)
    for tier in ("fast", "deep"):
        of_tier = [each for each in some if each.tier == tier]
        told = queue.places(tier)
        alone = waiting(*of_tier)
        taken = [take(alone).id for _ in of_tier]
        assert sorted(told.values()) == list(range(len(of_tier)))
        by_kind = {each.id: KINDS.index(each.kind) for each in of_tier}
        assert [by_kind[each] for each in sorted(told, key=told.__getitem__)] == [
            by_kind[each] for each in taken
        ]


@settings(deadline=None)
@given(jobs)
def test_all_are_taken_once(some: list[Job]) -> None:
    queue = waiting(*some)
    assert {take(queue).id for _ in some} == {each.id for each in some}
    assert queue.pop(lambda each: True) is None
