"""Where conversations run: first by example, then whatever may happen in any order."""

from __future__ import annotations

from collections import Counter
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from tests.support.examples import examples
from vivace.scheduling.placement import Breaker, Placed, Replica, Ring, Why, place, rank

KEYS = [f"conversation {number}" for number in range(2000)]

keys = st.text(max_size=8)
pools = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 8), min_size=2)
whys: st.SearchStrategy[Why] = st.sampled_from(["full", "down"])


def idle(pool: dict[str, int]) -> dict[str, Replica]:
    return {name: Replica(name, slots) for name, slots in pool.items()}


def put(key: str, replicas: dict[str, Replica]) -> Placed | None:
    return place(key, list(replicas.values()))


# -- the ring -------------------------------------------------------------------------------------


def test_every_process_and_every_release_agrees() -> None:
    """A change of these orders would send every conversation away from its cache."""
    ring = Ring({"a": 4, "b": 4, "c": 4})
    assert ["".join(ring.order(key)) for key in KEYS[:4]] == ["bca", "bac", "acb", "acb"]


@settings(deadline=None)
@given(keys, pools)
def test_the_order_names_every_replica_once_however_they_are_listed(
    key: str, pool: dict[str, int]
) -> None:
    order = Ring(pool).order(key)
    assert sorted(order) == sorted(pool)
    assert Ring(dict(reversed(pool.items()))).order(key) == order


@settings(deadline=None)
@given(keys, pools, st.data())
def test_a_replica_that_goes_moves_only_its_own_keys(
    key: str, pool: dict[str, int], data: st.DataObject
) -> None:
    gone = data.draw(st.sampled_from(sorted(pool)))
    left = {name: slots for name, slots in pool.items() if name != gone}
    assert Ring(left).order(key) == [name for name in Ring(pool).order(key) if name != gone]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_a_replica_that_comes_takes_its_part_of_the_keys_and_no_other_moves(count: int) -> None:
    before = Ring({f"gpu{number}": 4 for number in range(count)})
    after = Ring({f"gpu{number}": 4 for number in range(count + 1)})
    moved = [key for key in KEYS if before.order(key)[0] != after.order(key)[0]]
    assert {after.order(key)[0] for key in moved} == {f"gpu{count}"}
    assert len(moved) / len(KEYS) == pytest.approx(1 / (count + 1), abs=0.04)


def test_keys_are_shared_out_by_slots() -> None:
    ring = Ring({"small": 1, "large": 3, "none": 0})
    homes = Counter(ring.order(key)[0] for key in KEYS)
    assert homes["large"] / len(KEYS) == pytest.approx(3 / 4, abs=0.04)
    assert homes["none"] == 0


# -- placing --------------------------------------------------------------------------------------


@settings(deadline=None)
@given(keys, pools)
def test_a_conversation_stays_at_home_turn_after_turn(key: str, pool: dict[str, int]) -> None:
    home = Ring(pool).order(key)[0]
    assert put(key, idle(pool)) == put(key, idle(pool)) == Placed(home, "home")


@settings(deadline=None)
@given(keys, pools, whys)
def test_it_goes_to_the_next_in_its_order_and_home_again_when_it_can(
    key: str, pool: dict[str, int], why: Why
) -> None:
    replicas = idle(pool)
    home, second, *_ = Ring(pool).order(key)
    trouble = {"running": pool[home]} if why == "full" else {"healthy": False}
    troubled = replicas | {home: replace(replicas[home], **trouble)}
    assert put(key, troubled) == Placed(second, why)
    assert put(key, replicas) == Placed(home, "home")


@settings(deadline=None)
@given(keys, pools)
def test_when_nobody_has_room_nobody_is_named(key: str, pool: dict[str, int]) -> None:
    full = [Replica(name, slots, running=slots) for name, slots in pool.items()]
    down = [Replica(name, slots, healthy=False) for name, slots in pool.items()]
    gone = [Replica(name, 0) for name in pool]
    assert [place(key, each) for each in (full, down, gone, [])] == [None] * 4


def test_a_home_much_busier_than_the_others_is_left_before_it_is_full() -> None:
    home, second = Ring({"a": 8, "b": 8}).order("key")
    busy = Replica(home, 8, running=4)
    assert place("key", [busy, Replica(second, 8, running=2)]) == Placed(home, "home")
    assert place("key", [busy, Replica(second, 8, running=1)]) == Placed(second, "full")
    assert place("key", [busy, Replica(second, 8, running=1)], bound=2) == Placed(home, "home")


