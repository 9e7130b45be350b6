"""Gateways on one PostgreSQL that were configured otherwise: with other tiers, keys and times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.gateway.test_takeover import REPLIES, begun, check_whole, id_of, path, resume
from tests.support.fleets import KEY, SLOW, Fleet
from tests.support.http import bearer, keys
from tests.support.postgres import Postgres
from tests.support.server import RunningGateway
from tests.support.socket import Socket
from tests.support.waiting import eventually

ADA = bearer("ada")
TIERS = [{"name": name, "engines": ["coder"]} for name in ("fast", "special")]
WHOLE = {"tiers": TIERS, "keys": keys("ada", "ben")}
WITHOUT = {
    "tier": {"tiers": TIERS[:1], "keys": keys("ada", "ben")},
    "key": {"tiers": TIERS, "keys": keys("ben")},
}


@pytest.fixture
def fleet(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    with ExitStack() as stack:
        fleet = Fleet(stack, postgres.emptied(), REPLIES)
        fleet.node()
        yield fleet


def left_to_others(gateway: RunningGateway) -> set[str]:
    return {*gateway.gateway.recovery._left_to_others}


@pytest.mark.parametrize("missing", WITHOUT)
def test_a_turn_is_left_to_a_gateway_that_can_go_on_with_it(fleet: Fleet, missing: str) -> None:
    first, unlike = fleet.gateway(**WHOLE), fleet.gateway(**WITHOUT[missing])
    with Socket(first.url, ADA) as socket:
        seen = begun(socket, model="special", background=True)
        fleet.freeze(first)
        fleet.bury(first)
        eventually(lambda: left_to_others(unlike) == {id_of(seen)})
        with unlike.http as http:
            assert http.get(path(id_of(seen)), headers=ADA).status_code in (200, 401)
        assert fleet.status(id_of(seen)) is None
        last = fleet.gateway(**WHOLE)
        fleet.go()
        with Socket(last.url, ADA) as again:
            resume(again, seen)
            check_whole(seen + again.until_end())


def test_a_turn_that_is_resumed_where_it_cannot_run_stays_where_it_is(fleet: Fleet) -> None:
    first, unlike = fleet.gateway(**WHOLE), fleet.gateway(**WITHOUT["tier"])
    with Socket(first.url, ADA) as socket, Socket(unlike.url, ADA) as elsewhere:
        seen = begun(socket, model="special")
        resume(elsewhere, seen)
        told = elsewhere.until("response.output_text.delta")
        assert told["sequence_number"] == seen[-1]["sequence_number"] + 1
        fleet.go()
        check_whole(seen + socket.until_end())


@pytest.mark.parametrize(
    ("missing", "code"), [("tier", "model_not_found"), ("key", "invalid_api_key")]
)
def test_a_turn_that_no_gateway_can_go_on_with_ends(fleet: Fleet, missing: str, code: str) -> None:
    first = fleet.gateway(**WHOLE)
    with Socket(first.url, ADA) as socket:
        turn_id = id_of(begun(socket, model="special", background=True))
        fleet.freeze(first)
        fleet.bury(first)
        store = {"url": fleet._url, "resume_seconds": 0.1}
        fleet.gateway(**WITHOUT[missing], store=store)
        eventually(lambda: fleet.status(turn_id) == "failed")
        response = fleet._value("SELECT response FROM turns WHERE id = $1", turn_id)
        assert code in response.decode()


def test_many_turns_that_cannot_run_here_hide_none_that_can(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Orphans are looked for some at a time."""
    first, unlike = fleet.gateway(**WHOLE), fleet.gateway(**WITHOUT["tier"])
    orphans = unlike.gateway.keeper.store.orphans

    async def one_at_a_time(holder: str, dead_after: float, **more: Any) -> Any:
        return await orphans(holder, dead_after, 1, **more)

    monkeypatch.setattr(unlike.gateway.keeper.store, "orphans", one_at_a_time)
    with Socket(first.url, ADA) as socket:
        for number in range(3):
            begun(socket, model="special", background=True, stream_id=str(number))
        mine = begun(socket, model="fast", background=True, stream_id="mine")
        fleet.freeze(first)
        fleet.bury(first)
        eventually(lambda: len(left_to_others(unlike)) == 3)
        fleet.go()
        eventually(lambda: fleet.status(id_of(mine)) == "completed")


def test_a_gateway_that_counts_as_gone_later_keeps_its_turns_until_then(fleet: Fleet) -> None:
    first = fleet.gateway(**WHOLE)
    hasty = fleet.gateway(**WHOLE, fleet={"dead_after_seconds": 30})
    aged = "UPDATE gateways SET seen = seen - interval '{} seconds' WHERE id = $1 RETURNING id"
    with Socket(first.url, ADA) as socket:
        turn_id = id_of(begun(socket, background=True))
        fleet.freeze(first)
        holder = first.gateway.keeper.holder
        for seconds, taken in ((60, 0), (SLOW["dead_after_seconds"], 1)):
            fleet._value(aged.format(seconds), holder)
            looked = hasty.run(hasty.gateway.recovery.look(dead_after=30))
            held = fleet._value("SELECT holder FROM turns WHERE id = $1", turn_id) != holder
            assert (looked <= taken, held) == (True, bool(taken))
