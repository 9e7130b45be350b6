"""Who is next: by kind, then by what each key was given."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from tests.support.examples import examples
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


def test_owners_that_are_away_are_forgotten_where_there_are_many() -> None:
    queue = FairQueue()
    queue.enter("stays")
    queue.charge("stays", 5.0)
    for number in range(30_000):
        owner = f"owner {number}"
        queue.enter(owner)
        queue.charge(owner, 100.0)
        queue.leave(owner)
    assert len(queue._served) <= 10_001
    queue.push(job("stays"))
    queue.enter("comes")
    assert queue._served["comes"] == 5.0


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
        alone = waiting(*of_tier)
        taken = [take(alone).id for _ in of_tier]
        assert queue.places(tier, 1000) == {each: place for place, each in enumerate(taken)}
        assert queue.places(tier, 2) == {each: place for place, each in enumerate(taken[:2])}


@settings(deadline=None)
@given(jobs)
def test_all_are_taken_once(some: list[Job]) -> None:
    queue = waiting(*some)
    assert {take(queue).id for _ in some} == {each.id for each in some}
    assert queue.pop(lambda each: True) is None


# -- how many are ahead, by counts alone ----------------------------------------------------------


def test_those_of_ones_own_and_those_more_urgent_are_counted_exactly() -> None:
    queue = waiting(*(job() for _ in range(3)), job(kind="interactive"), job(kind="background"))
    assert queue.ahead(job()) == 4
    assert queue.ahead(job(kind="interactive")) == 1
    assert queue.ahead(job(tier="deep")) == 0


def test_one_greedy_key_is_not_ahead_of_others_with_all_it_asked_for() -> None:
    queue = waiting(*(job("greedy") for _ in range(500)))
    assert queue.ahead(job("modest")) == 1
    assert queue.ahead(job("greedy")) == 500


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcd"), max_size=40), st.sampled_from("abcde"))
def test_with_equal_turns_the_guess_is_right_to_a_round(others: list[str], owner: str) -> None:
    queue = waiting(*(job(each) for each in others))
    late = job(owner)
    guess = queue.ahead(late)
    queue.enter(owner)
    queue.push(late)
    assert queue.ahead(late) == guess
    real = queue.places("fast", 1000)[late.id]
    assert real <= guess <= real + len(set(others) - {owner}) * (1 + others.count(owner))


# -- against the rule itself, written plainly -----------------------------------------------------


class Plain(RuleBasedStateMachine):
    """Whatever comes, leaves, is charged or taken: next is the most urgent, of these that of the
    least served owner, and of these the first that came."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue()
        self.waiting: list[Job] = []
        self.served: dict[str, float] = {}
        self.here: list[str] = []

    @rule(
        owner=st.sampled_from("abcd"),
        kind=st.sampled_from(KINDS),
        tier=st.sampled_from(["fast", "deep"]),
        avoid=st.sampled_from([frozenset[str](), frozenset({"e"})]),
        cost=st.integers(1, 9),
    )
    def comes(self, owner: str, kind: Kind, tier: str, avoid: frozenset[str], cost: int) -> None:
        each = replace(job(owner, kind, float(cost), tier), avoid=avoid)
        if owner not in self.here:
            floor = min((self.served[other] for other in self.here), default=0.0)
            self.served[owner] = max(self.served.get(owner, 0.0), floor)
        self.here.append(owner)
        self.waiting.append(each)
        self.queue.enter(owner)
        self.queue.push(each)

    @precondition(lambda self: self.waiting)
    @rule(pick=st.integers(0, 99))
    def gives_up(self, pick: int) -> None:
        each = self.waiting.pop(pick % len(self.waiting))
        assert self.queue.remove(each)
        assert not self.queue.remove(each)
        self.leaves(each.owner)

    @rule(roomy=st.sets(st.tuples(st.sampled_from(["fast", "deep"]), st.booleans()), min_size=1))
    def is_taken(self, roomy: set[tuple[str, bool]]) -> None:
        def fits(each: Job) -> bool:
            return (each.tier, bool(each.avoid)) in roomy

        able = [each for each in self.waiting if fits(each)]
        wanted = min(
            able, key=lambda each: (KINDS.index(each.kind), self.served[each.owner]), default=None
        )
        taken = self.queue.pop(fits)
        assert taken is wanted
        if taken is not None:
            self.waiting.remove(taken)
            self.served[taken.owner] += taken.cost
            self.queue.charge(taken.owner, taken.cost)

    @precondition(lambda self: self.here)
    @rule(pick=st.integers(0, 99), cost=st.integers(-9, 9))
    def is_settled(self, pick: int, cost: int) -> None:
        owner = self.here[pick % len(self.here)]
        self.served[owner] += cost
        self.queue.charge(owner, cost)

    @rule(owner=st.sampled_from("abcd"))
    def ends(self, owner: str) -> None:
        if self.here.count(owner) > sum(each.owner == owner for each in self.waiting):
            self.leaves(owner)

    def leaves(self, owner: str) -> None:
        self.here.remove(owner)
        self.queue.leave(owner)
        if not self.here:
            self.served.clear()

    @invariant()
    def all_are_counted(self) -> None:
        assert len(self.queue) == len(self.waiting)
        for tier in ("fast", "deep"):
            for kind in KINDS:
                here = [each for each in self.waiting if (each.tier, each.kind) == (tier, kind)]
                assert self.queue.count(tier, kind) == len(here)


TestAgainstTheRule = Plain.TestCase
TestAgainstTheRule.settings = settings(
    deadline=None, max_examples=examples(200), stateful_step_count=40
)