@pytest.mark.parametrize("lost", [Replica("c", 8, 8, healthy=False), Replica("c", -16)])
def test_a_replica_that_takes_nothing_has_no_part_in_what_is_fair(lost: Replica) -> None:
    home, second = Ring({"a": 8, "b": 8}).order("key")
    busy = [Replica(home, 8, running=4), Replica(second, 8, running=1), lost]
    placed = place("key", busy)
    assert placed is not None
    assert placed.name == second


def test_a_slow_home_is_left_sooner_but_never_left_alone() -> None:
    home, second = Ring({"a": 8, "b": 8}).order("key")
    slow = Replica(home, 8, running=2, slow=True)
    other = Replica(second, 8, running=2)
    assert place("key", [replace(slow, slow=False), other]) == Placed(home, "home")
    assert place("key", [slow, replace(other, running=1)]) == Placed(second, "slow")
    assert place("key", [replace(slow, running=0), other]) == Placed(home, "home")


def test_where_all_are_slow_moving_helps_nobody() -> None:
    home, second = Ring({"a": 8, "b": 8}).order("key")
    both = [Replica(home, 8, running=4, slow=True), Replica(second, 8, running=2, slow=True)]
    assert place("key", both) == Placed(home, "home")


def test_a_slow_replica_takes_more_than_its_share_when_the_others_are_full() -> None:
    home, second = Ring({"a": 8, "b": 8}).order("key")
    full = Replica(second, 8, running=8)
    assert place("key", [Replica(home, 8, running=7, slow=True), full]) == Placed(home, "home")


