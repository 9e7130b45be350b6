"""Counting connections, and telling who is late or takes nothing from who is only slow."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.server import configuration
from vivace.config import LOCAL, LimitsConfig
from vivace.errors import RequestError
from vivace.gateway import connections as module
from vivace.gateway.connections import Connections
from vivace.gateway.metrics import Metrics
from vivace.inbound import within_file_limit


class Plug(asyncio.Transport):
    """A transport of which a test says how much waits in it."""

    def __init__(self, waiting: int = 0) -> None:
        super().__init__()
        self.waiting = waiting
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.aborted = True


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    given = Clock()
    monkeypatch.setattr(module, "time", given)
    monkeypatch.setattr(module, "_untaken", Plug.get_write_buffer_size)  # no kernel behind these
    return given


def bounded(trusted: tuple[str, ...] = (), **limits: int) -> Connections:
    return Connections(LimitsConfig(**limits), trusted, Metrics())


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"]))
    )
)
def test_whatever_comes_and_goes_the_bounds_hold_and_nothing_is_left(
    events: list[tuple[bool, str]],
) -> None:
    connections = bounded(connections=4, connections_per_address=2)
    inside: list[tuple[Plug, str]] = []
    for comes, address in events:
        group = "fd00::" if address.startswith("fd00") else address  # one network is one client
        if comes:
            plug = Plug()
            refused = connections.accept(plug, address)
            crowded = [each for _, each in inside].count(group) == 2
            assert (refused is not None) == (len(inside) == 4 or crowded)
            if refused is None:
                inside.append((plug, group))
            else:
                connections.closed(plug)
        elif inside:
            connections.closed(inside.pop(0)[0])
    for plug, _ in inside:
        connections.closed(plug)
    assert not connections._open
    assert not connections._by_address
    assert not connections._turned_away


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "::1", None])
def test_a_trusted_network_is_not_counted_by_address(address: str | None) -> None:
    connections = bounded(("10.1.0.0/16", "::1"), connections_per_address=1)
    assert [connections.accept(Plug(), address) for _ in range(3)] == [None] * 3


def test_of_those_that_are_refused_only_so_many_get_words() -> None:
    connections = bounded(connections=20)
    assert not any(connections.accept(Plug(), None) for _ in range(20))
    plugs = [Plug() for _ in range(13)]
    assert all(connections.accept(plug, None) for plug in plugs)
    assert [plug.aborted for plug in plugs] == [False] * 11 + [True] * 2


def test_what_is_late_is_told_once_and_what_is_whole_never(clock: Clock) -> None:
    connections, told = bounded(), []
    late, whole = Plug(), Plug()
    teller: Callable[[str], Callable[[], None]] = lambda name: lambda: told.append(name)  # noqa: E731
    connections.expect(late, 10, teller("late"))
    connections.expect(late, 1, teller("again"))  # what has begun is not begun anew
    connections.expect(whole, 10, teller("whole"))
    connections.whole(whole)
    clock.now += 9
    connections._end_late()
    assert told == []
    clock.now += 2
    connections._end_late()
    connections._end_late()
    assert told == ["late"]


@pytest.mark.parametrize(
    ("taken_each_second", "stays"), [(0, False), (100, False), (10_000, True), (100_000, True)]
)
def test_a_reader_is_dropped_for_taking_nothing_not_for_being_slow(
    clock: Clock, taken_each_second: int, stays: bool
) -> None:
    connections = bounded(slow_reader_seconds=10)
    reader = Plug(waiting=1_000_000)
    connections.unread(reader)
    for _ in range(40):
        clock.now += 1
        reader.waiting = max(0, reader.waiting - taken_each_second)
        connections._end_unread(connections.limits.slow_reader_seconds)
    assert reader.aborted is not stays


def test_a_key_holds_so_much_that_is_not_whole_and_gives_it_back() -> None:
    connections = bounded(unfinished_megabytes=5, unfinished_megabytes_per_key=2)
    connections.receive("ada", 2_000_000)
    with pytest.raises(RequestError, match="one after the other"):
        connections.receive("ada", 1)
    connections.receive("ben", 2_000_000)
    with pytest.raises(RequestError, match="as much at once as it takes"):
        connections.receive("cem", 1_500_000)
    connections.receive("ada", -2_000_000)
    connections.receive("cem", 1_500_000)
    connections.receive(LOCAL, 1_500_000)  # nobody's key: all that is left
    for owner, size in (("ben", 2_000_000), ("cem", 1_500_000), (LOCAL, 1_500_000)):
        connections.receive(owner, -size)
    assert not connections._unfinished


def test_an_answer_that_begins_after_its_key_was_revoked_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LAST_WORDS", 0.0)
    connections, cut = bounded(), list[str]()

    async def main() -> None:
        begun, waits, other = (connections.hold(owner) for owner in ("ada", "ada", "ben"))
        begun.answers(lambda: cut.append("begun"))
        connections.revoke("ada")
        while not cut:
            await asyncio.sleep(0)
        waits.answers(lambda: cut.append("began later"))
        other.answers(lambda: cut.append("another's"))

    asyncio.run(main())
    assert cut == ["begun", "began later"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(
    ("files", "connections"), [(1_000_000, 20_000), (4096, 3072), (-1, 20_000)]
)
def test_connections_leave_files_for_the_store_and_the_engines(
    monkeypatch: pytest.MonkeyPatch, files: int, connections: int
) -> None:
    """-1 is how the system says that there is no limit."""
    monkeypatch.setattr("resource.getrlimit", lambda _: (files, files))
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    config = within_file_limit(configuration())
    assert config.limits.connections == connections


def test_of_those_who_say_much_one_is_heard_in_each_round() -> None:
    connections = bounded()
    heard: list[str] = []

    async def main() -> None:
        def often(name: str, times: int) -> None:
            heard.append(name)
            if times > 1:
                connections.in_turn(lambda: often(name, times - 1))

        for name in ("a", "b"):
            connections.in_turn(lambda name=name: often(name, 3))  # type: ignore[misc]
        for _ in range(8):
            await asyncio.sleep(0)
            heard.append("-")

    asyncio.run(main())
    assert "".join(heard).startswith("a-b-a-b-a-b-")
