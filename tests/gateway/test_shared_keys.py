"""Two gateways, each a process of its own, that share a PostgreSQL: one set of keys for both."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from subprocess import run
from typing import Any

import asyncpg
import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.http import RESPONSES, said, sse
from tests.support.keyring import Keyring, SharedKeyring
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.socket import Socket
from tests.support.waiting import eventually, in_time

SCRIPT = """
[[replies]]
when = "wait"
then = [{ do = "say", text = "Well" }, { do = "stall", seconds = 120 }]
[[replies]]
when = "recite"
then = [{ do = "recite" }]
"""
SOON = 1.0
"""Seconds within which what was done at one gateway counts at the other."""


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Fleet:
    def __init__(self, folder: Path, url: str) -> None:
        self.folders = [folder / name for name in ("a", "b")]
        self._url = url
        self._stack = ExitStack()
        self.servers: list[Serve] = []

    def begin(self, number: int, **settings: Any) -> Serve:
        self.folders[number].mkdir(exist_ok=True)
        tables = {"store": {"url": self._url, "resume_seconds": 5}}
        return Serve(self.folders[number], SCRIPT, tables=tables, **settings)

    def __enter__(self) -> Fleet:
        SharedKeyring(self._url).create("first")  # without any, everybody would be let in
        begun = [self.begin(number) for number in range(len(self.folders))]
        self.servers = [self._stack.enter_context(each) for each in begun]
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def keys(self, number: int, *arguments: str) -> str:
        """``vivace keys``, typed where one of the gateways is configured."""
        program = "from vivace.cli.main import main; main()"
        config = str(self.folders[number] / "vivace.toml")
        command = [sys.executable, "-c", program, "keys", *arguments, "-c", config]
        ran = run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def status(self, number: int, key: str) -> int:
        with self.servers[number].http(headers=bearer(key)) as http:
            return http.post(RESPONSES, json={"input": "Hi"}).status_code

    def models(self, number: int, key: str) -> int:
        """What needs a key, and neither an engine nor the store."""
        with self.servers[number].http(headers=bearer(key)) as http:
            return http.get("/v1/models").status_code


@pytest.fixture
def fleet(tmp_path: Path, postgres: Postgres) -> Iterator[Fleet]:
    with Fleet(tmp_path, postgres.database()) as fleet:
        yield fleet


def within(seconds: float, holds: Callable[[], bool]) -> None:
    eventually(holds, seconds)


def streamed(server: Serve, key: str, **body: Any) -> list[dict[str, Any]]:
    with (
        server.http(headers=bearer(key)) as http,
        http.stream("POST", RESPONSES, json={"stream": True, **body}) as answer,
    ):
        return list(sse(answer.iter_lines()))


# -- made and revoked anywhere --------------------------------------------------------------------


@in_time
def test_a_key_that_is_made_at_one_is_let_in_at_the_other_within_a_second(fleet: Fleet) -> None:
    assert [fleet.models(number, "none") for number in (0, 1)] == [401, 401]
    key = fleet.keys(0, "create", "ann")
    within(SOON, lambda: fleet.models(1, key) == fleet.models(0, key) == 200)
    assert "ann" in fleet.keys(1, "list").split()
    assert not (fleet.folders[0] / "keys.json").exists()


@in_time
def test_revoked_at_one_it_is_refused_at_both_within_a_second_and_all_that_it_began_ends(
    fleet: Fleet,
) -> None:
    ann, bob = fleet.keys(0, "create", "ann"), fleet.keys(1, "create", "bob")
    first, second = fleet.servers
    within(5, lambda: fleet.models(0, bob) == fleet.models(1, ann) == 200)
    with (
        Socket(first.url, bearer(ann)) as idle,
        Socket(second.url, bearer(bob)) as other,
        ThreadPoolExecutor() as pool,
    ):
        assert idle.turn("Hi")["type"] == "response.completed"
        other.create("wait")
        other.until("response.output_text.delta")
        streams = [pool.submit(streamed, each, ann, input="wait") for each in (first, second)]
        within(10, lambda: _running(first, bob) == 1 and _running(second, bob) == 2)
        fleet.keys(1, "revoke", "ann")
        revoked = time.monotonic()
        ends = [each.result(10)[-1]["response"] for each in streams]
        with pytest.raises(ConnectionClosed) as closed:
            idle.read(timeout=SOON)
        assert [fleet.models(number, ann) for number in (0, 1)] == [401, 401]
        assert time.monotonic() - revoked < SOON
        assert [(end["status"], end["error"]["code"]) for end in ends] == [
            ("failed", "invalid_api_key")
        ] * 2
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        assert other.turn("Hi", stream_id="second")["type"] == "response.completed"
    assert first.errors == second.errors == []


def _running(server: Serve, key: str) -> float:
    with server.http(headers=bearer(key)) as http:
        text = http.get("/metrics").raise_for_status().text
    return sum(
        float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith("vivace_turns_running{")
    )


def test_a_conversation_that_began_at_one_goes_on_at_the_other(fleet: Fleet) -> None:
    """Turns belong to the key's id, which is the same everywhere."""
    ann, bob = fleet.keys(0, "create", "ann"), fleet.keys(0, "create", "bob")
    within(5, lambda: fleet.models(0, bob) == fleet.models(1, bob) == 200)
    with (
        fleet.servers[0].http(headers=bearer(ann)) as there,
        fleet.servers[1].http(headers=bearer(ann)) as here,
        fleet.servers[1].http(headers=bearer(bob)) as stranger,
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


def test_a_key_s_turns_do_not_go_on_elsewhere_after_it_was_revoked(fleet: Fleet) -> None:
    """Its gateway died before it could end them, so nobody else is told to."""
    ann, bob = fleet.keys(0, "create", "ann"), fleet.keys(0, "create", "bob")
    first, second = fleet.servers
    within(5, lambda: fleet.models(0, bob) == fleet.models(1, bob) == 200)
    kept = {}
    for key in (ann, bob):
        with first.http(headers=bearer(key)) as http:
            body = {"input": "wait", "background": True}
            kept[key] = http.post(RESPONSES, json=body).json()["id"]
    within(5, lambda: _running(first, bob) == 2)
    first.process.kill()
    fleet.keys(1, "revoke", "ann")
    within(30, lambda: _running(second, bob) == 1)
    within(10, lambda: _record(fleet, kept[ann])["status"] == "failed")
    assert _record(fleet, kept[ann])["error"]["code"] == "invalid_api_key"
    assert _running(second, bob) == 1


def _record(fleet: Fleet, response_id: str) -> dict[str, Any]:
    async def asked() -> bytes | None:
        connection = await asyncpg.connect(fleet._url)
        try:
            sql = "SELECT response FROM turns WHERE id = $1"
            found: bytes | None = await connection.fetchval(sql, response_id)
            return found
        finally:
            await connection.close()

    found = asyncio.run(asked())
    return {"status": None} if not found else dict(json.loads(found))


# -- without the database -------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_while_the_database_is_away_known_keys_go_on_and_it_is_caught_up_with_after(
    tmp_path: Path, how: str
) -> None:
    postgres = Postgres()
    try:
        with Fleet(tmp_path, postgres.database()) as fleet:
            ann, bob = fleet.keys(0, "create", "ann"), fleet.keys(0, "create", "bob")
            first, second = fleet.servers
            within(5, lambda: fleet.models(0, bob) == fleet.models(1, bob) == 200)
            passing = {"input": "Hi", "store": False}
            with Socket(first.url, bearer(ann)) as socket:
                getattr(postgres, how)()
                until = time.monotonic() + 6
                while time.monotonic() < until:
                    assert socket.turn("Hi", store=False)["type"] == "response.completed"
                    for server in (first, second):
                        with server.http(headers=bearer(ann)) as http:
                            assert http.post(RESPONSES, json=passing).status_code == 200
                    assert fleet.models(1, "none") == 401
                    time.sleep(0.2)
                postgres.start() if how == "kill" else postgres.thaw()
                fleet.keys(1, "revoke", "ann")
                within(3, lambda: fleet.models(0, ann) == fleet.models(1, ann) == 401)
                with pytest.raises(ConnectionClosed):
                    socket.read(timeout=3)
            within(10, lambda: fleet.status(0, bob) == fleet.status(1, bob) == 200)
    finally:
        postgres.thaw()
        postgres.stop()


