"""What every store promises, and what PostgreSQL adds to it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import rule, run_state_machine_as_test
from msgspec.structs import replace

from tests.store.conftest import LONG_S
from tests.store.model import StoreModel
from tests.store.suite import StoreSuite
from tests.support.examples import examples
from tests.support.postgres import Postgres
from tests.support.proxy import Proxy
from tests.support.store import DAY, Open, ending, new, rid, steer, stored
from tests.support.waiting import PATIENCE_S, eventually_async
from vivace.errors import StoreError
from vivace.store import connections, partitions, statements
from vivace.store.base import Accepted, Ended, Fenced, Key, Ordered, Store, Taken
from vivace.store.migrating import migrate, migrations
from vivace.store.postgres import PostgresStore

T = TypeVar("T")

pytestmark = pytest.mark.usefixtures("patient_connections")


class TestPostgres(StoreSuite):
    @pytest.fixture
    def opened(self, postgres: Postgres) -> Open:
        def open_it(
            base: Path, *, max_age: float = 30 * DAY, max_bytes: int = 10**9, **more: Any
        ) -> Store:
            return PostgresStore(postgres.emptied(), max_age=max_age, max_bytes=max_bytes)

        return open_it

    async def elapse(self, store: PostgresStore, seconds: float) -> None:
        passed = timedelta(seconds=seconds)

        async def age(db: connections.Connection) -> None:
            await db.execute("UPDATE once SET until = until - $1::interval", passed)
            await db.execute("UPDATE orders SET at = at - $1::interval", passed)
            await db.execute("UPDATE gateways SET seen = seen - $1::interval", passed)

        await store._connections.run(age)


class Lossy(StoreModel):
    """Answers are lost on the way, in the middle of anything."""

    server: Postgres
    database: str
    lost = 0

    async def open(self) -> Store:
        self.proxy = await Proxy(self.server.port).__aenter__()
        url = self.server.url(self.database, self.proxy.port)
        return PostgresStore(url, max_age=30 * DAY, max_bytes=10**9)

    @rule()
    def lose_an_answer(self) -> None:
        self.proxy.lose = 1

    async def close(self) -> None:
        await super().close()
        Lossy.lost += self.proxy.lost
        await self.proxy.__aexit__(None, None, None)


def test_any_order_of_writes_with_answers_lost(postgres: Postgres) -> None:
    class Model(Lossy):
        server = postgres
        database = postgres.emptied().rpartition("/")[2]

    run_state_machine_as_test(
        Model,
        settings=settings(
            deadline=None,
            max_examples=examples(25),
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert Lossy.lost > 10


# -- lost answers, and a server that dies ---------------------------------------------------------


def opened_at(url: str) -> PostgresStore:
    return PostgresStore(url, max_age=30 * DAY, max_bytes=10**9)


def behind_proxy(postgres: Postgres, check: Callable[[PostgresStore, Proxy], Awaitable[T]]) -> T:
    database = postgres.emptied().rpartition("/")[2]

    async def whole() -> T:
        async with Proxy(postgres.port) as proxy:
            store = opened_at(postgres.url(database, proxy.port))
            try:
                return await asyncio.wait_for(check(store, proxy), PATIENCE_S)
            finally:
                await store.close()

    return asyncio.run(whole())


def test_a_lost_answer_is_found_out_by_asking_again(postgres: Postgres) -> None:
    async def check(store: PostgresStore, proxy: Proxy) -> None:
        key = Key(key="k", request_hash=b"body")
        proxy.lose = 1
        assert await store.accept(new("a", key=key)) == Accepted(rid("a"))
        proxy.lose = 1
        assert await store.order(steer("s", "a")) == Ordered("s")
        proxy.lose = 1
        taken = await store.take(rid("a"), 1, "g2")
        assert isinstance(taken, Taken)
        assert taken.turn.epoch == 2
        proxy.lose = 1
        end = ending("a", 2, successor=new("b", "a", applied=("s",)))
        assert await store.end(end) == Ended()
        proxy.lose = 1
        assert await store.delete(rid("a"), "me")
        assert proxy.lost == 5
        following = await store.find(rid("b"), "me")
        assert following is not None
        assert following.broken

    behind_proxy(postgres, check)


def test_a_heartbeat_waits_for_no_other_request(postgres: Postgres) -> None:
    """Else whoever reads much would have this gateway count as gone."""

    async def check(store: PostgresStore, proxy: Proxy) -> None:
        await store.accept(new("a"))
        all_busy = [store._connections._room.acquire() for _ in range(connections._MOST)]
        await asyncio.gather(*all_busy)
        others = asyncio.create_task(store.find(rid("a"), "me"))
        await store.beat("g1", DAY)
        assert await store.company("g2", DAY) == 1
        assert await store.held("g1") == {rid("a"): 1}
        assert not others.done()
        store._connections._room.release()
        assert await others is not None

    behind_proxy(postgres, check)


def test_a_holder_counts_as_gone_only_after_what_it_says_itself(postgres: Postgres) -> None:
    """Gateways may be configured otherwise, and speak until their own lease is over."""
    plugged = TestPostgres()

    async def check(store: PostgresStore, proxy: Proxy) -> None:
        for holder, dead_after in (("short", 1.0), ("long", 10.0 * DAY), ("silent", 0.0)):
            await store.beat(holder, dead_after)
            await store.accept(new(holder, holder=holder))
        await plugged.elapse(store, 2 * DAY)
        orphans = {each.id for each in await store.orphans("other", DAY)}
        assert orphans == {rid("short"), rid("silent")}
        assert await store.take(rid("long"), 1, "other", DAY) == Fenced()
        assert await store.company("other", DAY) == 1
        [turn] = await store.open_turns(rid("long"), "me")
        assert turn.dead_after == 10 * DAY
        await plugged.elapse(store, 9 * DAY)
        assert isinstance(await store.take(rid("long"), 1, "other", DAY), Taken)
        # One that waits longer itself gives others as long.
        assert await store.take(rid("short"), 1, "other", 20 * DAY) == Fenced()

    behind_proxy(postgres, check)


def test_a_silent_connection_is_dropped_and_no_statement_cancelled(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_TRY", 0.5)
    cancelled: list[object] = []
    monkeypatch.setattr(
        asyncpg.Connection, "_cancel_current_command", lambda *args: cancelled.append(args)
    )

    async def check(store: PostgresStore, proxy: Proxy) -> None:
        await store.beat("g1")
        proxy.hang = 1
        assert await store.accept(new("a")) == Accepted(rid("a"))
        assert proxy.lost == 1
        waiting = asyncio.create_task(store.end(ending("a")))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert await store.end(ending("a")) == Ended()

    behind_proxy(postgres, check)
    assert cancelled == []


def test_a_write_of_which_no_answer_ever_comes_is_told_as_uncertain(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_PATIENCE", 0.5)

    async def check(store: PostgresStore, proxy: Proxy) -> None:
        await store.beat("g1")
        proxy.lose = 1000
        with pytest.raises(StoreError, match="is not known") as caught:
            await store.accept(new("a"))
        assert caught.value.uncertain
        proxy.lose = 0
        assert await store.find(rid("a"), "me") is not None

    behind_proxy(postgres, check)


def test_a_server_that_is_away_is_told_and_found_again(
    postgres: Postgres, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(store: PostgresStore, proxy: Proxy) -> None:
        await store.save(stored("a"))
        port, proxy._server_port = proxy._server_port, 1
        store._connections._drop_idle()
        monkeypatch.setattr(connections, "_PATIENCE", 0.1)
        with pytest.raises(StoreError, match="does not answer") as caught:
            await store.accept(new("b"))
        assert not caught.value.uncertain  # it was never sent
        assert "Look at PostgreSQL" in str(store.trouble)
        monkeypatch.setattr(connections, "_PATIENCE", 2 * PATIENCE_S)
        monkeypatch.setattr(connections, "_IN_TROUBLE", 0.1)  # which counts from now on
        with pytest.raises(StoreError):
            await store.load(rid("a"), "me")
        monkeypatch.setattr(connections, "_IN_TROUBLE", LONG_S)
        proxy._server_port = port
        await store.prune(0)
        assert store.trouble is None
        assert await store.load(rid("a"), "me") == stored("a")

    with caplog.at_level(logging.INFO):
        behind_proxy(postgres, check)
    assert "the store works again" in caplog.messages


def test_nothing_that_was_acknowledged_is_missing_after_a_kill(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_PATIENCE", 1)  # for those that wait when it dies
    url = postgres.emptied()
    accepted: list[str] = []
    ended: list[str] = []

    async def writer(store: PostgresStore, number: int) -> None:
        for turn in itertools.count():
            label = f"{number}/{turn}"
            await store.accept(new(label))
            accepted.append(rid(label))
            await store.end(ending(label))
            ended.append(rid(label))

    async def write() -> None:
        store = opened_at(url)
        writers = [asyncio.create_task(writer(store, number)) for number in range(6)]
        await eventually_async(lambda: len(ended) >= 100)
        postgres.kill()
        done = await asyncio.gather(*writers, return_exceptions=True)
        assert all(isinstance(each, StoreError) for each in done)
        await store.close()

    async def look() -> None:
        store = opened_at(url)
        for turn_id in accepted:
            assert await store.find(turn_id, "me") is not None
        for turn_id in ended:
            assert await store.load(turn_id, "me") is not None
        await store.close()

    try:
        asyncio.run(write())
    finally:
        postgres.start()
    asyncio.run(look())


# -- days -----------------------------------------------------------------------------------------


async def asked(url: str, sql: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return [row[0] for row in await connection.fetch(sql)]
    finally:
        await connection.close()


def noon() -> int:
    """Return the middle of this day, however much of it has passed."""
    return round(datetime.now(UTC).replace(hour=12, minute=0, second=0).timestamp())


async def add_days(url: str, first: int, last: int) -> None:
    """Days that long ago, as a store has them that has run for as long."""
    connection = await asyncpg.connect(url)
    today = datetime.now(UTC).date()
    try:
        ends = today - timedelta(days=first), today - timedelta(days=last)
        await partitions.make(connection, *ends)
    finally:
        await connection.close()


TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname LIKE 'turns_%' ORDER BY 1"


def test_days_are_made_ahead_and_whole_days_forgotten(postgres: Postgres) -> None:
    url = postgres.database()

    async def check() -> None:
        now = noon()
        await add_days(url, 40, 2)
        store = PostgresStore(url, max_age=30 * DAY, max_bytes=10**12)
        for age in range(40):
            await store.save(stored(str(age), at=now - age * DAY))
        gone = await store.prune(now)
        left = [await store.load(rid(str(n), now - n * DAY), "me") is not None for n in range(40)]
        assert left == [n <= 30 for n in range(40)]
        assert gone == 9
        tables = await asked(url, TABLES)
        today = datetime.now(UTC).date()
        assert tables[-1] == partitions.table_of(today + timedelta(days=7))
        assert tables[0] >= partitions.table_of(today - timedelta(days=31))
        assert await store.prune(now) == 0
        await store.close()

    asyncio.run(check())


def test_the_oldest_days_go_when_there_is_too_much_but_none_with_an_open_turn(
    postgres: Postgres,
) -> None:
    url = postgres.database()

    async def check() -> None:
        now = noon()
        await add_days(url, 5, 2)
        store = PostgresStore(url, max_age=30 * DAY, max_bytes=0)
        for age in range(6):
            await store.save(stored(str(age), at=now - age * DAY))
        still = replace(new("open"), id=rid("open", now - 4 * DAY))
        await store.accept(still)
        assert await store.prune(now) == 3
        left = [await store.load(rid(str(n), now - n * DAY), "me") is not None for n in range(6)]
        assert left == [True, True, False, False, True, False]
        await store.close()

    asyncio.run(check())


def test_what_a_dead_gateway_left_half_forgotten_is_dropped(postgres: Postgres) -> None:
    url = postgres.database()

    async def check() -> None:
        await add_days(url, 33, 32)
        table = partitions.table_of(datetime.now(UTC).date() - timedelta(days=33))
        await asked(url, f"ALTER TABLE turns DETACH PARTITION {table}")
        store = opened_at(url)
        await store.prune(noon())
        assert table not in await asked(url, TABLES)
        await store.close()

    asyncio.run(check())


def test_turns_are_written_while_days_are_made_and_dropped(postgres: Postgres) -> None:
    url = postgres.database()

    async def check() -> None:
        await add_days(url, 40, 32)
        store, other = opened_at(url), opened_at(url)
        pruning = asyncio.gather(store.prune(noon()), other.prune(noon()))
        number = 0
        while not pruning.done():
            label = str(number)
            assert await store.accept(new(label)) == Accepted(rid(label))
            assert await other.end(ending(label)) == Ended()
            number += 1
        assert list(await pruning) == [0, 0]
        await store.close()
        await other.close()

    asyncio.run(check())


def test_a_missing_day_is_made_and_an_id_without_one_refused_with_words(postgres: Postgres) -> None:
    url = postgres.database()

    async def check() -> None:
        store = opened_at(url)
        await store.beat("g1")
        for table in await asked(url, TABLES):
            await asked(url, f"DROP TABLE {table}")
        assert await store.accept(new("a")) == Accepted(rid("a"))
        with pytest.raises(StoreError, match="clocks of this machine and of PostgreSQL"):
            await store.accept(replace(new("b"), id=rid("b", noon() + 30 * DAY)))
        await store.close()

    asyncio.run(check())


FAILS = (
    (
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN RAISE EXCEPTION $$it fails$$; END'"
    ),
    "CREATE TRIGGER fails BEFORE INSERT ON turns FOR EACH ROW EXECUTE FUNCTION fails()",
)


def test_the_log_of_the_database_has_no_prompts_though_it_has_all_statements(
    postgres: Postgres,
) -> None:
    url = postgres.database()
    words = {each: f"words-of-a-person-{each}".encode() for each in ("turn", "key", "failed")}

    async def check() -> None:
        name = url.rpartition("/")[2]
        for each in ("log_min_duration_statement = 0", "log_parameter_max_length_on_error = -1"):
            await asked(url, f"ALTER DATABASE {name} SET {each}")
        store = opened_at(url)
        key = Key(key=words["key"].decode(), request_hash=b"")
        await store.accept(replace(new("a", key=key), input=words["turn"]))
        for each in FAILS:
            await asked(url, each)
        with pytest.raises(StoreError):
            await store.accept(replace(new("b"), input=words["failed"]))
        await store.close()

    asyncio.run(check())
    log = (postgres._folder / "log").read_text()
    assert "INSERT INTO turns" in log
    assert "it fails" in log
    found = [each for each in words if words[each].hex() in log or words[each].decode() in log]
    assert found == []


def test_only_heartbeats_do_not_wait_for_the_disk() -> None:
    quick = [
        name for name in statements.__all__ if "synchronous_commit" in str(vars(statements)[name])
    ]
    assert quick == ["BEAT"]


# -- the schema -----------------------------------------------------------------------------------


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [each.version for each in migrations()] == list(range(1, len(migrations()) + 1))


def test_many_may_migrate_at_once_and_again(postgres: Postgres) -> None:
    url = postgres.database(migrated=False)

    async def check() -> None:
        applied = await asyncio.gather(*(migrate(url) for _ in range(4)))
        assert sorted(map(len, applied)) == [0, 0, 0, len(migrations())]
        assert await migrate(url) == []
        store = opened_at(url)
        await store.open()
        assert await store.accept(new("a")) == Accepted(rid("a"))
        await store.close()

    asyncio.run(check())


def test_a_database_without_tables_is_refused_with_what_to_type(postgres: Postgres) -> None:
    store = opened_at(postgres.database(migrated=False))

    async def check() -> None:
        with pytest.raises(StoreError, match="vivace store migrate"):
            await store.open()
        assert "vivace store migrate" in str(store.trouble)
        await store.close()

    asyncio.run(check())


def test_a_server_that_is_only_slow_when_it_is_opened_is_not_away(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_TRY", 0.001)
    monkeypatch.setattr(connections, "_PATIENCE", 0.1)
    url = postgres.database(migrated=False)

    async def check() -> None:
        store = opened_at(url)
        with pytest.raises(StoreError, match="vivace store migrate"):
            await store.open()
        await store.close()

    asyncio.run(check())


def test_a_server_that_is_away_when_it_is_opened_is_no_reason_not_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_PATIENCE", 0.1)

    async def check() -> None:
        store = opened_at("postgresql://vivace:secret-word@127.0.0.1:1/vivace")
        await store.open()
        assert "does not answer" in str(store.trouble)
        with pytest.raises(StoreError) as caught:
            await migrate("postgresql://vivace:secret-word@127.0.0.1:1/vivace")
        assert "secret-word" not in f"{store.trouble} {caught.value}"
        await store.close()

    asyncio.run(check())
