"""When a turn runs and where: by example, then whatever may happen in any order."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from math import log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from tests.support.examples import examples
from vivace.errors import TooManyRequests, Unavailable
from vivace.scheduling.queue import KINDS, Job, Kind
from vivace.scheduling.scheduler import Outcome, Room, Scheduler, Started, Verdict, Waiting
from vivace.scheduling.tiers import Tier

numbers = count()


def job(owner: str = "ann", kind: Kind = "agent", place: str = "c", tier: str = "fast") -> Job:
    return Job(
        id=f"j{next(numbers)}",
        owner=owner,
        tier=tier,
        kind=kind,
        place=place,
        cost=10.0,
        since=0.0,
    )


def scheduler(room: Room | None = None, **tier: Any) -> Scheduler:
    fast = Tier(name="fast", engines=("one",), **tier)
    return Scheduler([fast], {"one": room or Room(2)})


def started(decided: Started | Waiting) -> str:
    assert isinstance(decided, Started)
    return decided.engine


def test_it_starts_at_once_while_there_is_room() -> None:
    one = scheduler()
    assert started(one.submit(job(), 0)) == "one"
    assert started(one.submit(job(), 0)) == "one"
    assert one.submit(job(), 0) == Waiting(1, 0.0)


def test_the_next_starts_when_one_has_finished() -> None:
    one = scheduler(Room(1))
    first, second = job(), job()
    one.submit(first, 0)
    one.submit(second, 0)
    assert one.finished(first, 1, Outcome(cost=10)) == [Started(second, "one")]
    assert one.finished(first, 1, Outcome(cost=10)) == []


def test_a_reserved_slot_is_for_interactive_work_only() -> None:
    one = scheduler(Room(2, 1))
    assert isinstance(one.submit(job(), 0), Started)
    assert isinstance(one.submit(job(kind="background"), 0), Waiting)
    assert isinstance(one.submit(job(kind="interactive"), 0), Started)
    assert isinstance(one.submit(job(kind="interactive"), 0), Waiting)


def test_interactive_work_may_use_every_slot() -> None:
    one = scheduler(Room(2, 1))
    assert isinstance(one.submit(job(kind="interactive"), 0), Started)
    assert isinstance(one.submit(job(kind="interactive"), 0), Started)
    assert isinstance(one.submit(job(), 0), Waiting)


def test_a_full_queue_refuses_with_the_time_to_come_back() -> None:
    one = scheduler(Room(1), queue=1)
    one.submit(job(), 0)
    one.submit(job(), 0)
    with pytest.raises(TooManyRequests) as refused:
        one.submit(job(), 0)
    assert refused.value.code == "queue_full"
    assert refused.value.retry_after is not None
    assert one.lengths()["fast", "agent"] == 1


def test_a_queue_that_one_key_has_filled_is_open_to_others_for_their_share() -> None:
    one = scheduler(Room(1), queue=8)
    for _ in range(9):
        one.submit(job("greedy"), 0)
    with pytest.raises(TooManyRequests):
        one.submit(job("greedy"), 0)
    for _ in range(4):
        assert isinstance(one.submit(job("modest"), 0), Waiting)
    with pytest.raises(TooManyRequests):
        one.submit(job("modest"), 0)


def test_however_many_keys_there_are_a_queue_is_full_some_time() -> None:
    one, taken = scheduler(Room(1), queue=16), 0
    for number in range(2000):
        with suppress(TooManyRequests):
            one.submit(job(f"key {number % 100}"), 0)
            taken += 1
    assert 16 <= taken - 1 <= 16 * (1 + log(16))


def test_what_would_begin_too_late_is_refused_early() -> None:
    one = scheduler(Room(1), first_token=3.0)
    for _ in range(10):
        each = job()
        one.submit(each, 0)
        one.finished(each, 2, Outcome(cost=10))
    one.submit(job(), 10)
    assert one.submit(job(), 10) == Waiting(1, 2.0)
    with pytest.raises(TooManyRequests) as refused:
        one.submit(job(), 10)
    assert refused.value.code == "would_wait_too_long"
    assert refused.value.retry_after == 1.0


def lasting(one: Scheduler, kind: Kind, seconds: float) -> None:
    """Some turns of this kind took so long."""
    for _ in range(10):
        each = job(kind=kind)
        one.submit(each, 0)
        one.finished(each, seconds, Outcome(cost=10))


def test_how_long_one_waits_is_foretold_from_turns_of_ones_own_kind() -> None:
    one = scheduler(Room(2, 1))
    lasting(one, "interactive", 1)
    lasting(one, "agent", 30)
    for kind in ("agent", "interactive"):
        assert isinstance(one.submit(job(kind=kind), 50), Started)
    assert one.submit(job(kind="agent"), 50) == Waiting(1, 30.0)
    assert one.submit(job(kind="background"), 50) == Waiting(2, 60.0)
    assert one.submit(job(kind="interactive"), 50) == Waiting(1, 1.0)


def test_work_that_may_not_use_a_reserved_slot_does_not_wait_for_who_has_it() -> None:
    """An interactive turn ends soon, and makes no room for the others."""
    one = scheduler(Room(2, 1))
    lasting(one, "agent", 30)
    one.submit(job(kind="agent"), 50)
    one.submit(job(kind="interactive"), 79)
    waiting = one.submit(job(kind="agent"), 80)
    assert isinstance(waiting, Waiting)
    assert waiting.seconds == pytest.approx(30, abs=1)


def test_interactive_work_leaves_the_rest_its_slots() -> None:
    one = scheduler(Room(4, 2))
    for _ in range(2):
        assert isinstance(one.submit(job(kind="interactive"), 0), Started)
    for _ in range(2):
        assert isinstance(one.submit(job(kind="agent"), 0), Started)
    assert isinstance(one.submit(job(kind="agent"), 0), Waiting)


def test_who_waits_is_told_its_place_as_it_moves_up() -> None:
    one = scheduler(Room(1))
    first, second, third = job(), job(), job()
    for each in (first, second, third):
        one.submit(each, 0)
    assert one.waiting(third, 0).position == 2
    one.finished(first, 10, Outcome(cost=10))
    assert one.waiting(third, 10).position == 1


def test_where_there_is_room_nobody_has_to_wait() -> None:
    one = scheduler(Room(1))
    running, waits = job(), job()
    one.submit(running, 0)
    one.submit(waits, 0)
    assert [run.job for run in one.finished(running, 30, Outcome(cost=10))] == [waits]
    one.finished(waits, 60, Outcome(cost=10))
    assert one.waiting(job(), 100) == Waiting(1, 0.0)


def test_without_an_engine_it_says_so() -> None:
    one = scheduler()
    one.mark("one", up=False)
    with pytest.raises(Unavailable) as refused:
        one.submit(job(), 0)
    assert refused.value.code == "engine_unavailable"
    assert refused.value.retry_after == 1


def test_an_engine_that_is_only_silent_takes_turns_where_no_other_does() -> None:
    tiers = [Tier(name="fast", engines=("a", "b")), Tier(name="deep", engines=("a",))]
    one = Scheduler(tiers, {"a": Room(8), "b": Room(1)})
    one.mark("a", up=True, silent=True)
    assert one.is_left("a", 0)
    assert started(one.submit(job(tier="deep"), 0)) == "a"
    assert started(one.submit(job(tier="fast"), 0)) == "b"
    waits = job(tier="fast")
    assert isinstance(one.submit(waits, 0), Waiting)
    one.mark("b", up=False)
    assert not one.is_left("a", 0)
    assert [run.engine for run in one.fill(0)] == ["a"]


def test_a_conversation_stays_where_its_cache_is() -> None:
    tier = Tier(name="fast", engines=("a", "b", "c", "d"))
    one = Scheduler([tier], {name: Room(8) for name in tier.engines})
    for conversation in range(20):
        homes = set()
        for _ in range(5):
            each = job(place=f"conversation {conversation}")
            homes.add(started(one.submit(each, 0)))
            one.finished(each, 1, Outcome(cost=1))
        assert len(homes) == 1


def test_the_conversations_of_an_engine_that_is_gone_move_and_come_back() -> None:
    tier = Tier(name="fast", engines=("a", "b"))
    one = Scheduler([tier], {name: Room(8) for name in tier.engines})

    def home() -> str:
        each = job(place="x")
        engine = started(one.submit(each, 0))
        one.finished(each, 1, Outcome(cost=1))
        return engine

    first = home()
    one.mark(first, up=False)
    assert home() != first
    one.mark(first, up=True)
    assert home() == first


def test_an_engine_that_keeps_failing_is_left_alone_for_a_while() -> None:
    tier = Tier(name="fast", engines=("a", "b"))
    one = Scheduler([tier], {name: Room(8) for name in tier.engines})
    bad = started(one.submit(probe := job(place="x"), 0))
    one.finished(probe, 0, Outcome(cost=1, verdict="bad"))
    for _ in range(2):
        one.submit(again := job(place="x"), 0)
        one.finished(again, 0, Outcome(cost=1, verdict="bad"))
    assert started(one.submit(job(place="x"), 1)) != bad


def pair() -> Scheduler:
    return Scheduler(
        [Tier(name="fast", engines=("a", "b"), queue=4)], {name: Room(1) for name in "ab"}
    )


def begun(decided: Started | Waiting) -> Started:
    assert isinstance(decided, Started)
    return decided


def test_a_turn_goes_to_none_of_the_engines_that_failed_it() -> None:
    one = pair()
    first = begun(one.submit(tried := job(), 0))
    one.finished(tried, 0, Outcome(verdict="bad"))
    second = begun(one.submit(replace(tried, avoid=frozenset({first.engine})), 0))
    assert second.engine != first.engine
    third = replace(tried, id="third", avoid=frozenset({second.engine}))
    assert begun(one.submit(third, 0)).engine == first.engine


def test_a_turn_waits_for_an_engine_that_has_not_failed_it_and_holds_nobody_up() -> None:
    one = pair()
    running = begun(one.submit(job(), 0))
    failed = job()
    begun(one.submit(failed, 0))
    one.finished(failed, 0, Outcome(verdict="later"))
    again = replace(failed, avoid=frozenset("ab") - {running.engine})
    assert isinstance(one.submit(again, 0), Waiting)
    assert begun(one.submit(job(), 0)).engine != running.engine
    assert [each.job for each in one.finished(running.job, 1, Outcome())] == [again]


def test_a_turn_that_every_engine_has_failed_is_not_kept_waiting() -> None:
    with pytest.raises(Unavailable):
        pair().submit(replace(job(), avoid=frozenset("ab")), 0)


def test_an_engine_that_wants_to_be_left_alone_gets_nothing_for_so_long() -> None:
    one = scheduler()
    one.submit(busy := job(), 0)
    one.finished(busy, 0, Outcome(verdict="unknown", rest=20))
    assert one.submit(job(), 1) == Waiting(1, 19.0)
    assert one.fill(19.9) == []
    assert [one.loads(now)["one"].circuit_open for now in (19.9, 20)] == [True, False]
    assert len(one.fill(20)) == 1


def test_nobody_is_kept_waiting_for_engines_that_rest_for_long() -> None:
    one = scheduler()
    one.submit(busy := job(), 0)
    one.finished(busy, 0, Outcome(verdict="unknown", rest=3600))
    with pytest.raises(Unavailable, match="in 3599 s") as refused:
        one.submit(job(), 1)
    assert refused.value.retry_after == 3599
    assert one.lengths()["fast", "agent"] == 0


def test_what_another_engine_could_do_counts_against_the_one_that_could_not() -> None:
    one = pair()
    home = begun(one.submit(first := job(), 0)).engine
    one.finished(first, 0, Outcome())
    for _ in range(3):
        run = begun(one.submit(each := job(), 0))
        assert run.engine == home
        one.finished(each, 0, Outcome(verdict="later"))
        one.judge(run, "bad", 0)
    assert begun(one.submit(job(), 0)).engine != home


@pytest.mark.parametrize("kind", KINDS)
def test_conversations_leave_an_engine_that_has_become_slow(kind: Kind) -> None:
    tier = Tier(name="fast", engines=("a", "b"), first_token=0.5)
    one = Scheduler([tier], {name: Room(30) for name in tier.engines})

    def share_of(name: str) -> int:
        jobs = [job(kind=kind, place=f"{number}") for number in range(30)]
        places = [started(one.submit(each, 0)) for each in jobs]
        for each, place in zip(jobs, places, strict=True):
            one.finished(each, 1, Outcome(cost=1, first_token=9.0 if place == "a" else 0.1))
        return places.count(name)

    before = share_of("a")
    assert share_of("a") < before


def test_spilling_over_fills_the_first_before_the_second() -> None:
    tier = Tier(name="fast", engines=("own", "rented"), spill=True)
    one = Scheduler([tier], {"own": Room(2), "rented": Room(2)})
    places = [started(one.submit(job(place=f"{n}"), 0)) for n in range(4)]
    assert places == ["own", "own", "rented", "rented"]


def test_two_tiers_share_an_engine_and_not_each_others_queue() -> None:
    tiers = [Tier(name=name, engines=("one",), queue=1) for name in ("fast", "deep")]
    one = Scheduler(tiers, {"one": Room(1)})
    one.submit(job(tier="deep"), 0)
    one.submit(job(tier="deep"), 0)
    with pytest.raises(TooManyRequests):
        one.submit(job(tier="deep"), 0)
    assert isinstance(one.submit(job(tier="fast"), 0), Waiting)


# -- in any order ---------------------------------------------------------------------------------

ENGINES = {"a": Room(2, 1), "b": Room(3), "c": Room(1)}
TIERS = [
    Tier(name="fast", engines=("a", "b"), queue=6),
    Tier(name="deep", engines=("b", "c"), queue=6, spill=True),
]
picks = st.integers(0, 1000)
VERDICTS: list[Verdict] = ["good", "good", "good", "bad", "unknown"]


class Traffic(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(TIERS, ENGINES)
        self.now = 0.0
        self.waiting: list[Job] = []
        self.running: dict[str, tuple[Job, str]] = {}
        self.runs: dict[str, Started] = {}
        self.up = dict.fromkeys(ENGINES, True)
        self.silent = dict.fromkeys(ENGINES, False)

    def begin(self, started: list[Started]) -> None:
        for each in started:
            assert each.job in self.waiting
            self.waiting.remove(each.job)
            self.place(each)

    def place(self, each: Started) -> None:
        tier = next(tier for tier in TIERS if tier.name == each.job.tier)
        assert each.engine in tier.engines
        assert self.up[each.engine]
        assert each.engine not in each.job.avoid
        if self.silent[each.engine]:
            others = set(tier.engines) - each.job.avoid
            assert not any(self.scheduler.works(name, self.now) for name in others)
        self.runs[each.job.id] = each
        self.running[each.job.id] = (each.job, each.engine)

    @rule(
        owner=st.sampled_from("xyz"),
        kind=st.sampled_from(KINDS),
        tier=st.sampled_from(["fast", "deep"]),
        place=st.sampled_from("12345"),
    )
    def comes(self, owner: str, kind: Kind, tier: str, place: str) -> None:
        self.submit(job(owner, kind, place, tier))

    def submit(self, each: Job) -> None:
        try:
            decided = self.scheduler.submit(each, self.now)
        except (TooManyRequests, Unavailable):
            return
        if isinstance(decided, Started):
            self.place(decided)
        else:
            assert decided.position >= 1
            assert decided.seconds >= 0
            self.waiting.append(each)

    @precondition(lambda self: self.running)
    @rule(pick=picks, verdict=st.sampled_from(VERDICTS))
    def finishes(self, pick: int, verdict: Verdict) -> None:
        identifier = list(self.running)[pick % len(self.running)]
        each, _ = self.running.pop(identifier)
        self.begin(self.scheduler.finished(each, self.now, Outcome(cost=5.0, verdict=verdict)))

    @precondition(lambda self: self.running)
    @rule(pick=picks, seconds=st.sampled_from([None, 5.0, 90.0]), could=st.booleans())
    def is_tried_elsewhere(self, pick: int, seconds: float | None, could: bool) -> None:
        identifier = list(self.running)[pick % len(self.running)]
        run = self.runs[identifier]
        each, engine = self.running.pop(identifier)
        outcome = Outcome(verdict="later", rest=seconds)
        self.begin(self.scheduler.finished(each, self.now, outcome))
        self.submit(replace(each, avoid=each.avoid | {engine}))
        self.scheduler.judge(run, "bad" if could else "unknown", self.now)

    @precondition(lambda self: self.waiting)
    @rule(pick=picks)
    def gives_up(self, pick: int) -> None:
        self.scheduler.withdraw(self.waiting.pop(pick % len(self.waiting)))

    @rule(engine=st.sampled_from(list(ENGINES)), up=st.booleans(), silent=st.booleans())
    def changes_health(self, engine: str, up: bool, silent: bool) -> None:
        self.up[engine], self.silent[engine] = up, silent
        self.scheduler.mark(engine, up=up, silent=silent)
        self.begin(self.scheduler.fill(self.now))

    @rule(seconds=st.floats(0.01, 30))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.begin(self.scheduler.fill(self.now))

    @invariant()
    def no_engine_has_more_than_its_slots(self) -> None:
        for name, room in ENGINES.items():
            here = [each for each, engine in self.running.values() if engine == name]
            assert len(here) <= room.slots
            patient = [each for each in here if each.kind != "interactive"]
            assert len(patient) <= room.slots - room.reserved
            assert self.scheduler.loads(self.now)[name].running == len(here)

    @invariant()
    def who_waits_is_counted(self) -> None:
        assert sum(self.scheduler.lengths().values()) == len(self.waiting)

    def teardown(self) -> None:
        """Once engines are up and turns end, everyone who waited has run."""
        for name in ENGINES:
            self.changes_health(name, up=True, silent=False)
        for _ in range(1000):
            if not self.waiting and not self.running:
                break
            self.now += 91
            self.begin(self.scheduler.fill(self.now))
            for identifier in list(self.running):
                each, _ = self.running.pop(identifier)
                self.begin(self.scheduler.finished(each, self.now, Outcome(cost=1.0)))
        assert not self.waiting


TestAnyTraffic = Traffic.TestCase
TestAnyTraffic.settings = settings(
    deadline=None, max_examples=examples(100), stateful_step_count=50
)


# -- engines with a queue of their own ------------------------------------------------------------


def nodes(queue: int = 4, **slots: int) -> Scheduler:
    rooms = {name: Room(count, queues=True) for name, count in slots.items()}
    return Scheduler([Tier(name="fast", engines=tuple(slots), queue=queue)], rooms)


def test_where_no_engine_has_room_one_waits_at_home_and_that_is_known() -> None:
    two = nodes(a=1, b=1)
    home = begun(two.submit(job(), 0))
    other = begun(two.submit(job(), 0))
    assert {home.engine, other.engine} == {"a", "b"}
    assert [home.waits, other.waits] == [False, False]
    third = begun(two.submit(job(), 0))
    assert third.waits
    assert third.engine == home.engine


def test_one_that_home_is_too_full_for_goes_where_the_least_is_to_do() -> None:
    three = nodes(a=1, b=2, c=2)
    for engine, taken in (("a", 9), ("b", 8), ("c", 6)):
        three.tell(engine, taken)
    for home in "ab":
        assert begun(three.submit(replace(job(), avoid=frozenset(home)), 0)).engine == "c"


@given(st.lists(st.integers(1, 64), min_size=1, max_size=8), st.integers(1, 300))
def test_engines_share_a_tiers_queue_by_their_slots(slots: list[int], queue: int) -> None:
    names = {f"node {number}": count for number, count in enumerate(slots)}
    some = nodes(queue, **names)
    shares = {name: some.share("fast", name, 0) for name in names}
    assert all(share >= 1 for share in shares.values())
    assert queue <= sum(shares.values()) < queue + len(shares)
    for name, share in shares.items():
        assert share - 1 < queue * names[name] / sum(slots) <= share


def test_an_engine_that_takes_nothing_leaves_its_share_to_the_others() -> None:
    two = nodes(a=1, b=1)
    assert two.share("fast", "a", 0) == 2
    two.mark("b", up=False)
    assert two.share("fast", "a", 0) == 4
    assert two.share("fast", "b", 0) == 2  # one that is asked all the same


def test_what_is_asked_next_has_the_bounds_that_were_offered_with_it() -> None:
    one = scheduler(Room(1), queue=1)
    for _ in range(2):
        one.submit(job(), 0)
    with pytest.raises(TooManyRequests):
        one.submit(job(), 0)
    one.offer(Tier(name="fast", engines=("one",), queue=2))
    assert one.submit(job(), 0) == Waiting(2, 0.0)
