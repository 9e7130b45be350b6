"""Two gateways that share a PostgreSQL: one set of keys for both."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosed

from tests.support.fleets import SLOW, Fleet
from tests.support.http import RESPONSES, bearer, keys, said, sse
from tests.support.keyring import Keyring, SharedKeyring
from tests.support.postgres import Postgres
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually
from vivace.cli.main import commands
from vivace.engines.scripted import Recite, Reply, Say, Stall
from vivace.store import connections

REPLIES = [
    Reply(when="wait", then=(Say("Well"), Stall(600))),
    Reply(when="recite", then=(Recite(),)),
]


def with_key(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Gateways(Fleet):
    """Each has a folder of its own, with a configuration that leads to the database."""

    def __init__(self, stack: ExitStack, url: str, folder: Path) -> None:
        super().__init__(stack, url, REPLIES)
        self.folders = [folder / name for name in ("a", "b")]
        for each in self.folders:
            each.mkdir()
            (each / "vivace.toml").write_text(f'version = 1\n[store]\nurl = "{url}"\n')
        self.running: list[RunningGateway] = []

    def begin(self, number: int, **tables: Any) -> RunningGateway:
        config = configuration(store={"url": self._url}, fleet=SLOW, **tables)
        gateway = RunningGateway(REPLIES, config=config, base=self.folders[number])
        self.running.append(self._stack.enter_context(gateway))
        return gateway

    def keys(self, number: int, *arguments: str) -> str:
        """``vivace keys``, typed where one of the gateways is configured."""
        config = str(self.folders[number] / "vivace.toml")
        ran = CliRunner().invoke(commands, ["keys", *arguments, "-c", config])
        assert ran.exit_code == 0, ran.output
        return ran.stdout.strip()

    def create(self, *names: str) -> list[str]:
        """New keys, which both gateways know."""
        made = [self.keys(0, "create", name) for name in names]
        for key in made:
            eventually(lambda key=key: self.models(0, key) == self.models(1, key) == 200)  # type: ignore[misc]
        return made

    def revoke(self, name: str, key: str) -> None:
        """Typed at the second one; returns when both know."""
        self.keys(1, "revoke", name)
        eventually(lambda: self.models(0, key) == self.models(1, key) == 401)

    def ask(self, number: int, key: str, **body: Any) -> int:
        asked = {"input": "Hi"} | body
        with client(self.running[number], key) as http:
            return http.post(RESPONSES, json=asked).status_code

    def models(self, number: int, key: str) -> int:
        """What needs a key, and neither an engine nor the store."""
        with client(self.running[number], key) as http:
            return http.get("/v1/models").status_code

    def record(self, response_id: str) -> dict[str, Any]:
        found = self._value("SELECT response FROM turns WHERE id = $1", response_id)
        return dict(json.loads(found)) if found else {"status": None}


def client(gateway: RunningGateway, key: str) -> httpx.Client:
    http = gateway.http
    http.headers.update(with_key(key))
    return http


def turns(gateway: RunningGateway) -> float:
    count: float = gateway.gateway.metrics.running.labels(MODEL)._value.get()
    return count


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[Gateways]:
    url = postgres.emptied()
    SharedKeyring(url).create("first")  # without any, all would be let in
    with ExitStack() as stack:
        fleet = Gateways(stack, url, tmp_path)
        for number in range(2):
            fleet.begin(number)
        yield fleet


@pytest.fixture(scope="module")
def mortal() -> Iterator[Postgres]:
    """A server that tests of this module kill and freeze."""
    postgres = Postgres()
    yield postgres
    postgres.thaw()
    postgres.stop()


def streamed(gateway: RunningGateway, key: str, **body: Any) -> list[dict[str, Any]]:
    with (
        client(gateway, key) as http,
        http.stream("POST", RESPONSES, json={"stream": True, **body}) as answer,
    ):
        return list(sse(answer.iter_lines()))


# -- made and revoked anywhere --------------------------------------------------------------------


def test_a_key_that_is_made_at_one_is_let_in_at_the_other(fleet: Gateways) -> None:
    assert [fleet.models(number, "none") for number in (0, 1)] == [401, 401]
    fleet.create("ann")
    assert "ann" in fleet.keys(1, "list").split()
    assert not (fleet.folders[0] / "keys.json").exists()


def test_a_key_that_is_revoked_at_one_is_refused_at_both_and_all_that_it_began_ends(
    fleet: Gateways, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = fleet.create("ann", "bob")
    first, second = fleet.running
    with (
        Socket(first.url, with_key(ann)) as idle,
        Socket(second.url, with_key(bob)) as other,
        ThreadPoolExecutor() as pool,
    ):
        assert idle.turn("Hi")["type"] == "response.completed"
        other.create("wait")
        other.until("response.output_text.delta")
        streams = [pool.submit(streamed, each, ann, input="wait") for each in (first, second)]
        eventually(lambda: turns(first) == 1 and turns(second) == 2)
        fleet.revoke("ann", ann)
        ends = [each.result(PATIENCE_S)[-1]["response"] for each in streams]
        assert [(end["status"], end["error"]["code"]) for end in ends] == [
            ("failed", "invalid_api_key")
        ] * 2
        with pytest.raises(ConnectionClosed) as closed:
            idle.read(PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert other.turn("Hi", stream_id="second")["type"] == "response.completed"
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_a_conversation_that_began_at_one_goes_on_at_the_other(fleet: Gateways) -> None:
    """Turns belong to the key's id, which is the same everywhere."""
    ann, bob = fleet.create("ann", "bob")
    first, second = fleet.running
    with (
        client(first, ann) as there,
        client(second, ann) as here,
        client(second, bob) as stranger,
    ):
        begun = there.post(RESPONSES, json={"input": "The word is cobalt."}).json()
        more = {"input": "recite", "previous_response_id": begun["id"]}
        assert here.get(f"{RESPONSES}/{begun['id']}").json() == begun
        goes_on = here.post(RESPONSES, json=more).json()
        assert goes_on["status"] == "completed"
        shown_there = there.post(RESPONSES, json=more).json()
        assert said(goes_on) == said(shown_there)
        assert stranger.get(f"{RESPONSES}/{begun['id']}").status_code == 404
        assert stranger.post(RESPONSES, json=more).status_code == 400


