"""Engines that come and go: by example, then whatever may happen in any order."""

from __future__ import annotations

from itertools import count
from math import isfinite

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from tests.support.examples import examples
from vivace.errors import TooManyRequests, Unavailable
from vivace.scheduling.queue import KINDS, Job, Kind
from vivace.scheduling.scheduler import Outcome, Room, Scheduler, Started, Verdict, Waiting
from vivace.scheduling.tiers import Tier

numbers = count()


def job(tier: str = "fast", kind: Kind = "agent", place: str = "c", owner: str = "ann") -> Job:
    return Job(
        id=f"j{next(numbers)}",
        owner=owner,
        tier=tier,
        kind=kind,
        place=place,
        cost=10.0,
        since=0.0,
    )


def fast(*engines: str) -> list[Tier]:
    return [Tier(name="fast", engines=engines, grows=True)]


def begun(decided: Started | Waiting) -> Started:
    assert isinstance(decided, Started)
    return decided


# -- one that joins -------------------------------------------------------------------------------


def test_who_waits_is_given_to_the_engine_that_joins() -> None:
    one = Scheduler(fast("a"), {"a": Room(1)})
    begun(one.submit(job(), 0))
    waits = job()
    assert isinstance(one.submit(waits, 0), Waiting)
    one.join("b", Room(1), fast("a", "b"))
    assert one.fill(1) == [Started(waits, "b")]


def test_without_an_engine_new_turns_are_refused_in_words_that_say_what_is_missing() -> None:
    one = Scheduler(fast(), {})
    with pytest.raises(Unavailable, match="No engine node that offers 'fast'") as refused:
        one.submit(job(), 0)
    assert refused.value.code == "engine_unavailable"
    one.join("a", Room(1), fast("a"))
    assert begun(one.submit(job(), 0)).engine == "a"


def test_what_was_begun_waits_for_an_engine_to_come() -> None:
    one = Scheduler(fast(), {})
    lost = replace(job(), begun=True)
    waiting = one.submit(lost, 0)
    assert isinstance(waiting, Waiting)
    assert isfinite(waiting.seconds)
    assert one.is_deserted(lost, 0)
    one.join("a", Room(1), fast("a"))
    assert not one.is_deserted(lost, 0)
    assert one.fill(0) == [Started(lost, "a")]


def test_a_tier_that_none_can_join_keeps_nothing_waiting_that_was_begun() -> None:
    one = Scheduler([Tier(name="fast", engines=("a",))], {"a": Room(1)})
    one.mark("a", up=False)
    lost = replace(job(), begun=True)
    assert not one.is_deserted(lost, 0)
    with pytest.raises(Unavailable):
        one.submit(lost, 0)


def test_conversations_stay_at_home_when_others_come_and_go() -> None:
    names = ("a", "b", "c")
    one = Scheduler(fast(*names), {name: Room(8) for name in names})

    def homes() -> dict[str, str]:
        found = {}
        for number in range(60):
            each = job(place=f"conversation {number}")
            found[each.place] = begun(one.submit(each, 0)).engine
            one.finished(each, 1, Outcome(cost=1))
        return found

    before = homes()
    one.leave("c", fast("a", "b"))
    without = homes()
    assert {key: home for key, home in without.items() if before[key] != "c"} == {
        key: home for key, home in before.items() if home != "c"
    }
    one.join("c", Room(8), fast(*names))
    assert homes() == before


# -- one that leaves ------------------------------------------------------------------------------


def test_who_leaves_takes_nothing_more_and_is_forgotten_when_all_has_ended() -> None:
    one = Scheduler(fast("a", "b"), {"a": Room(2), "b": Room(1)})
    runs = [begun(one.submit(job(place=f"{number}"), 0)) for number in range(3)]
    one.leave("a", fast("b"))
    assert isinstance(one.submit(waits := job(), 0), Waiting)
    first, second = (run for run in runs if run.engine == "a")
    assert one.loads(0)["a"].running == 2
    one.mark("a", up=True)
    assert not one.loads(0)["a"].up
    assert one.finished(first.job, 1, Outcome()) == []
    assert one.loads(0)["a"].running == 1
    assert one.finished(second.job, 1, Outcome()) == []
    assert set(one.loads(0)) == {"b"}
    (other,) = (run for run in runs if run.engine == "b")
    assert one.finished(other.job, 1, Outcome()) == [Started(waits, "b")]


