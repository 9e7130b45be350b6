"""Gateways in PostgreSQL: what each tells, what is wanted of it, and one that leaves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import asyncpg
import pytest

from tests.support.postgres import Postgres
from tests.support.waiting import PATIENCE_S
from vivace.gateway.ids import new_id
from vivace.store.base import Fenced, NewTurn, Taken, Wanted
from vivace.store.postgres import PostgresStore
from vivace.store.postgres_gateways import PostgresGateways

pytestmark = pytest.mark.usefixtures("patient_connections")

DEAD_AFTER = 3600.0
TURN = new_id("resp")


def run(
    postgres: Postgres, check: Callable[[PostgresGateways, PostgresStore], Awaitable[None]]
) -> None:
    url = postgres.emptied()

    async def whole() -> None:
        gateways = PostgresGateways(url)
        store = PostgresStore(url, max_age=86_400, max_bytes=10**9)
        try:
            await store.open()
            await asyncio.wait_for(check(gateways, store), PATIENCE_S)
        finally:
            await gateways.close()
            await store.close()

    asyncio.run(whole())


def test_a_gateway_tells_of_itself_once_it_has_beaten_and_hears_what_is_wanted(
    postgres: Postgres,
) -> None:
    async def check(gateways: PostgresGateways, store: PostgresStore) -> None:
        assert await gateways.tell("g1", "one", b"{}") is None
        await store.beat("g1")
        assert await gateways.tell("g1", "one", b"{}") == Wanted(None)
        assert await gateways.drain("g1", 2.5)
        assert not await gateways.drain("g2", 2.5)
        await store.beat("g1")
        assert await gateways.tell("g1", "one", b"[]") == Wanted(2.5)
        (shown,) = await gateways.all(DEAD_AFTER)
        assert (shown.id, shown.name, shown.about, shown.drain) == ("g1", "one", b"[]", 2.5)
        assert 0 <= shown.silent < DEAD_AFTER
        assert await gateways.drain("g1", None)
        assert await gateways.tell("g1", "one", b"[]") == Wanted(None)

    run(postgres, check)


def test_who_leaves_counts_as_gone_at_once_until_it_beats_again(postgres: Postgres) -> None:
    async def check(gateways: PostgresGateways, store: PostgresStore) -> None:
        for name in ("g1", "g2"):
            await store.beat(name)
        new = NewTurn(
            id=TURN, owner="ada", holder="g1", request=b"", input=b"[]", created_at=int(time.time())
        )
        await store.accept(new)
        assert isinstance(await store.take(TURN, 1, "g2", DEAD_AFTER), Fenced)
        await gateways.leave("g1")
        assert [each.id for each in await store.orphans("g2", DEAD_AFTER)] == [TURN]
        (turn,) = await store.open_turns(TURN, "ada")
        assert turn.silent is not None
        assert turn.silent > DEAD_AFTER
        assert [each.id for each in await gateways.all(DEAD_AFTER)] == ["g2"]
        await store.beat("g1")
        assert await store.orphans("g2", DEAD_AFTER) == []
        assert isinstance(await store.take(TURN, 1, "g2", DEAD_AFTER), Fenced)
        await gateways.leave("g1")
        assert isinstance(await store.take(TURN, 1, "g2", DEAD_AFTER), Taken)
        await store.beat("g1")
        assert await store.held("g1") == {}

    run(postgres, check)


def test_settings_that_log_prompts_are_told_where_the_server_may_not_change_them(
    postgres: Postgres,
) -> None:
    url = postgres.database()
    name = url.rpartition("/")[2]
    plain = url.replace("vivace@", f"plain_{name}@", 1)

    async def told(at: str) -> list[str]:
        gateways = PostgresGateways(at)
        try:
            return await gateways.logged_by()
        finally:
            await gateways.close()

    async def check() -> None:
        connection = await asyncpg.connect(url)
        # vivace: ignore[python-sql-injection] the name of a database of this test
        await connection.execute(
            f"CREATE ROLE plain_{name} LOGIN; GRANT SELECT ON vivace_schema TO plain_{name}"
        )
        assert await told(plain) == []
        for each in ("log_statement = 'mod'", "log_min_duration_statement = 1000"):
            await connection.execute(f"ALTER DATABASE {name} SET {each}")
        assert await told(plain) == ["log_statement", "log_min_duration_statement"]
        assert await told(url) == []  # a superuser, which has turned that off
        await connection.execute(f"ALTER ROLE plain_{name} SET log_parameter_max_length = 0")
        assert await told(plain) == []
        await connection.execute(f"DROP OWNED BY plain_{name}; DROP ROLE plain_{name}")
        await connection.close()

    asyncio.run(check())


def test_gateway_that_died_before_the_clock_was_set_back_counts_as_gone_in_time(
    postgres: Postgres,
) -> None:
    """A last heartbeat in the future would keep the gateway alive for another hour."""

    async def move_heartbeats(seconds: float) -> None:
        connection = await asyncpg.connect(postgres.url(postgres.database_name))
        try:
            passed = timedelta(seconds=seconds)
            await connection.execute("UPDATE gateways SET seen = seen + $1::interval", passed)
        finally:
            await connection.close()

    async def check(gateways: PostgresGateways, store: PostgresStore) -> None:
        await store.beat("g1")
        new = NewTurn(
            id=TURN, owner="ada", holder="g1", request=b"", input=b"[]", created_at=int(time.time())
        )
        await store.accept(new)
        await move_heartbeats(3600)
        await store.beat("g2")
        assert await store.orphans("g2", 60) == [], "it may live, and has had no time to beat"
        await move_heartbeats(-120)
        await store.beat("g2")
        assert [each.id for each in await store.orphans("g2", 60)] == [TURN]

    run(postgres, check)


def test_the_databases_clock_is_told(postgres: Postgres) -> None:
    url = postgres.emptied()

    async def read() -> float:
        connection = await asyncpg.connect(url)
        try:
            seconds = await connection.fetchval("SELECT extract(epoch FROM clock_timestamp())")
        finally:
            await connection.close()
        return float(seconds)

    async def check(gateways: PostgresGateways, store: PostgresStore) -> None:
        before = await read()
        assert before <= await gateways.clock() <= await read()

    run(postgres, check)