def test_a_key_s_turns_do_not_go_on_elsewhere_after_it_was_revoked(fleet: Gateways) -> None:
    """Its gateway dies before it can end them, so no client is told."""
    ann, bob = fleet.create("ann", "bob")
    first, second = fleet.running
    kept = {}
    for key in (ann, bob):
        with client(first, key) as http:
            body = {"input": "wait", "background": True}
            kept[key] = http.post(RESPONSES, json=body).json()["id"]
    eventually(lambda: turns(first) == 2)
    fleet.freeze(first)
    fleet.keys(1, "revoke", "ann")
    eventually(lambda: fleet.models(1, ann) == 401)
    fleet.bury(first)
    eventually(lambda: turns(second) == 1)
    eventually(lambda: fleet.record(kept[ann])["status"] == "failed")
    assert fleet.record(kept[ann])["error"]["code"] == "invalid_api_key"
    assert turns(second) == 1


# -- without the database -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kill", pytest.param("freeze", marks=pytest.mark.release)])
def test_while_the_database_is_away_known_keys_go_on_and_changes_count_when_it_is_back(
    tmp_path: Path, mortal: Postgres, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = mortal.emptied()
    SharedKeyring(url).create("first")
    with ExitStack() as stack, monkeypatch.context() as impatient:
        fleet = Gateways(stack, url, tmp_path)
        first, second = (fleet.begin(number) for number in range(2))
        ann, bob = fleet.create("ann", "bob")

        def goes_on_until_it_is_missed() -> bool:
            assert socket.turn("Hi", store=False)["type"] == "response.completed"
            assert [fleet.ask(number, ann, store=False) for number in (0, 1)] == [200, 200]
            assert fleet.models(1, "none") == 401
            return all(each.gateway.keys._complaints for each in (first, second))

        with Socket(first.url, with_key(ann)) as socket:
            getattr(mortal, how)()
            impatient.setattr(connections, "_PATIENCE", 0.3)
            eventually(goes_on_until_it_is_missed)
            impatient.undo()
            mortal.start() if how == "kill" else mortal.thaw()
            fleet.revoke("ann", ann)
            with pytest.raises(ConnectionClosed):
                socket.read(PATIENCE_S)
        eventually(lambda: fleet.ask(0, bob) == fleet.ask(1, bob) == 200)


def test_a_gateway_that_starts_without_the_database_says_so_until_it_is_back(
    tmp_path: Path, mortal: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack, monkeypatch.context() as impatient:
        fleet = Gateways(stack, mortal.emptied(), tmp_path)
        key = fleet.keys(0, "create", "ann")
        here = Keyring(fleet.folders[0]).create("bert")
        mortal.kill()
        impatient.setattr(connections, "_PATIENCE", 0.3)
        gateway = fleet.begin(0, keys=keys("root"))
        with client(gateway, key) as http:
            refused = http.get("/v1/models")
            assert refused.status_code == 503
            assert refused.json()["error"]["code"] == "store_unavailable"
            assert float(refused.headers["retry-after"]) > 0
            unready = http.get("/readyz")
            assert unready.status_code == 503
            assert "the keys in the store have not been read yet" in unready.text
            assert http.get("/v1/models", headers={"Authorization": ""}).status_code == 503
        assert fleet.models(0, here) == 200
        with gateway.http as http:
            assert http.get("/v1/models", headers=bearer("root")).status_code == 200
        impatient.undo()
        mortal.start()
        eventually(lambda: fleet.models(0, key) == 200)
        assert fleet.models(0, "none") == 401
        eventually(lambda: fleet.ask(0, key) == 200)


# -- keys of one machine become keys of all -------------------------------------------------------


def test_imported_keys_are_let_in_everywhere_and_nothing_of_theirs_ends(fleet: Gateways) -> None:
    ann = Keyring(fleet.folders[0]).create("ann")
    eventually(lambda: fleet.models(0, ann) == 200)
    assert fleet.models(1, ann) == 401
    first, second = fleet.running
    keys = first.gateway.keys

    async def has_none_of_its_own() -> bool:
        """Asked on its loop, where what was taken back ends in the same step."""
        file, table = (keys._made[each] for each in keys.keyrings)
        assert file is not None
        assert table is not None
        return not file.entries and "ann" in {each.name for each in table.entries}

    with Socket(first.url, with_key(ann)) as socket, client(first, ann) as http:
        kept = http.post(RESPONSES, json={"input": "Hi"}).json()["id"]
        socket.create("wait")
        socket.until("response.output_text.delta")
        assert "1 key moved" in fleet.keys(0, "import")
        assert Keyring(fleet.folders[0]).entries() == []
        eventually(lambda: fleet.models(1, ann) == 200)
        eventually(lambda: first.run(has_none_of_its_own()))
        assert turns(first) == 1
        assert socket.turn("Hi", stream_id="second")["type"] == "response.completed"
    with client(second, ann) as http:
        assert http.get(f"{RESPONSES}/{kept}").status_code == 200
    fleet.revoke("ann", ann)
