"""The ledger of memory: first by example, then whatever may happen in any order."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vivace.errors import RequestError, TooLarge, TooManyRequests, Unavailable
from vivace.scheduling.memory import Held, Kind, Memory


def test_what_is_dropped_does_not_count_any_more() -> None:
    memory = Memory(100, 60)
    held = memory.take("ada", "requests", 40)
    assert (memory.used("ada"), memory.used("bob"), memory.used()) == (40, 0, 40)
    assert memory.kinds() == {"requests": 40, "links": 0, "records": 0, "answers": 0}
    del held
    assert (memory.used("ada"), memory.used()) == (0, 0)


def test_what_two_share_counts_once_until_both_are_gone() -> None:
    memory = Memory(100, 60)
    one = [memory.note("ada", "links", 10)]
    two = [*one]
    one.clear()
    assert memory.used() == 10
    two.clear()
    assert memory.used() == 0


def test_a_key_over_its_share_is_refused_and_nobody_else_is() -> None:
    memory = Memory(100, 60)
    held = memory.take("ada", "requests", 50)
    with pytest.raises(TooManyRequests, match="Wait until") as refused:
        memory.take("ada", "requests", 11)
    assert refused.value.code == "memory_limit_reached"
    assert memory.take("bob", "requests", 40).size + held.size == 90


def test_when_all_is_taken_whoever_comes_is_asked_to_come_back() -> None:
    memory = Memory(100, 60)
    taken = [memory.take("ada", "requests", 60), memory.take("bob", "requests", 40)]
    with pytest.raises(Unavailable) as refused:
        memory.take("eve", "requests", 1)
    assert refused.value.retry_after == 1
    taken.pop()
    assert memory.take("eve", "requests", 40).size == 40


def test_what_can_never_pass_is_refused_without_letting_anything_go() -> None:
    memory = Memory(100, 60)
    cache = {"x": memory.note("ada", "links", 50)}
    memory.keep("ada", "x", cache.clear)
    with pytest.raises(TooLarge):
        memory.take("ada", "requests", 61)
    assert cache


def test_the_oldest_is_let_go_first_and_no_more_than_needed() -> None:
    memory = Memory(100, 60)
    cache: dict[str, Held] = {}
    for name in ("a", "b", "c"):
        cache[name] = memory.note("ada", "links", 20)
        memory.keep("ada", name, lambda name=name: cache.pop(name))  # type: ignore[misc]
    memory.keep("ada", "a", lambda: cache.pop("a"))  # used again
    taken = [memory.take("ada", "requests", 15)]
    assert set(cache) == {"a", "c"}
    taken.append(memory.take("ada", "requests", 20))
    assert set(cache) == {"a"}


def test_a_full_process_lets_go_of_what_is_oldest_whoever_has_it() -> None:
    memory = Memory(100, 60)
    cache = {"bob": memory.note("bob", "records", 50), "ada": memory.note("ada", "links", 50)}
    for owner in ("bob", "ada"):
        memory.keep(owner, "x", lambda owner=owner: cache.pop(owner))  # type: ignore[misc]
    held = memory.take("eve", "requests", 20)
    assert (set(cache), held.size) == ({"ada"}, 20)


owners = st.sampled_from(["ada", "bob", "eve"])
sizes = st.integers(0, 70)


class Ledger(RuleBasedStateMachine):
    """Beside the ledger stands a plain list of all that is held, which is always right."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = Memory(100, 60)
        self.held: list[tuple[str, Kind, Held]] = []
        self.cache: dict[tuple[str, int], tuple[Kind, Held]] = {}

    @rule(owner=owners, size=sizes)
    def take(self, owner: str, size: int) -> None:
        try:
            held = self.memory.take(owner, "requests", size)
        except RequestError:
            assert not any(mine == owner for mine, _ in self.cache) or size > 60
            return
        self.held.append((owner, "requests", held))
        assert self.memory.used(owner) <= 60
        assert self.memory.used() <= 100

    @rule(owner=owners, size=sizes, name=st.integers(0, 5))
    def note(self, owner: str, size: int, name: int) -> None:
        held = self.memory.note(owner, "links", size)
        self.cache[owner, name] = ("links", held)
        del held
        self.memory.keep(owner, name, lambda: self.cache.pop((owner, name)))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), size=sizes)
    def resize(self, data: st.DataObject, size: int) -> None:
        # By its place: what is drawn is remembered for as long as the example runs.
        self.held[data.draw(st.integers(0, len(self.held) - 1))][2].resize(size)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))

    @precondition(lambda self: self.cache)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        owner, name = data.draw(st.sampled_from(sorted(self.cache)))
        self.memory.forget(owner, name)
        del self.cache[owner, name]

    @invariant()
    def it_counts_what_is_held(self) -> None:
        by_owner: Counter[str] = Counter()
        by_kind: Counter[str] = Counter()
        cached = [(owner, *rest) for (owner, _), rest in self.cache.items()]
        for owner, kind, held in (*self.held, *cached):
            by_owner[owner] += held.size
            by_kind[kind] += held.size
        del cached
        assert self.memory.used() == sum(by_owner.values())
        assert all(self.memory.used(owner) == by_owner[owner] for owner in ("ada", "bob", "eve"))
        assert all(size == by_kind[kind] >= 0 for kind, size in self.memory.kinds().items())

    def teardown(self) -> None:
        self.held.clear()
        self.cache.clear()
        assert self.memory.used() == 0
        assert self.memory._owners == {}


TestLedger = Ledger.TestCase
