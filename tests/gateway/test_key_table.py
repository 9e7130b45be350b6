"""Keys that gateways share: what every keyring promises, and a database that is away."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.keyring_suite import KeyringSuite, Opened
from tests.support.examples import examples
from tests.support.keyring import Keyring, SharedKeyring
from tests.support.postgres import Postgres
from tests.support.proxy import Proxy
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import PATIENCE_S
from vivace.config import LOCAL, KeyConfig
from vivace.errors import ConfigError, StoreAway, Unauthorized
from vivace.gateway.auth import Keys
from vivace.gateway.key_file import KeyFile
from vivace.gateway.key_table import SharedKeys
from vivace.store import connections
from vivace.store.postgres_keys import PostgresKeys


class TestSharedKeys(KeyringSuite):
    @pytest.fixture
    def opened(self, postgres: Postgres) -> Opened:
        url = postgres.emptied()
        return lambda: SharedKeys(PostgresKeys(url), "the database")


def configured(name: str, key: str) -> KeyConfig:
    return KeyConfig(name=name, sha256=hashlib.sha256(key.encode()).hexdigest())


Check = Callable[[SharedKeys, Proxy, SharedKeyring], Awaitable[None]]


def behind_proxy(postgres: Postgres, check: Check) -> None:
    """The server's way there leads through a proxy, the person's does not."""
    url = postgres.emptied()

    async def whole() -> None:
        async with Proxy(postgres.port) as proxy:
            table = PostgresKeys(postgres.url(url.rpartition("/")[2], proxy.port))
            keys = SharedKeys(table, "PostgreSQL")
            try:
                await asyncio.wait_for(check(keys, proxy, SharedKeyring(url)), PATIENCE_S)
            finally:
                await keys.close()

    asyncio.run(whole())


def cut(keys: SharedKeys, proxy: Proxy) -> Callable[[], None]:
    """Take the way to the database away; returns what brings it back."""
    port, proxy._server_port = proxy._server_port, 1
    assert isinstance(keys._table, PostgresKeys)
    keys._table._connections._drop_idle()
    wait_for_answers(0.3)

    def heal() -> None:
        proxy._server_port = port
        wait_for_answers(PATIENCE_S)

    return heal


def wait_for_answers(seconds: float) -> None:
    connections._PATIENCE = connections._IN_TROUBLE = seconds


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that is there may be slow; one that was ``cut`` is not waited for."""
    for name in ("_PATIENCE", "_IN_TROUBLE", "_TRY"):
        monkeypatch.setattr(connections, name, PATIENCE_S)


# -- a database that is away ----------------------------------------------------------------------