class Pool(RuleBasedStateMachine):
    """Conversations come and end while replicas fall, heal and grow slow."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = idle({"a": 3, "b": 1, "c": 6, "d": 3})
        self.running: list[str] = []

    def change(self, name: str, **to: int) -> None:
        self.replicas[name] = replace(self.replicas[name], **to)

    @rule(key=keys)
    def comes(self, key: str) -> None:
        placed = put(key, self.replicas)
        usable = [each for each in self.replicas.values() if each.healthy]
        if placed is None:
            assert all(each.running == each.slots for each in usable)
            return
        chosen = self.replicas[placed.name]
        assert chosen in usable
        home = Ring({each.name: each.slots for each in self.replicas.values()}).order(key)[0]
        assert (placed.why == "home") == (placed.name == home)
        assert (placed.why == "down") == (not self.replicas[home].healthy)
        self.running.append(placed.name)
        self.change(placed.name, running=chosen.running + 1)
        if not any(each.slow for each in usable):
            total = sum(each.running for each in usable) + 1
            fair = total * chosen.slots / sum(each.slots for each in usable)
            assert self.replicas[placed.name].running <= ceil(1.25 * fair)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 20))
    def ends(self, pick: int) -> None:
        name = self.running.pop(pick % len(self.running))
        self.change(name, running=self.replicas[name].running - 1)

    @rule(name=st.sampled_from("abcd"), healthy=st.booleans())
    def falls_or_heals(self, name: str, healthy: bool) -> None:
        self.change(name, healthy=healthy)

    @rule(name=st.sampled_from("abcd"), slow=st.booleans())
    def slows_or_recovers(self, name: str, slow: bool) -> None:
        self.change(name, slow=slow)

    @invariant()
    def nobody_runs_more_than_its_slots(self) -> None:
        assert all(each.running <= each.slots for each in self.replicas.values())


TestAnyLoad = Pool.TestCase
TestAnyLoad.settings = settings(deadline=None, max_examples=examples(100), stateful_step_count=40)


# -- the breaker ----------------------------------------------------------------------------------


def call(breaker: Breaker, now: float) -> int:
    epoch = breaker.begin(now)
    assert epoch is not None
    return epoch


def fail(breaker: Breaker, now: float, times: int = 1) -> None:
    """As many calls as this, one after the other."""
    for _ in range(times):
        breaker.failed(call(breaker, now), now)


def opened() -> Breaker:
    """Opened at 0."""
    breaker = Breaker()
    fail(breaker, 0, 3)
    return breaker


def test_only_failures_in_a_row_open_the_circuit() -> None:
    breaker = Breaker()
    fail(breaker, 0, 2)
    breaker.succeeded(call(breaker, 0))
    fail(breaker, 0, 2)
    assert breaker.state(0) == "closed"
    fail(breaker, 0)
    assert breaker.state(0) == "open"
    assert breaker.begin(4.9) is None
    assert breaker.opens_in(2) == 3


def test_one_probe_goes_through_and_its_success_lets_everyone_in() -> None:
    breaker = opened()
    assert breaker.state(5) == "half_open"
    probe = call(breaker, 5)
    assert [breaker.begin(5), breaker.begin(50)] == [None, None]
    breaker.succeeded(probe)
    assert [call(breaker, 50), call(breaker, 50)] == [probe, probe]


def test_looking_does_not_take_the_probe() -> None:
    breaker = opened()
    assert breaker.state(5) == breaker.state(5) == "half_open"
    call(breaker, 5)
    assert breaker.state(5) == "open"


def test_it_waits_twice_as_long_after_each_failed_probe_and_forgets_that_with_a_success() -> None:
    breaker = opened()
    now = 0.0
    for wait in (5, 10, 20, 40, 60, 60):
        assert breaker.begin(now + wait - 0.1) is None
        now += wait
        fail(breaker, now)
    breaker.succeeded(call(breaker, now + 60))
    fail(breaker, now + 60, 3)
    assert breaker.state(now + 65) == "half_open"


def test_calls_from_before_it_opened_are_no_news() -> None:
    breaker = Breaker()
    early = call(breaker, 0)
    fail(breaker, 0, 3)
    breaker.failed(early, 4)
    breaker.succeeded(early)
    assert breaker.begin(4.9) is None
    probe = call(breaker, 5)
    breaker.failed(early, 6)
    breaker.dropped(early, 6)
    breaker.succeeded(early)
    assert breaker.begin(6) is None
    breaker.failed(probe, 6)
    assert breaker.begin(15.9) is None
    assert breaker.begin(16) is not None


def test_a_probe_whose_client_leaves_makes_room_for_the_next() -> None:
    breaker = opened()
    probe = call(breaker, 5)
    breaker.dropped(probe, 6)
    assert call(breaker, 6) != probe
    assert breaker.begin(6) is None


def test_a_probe_that_is_never_heard_of_is_not_waited_for_for_ever() -> None:
    breaker = opened()
    lost = call(breaker, 5)
    assert breaker.begin(64.9) is None
    call(breaker, 65)
    breaker.succeeded(lost)
    assert breaker.state(66) == "open"


def test_an_engine_that_asks_for_it_is_left_alone_for_exactly_so_long() -> None:
    breaker = Breaker()
    breaker.rest(7)
    assert (breaker.begin(0), breaker.opens_in(0), breaker.state(6.9)) == (None, 7, "open")
    assert breaker.state(7) == "closed"
    breaker.rest(3)
    assert breaker.state(7) == "closed"


def test_a_rest_is_no_failure_and_forgives_none() -> None:
    breaker = Breaker()
    fail(breaker, 0, 2)
    breaker.rest(1)
    assert breaker.state(1) == "closed"
    fail(breaker, 1)
    assert breaker.state(1) == "open"


def test_slow_is_what_takes_longer_than_the_target_more_than_once() -> None:
    breaker = Breaker(target=1)
    seen = []
    for seconds in (3, 3, 0.1):
        breaker.first_token_took(seconds)
        seen.append(breaker.is_slow)
    assert seen == [False, True, False]


def test_without_a_target_nothing_is_slow() -> None:
    breaker = Breaker()
    breaker.first_token_took(1e9)
    assert not breaker.is_slow


class Calls(RuleBasedStateMachine):
    """Calls begin when they are let through, and end in any way, at any time, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker()
        self.now = 0.0
        self.calls: list[tuple[int, bool]] = []
        """The epoch of each that runs, and whether it says something of the engine as it is now."""
        self.in_a_row = 0
        self.probe: float | None = None
        """Since when one is out that nothing was heard of."""
        self.rests_until = 0.0

    @rule(seconds=st.sampled_from([0.0, 0.5, 5.0, 20.0, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def begins(self) -> None:
        state = self.breaker.state(self.now)
        epoch = self.breaker.begin(self.now)
        assert (epoch is None) == (state == "open")
        if epoch is None:
            return
        if state == "half_open":
            assert self.probe is None or self.now - self.probe >= 60
            self.calls = [(each, False) for each, _ in self.calls]
            self.probe = self.now
        self.calls.append((epoch, True))

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 20))
    def succeeds(self, pick: int) -> None:
        epoch, news = self.calls.pop(pick % len(self.calls))
        self.breaker.succeeded(epoch)
        if news:
            self.in_a_row = 0
            self.probe = None

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 20))
    def fails(self, pick: int) -> None:
        epoch, news = self.calls.pop(pick % len(self.calls))
        self.breaker.failed(epoch, self.now)
        if news:
            self.in_a_row += 1
            self.probe = None
        if self.in_a_row >= 3:
            self.calls = [(each, False) for each, _ in self.calls] if news else self.calls

    @precondition(lambda self: self.calls)
    @rule(pick=st.integers(0, 20))
    def is_dropped(self, pick: int) -> None:
        epoch, news = self.calls.pop(pick % len(self.calls))
        self.breaker.dropped(epoch, self.now)
        if news:
            self.probe = None

    @rule(seconds=st.sampled_from([0.5, 5.0, 50.0]))
    def asks_to_be_left_alone(self, seconds: float) -> None:
        self.breaker.rest(self.now + seconds)
        self.rests_until = max(self.rests_until, self.now + seconds)

    @invariant()
    def it_is_closed_until_three_fail_in_a_row_or_it_asks(self) -> None:
        rests = self.now < self.rests_until
        closed = self.in_a_row < 3 and not rests
        assert (self.breaker.state(self.now) == "closed") == closed

    @invariant()
    def nothing_begins_sooner_than_is_told(self) -> None:
        wait = self.breaker.opens_in(self.now)
        assert (wait > 0) == (self.breaker.state(self.now) == "open")
        assert self.breaker.state(self.now + wait + 1e-9) != "open"

    @invariant()
    def no_engine_is_given_up(self) -> None:
        assert self.breaker.opens_in(self.now) <= 60

    def teardown(self) -> None:
        epoch = self.breaker.begin(self.now + 60)
        assert epoch is not None
        self.breaker.succeeded(epoch)
        assert self.breaker.state(self.now + 60) == "closed"