def test_who_comes_back_before_all_has_ended_has_only_the_room_that_is_left() -> None:
    one = Scheduler(fast("a"), {"a": Room(2)})
    old = begun(one.submit(job(), 0))
    one.leave("a", fast())
    one.join("a", Room(2), fast("a"))
    begun(one.submit(job(), 0))
    assert isinstance(one.submit(waits := job(), 0), Waiting)
    assert [run.job for run in one.finished(old.job, 1, Outcome())] == [waits]


@pytest.mark.parametrize("ended", [False, True])
def test_what_the_old_engine_failed_is_not_held_against_the_new_one(ended: bool) -> None:
    one = Scheduler(fast("a"), {"a": Room(8)})
    runs = [begun(one.submit(job(), 0)) for _ in range(4)]
    if ended:
        for run in runs[:2]:
            one.finished(run.job, 0, Outcome(verdict="later"))
    one.leave("a", fast())
    if ended:
        for run in runs[2:]:
            one.finished(run.job, 0, Outcome(verdict="later"))
        assert one.loads(0) == {}
    one.join("a", Room(8), fast("a"))
    for run in runs:
        one.finished(run.job, 0, Outcome(verdict="later"))
        one.judge(run, "bad", 0)
    assert not one.loads(0)["a"].circuit_open
    begun(one.submit(job(), 0))


def test_what_is_said_of_who_is_gone_or_was_never_here_changes_nothing() -> None:
    one = Scheduler(fast("a"), {"a": Room(1)})
    run = begun(one.submit(job(), 0))
    one.leave("a", fast())
    one.leave("a", fast())
    one.finished(run.job, 0, Outcome())
    one.judge(run, "bad", 0)
    for name in ("a", "never"):
        one.mark(name, up=True, silent=True)
        one.leave(name, fast())
        assert not one.works(name, 0)
        assert not one.is_left(name, 0)
    assert one.loads(0) == {}


# -- in any order ---------------------------------------------------------------------------------

ENGINES = {"a": Room(2, 1), "b": Room(3), "c": Room(1)}
TIERS = {"fast": ("a", "b"), "deep": ("b", "c")}
picks = st.integers(0, 1000)
VERDICTS: list[Verdict] = ["good", "good", "bad", "unknown", "later"]