def test_a_gateway_that_starts_without_the_database_says_so_until_it_is_back(
    tmp_path: Path,
) -> None:
    postgres = Postgres()
    try:
        fleet = Fleet(tmp_path, postgres.database())
        fleet.folders[0].mkdir()
        (fleet.folders[0] / "vivace.toml").write_text(
            f'version = 1\n[store]\nurl = "{fleet._url}"\n'
        )
        key = fleet.keys(0, "create", "ann")
        here = Keyring(fleet.folders[0]).create("bert")
        postgres.kill()
        server = fleet.begin(0, owners=["root"])
        fleet.servers = [server]
        try:
            eventually(lambda: _answers(server), 30)
            with server.http(headers=bearer(key)) as http:
                refused = http.get("/v1/models")
                assert refused.status_code == 503
                assert refused.json()["error"]["code"] == "store_unavailable"
                assert float(refused.headers["retry-after"]) > 0
                unready = http.get("/readyz")
                assert unready.status_code == 503
                assert "the keys in the store have not been read yet" in unready.text
                assert http.get("/v1/models", headers={"Authorization": ""}).status_code == 503
            assert fleet.models(0, here) == 200
            with server.http("root") as http:
                assert http.get("/v1/models").status_code == 200
            postgres.start()
            within(3, lambda: fleet.models(0, key) == 200)
            assert fleet.models(0, "none") == 401
            within(10, lambda: fleet.status(0, key) == 200)
        finally:
            server.__exit__(None, None, None)
    finally:
        postgres.stop()


def _answers(server: Serve) -> bool:
    assert server.process.poll() is None, server.log
    with server.http() as http:
        try:
            return http.get("/healthz").status_code == 200
        except httpx.TransportError:
            return False


# -- keys of one machine become keys of all -------------------------------------------------------


def test_imported_keys_are_let_in_everywhere_and_nothing_of_theirs_ends(fleet: Fleet) -> None:
    ann = Keyring(fleet.folders[0]).create("ann")
    within(5, lambda: fleet.models(0, ann) == 200)
    assert fleet.models(1, ann) == 401
    first, second = fleet.servers
    with Socket(first.url, bearer(ann)) as socket, first.http(headers=bearer(ann)) as http:
        kept = http.post(RESPONSES, json={"input": "Hi"}).json()["id"]
        socket.create("wait")
        socket.until("response.output_text.delta")
        assert "1 key moved" in fleet.keys(0, "import")
        assert Keyring(fleet.folders[0]).entries() == []
        within(SOON, lambda: fleet.models(1, ann) == 200)
        time.sleep(1)
        assert _running(first, ann) == 1
        assert socket.turn("Hi", stream_id="second")["type"] == "response.completed"
    with second.http(headers=bearer(ann)) as http:
        assert http.get(f"{RESPONSES}/{kept}").status_code == 200
    fleet.keys(1, "revoke", "ann")
    within(SOON, lambda: fleet.models(0, ann) == fleet.models(1, ann) == 401)
