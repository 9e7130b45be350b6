"""Keys that come and go while the server runs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import socket as tcp
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support import virtual_time
from tests.support.http import RESPONSES, sse
from tests.support.keyring import Keyring, Ring, SharedKeyring
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually
from vivace.config import LOCAL, KeyConfig
from vivace.engines.scripted import Reply, Say, Stall
from vivace.errors import ConfigError, Unauthorized
from vivace.gateway.app import Gateway
from vivace.gateway.auth import Keys
from vivace.gateway.key_file import KeyFile

FOREVER = Stall(600)
"""Longer than any test waits; what follows it is never said."""


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def client(gateway: RunningGateway, key: str) -> httpx.Client:
    return httpx.Client(base_url=gateway.http.base_url, headers=bearer(key), timeout=PATIENCE_S)


def ask(gateway: RunningGateway, key: str) -> int:
    answer: httpx.Response = gateway.http.post(RESPONSES, json={"input": "Hi"}, headers=bearer(key))
    return answer.status_code


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path)


@pytest.fixture(params=["file", "table"])
def ring(request: pytest.FixtureRequest, tmp_path: Path) -> Ring:
    """Keys that are kept here, and those that gateways share: no client can tell."""
    if request.param == "file":
        return Keyring(tmp_path)
    return SharedKeyring(request.getfixturevalue("postgres").emptied())


def serving(ring: Ring, folder: Path) -> RunningGateway:
    return RunningGateway(config=configuration(store=ring.store), base=folder)


class Watch:
    """Keys as a server has them that looks at this file."""

    def __init__(self, keyring: Keyring, *configured: KeyConfig) -> None:
        self.file = KeyFile(keyring.path.parent)
        self.keys = Keys(configured, [self.file])

    def look(self) -> dict[str, str]:
        return asyncio.run(self.keys.look(self.file))


# -- coming and going -----------------------------------------------------------------------------


def test_keys_are_made_and_revoked_without_a_restart(ring: Ring, tmp_path: Path) -> None:
    with serving(ring, tmp_path) as gateway:
        assert ask(gateway, "none") == 200
        ann = ring.create("ann")
        eventually(lambda: ask(gateway, "none") == 401)
        assert ask(gateway, ann) == 200
        bob = ring.create("bob")
        eventually(lambda: ask(gateway, bob) == 200)
        ring.revoke("ann")
        eventually(lambda: ask(gateway, ann) == 401)
        assert ask(gateway, bob) == 200


def test_a_revoked_key_s_idle_connection_is_closed(ring: Ring, tmp_path: Path) -> None:
    ann, bob = (bearer(ring.create(name)) for name in ("ann", "bob"))
    with (
        serving(ring, tmp_path) as gateway,
        Socket(gateway.url, ann) as socket,
        Socket(gateway.url, bob) as other,
    ):
        assert socket.turn("Hi")["type"] == "response.completed"
        ring.revoke("ann")
        with pytest.raises(ConnectionClosed) as closed:
            socket.read(PATIENCE_S)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "This key was revoked.")
        assert other.turn("Hi")["type"] == "response.completed"


def test_the_first_key_ends_what_was_begun_without_one(ring: Ring, tmp_path: Path) -> None:
    with (
        serving(ring, tmp_path) as gateway,
        Socket(gateway.url) as socket,
    ):
        assert socket.turn("Hi")["type"] == "response.completed"
        ring.create("ann")
        with pytest.raises(ConnectionClosed):
            socket.read(PATIENCE_S)


def test_a_change_of_the_keys_is_noticed_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = KeyFile(tmp_path)
    gateway = Gateway(configuration(), tmp_path)
    revoked = list[str]()
    monkeypatch.setattr(gateway.runner, "revoke", revoked.append)

    async def story() -> None:
        watching = asyncio.create_task(gateway._watch_keys(gateway.keys.keyrings[0]))
        for name in ("ann", "bob", "carl"):
            key = await file.create(name)
            await virtual_time.elapse(1)
            owner = gateway.keys.owner_of(f"Bearer {key}")
            await file.revoke(name)
            await virtual_time.elapse(1)
            assert revoked.pop() == owner
        watching.cancel()

    virtual_time.run(story())


def streamed(http: httpx.Client, path: str, **body: Any) -> list[dict[str, Any]]:
    with http.stream("POST", path, json={"stream": True, **body}) as answer:
        return list(sse(answer.iter_lines()))


def failed(response: dict[str, Any]) -> bool:
    return bool(response["status"] == "failed" and response["error"]["code"] == "invalid_api_key")


Way = Callable[[httpx.Client], bool]
WAYS: dict[str, Way] = {
    "stream": lambda http: failed(streamed(http, RESPONSES, input="wait")[-1]["response"]),
    "whole": lambda http: failed(http.post(RESPONSES, json={"input": "wait"}).json()),
    "background": lambda http: failed(
        streamed(http, RESPONSES, input="wait", background=True)[-1]["response"]
    ),
    "chat": lambda http: (
        http.post(
            "/v1/chat/completions", json={"messages": [{"role": "user", "content": "wait"}]}
        ).json()["error"]["code"]
        == "invalid_api_key"
    ),
}


def test_revoking_a_key_ends_its_turns_and_no_others(ring: Ring, tmp_path: Path) -> None:
    """Those on the engine, and the one that waits for it."""
    ann, bob = ring.create("ann"), ring.create("bob")
    config = configuration(engine={"slots": len(WAYS)}, store=ring.store)
    replies = [Reply(when="wait", then=(Say("Well"), FOREVER))]
    with (
        RunningGateway(replies, config=config, base=tmp_path) as gateway,
        client(gateway, ann) as http,
        Socket(gateway.url, bearer(bob)) as other,
        ThreadPoolExecutor() as pool,
    ):
        other.create("wait")
        other.until("response.output_text.delta")
        told = {name: pool.submit(way, http) for name, way in WAYS.items()}
        eventually(lambda: gateway.engine.running() == len(WAYS))
        metrics = gateway.gateway.metrics.running.labels("local-model")
        eventually(lambda: metrics._value.get() == len(WAYS) + 1)
        ring.revoke("ann")
        ended = {name: each.result(PATIENCE_S) for name, each in told.items()}
        assert ended == dict.fromkeys(WAYS, True)
        assert gateway.engine.running() == 1
        gateway.engine.play([])
        assert other.turn("Hi", stream_id="second")["type"] == "response.completed"


def test_what_a_revoked_key_asks_on_the_way_in_is_refused(ring: Ring, tmp_path: Path) -> None:
    """Its request was let in; the key is revoked before all of it is here."""
    ann = ring.create("ann")
    body = json.dumps({"input": "Hi"}).encode()
    with (
        serving(ring, tmp_path) as gateway,
        client(gateway, ann) as http,
    ):

        def slowly() -> Any:
            yield body[:5]
            ring.revoke("ann")
            eventually(lambda: ask(gateway, ann) == 401)
            yield body[5:]

        answer = http.post(RESPONSES, content=slowly())
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
        assert gateway.engine.running() == 0


def test_a_name_that_was_revoked_is_given_to_another_owner(ring: Ring, tmp_path: Path) -> None:
    with serving(ring, tmp_path) as gateway:
        old = ring.create("bob")
        eventually(lambda: ask(gateway, "none") == 401)  # without any key, all are let in
        with client(gateway, old) as http, Socket(gateway.url, bearer(old)) as socket:
            kept = http.post(RESPONSES, json={"input": "The word is cobalt."}).json()
            ring.revoke("bob")
            new = ring.create("bob")
            eventually(lambda: ask(gateway, new) == 200)
            with pytest.raises(ConnectionClosed):
                socket.read(PATIENCE_S)
            assert ask(gateway, old) == 401
        with client(gateway, new) as http:
            assert http.get(f"{RESPONSES}/{kept['id']}").status_code == 404
            more = {"input": "Which word?", "previous_response_id": kept["id"]}
            assert http.post(RESPONSES, json=more).status_code == 400


# -- whose a key is -------------------------------------------------------------------------------


def configured(name: str, key: str) -> KeyConfig:
    return KeyConfig(name=name, sha256=hashlib.sha256(key.encode()).hexdigest())


def test_revoking_the_last_key_opens_the_door_to_nobody(keyring: Keyring) -> None:
    key = keyring.create("ann")
    keyring.revoke("ann")
    watch = Watch(keyring)
    keys = watch.keys
    for header in (None, f"Bearer {key}"):
        with pytest.raises(Unauthorized):
            keys.owner_of(header)
    assert not keys.knows(LOCAL)


def test_without_any_key_everything_is_the_local_users() -> None:
    keys = Keys([])
    assert keys.owner_of(None) == LOCAL
    assert keys.knows(LOCAL)


def write(keyring: Keyring, *entries: dict[str, str]) -> None:
    keyring.path.write_text(json.dumps({"version": 2, "keys": entries}))


def entry(key: str, **changes: str) -> dict[str, str]:
    digest = hashlib.sha256(key.encode()).hexdigest()
    return {"id": key, "name": key, "sha256": digest, "created_at": "2026-01-02"} | changes


@pytest.mark.parametrize(
    "thief",
    [
        entry("theft", name="root"),
        entry("theft", id="root"),
        entry("theft", id=LOCAL),
        entry("ours", id="theft", name="theft"),
        entry("theft", id="ann"),
        entry("theft", name="ann"),
        entry("ann", id="theft", name="theft"),
    ],
    ids=[
        "name of a configured key",
        "id of a configured key",
        "id of the local user",
        "hash of a configured key",
        "id of another key",
        "name of another key",
        "hash of another key",
    ],
)
@pytest.mark.parametrize("later", [False, True], ids=["at the start", "while it runs"])
def test_no_key_takes_the_place_of_another(
    keyring: Keyring, thief: dict[str, str], later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    write(keyring, entry("ann"), *([] if later else [thief]))
    watch = Watch(keyring, configured("root", "ours"))
    keys = watch.keys
    write(keyring, entry("ann"), thief)
    assert watch.look() == {}
    assert keys.owner_of("Bearer ours") == "root"
    assert keys.owner_of("Bearer ann") == "ann"
    assert not keys.knows("theft")
    assert not keys.knows(LOCAL)
    if thief["sha256"] == entry("theft")["sha256"]:
        with pytest.raises(Unauthorized):
            keys.owner_of("Bearer theft")
    (warning,) = {record.message for record in caplog.records}
    assert f"The key {thief['name']!r} of keys.json is not let in" in warning
    write(keyring, thief)
    assert watch.look() in ({"ann": "ann"}, {})  # a revocation in the same file is not held up


def test_an_owner_whose_key_is_replaced_keeps_nothing_open(keyring: Keyring) -> None:
    write(keyring, entry("ann"), entry("bob"))
    watch = Watch(keyring)
    keys = watch.keys
    write(keyring, entry("new", id="ann", name="ann"), entry("bob", name="robert"))
    assert watch.look() == {"ann": "ann"}  # and bob only got another label
    assert keys.owner_of("Bearer new") == "ann"
    assert keys.knows("ann")
    with pytest.raises(Unauthorized):
        keys.owner_of("Bearer ann")


def test_a_file_that_cannot_be_read_changes_nothing_and_is_named_once(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    key = keyring.create("ann")
    (ann,) = keyring.entries()
    watch = Watch(keyring)
    keys = watch.keys
    for spoil in (lambda: keyring.path.write_text("{"), keyring.path.unlink, keyring.path.mkdir):
        caplog.clear()
        spoil()
        if spoil == keyring.path.unlink:
            continue
        for _ in range(3):
            assert watch.look() == {}
        assert keys.owner_of(f"Bearer {key}") == ann.id
        (warning,) = (record.message for record in caplog.records)
        assert "The keys known so far stay." in warning
    keyring.path.rmdir()
    assert watch.look() == {ann.id: "ann"}


def test_a_key_is_found_however_many_there_are_and_by_its_bearer_only(keyring: Keyring) -> None:
    write(keyring, *(entry(f"key-{number}") for number in range(1000)))
    watch = Watch(keyring)
    keys = watch.keys
    assert keys.owner_of("Bearer key-999") == "key-999"
    assert keys.owner_of("bearer  key-0 ") == "key-0"
    for header in (
        "Bearer",
        "Bearer ",
        "Basic key-0",
        "key-0",
        "Bearer key-0 key-1",
        "Bearer \xff",
    ):
        with pytest.raises(Unauthorized):
            keys.owner_of(header)


def test_a_gateway_that_others_can_reach_has_keys_whatever_its_file_said(tmp_path: Path) -> None:
    config = configuration(server={"host": "0.0.0.0", "port": 0})
    with pytest.raises(ConfigError, match="vivace keys create"):
        Gateway(config, tmp_path)
    Keyring(tmp_path).create("ann")
    Gateway(config, tmp_path)


# -- the name it is called by ---------------------------------------------------------------------


def named(gateway: RunningGateway, host: str, path: str = "/v1/models", key: str = "none") -> int:
    answer = gateway.http.get(path, headers={"Host": host, **bearer(key)})
    return answer.status_code


PATHS = ["/v1/models", "/metrics", "/healthz", "/readyz", "/nothing"]


def test_without_keys_a_server_answers_to_the_names_of_this_machine_only() -> None:
    with RunningGateway() as gateway:
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8765", "127.9.9.9", "[::1]:8765"):
            assert named(gateway, host) == 200, host
        for host in ("evil.example", "evil.example:8765", "localhost.evil.example", "0.0.0.0", ""):
            assert [named(gateway, host, path) for path in PATHS] == [403] * len(PATHS), host
        refused = gateway.http.post(
            RESPONSES, json={"input": "x"}, headers={"Host": "evil.example"}
        )
        assert refused.status_code == 403
        problem = refused.json()["error"]
        assert problem["code"] == "host_not_allowed"
        assert "'evil.example'" in problem["message"]
        assert "server.allowed_hosts" in problem["message"]


def test_an_upgrade_by_a_strange_name_is_refused() -> None:
    with RunningGateway() as gateway, pytest.raises(InvalidStatus) as refused:
        Socket(gateway.url, {"Host": "evil.example"})
    assert refused.value.response.status_code == 403


def test_a_name_that_was_allowed_is_answered_to() -> None:
    server = {"port": 0, "allowed_hosts": ["Box.example", "[fd00::1]"]}
    with RunningGateway(config=configuration(server=server)) as gateway:
        for host in ("box.example", "BOX.EXAMPLE:443", "[fd00::1]:80", "localhost"):
            assert named(gateway, host) == 200, host
        assert named(gateway, "evil.example") == 403
        with Socket(gateway.url, {"Host": "box.example"}) as socket:
            assert socket.turn("Hi")["type"] == "response.completed"


@pytest.mark.parametrize("allowed", [[], ["box.example"]])
def test_with_keys_a_server_answers_to_any_name_unless_some_are_given(
    keyring: Keyring, tmp_path: Path, allowed: list[str]
) -> None:
    key = keyring.create("ann")
    config = configuration(server={"port": 0, "allowed_hosts": allowed})
    with RunningGateway(config=config, base=tmp_path) as gateway:
        assert named(gateway, "box.example", key=key) == 200
        assert named(gateway, "other.example", key=key) == (403 if allowed else 200)
        assert named(gateway, "other.example", "/healthz") == (403 if allowed else 200)


def test_a_client_too_old_to_name_the_host_is_no_browser_and_is_answered() -> None:
    with (
        RunningGateway() as gateway,
        tcp.create_connection(("127.0.0.1", gateway.port), 5) as plug,
    ):
        plug.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
        assert plug.recv(100).split()[1] == b"200"


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "vivace.keys")