@pytest.mark.usefixtures("_patient")
def test_known_keys_stay_while_it_is_away_and_what_was_done_meanwhile_counts_when_it_is_back(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    async def check(shared: SharedKeys, proxy: Proxy, person: SharedKeyring) -> None:
        ann, bob = [await asyncio.to_thread(person.create, name) for name in ("ann", "bob")]
        keys = Keys([], [shared])
        await keys.look(shared)
        owner = keys.owner_of(f"Bearer {ann}")
        heal = cut(shared, proxy)
        await asyncio.to_thread(person.revoke, "ann")
        new = await asyncio.to_thread(person.create, "carl")
        for _ in range(3):
            assert await keys.look(shared) == {}
        assert keys.owner_of(f"Bearer {ann}") == owner
        with pytest.raises(Unauthorized):
            keys.owner_of(f"Bearer {new}")
        heal()
        assert await keys.look(shared) == {owner: "ann"}
        assert keys.owner_of(f"Bearer {new}")
        assert keys.owner_of(f"Bearer {bob}")

    with caplog.at_level(logging.INFO, "vivace.keys"):
        behind_proxy(postgres, check)
    away, back = (record.message for record in caplog.records if record.name == "vivace.keys")
    assert "does not answer" in away
    assert away.endswith("The keys known so far stay.")
    assert back == "the keys of PostgreSQL can be read again"


@pytest.mark.usefixtures("_patient")
def test_a_server_that_has_never_read_them_lets_in_whom_it_knows_otherwise_and_nobody_else(
    postgres: Postgres,
) -> None:
    async def check(shared: SharedKeys, proxy: Proxy, person: SharedKeyring) -> None:
        heal = cut(shared, proxy)
        keys = Keys([configured("root", "ours")], [shared])
        assert await keys.look(shared) == {}
        assert keys.owner_of("Bearer ours") == "root"
        assert keys.knows("root")
        for header in (None, "Bearer theirs"):
            with pytest.raises(StoreAway) as refused:
                keys.owner_of(header)
            assert (refused.value.status, refused.value.code) == (503, "store_unavailable")
        with pytest.raises(StoreAway):
            keys.knows("key_of_somebody")
        heal()
        await keys.look(shared)
        with pytest.raises(Unauthorized):
            keys.owner_of("Bearer theirs")
        assert not keys.knows("key_of_somebody")

    behind_proxy(postgres, check)


@pytest.mark.usefixtures("_patient")
def test_a_server_that_has_never_read_them_takes_nobody_for_its_own_user(
    postgres: Postgres,
) -> None:
    async def check(shared: SharedKeys, proxy: Proxy, person: SharedKeyring) -> None:
        heal = cut(shared, proxy)
        keys = Keys([], [shared])
        await keys.look(shared)
        assert keys.needed
        with pytest.raises(StoreAway):
            keys.owner_of(None)
        heal()
        await keys.look(shared)
        assert keys.owner_of(None) == LOCAL  # there never was a key

    behind_proxy(postgres, check)


def test_others_can_reach_a_server_before_its_first_key_and_nobody_comes_in(
    postgres: Postgres, tmp_path: Path
) -> None:
    shared = SharedKeyring(postgres.emptied())
    server = {"host": "0.0.0.0", "port": 0}
    config = configuration(server=server, store=shared.store)
    with RunningGateway(config=config, base=tmp_path) as gateway:
        assert gateway.http.get("/v1/models").status_code == 401
    with pytest.raises(ConfigError, match="vivace keys create"):
        RunningGateway(config=configuration(server=server), base=tmp_path)


# -- beside keys.json -----------------------------------------------------------------------------


def test_the_keys_of_this_machine_count_beside_them(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.emptied()

    async def check() -> None:
        file, table = KeyFile(tmp_path), SharedKeys(PostgresKeys(url), "PostgreSQL")
        ann, bob = await file.create("ann"), await table.create("bob")
        keys = Keys([], [file, table])
        await keys.look(table)
        assert [keys.owner_of(f"Bearer {ann}")] == [each.id for each in await file.entries()]
        assert [keys.owner_of(f"Bearer {bob}")] == [each.id for each in await table.entries()]
        await keys.close()

    asyncio.run(check())


def test_a_key_that_is_in_both_is_one_key_and_stays_when_it_goes_from_one(
    postgres: Postgres, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = Keyring(tmp_path)
    header = f"Bearer {here.create('ann')}"
    (entry,) = here.entries()
    url = postgres.emptied()

    async def check() -> None:
        file, table = KeyFile(tmp_path), SharedKeys(PostgresKeys(url), "PostgreSQL")
        assert await table.add(entry)
        keys = Keys([], [file, table])
        assert await keys.look(table) == {}
        await file.drop([entry])
        assert await keys.look(file) == {}
        assert keys.owner_of(header) == entry.id
        await keys.close()

    asyncio.run(check())
    assert [record.message for record in caplog.records if record.name == "vivace.keys"] == []


# -- any order of anything ------------------------------------------------------------------------

NAMES = st.sampled_from(["ann", "bob", "carl"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["create", "revoke", "look", "lose", "cut"]), NAMES), max_size=25
)


@pytest.mark.usefixtures("_patient")
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_after_any_changes_and_lost_answers_who_looks_knows_what_there_is(
    postgres: Postgres, steps: list[tuple[str, str]]
) -> None:
    """And every key that was taken back was told of exactly once, if it had been seen."""

    async def check(shared: SharedKeys, proxy: Proxy, person: SharedKeyring) -> None:
        writer = SharedKeys(PostgresKeys(person.store["url"]), "PostgreSQL")
        keys = Keys([], [shared], closed=True)
        made: dict[str, tuple[str, str]] = {}
        seen: dict[str, str] = {}
        gone: list[str] = []
        for step, name in [*steps, ("look", "")]:
            if step == "create" and name not in made:
                key = await writer.create(name)
                (entry,) = (each for each in await writer.entries() if each.name == name)
                made[name] = (key, entry.id)
            elif step == "revoke" and name in made:
                await writer.revoke(name)
                del made[name]
            elif step == "lose":
                proxy.lose = 1
            elif step == "cut":
                heal = cut(shared, proxy)
                assert await keys.look(shared) == {}
                heal()
            elif step == "look":
                told = await keys.look(shared)
                now = {entry_id: name for name, (_, entry_id) in made.items()}
                assert told == {each: seen[each] for each in seen.keys() - now.keys()}
                gone += told
                seen = now
        assert len(gone) == len(set(gone))
        for key, entry_id in made.values():
            assert keys.owner_of(f"Bearer {key}") == entry_id
        await writer.close()

    behind_proxy(postgres, check)
