"""The journal when calls of the system fail, and when its own files are not what it wrote."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from vivace.workspace import journal as journal_module
from vivace.workspace.document import read
from vivace.workspace.errors import CannotUndo, CannotWrite, PathRefused, WorkspaceError
from vivace.workspace.journal import Change, Journal
from vivace.workspace.paths import Workspace

OLD = {"a.py": b"a old\n", "sub/b.py": b"b old\n", "c.sh": b"c old\n"}
NEW = {"a.py": b"a new\n", "sub/b.py": b"b new\n", "made/deep/d.py": b"d new\n"}
_CALLS = ("fsync", "rename", "link", "unlink", "fchmod", "mkdir", "rmdir", "open")
_WRITES = frozenset({"fsync", "link", "fchmod", "mkdir", "open"})
"""Calls that fail on a full disk; names can still be changed and removed."""


class Faults:
    """Calls of the system that change something; the chosen one fails, and others after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._at: int | None = None
        self._then: frozenset[str] = frozenset()
        for name in _CALLS:
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))
        monkeypatch.setattr(os, "supports_dir_fd", {*os.supports_dir_fd, os.open})

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        name = real.__name__

        def call(*arguments: Any, **named: Any) -> Any:
            looks_only = name == "open" and not arguments[1] & os.O_CREAT
            if self._at is not None and not looks_only:
                self.count += 1
                fails_again = self.count > self._at and name in self._then
                if self.count == self._at or fails_again:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            # A disk that loses power is simulated by test_journal.py.
            return None if name == "fsync" else real(*arguments, **named)

        return call

    @contextmanager
    def at(self, number: int, then: frozenset[str]) -> Iterator[None]:
        """The call of this number fails, and after it all of these names."""
        self._at, self._then, self.count = number, then, 0
        try:
            yield
        finally:
            self._at = None


def contents(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def put(root: Path) -> None:
    for name, data in OLD.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)


def edit(workspace: Workspace, journal: Journal) -> None:
    changes = []
    for name in [*NEW, "c.sh"]:
        path = workspace.resolve(name)
        version = read(path).version if path.absolute.exists() else None
        changes.append(Change(path, version, NEW.get(name)))
    journal.apply(changes, "an edit")


@pytest.mark.parametrize(
    "then",
    [
        pytest.param(frozenset(), id="one call"),
        pytest.param(frozenset(_CALLS), id="all calls"),
        pytest.param(_WRITES, id="all that write"),
        pytest.param(frozenset({"unlink", "rmdir"}), id="all that remove"),
    ],
)
@pytest.mark.parametrize("action", ["edit", "undo", "redo"])
def test_whichever_call_fails_the_files_are_old_or_new_and_the_journal_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, then: frozenset[str]
) -> None:
    faults = Faults(monkeypatch)
    number, failed = 1, 0
    while _survives(tmp_path / f"{number}", faults, action, number, then):
        number, failed = number + 1, failed + 1
    assert failed > 25


def _survives(folder: Path, faults: Faults, action: str, number: int, then: frozenset[str]) -> bool:
    """Whether the call came that was to fail; checks what became of the action."""
    root = folder / "root"
    root.mkdir(parents=True)
    put(root)
    workspace = Workspace(root)
    journal = Journal(workspace, folder / "state")
    if action != "edit":
        edit(workspace, journal)
    if action == "redo":
        journal.undo()
    does: dict[str, Callable[[], object]] = {
        "edit": partial(edit, workspace, journal),
        "undo": journal.undo,
        "redo": journal.redo,
    }
    before, after = (NEW, OLD) if action == "undo" else (OLD, NEW)
    error = ""
    with faults.at(number, then):
        try:
            does[action]()
        except WorkspaceError as raised:
            error = str(raised)
    found = {name: data for name, data in contents(root).items() if not name.endswith(".tmp")}
    assert error or found == after
    assert found in (before, after) or "stopped half-way" in error
    assert found == before or not error.startswith("Nothing was")

    entries = Journal(workspace, folder / "state").entries()  # the next program clears up
    assert set(contents(root)) <= {*OLD, *NEW}
    assert {path.suffix for path in journal.folder.iterdir()} <= {"", ".done", ".interrupted"}
    found = contents(root)
    if found not in (OLD, NEW):
        does[action if action != "edit" else "undo"]()
        assert contents(root) == (NEW if action == "redo" else OLD)
    else:
        assert [entry.interrupted for entry in entries] == ([False] if found == NEW else [])
        assert (root / "made").exists() == (found == NEW) or action == "undo"  # an empty folder
    return faults.count >= number