TestAnyCalls = Calls.TestCase
TestAnyCalls.settings = settings(deadline=None, max_examples=examples(200), stateful_step_count=40)


# -- parts of one engine ---------------------------------------------------------------------------


@given(st.text(), st.integers(2, 8))
def test_a_conversation_stays_at_its_rank_turn_after_turn(key: str, count: int) -> None:
    home = rank(key, [0] * count, slots=8)
    assert 0 <= home < count
    assert rank(key, [1] * count, slots=8) == home
    assert rank(key, [8] * count, slots=8) == home  # all are full: it waits there


def test_conversations_are_shared_out_between_ranks() -> None:
    homes = [rank(f"ada/{number}", [0, 0, 0, 0], slots=8) for number in range(2000)]
    assert all(400 < homes.count(each) < 600 for each in range(4))


def test_a_rank_that_is_full_or_has_far_more_than_its_share_is_left() -> None:
    key = next(f"{number}" for number in range(100) if rank(f"{number}", [0] * 4, slots=8) == 2)
    assert rank(key, [0, 0, 8, 0], slots=8) != 2
    assert rank(key, [10, 10, 40, 10], slots=64) != 2
    assert rank(key, [10, 10, 20, 10], slots=64) == 2


def test_home_is_not_left_while_most_of_its_slots_are_free() -> None:
    """Where little runs, a fair share is one turn, and a second conversation would lose its past
    for nothing."""
    key = next(f"{number}" for number in range(100) if rank(f"{number}", [0] * 4, slots=8) == 2)
    assert rank(key, [0, 0, 15, 0], slots=64) == 2
    assert rank(key, [0, 0, 16, 0], slots=64) != 2
    assert rank(key, [0, 0, 1, 0], slots=4) != 2


def test_ranks_of_an_engine_are_chosen_as_if_it_had_no_name() -> None:
    """Else all conversations of one engine could be at home in one rank of it."""
    at_a = [key for key in map(str, range(400)) if Ring({"a": 1, "b": 1}).order(key)[0] == "a"]
    ranks = [rank(key, [0, 0], slots=8) for key in at_a]
    assert 0.35 < sum(ranks) / len(ranks) < 0.65
