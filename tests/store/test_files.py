"""The store's files are for their owner, and for one gateway at a time."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.store import in_file, turn, using
from vivace.errors import StoreError
from vivace.store.sqlite import SqliteStore

HOLD = """
import signal, sys
from pathlib import Path
from tests.support.store import in_file

store = in_file(Path(sys.argv[1]))
print("open", flush=True)
signal.pause()
"""


@pytest.fixture(params=[0o000, 0o022, 0o277])
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    files = sorted(folder.iterdir())
    return {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in files}


def test_nobody_but_the_owner_may_read_any_of_them(tmp_path: Path, _umask: None) -> None:  # noqa: PT019
    async def check(store: SqliteStore) -> None:
        await store.save(turn("a"))
        assert modes(tmp_path) == dict.fromkeys(
            ("vivace.db", "vivace.db-lock", "vivace.db-shm", "vivace.db-wal"), "0o600"
        )

    using(in_file(tmp_path), check)


def test_files_that_were_open_to_all_are_not_any_more(tmp_path: Path) -> None:
    program = HOLD.replace("signal.pause()", "import os; os._exit(9)")
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert "vivace.db-wal" in modes(tmp_path)
    for path in tmp_path.iterdir():
        path.chmod(0o644)
    folder = tmp_path.stat().st_mode

    async def check(store: SqliteStore) -> None:
        assert set(modes(tmp_path).values()) == {"0o600"}
        assert tmp_path.stat().st_mode == folder

    using(in_file(tmp_path), check)


def test_a_mode_that_cannot_be_changed_is_said_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    using(in_file(tmp_path), lambda store: store.save(turn("a")))
    (tmp_path / "vivace.db").chmod(0o644)
    monkeypatch.setattr(Path, "chmod", refuse)
    with caplog.at_level(logging.WARNING):
        assert using(in_file(tmp_path), lambda store: store.load("a", "me")) == turn("a")
    assert "others on this machine may read it" in caplog.text


def test_a_store_in_use_is_refused_with_who_uses_it_and_what_to_do(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        try:
            with pytest.raises(StoreError, match="in use by another gateway") as caught:
                in_file(tmp_path)
            assert f"process {other.pid}," in str(caught.value)
            assert "[store]" in str(caught.value)
            link = tmp_path / "link.db"
            link.symlink_to(tmp_path / "vivace.db")
            with pytest.raises(StoreError, match="in use"):
                SqliteStore(link, max_age=1, max_bytes=1)
        finally:
            other.kill()  # SIGKILL: it cannot clean up after itself
    using(in_file(tmp_path), lambda store: store.save(turn("a")))


def test_one_process_cannot_open_it_twice_but_again(tmp_path: Path) -> None:
    async def check(store: SqliteStore) -> None:
        with pytest.raises(StoreError, match="in use"):
            in_file(tmp_path)
        await store.save(turn("a"))

    using(in_file(tmp_path), check)
    using(in_file(tmp_path), lambda store: store.load("a", "me"))


def test_a_store_that_could_not_be_opened_is_not_kept_from_others(tmp_path: Path) -> None:
    (tmp_path / "vivace.db").write_text("not a database " * 100)
    for _ in range(2):
        with pytest.raises(StoreError, match="not a database"):
            in_file(tmp_path)


def test_a_process_forked_from_the_gateway_does_not_keep_its_store(tmp_path: Path) -> None:
    """An engine's process may outlive a gateway that was killed."""
    program = """
import os, signal, sys
from pathlib import Path
from tests.support.store import in_file

store = in_file(Path(sys.argv[1]))
child = os.fork()
if child == 0:
    os.close(1)
    signal.alarm(600)
    signal.pause()
else:
    print(child, flush=True)
os._exit(9)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, check=False
    )
    child = int(ran.stdout)
    try:
        using(in_file(tmp_path), lambda store: store.save(turn("a")))
        os.kill(child, 0)  # it was there all the time
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("name", ["missing/vivace.db", "."])
def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteStore(tmp_path / name, max_age=1, max_bytes=1)
    assert modes(tmp_path) == {}
    assert [path.name for path in tmp_path.parent.glob("*-lock")] == []


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database " * 100)
    path.chmod(0o644)
    with pytest.raises(StoreError, match=r"notes\.txt"):
        SqliteStore(path, max_age=1, max_bytes=1)
    assert path.read_text() == "not a database " * 100
    assert modes(tmp_path)["notes.txt"] == "0o644"