# -- records that are not as they were written ----------------------------------------------------


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    (folder / "empty").mkdir(parents=True)
    (folder / "victim").write_bytes(b"precious")
    return folder


@pytest.fixture
def edited(workspace: Workspace, journal: Journal, root: Path) -> Journal:
    put(root)
    edit(workspace, journal)
    return journal


def rewrite(journal: Journal, suffix: str, **changes: Any) -> None:
    """The only record, with other values for its first file, or of its own."""
    [path] = journal.folder.glob("*.done")
    record = msgspec.msgpack.decode(path.read_bytes())
    for name, value in changes.items():
        (record if name in record else record["files"][0])[name] = value
    path.unlink()
    path.with_suffix(f".{suffix}").write_bytes(msgspec.msgpack.encode(record))


@pytest.mark.parametrize("suffix", ["started", "interrupted", "done"])
@pytest.mark.parametrize(
    "changes",
    [
        {"path": "../outside/x", "temporary": "victim"},
        {"path": "a.py", "temporary": "../outside/victim"},
        {"path": "a.py", "temporary": "c.sh"},
        {"path": "{outside}/victim"},
        {"path": "sub/../../outside/victim"},
        {"path": "a\0b"},
        {"path": ""},
        {"folders": ["../outside/empty"]},
        {"folders": ["{outside}/empty"]},
    ],
    ids=str,
)
def test_a_record_that_was_changed_reaches_no_file_of_others(
    workspace: Workspace,
    root: Path,
    edited: Journal,
    outside: Path,
    suffix: str,
    changes: dict[str, Any],
) -> None:
    filled: dict[str, Any] = {
        name: [each.format(outside=outside) for each in value]
        if isinstance(value, list)
        else value.format(outside=outside)
        for name, value in changes.items()
    }
    before = contents(root)
    rewrite(edited, suffix, **filled)
    for action in (edited.entries, edited.undo, edited.redo):
        with pytest.raises(CannotUndo, match="cannot be read"):
            action()
    assert (outside / "victim").read_bytes() == b"precious"
    assert (outside / "empty").is_dir()
    assert contents(root) == before


def _link(path: Path) -> None:
    path.symlink_to(path.parents[3] / "outside" / "victim")


def _folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [_link, _folder, os.mkfifo])
@pytest.mark.parametrize("name", ["00000001.done", "00000001.started", "00000002.writing", "lock"])
def test_what_is_no_file_of_the_journal_is_told_and_not_waited_for(
    workspace: Workspace,
    root: Path,
    edited: Journal,
    outside: Path,
    name: str,
    make: Callable[[Path], None],
) -> None:
    path = edited.folder / name
    path.unlink(missing_ok=True)
    make(path)
    for action in (edited.entries, lambda: edit(workspace, edited)):
        try:
            action()
        except WorkspaceError as error:
            assert str(edited.folder) in str(error) or "changed after" in str(error)  # noqa: PT017
    assert (outside / "victim").read_bytes() == b"precious"
    assert contents(root) == NEW


def test_a_lock_that_was_replaced_locks_nobody_out_and_lets_nobody_in(
    workspace: Workspace, edited: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_PATIENCE_S", 0.0)
    with edited._opened():
        lock = edited.folder / "lock"
        lock.rename(lock.with_name("old"))
        with edited._opened():  # by the new file; who has the old one is alone with it
            pass
        opened = os.open

        def late(path: Any, *arguments: Any, **named: Any) -> int:
            handle = opened(path, *arguments, **named)
            if str(path).endswith("lock"):
                lock.unlink()  # between the opening and the lock
            return handle

        monkeypatch.setattr(os, "open", late)
        with pytest.raises(CannotWrite, match="another vivace"), edited._opened():
            pass


# -- folders that became links --------------------------------------------------------------------


def test_undo_does_not_follow_a_folder_that_became_a_link(edited: Journal, root: Path) -> None:
    (root / "made").rename(root / "moved")
    (root / "made").symlink_to("moved")
    with pytest.raises(PathRefused, match="is a link"):
        edited.undo(force=True)
    assert (root / "moved" / "deep" / "d.py").read_bytes() == NEW["made/deep/d.py"]
    assert (root / "a.py").read_bytes() == NEW["a.py"]
