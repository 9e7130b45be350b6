"""``keys.json``: what every keyring promises, and written whole, for its owner only."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gateway.keyring_suite import KeyringSuite, Opened
from tests.support.keyring import Keyring
from vivace.errors import ConfigError
from vivace.gateway.auth import Keys
from vivace.gateway.key_file import KeyFile


class TestKeyFile(KeyringSuite):
    @pytest.fixture
    def opened(self, tmp_path: Path) -> Opened:
        return lambda: KeyFile(tmp_path)


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path)


def test_a_file_that_others_could_read_no_longer_can_after_a_change(keyring: Keyring) -> None:
    keyring.create("anna")
    keyring.path.chmod(0o644)
    keyring.create("bert")
    assert stat.S_IMODE(keyring.path.stat().st_mode) == 0o600


def test_a_server_sees_that_the_file_is_gone(keyring: Keyring, tmp_path: Path) -> None:
    keyring.create("anna")
    server = KeyFile(tmp_path)
    server.known()
    keyring.path.unlink()
    made = asyncio.run(server.look())
    assert made is not None
    assert made.entries == ()
    assert asyncio.run(server.look()) is None


def test_a_change_shows_even_when_the_clock_stands_still(keyring: Keyring, tmp_path: Path) -> None:
    server = KeyFile(tmp_path)
    keyring.create("anna")
    server.known()
    before = server.path.stat().st_mtime_ns
    keyring.create("bert")
    os.utime(server.path, ns=(before, before))
    made = asyncio.run(server.look())
    assert made is not None
    assert [entry.name for entry in made.entries] == ["anna", "bert"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\xff",
        "[]",
        '{"version": 3, "keys": []}',
        '{"keys": []}',
        '{"version": 2, "keys": [{"name": "a", "sha256": "%s", "created_at": "2030-01-01"}]}'
        % ("0" * 64),
        '{"version": 1, "keys": [{"name": "anna", "sha256": "viv_x", "created_at": "2030-01-01"}]}',
        pytest.param('{"x": ' + "[" * 100_000, id="nested"),
        pytest.param('{"version": 2, "keys": []}' + " " * 16_000_000, id="large"),
    ],
)
def test_a_file_that_is_wrong_is_named_once_and_left_as_it_is(
    keyring: Keyring, tmp_path: Path, text: str
) -> None:
    keyring.path.write_text(text, encoding="latin-1")
    for use in (keyring.entries, lambda: keyring.create("bert"), lambda: keyring.revoke("anna")):
        with pytest.raises(ConfigError, match=r"keys\.json is not a file of keys"):
            use()
    server = KeyFile(tmp_path)
    with pytest.raises(ConfigError, match=r"keys\.json is not a file of keys"):
        server.known()
    assert asyncio.run(server.look()) is None
    assert keyring.path.read_text(encoding="latin-1") == text


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file_is_refused_without_waiting_and_ends_nothing(
    keyring: Keyring, tmp_path: Path, kind: str
) -> None:
    key = keyring.create("anna")
    keys = Keys([], [server := KeyFile(tmp_path)])
    right = keyring.path.rename(tmp_path / "right")
    match kind:
        case "pipe":
            os.mkfifo(keyring.path)
        case "device":
            keyring.path.symlink_to("/dev/zero")
        case "folder":
            keyring.path.mkdir()
    for _ in range(2):
        assert asyncio.run(keys.look(server)) == {}
    assert keys.owner_of(f"Bearer {key}")
    with pytest.raises(ConfigError, match=r"keys\.json (cannot be read|is not a file of keys)"):
        KeyFile(tmp_path).known()
    keyring.path.rmdir() if kind == "folder" else keyring.path.unlink()
    right.rename(keyring.path)
    assert asyncio.run(keys.look(server)) == {}
    keyring.revoke("anna")
    assert [*asyncio.run(keys.look(server)).values()] == ["anna"]


def test_a_link_that_is_turned_to_another_file_takes_keys_back(
    keyring: Keyring, tmp_path: Path
) -> None:
    """Kubernetes changes mounted files so."""
    keyring.create("anna")
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    keyring.path.rename(tmp_path / "old" / "keys.json")
    (tmp_path / "new" / "keys.json").write_text('{"version": 2, "keys": []}')
    (tmp_path / "data").symlink_to("old")
    keyring.path.symlink_to("data/keys.json")
    keys = Keys([], [server := KeyFile(tmp_path)])
    assert asyncio.run(keys.look(server)) == {}
    (tmp_path / "turned").symlink_to("new")
    (tmp_path / "turned").rename(tmp_path / "data")
    assert [*asyncio.run(keys.look(server)).values()] == ["anna"]


def test_a_disk_that_is_full_leaves_the_old_keys(
    keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    keyring.create("anna")
    before = keyring.path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match=r"cannot be written: No space left"):
        keyring.create("bert")
    assert keyring.path.read_bytes() == before
    assert len(list(keyring.path.parent.glob(".keys.json*"))) == 0
    assert [entry.name for entry in keyring.entries()] == ["anna"]


def test_a_file_from_before_keys_had_ids_is_read_and_its_keys_stay_who_they_were(
    keyring: Keyring,
) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    entry = {"name": "anna", "sha256": digest, "created_at": "2026-01-02"}
    keyring.path.write_text(json.dumps({"version": 1, "keys": [entry]}))
    assert Keys([], [KeyFile(keyring.path.parent)]).owner_of("Bearer secret") == "anna"
    keyring.create("bert")
    written = json.loads(keyring.path.read_text())
    assert written["version"] == 2
    assert written["keys"][0] == {"id": "anna", **entry}
    assert Keys([], [KeyFile(keyring.path.parent)]).owner_of("Bearer secret") == "anna"
    keyring.revoke("anna")
    again = keyring.create("anna")
    assert Keys([], [KeyFile(keyring.path.parent)]).owner_of(f"Bearer {again}") != "anna"


def test_commands_at_the_same_time_undo_nothing_of_each_other(keyring: Keyring) -> None:
    """Above all, nobody writes back a key that was revoked meanwhile."""
    names = [f"key-{number}" for number in range(8)]
    for name in names:
        keyring.create(f"old-{name}")

    def change(name: str) -> None:
        mine = Keyring(keyring.path.parent)
        mine.create(name)
        mine.revoke(f"old-{name}")

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(change, names))
    assert sorted(entry.name for entry in keyring.entries()) == names


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_what_root_changes_stays_readable_for_the_server_s_user(keyring: Keyring) -> None:
    os.chown(keyring.path.parent, 65534, 65534)
    keyring.create("anna")
    assert (keyring.path.stat().st_uid, keyring.path.stat().st_gid) == (65534, 65534)
    os.chown(keyring.path, 65533, 65533)
    keyring.revoke("anna")
    assert keyring.path.stat().st_uid == 65533
    assert stat.S_IMODE(keyring.path.stat().st_mode) == 0o600


def test_a_linked_file_stays_a_link(keyring: Keyring, tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    keyring.path.symlink_to(tmp_path / "secrets" / "keys.json")
    keyring.create("anna")
    assert keyring.path.is_symlink()
    assert [entry.name for entry in keyring.entries()] == ["anna"]


def test_a_place_that_cannot_be_read_is_named(keyring: Keyring) -> None:
    keyring.path.mkdir()
    with pytest.raises(ConfigError, match=r"keys\.json cannot be read"):
        keyring.entries()
