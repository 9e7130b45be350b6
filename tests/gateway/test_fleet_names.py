"""Names of engine nodes whose addresses change: more, fewer, others, none, again and again."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

from tests.support import virtual_time
from tests.support.virtual_time import elapse
from vivace.engines.remote import Node
from vivace.errors import ConfigError
from vivace.fleet_config import FleetConfig, NodeAddress, check_fleet
from vivace.gateway import fleet as module
from vivace.gateway.fleet import Fleet
from vivace.gateway.membership import Membership
from vivace.supervisor import Supervisor

Answers = dict[str, set[str]]
LOOK = 6.0
"""Seconds in which every name is looked up again."""


class Members:
    """Refuses to have had any engine: no node here is ever reached."""

    def leave(self, engine: object) -> None:
        raise AssertionError("an engine left that never joined")


def run(
    check: Callable[[Fleet, Supervisor, Answers], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    *urls: str,
) -> None:
    answers: Answers = {}

    async def addresses(name: NodeAddress) -> set[str]:
        return answers.get(name.host, set())

    async def keep(self: Node) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "addresses_of", addresses)
    monkeypatch.setattr(Node, "run", keep)
    config = FleetConfig(engines=urls, allow_remote=True, allow_plain=True)
    environment = {config.key_env: "k" * 32}

    async def whole() -> None:
        supervisor = Supervisor()
        members = cast("Membership", Members())
        fleet = Fleet(config, Path(), members, supervisor, "g", environment)
        fleet.start()
        try:
            await check(fleet, supervisor, answers)
        finally:
            await supervisor.stop()

    virtual_time.run(whole())


def hosts(fleet: Fleet) -> set[str]:
    return {node.url.removeprefix("ws://").rpartition(":")[0] for node in fleet.nodes}


def test_nodes_are_those_of_the_last_answer_and_nothing_is_left_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(7)
    pool = [f"10.0.0.{number}" for number in range(1, 30)]

    async def check(fleet: Fleet, supervisor: Supervisor, answers: Answers) -> None:
        for _ in range(200):
            for name in ("one", "two"):
                answers[name] = set(chance.sample(pool, chance.randrange(1, 8)))
            await elapse(LOOK)
            assert hosts(fleet) == answers["one"] | answers["two"]
            assert supervisor.down() == []
            links = [name for name in supervisor.watched if name.startswith("link to")]
            assert len(links) == len({node.url for node in fleet.nodes})

    run(check, monkeypatch, "dns://one:8770", "dns://two:8771")


def test_answer_without_addresses_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(fleet: Fleet, supervisor: Supervisor, answers: Answers) -> None:
        answers["nodes"] = {"10.0.0.1", "10.0.0.2"}
        await elapse(LOOK)
        answers["nodes"] = set()
        await elapse(10 * LOOK)
        assert hosts(fleet) == {"10.0.0.1", "10.0.0.2"}

    run(check, monkeypatch, "dns://nodes:8770")


def test_node_that_is_linked_stays_when_its_address_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def check(fleet: Fleet, supervisor: Supervisor, answers: Answers) -> None:
        answers["nodes"] = {"10.0.0.1"}
        await elapse(LOOK)
        [node] = fleet.nodes
        node.linked.set()
        answers["nodes"] = {"127.0.0.1"}
        await elapse(3 * LOOK)
        assert hosts(fleet) == {"10.0.0.1", "127.0.0.1"}
        node.linked.clear()
        await elapse(LOOK)
        assert hosts(fleet) == {"127.0.0.1"}
        answers["nodes"] = {"10.0.0.1"}
        await elapse(LOOK)
        assert hosts(fleet) == {"10.0.0.1"}
        assert fleet.nodes[0] is not node

    run(check, monkeypatch, "dns://nodes:8770")


def test_addresses_of_a_name_are_bounded(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(fleet: Fleet, supervisor: Supervisor, answers: Answers) -> None:
        answers["nodes"] = {f"10.0.{a}.{b}" for a in range(20) for b in range(200)}
        await elapse(3 * LOOK)
        assert len(fleet.nodes) == 1000
        assert len(asyncio.all_tasks()) < 1010

    run(check, monkeypatch, "dns://nodes:8770")
    said = [each for each in caplog.records if "4000 addresses" in each.message]
    assert {each.levelno for each in said} == {logging.ERROR}


@pytest.mark.parametrize(
    "urls",
    [
        ("dns://nodes:8770", "dns://NODES:8770"),
        ("ws://nodes:8770", "wss://nodes:8770"),
        ("dns://nodes:8770", "ws://nodes:8770"),
    ],
)
def test_one_place_that_is_written_in_two_ways_is_named_twice(urls: tuple[str, ...]) -> None:
    """Two would keep one link, and each take it from the other."""
    with pytest.raises(ConfigError, match="twice"):
        check_fleet(FleetConfig(engines=urls, allow_remote=True, allow_plain=True))
