"""Keys in PostgreSQL: a change is done once, and seen by whoever looks."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from datetime import date

import asyncpg
import pytest
from msgspec.structs import replace

from tests.support.postgres import Postgres
from tests.support.proxy import Proxy
from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.errors import StoreError
from vivace.store import connections, postgres_keys
from vivace.store.base import AccessKey, AccessKeys, Done, KeyInUse
from vivace.store.postgres_keys import PostgresKeys

pytestmark = pytest.mark.usefixtures("patient_connections")


def key(name: str, /, **changes: str) -> AccessKey:
    digest = hashlib.sha256(name.encode()).hexdigest()
    made = AccessKey(id=f"key_{name}", name=name, sha256=digest, created_at=date(2026, 1, 2))
    return replace(made, **changes)


async def everything(keys: PostgresKeys) -> AccessKeys:
    found = await keys.changed(None)
    assert found is not None
    return found


async def execute(url: str, sql: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


Check = Callable[[PostgresKeys, Proxy, str], Awaitable[None]]


def behind_proxy(postgres: Postgres, check: Check) -> None:
    url = postgres.emptied()

    async def whole() -> None:
        async with Proxy(postgres.port) as proxy:
            keys = PostgresKeys(postgres.url(url.rpartition("/")[2], proxy.port))
            try:
                await asyncio.wait_for(check(keys, proxy, url), PATIENCE_S)
            finally:
                await keys.close()

    asyncio.run(whole())


def test_what_is_added_is_there_until_it_is_removed(postgres: Postgres) -> None:
    async def check(keys: PostgresKeys, proxy: Proxy, url: str) -> None:
        assert await keys.add(key("ann")) == Done()
        assert await keys.add(key("bob")) == Done()
        assert (await everything(keys)).keys == (key("ann"), key("bob"))
        assert await keys.remove("ann")
        assert not await keys.remove("ann")
        assert (await everything(keys)).keys == (key("bob"),)

    behind_proxy(postgres, check)


def test_keys_are_read_each_time_where_the_row_of_their_revision_is_gone(
    postgres: Postgres,
) -> None:
    url = postgres.database()  # which no other test uses

    async def check() -> None:
        keys = PostgresKeys(url)
        await keys.add(key("ann"))
        revision = (await everything(keys)).revision
        await execute(url, "DELETE FROM access_keys_now")
        found = await keys.changed(revision)
        assert found == AccessKeys(None, (key("ann"),), ever=True)
        await keys.remove("ann")
        assert await keys.changed(found.revision) == AccessKeys(None, (), ever=True)
        await keys.close()

    asyncio.run(check())


def test_a_lost_answer_is_found_out_by_asking_again(postgres: Postgres) -> None:
    async def check(keys: PostgresKeys, proxy: Proxy, url: str) -> None:
        first = (await everything(keys)).revision
        proxy.lose = 1
        assert await keys.add(key("ann")) == Done()
        proxy.lose = 1
        found = await keys.changed(first)
        assert found is not None
        assert found.keys == (key("ann"),)
        proxy.of = b"DELETE"
        proxy.lose = 1
        assert await keys.remove("ann")
        assert proxy.lost == 3
        assert (await everything(keys)).keys == ()

    behind_proxy(postgres, check)


def test_a_key_of_a_name_that_is_free_again_is_not_removed_by_a_late_repetition(
    postgres: Postgres,
) -> None:
    """Its answer was lost; before it is asked again, somebody else has the name."""

    async def check(keys: PostgresKeys, proxy: Proxy, url: str) -> None:
        await keys.add(key("ann"))
        proxy.of, proxy.lose = b"DELETE", 1000
        removing = asyncio.create_task(keys.remove("ann"))
        await eventually_async(lambda: proxy.lost > 0)
        second = key("ann", id="key_second", sha256="0" * 64)
        other = PostgresKeys(url)
        assert await other.add(second) == Done()
        lost, proxy.lose = proxy.lost, 0
        assert await removing
        assert lost
        assert (await everything(other)).keys == (second,)
        await other.close()

    behind_proxy(postgres, check)


@pytest.mark.parametrize("same", ["id", "name", "sha256"])
def test_no_key_takes_the_place_of_another(postgres: Postgres, same: str) -> None:
    async def check(keys: PostgresKeys, proxy: Proxy, url: str) -> None:
        await keys.add(key("ann"))
        thief = key("theft", **{same: getattr(key("ann"), same)})
        assert await keys.add(thief) == KeyInUse()
        assert (await everything(keys)).keys == (key("ann"),)

    behind_proxy(postgres, check)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM access_keys",
        "TRUNCATE access_keys",
        "UPDATE access_keys SET name = 'anna'",
        f"INSERT INTO access_keys VALUES ('k', 'n', '{'0' * 64}', now())",
    ],
)
def test_a_change_by_hand_is_seen_too(postgres: Postgres, sql: str) -> None:
    async def check(keys: PostgresKeys, proxy: Proxy, url: str) -> None:
        await keys.add(key("ann"))
        before = await everything(keys)
        assert await keys.changed(before.revision) is None
        await execute(url, sql)
        after = await keys.changed(before.revision)
        assert after is not None
        assert after.keys != before.keys
        assert after.ever

    behind_proxy(postgres, check)


@pytest.mark.parametrize(
    "row",
    [f"('k', 'two words', '{'0' * 64}', now())", "('k', 'n', 'viv_the_key_itself', now())"],
)
def test_a_key_itself_or_a_name_that_nobody_could_revoke_cannot_be_put_there(
    postgres: Postgres, row: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        asyncio.run(execute(postgres.emptied(), f"INSERT INTO access_keys VALUES {row}"))


def test_a_database_that_was_set_back_is_read_anew(postgres: Postgres) -> None:
    """By a backup, or a standby that had not heard of all: its next change is another than the one
    that was seen before."""

    async def check(keys: PostgresKeys, proxy: Proxy, url: str) -> None:
        seen = {(await everything(keys)).revision}
        for name in ("ann", "bob"):
            await keys.add(key(name))
            seen.add((await everything(keys)).revision)
            await execute(url, "DELETE FROM access_keys")
            await execute(url, "UPDATE access_keys_now SET ever = false")
        assert len(seen) == 3

    behind_proxy(postgres, check)


def test_a_look_that_finds_nothing_new_reads_no_key(postgres: Postgres) -> None:
    url = postgres.emptied()

    async def check() -> str:
        keys = PostgresKeys(url)
        for number in range(100):
            await keys.add(key(f"key-{number}"))
        revision = (await everything(keys)).revision
        await keys.close()
        connection = await asyncpg.connect(url)
        try:
            sql = postgres_keys._CHANGED.replace("$1", f"'{revision}'")
            plan = await connection.fetch(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}")
        finally:
            await connection.close()
        return "\n".join(row[0] for row in plan)

    plan = asyncio.run(check())
    (scan,) = (
        line for line in plan.splitlines() if "Scan" in line and "access_keys_now" not in line
    )
    assert "never executed" in scan, plan


def test_a_database_that_is_away_is_an_error_that_names_no_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_PATIENCE", 0.1)

    async def check() -> None:
        keys = PostgresKeys("postgresql://ada:secret-word@127.0.0.1:1/vivace")
        with pytest.raises(StoreError, match="does not answer") as caught:
            await asyncio.wait_for(keys.changed(None), PATIENCE_S)
        assert "secret-word" not in str(caught.value)
        await keys.close()

    asyncio.run(check())
