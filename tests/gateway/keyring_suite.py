"""What every keyring promises, wherever it keeps its keys."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from vivace.errors import ConfigError, Forbidden, Unauthorized
from vivace.gateway.auth import Keys
from vivace.gateway.keyring import Keyring

Opened = Callable[[], Keyring]
"""Another way to the same keys, each time."""


def names(ring: Keyring) -> Awaitable[list[str]]:
    async def told() -> list[str]:
        return sorted(entry.name for entry in await ring.entries())

    return told()


def play(opened: Opened, story: Callable[[Keyring, Keyring], Awaitable[None]]) -> None:
    """With a server, which looks, and a person, who makes and revokes."""

    async def whole() -> None:
        server, person = opened(), opened()
        try:
            await story(server, person)
        finally:
            await server.close()
            await person.close()

    asyncio.run(whole())


class KeyringSuite:
    @pytest.fixture
    def opened(self) -> Opened:
        raise NotImplementedError

    def test_without_any_key_there_never_was_one(self, opened: Opened) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            assert await person.entries() == []
            made = await server.look()
            assert made is not None
            assert (made.entries, made.ever) == ((), False)
            assert await server.look() is None

        play(opened, story)

    def test_only_the_hash_of_a_key_is_kept(self, opened: Opened) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            key = await person.create("anna")
            (entry,) = await server.entries()
            assert re.fullmatch(r"viv_[A-Za-z0-9_-]{43}", key)
            assert re.fullmatch("key_[0-9a-f]{24}", entry.id)
            assert entry.sha256 == hashlib.sha256(key.encode()).hexdigest()
            assert (entry.name, entry.created_at) == ("anna", datetime.now(UTC).date())

        play(opened, story)

    def test_an_admin_key_is_one_only_if_it_was_made_so(self, opened: Opened) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            await person.create("anna")
            await person.create("bert", admin=True)
            admins = {entry.name: entry.admin for entry in await server.entries()}
            assert admins == {"anna": False, "bert": True}
            keys = Keys((), [server])
            await keys.look(server)
            for entry in await person.entries():
                if entry.admin:
                    keys.check_admin(entry.owner)
                else:
                    with pytest.raises(Forbidden, match="--admin"):
                        keys.check_admin(entry.owner)
            await person.revoke("bert")
            await keys.look(server)
            for owner in ("bert", "local", ""):
                with pytest.raises(Forbidden):
                    keys.check_admin(owner)

        play(opened, story)

    def test_who_looks_sees_every_change_once(self, opened: Opened) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            assert await server.look() is not None
            for change, name in (("create", "anna"), ("create", "bert"), ("revoke", "anna")):
                await getattr(person, change)(name)
                made = await server.look()
                assert made is not None
                assert sorted(made.entries, key=lambda each: each.id) == sorted(
                    await person.entries(), key=lambda each: each.id
                )
                assert await server.look() is None

        play(opened, story)

    def test_that_there_was_a_key_is_never_forgotten(self, opened: Opened) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            await person.create("anna")
            await person.revoke("anna")
            made = await server.look()
            assert made is not None
            assert (made.entries, made.ever) == ((), True)

        play(opened, story)

    def test_a_name_is_given_once_and_is_another_s_after_it_was_revoked(
        self, opened: Opened
    ) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            await person.create("anna")
            (first,) = await person.entries()
            with pytest.raises(ConfigError, match="a key 'anna' already"):
                await server.create("anna")
            await person.revoke("anna")
            await person.create("anna")
            (second,) = await person.entries()
            assert first.id != second.id

        play(opened, story)

    def test_revoking_takes_this_key_and_no_other_and_names_those_there_are(
        self, opened: Opened
    ) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            with pytest.raises(ConfigError, match=r"no key 'anna' in .* Known: none\."):
                await person.revoke("anna")
            for name in ("anna", "bert", "carl"):
                await person.create(name)
            await person.revoke("bert")
            assert await names(server) == ["anna", "carl"]
            with pytest.raises(ConfigError, match=r"Known: anna, carl\."):
                await person.revoke("bert")

        play(opened, story)

    @pytest.mark.parametrize("name", ["", "two words", "ä", "a\n", "a'; DROP TABLE turns; --"])
    def test_a_name_that_could_not_stand_in_the_configuration_is_refused(
        self, opened: Opened, name: str
    ) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            with pytest.raises(ConfigError, match="letters, digits"):
                await person.create(name)
            assert await person.entries() == []

        play(opened, story)

    def test_changes_at_the_same_time_undo_nothing_of_each_other(self, opened: Opened) -> None:
        """Above all, nobody writes back a key that was revoked meanwhile."""
        some = [f"key-{number}" for number in range(8)]

        async def change(name: str) -> None:
            mine = opened()
            await mine.create(name)
            await mine.revoke(f"old-{name}")
            await mine.close()

        async def story(server: Keyring, person: Keyring) -> None:
            for name in some:
                await person.create(f"old-{name}")
            await asyncio.gather(*map(change, some))
            assert await names(server) == some

        play(opened, story)

    def test_of_many_who_want_a_name_at_once_one_gets_it(self, opened: Opened) -> None:
        async def wanted() -> str | ConfigError:
            mine = opened()
            try:
                return await mine.create("anna")
            except ConfigError as error:
                return error
            finally:
                await mine.close()

        async def story(server: Keyring, person: Keyring) -> None:
            got = await asyncio.gather(*(wanted() for _ in range(8)))
            (key,) = (each for each in got if isinstance(each, str))
            (entry,) = await server.entries()
            assert entry.sha256 == hashlib.sha256(key.encode()).hexdigest()

        play(opened, story)

    def test_a_server_knows_a_key_until_it_is_revoked(self, opened: Opened) -> None:
        async def story(server: Keyring, person: Keyring) -> None:
            keys = Keys([], [server])
            await keys.look(server)
            anna, bert = [f"Bearer {await person.create(name)}" for name in ("anna", "bert")]
            ids = {entry.name: entry.id for entry in await person.entries()}
            await keys.look(server)
            assert [keys.owner_of(anna), keys.owner_of(bert)] == [ids["anna"], ids["bert"]]
            assert await keys.look(server) == {}
            await person.revoke("anna")
            assert await keys.look(server) == {ids["anna"]: "anna"}
            assert not keys.knows(ids["anna"])
            assert keys.owner_of(bert) == ids["bert"]
            with pytest.raises(Unauthorized):
                keys.owner_of(anna)

        play(opened, story)