class ComingAndGoing(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.here: set[str] = set()
        self.scheduler = Scheduler(self.tiers(), {})
        self.now = 0.0
        self.waiting: list[Job] = []
        self.running: dict[str, Started] = {}
        self.over: list[Started] = []

    def tiers(self) -> list[Tier]:
        return [
            Tier(
                name=name,
                engines=tuple(each for each in engines if each in self.here),
                queue=6,
                spill=name == "deep",
                grows=True,
            )
            for name, engines in TIERS.items()
        ]

    def place(self, each: Started) -> None:
        assert each.engine in self.here
        assert each.engine in TIERS[each.job.tier]
        assert each.engine not in each.job.avoid
        self.running[each.job.id] = each

    def begin(self, started: list[Started]) -> None:
        for each in started:
            self.waiting.remove(each.job)
            self.place(each)

    def submit(self, each: Job) -> None:
        try:
            decided = self.scheduler.submit(each, self.now)
        except (TooManyRequests, Unavailable):
            assert not (each.begun and self.scheduler.is_deserted(each, self.now))
            return
        if isinstance(decided, Started):
            self.place(decided)
        else:
            assert isfinite(decided.seconds)
            self.waiting.append(each)

    @rule(engine=st.sampled_from(list(ENGINES)))
    def joins(self, engine: str) -> None:
        """Also one that is here already: its node has come back before it was missed."""
        self.here.add(engine)
        self.scheduler.join(engine, ENGINES[engine], self.tiers())
        self.begin(self.scheduler.fill(self.now))

    @rule(engine=st.sampled_from(list(ENGINES)))
    def leaves(self, engine: str) -> None:
        self.here.discard(engine)
        self.scheduler.leave(engine, self.tiers())
        self.begin(self.scheduler.fill(self.now))

    @rule(
        owner=st.sampled_from("xyz"),
        kind=st.sampled_from(KINDS),
        tier=st.sampled_from(list(TIERS)),
        place=st.sampled_from("12345"),
    )
    def comes(self, owner: str, kind: Kind, tier: str, place: str) -> None:
        self.submit(job(tier, kind, place, owner))

    def end(self, pick: int, outcome: Outcome) -> Started:
        run = self.running.pop(list(self.running)[pick % len(self.running)])
        self.over.append(run)
        self.begin(self.scheduler.finished(run.job, self.now, outcome))
        return run

    @precondition(lambda self: self.running)
    @rule(pick=picks, verdict=st.sampled_from(VERDICTS))
    def finishes(self, pick: int, verdict: Verdict) -> None:
        self.end(pick, Outcome(cost=5.0, verdict=verdict))

    @precondition(lambda self: self.running)
    @rule(pick=picks, avoids=st.booleans())
    def goes_on_elsewhere(self, pick: int, avoids: bool) -> None:
        run = self.end(pick, Outcome(verdict="bad"))
        avoid = run.job.avoid | {run.engine} if avoids else frozenset()
        self.submit(replace(run.job, avoid=avoid, begun=True))

    @precondition(lambda self: self.over)
    @rule(pick=picks, verdict=st.sampled_from(VERDICTS))
    def is_judged_late(self, pick: int, verdict: Verdict) -> None:
        self.scheduler.judge(self.over[pick % len(self.over)], verdict, self.now)

    @precondition(lambda self: self.waiting)
    @rule(pick=picks)
    def gives_up(self, pick: int) -> None:
        self.scheduler.withdraw(self.waiting.pop(pick % len(self.waiting)))

    @rule(engine=st.sampled_from(list(ENGINES)), up=st.booleans(), silent=st.booleans())
    def changes_health(self, engine: str, up: bool, silent: bool) -> None:
        self.scheduler.mark(engine, up=up, silent=silent)
        self.begin(self.scheduler.fill(self.now))

    @rule(seconds=st.floats(0.01, 30))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.begin(self.scheduler.fill(self.now))
        for each in self.waiting:
            assert isfinite(self.scheduler.waiting(each, self.now).seconds)

    @invariant()
    def an_engine_is_known_while_it_is_here_or_has_work(self) -> None:
        loads = self.scheduler.loads(self.now)
        assert set(loads) == self.here | {run.engine for run in self.running.values()}
        for name, load in loads.items():
            here = [run.job for run in self.running.values() if run.engine == name]
            assert load.running == len(here) <= load.slots
            patient = [each for each in here if each.kind != "interactive"]
            assert len(patient) <= ENGINES[name].slots - ENGINES[name].reserved

    @invariant()
    def who_waits_is_counted(self) -> None:
        assert sum(self.scheduler.lengths().values()) == len(self.waiting)

    def teardown(self) -> None:
        """Once all engines are here, everyone who waited has run."""
        for name in ENGINES:
            self.joins(name)
        for _ in range(1000):
            if not self.running and all(map(self.is_hopeless, self.waiting)):
                break
            self.now += 91
            self.begin(self.scheduler.fill(self.now))
            while self.running:
                self.end(0, Outcome(cost=1.0))
        assert all(map(self.is_hopeless, self.waiting))

    def is_hopeless(self, each: Job) -> bool:
        """Every engine of its tier has failed it."""
        return set(TIERS[each.tier]) <= each.avoid


TestComingAndGoing = ComingAndGoing.TestCase
TestComingAndGoing.settings = settings(
    deadline=None, max_examples=examples(100), stateful_step_count=50
)
