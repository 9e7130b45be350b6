"""Keys that come and go while the server runs."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.http import RESPONSES
from tests.support.server import RunningGateway
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.errors import Unauthorized
from vivace.gateway.auth import LOCAL, Keys
from vivace.keyring import Keyring


def ask(gateway: RunningGateway, key: str) -> int:
    headers = {"Authorization": f"Bearer {key}"}
    answer: httpx.Response = gateway.http.post(RESPONSES, json={"input": "Hi"}, headers=headers)
    return answer.status_code


def test_keys_are_made_and_revoked_without_a_restart(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    with RunningGateway(base=tmp_path) as gateway:
        assert ask(gateway, "none") == 200
        ann = keyring.create("ann")
        eventually(lambda: ask(gateway, "none") == 401)
        assert ask(gateway, ann) == 200
        bob = keyring.create("bob")
        eventually(lambda: ask(gateway, bob) == 200)
        keyring.revoke("ann")
        eventually(lambda: ask(gateway, ann) == 401)
        assert ask(gateway, bob) == 200


def test_a_revoked_key_is_not_heard_on_a_connection_that_it_opened(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    headers = {"Authorization": f"Bearer {keyring.create('ann')}"}
    keyring.create("bob")
    with RunningGateway(base=tmp_path) as gateway, Socket(gateway.url, headers) as socket:
        assert socket.turn("Hi")["type"] == "response.completed"
        keyring.revoke("ann")
        time.sleep(1.1)
        socket.create("Hi again")
        with pytest.raises(ConnectionClosed) as closed:
            socket.read()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


def test_revoking_the_last_key_opens_the_door_to_nobody(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    key = keyring.create("ann")
    keyring.revoke("ann")
    keys = Keys([], Keyring(tmp_path))
    for header in (None, f"Bearer {key}"):
        with pytest.raises(Unauthorized):
            keys.owner_of(header)


def test_without_any_key_everything_is_the_local_users() -> None:
    assert Keys([]).owner_of(None) == LOCAL


def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    key = Keyring(tmp_path).create("ann")
    keys = Keys([], Keyring(tmp_path))
    (tmp_path / "keys.json").write_text("{")
    assert keys.owner_of(f"Bearer {key}") == "ann"
