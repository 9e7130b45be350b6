"""Edits of one or many files that happen as one and can be taken back.

    N.started       what was there before, safely on the disk; then temporary files; then renames
    N.done          every file is new
    N.interrupted   we were killed between the first rename and the last

A record is written before anything else is, and its state is in its name. Killed at any moment,
each file is wholly old or wholly new, and the record knows the old one. Whoever comes next clears
up: temporary files go, and a record of which no file was renamed goes with them.

Taking back is an edit too, with a record of its own that says which it undoes; so it is as safe as
the edit was, and can be taken back itself. Nothing else is noted about it: an edit is undone as
long as a record that undoes it is in force.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec import Struct

from vivace.workspace.document import LARGEST, Version, read_in, version_of
from vivace.workspace.errors import (
    CannotUndo,
    CannotWrite,
    FileChanged,
    PathRefused,
    WorkspaceError,
    explain,
    reason,
)
from vivace.workspace.paths import SafePath, Workspace, open_folder
from vivace.workspace.write import (
    commit,
    discard,
    is_temporary,
    missing_folders,
    remove,
    remove_folder,
    stage,
    temporary_name,
)

if sys.platform != "win32":
    import fcntl

__all__ = ["Change", "Entry", "Journal", "Restoration"]

_MOST_EDITS = 50
_MOST_BYTES = 50 * 1024 * 1024
_PATIENCE_S = 10.0
_NUMBER = re.compile(r"[0-9]{8,12}")
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


@dataclass(frozen=True)
class Change:
    """What one file is to become."""

    path: SafePath
    before: Version | None
    """What was read; None where there was no file."""
    after: bytes | None
    """None where the file is to go."""
    mode: int | None = None
    """Permissions of a file that comes back; others keep theirs, or get the usual ones."""


@dataclass(frozen=True)
class Entry:
    """An edit that can be taken back."""

    id: int
    when: datetime
    title: str
    paths: tuple[str, ...]
    interrupted: bool
    """Whether it was cut short, so that some of its files are old."""


@dataclass(frozen=True)
class Restoration:
    """What taking back does to one file; None is a file that does not exist."""

    path: str
    now: bytes | None
    then: bytes | None
    changed: bool
    """Whether it was changed since the edit, by somebody else."""


class _File(Struct, frozen=True):
    path: str
    old: bytes | None
    mode: int
    new: str | None
    """The hash of what the edit makes of it."""
    temporary: str

    def states(self) -> set[str | None]:
        """What the file is if only the edit touched it: new, or old if that was cut short."""
        return {self.new, _digest(self.old)}


class _Record(Struct, frozen=True):
    version: Literal[1]
    when: datetime
    title: str
    undoes: tuple[int, ...]
    folders: tuple[str, ...]
    """Made for new files."""
    files: tuple[_File, ...]


class _OnDisk(NamedTuple):
    data: bytes | None
    version: Version | None
    mode: int


_State = Literal["started", "done", "interrupted"]


class _Kept(Struct, frozen=True):
    """A record and what its name says."""

    id: int
    state: _State
    record: _Record

    def entry(self) -> Entry:
        record = self.record
        paths = tuple(file.path for file in record.files)
        return Entry(self.id, record.when, record.title, paths, self.state == "interrupted")


class Journal:
    """The edits of one workspace, kept in a folder that only the person can read."""

    def __init__(
        self,
        workspace: Workspace,
        state: Path,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``state`` is where the program keeps such things, outside of any workspace."""
        root = hashlib.sha256(os.fsencode(workspace.root)).hexdigest()[:16]
        self.folder = state / "undo" / root
        self._workspace = workspace
        self._now = now

    # -- what a person does with it ---------------------------------------------------------------

    def apply(self, changes: Sequence[Change], title: str) -> Entry | None:
        """Make all of the changes or none; None where there was nothing to change."""
        with self._opened():
            return self._apply(changes, title)

    def entries(self) -> list[Entry]:
        """What can be taken back, the newest first."""
        with self._opened():
            return [kept.entry() for kept in self._to_undo()]

    def last(self) -> Entry | None:
        return next(iter(self.entries()), None)

    def preview(self, steps: int = 1) -> list[Restoration]:
        """What ``undo`` would do."""
        with self._opened():
            return [restoration for restoration, _ in self._plan(self._to_undo(), steps)]

    def undo(self, steps: int = 1, *, force: bool = False) -> list[Restoration]:
        """Take the last edits back, all of them or none; ``force`` loses what was changed since."""
        with self._opened():
            return self._take_back(self._to_undo(), steps, force)

    def redo(self, *, force: bool = False) -> list[Restoration]:
        """Take the last ``undo`` back."""
        with self._opened():
            undone = self._to_redo()
            if not undone:
                raise CannotUndo("Nothing was changed: the last thing that happened was no undo.")
            return self._take_back(undone, 1, force)

    # -- applying ---------------------------------------------------------------------------------

    def _apply(
        self, changes: Sequence[Change], title: str, undoes: tuple[int, ...] = ()
    ) -> Entry | None:
        if len({change.path for change in changes}) < len(changes):
            raise CannotWrite("Nothing was changed: the same file is named twice in one edit.")
        planned = [(change, file) for change in changes if (file := _planned(change)) is not None]
        if not planned and not undoes:
            return None
        missing = {folder for change, _ in planned for folder in missing_folders(change.path)}
        record = _Record(
            version=1,
            when=self._now(),
            title=title,
            undoes=undoes,
            folders=tuple(str(each) for each in sorted(missing, key=lambda each: each.parts)),
            files=tuple(file for _, file in planned),
        )
        kept = _Kept(self._next_id(), "started", record)
        self._write(kept)
        try:
            for change, file in planned:
                if change.after is not None:
                    stage(change.path, change.after, change.before, file.temporary, change.mode)
            for change, file in planned:
                _carry_out(change, file)
        except BaseException:
            self._roll_back(kept)
            raise
        with contextlib.suppress(OSError):  # all is done, which the next program finds out
            self._mark(kept, "done")
            self._prune()
        return kept.entry()

    def _roll_back(self, kept: _Kept) -> None:
        self._clear_up(kept.record)
        try:
            for file in kept.record.files:
                if self._state_of(file) == file.new:
                    self._restore(file)
        except WorkspaceError as error:
            self._clear_up(kept.record)
            step = "try again" if kept.record.undoes else "vivace undo"
            raise CannotWrite(  # the next program finds out which files are new
                f"The edit was stopped half-way, and not every file could be restored: {error} "
                f"When that is mended: {step}"
            ) from error
        self._clear_up(kept.record)  # folders that are empty only now
        with contextlib.suppress(OSError):  # the next program finds out that nothing is new
            self._path(kept).unlink()

    def _restore(self, file: _File) -> None:
        path = self._unlinked(file.path)
        change = Change(path, _look_at(path).version, file.old, file.mode)
        if file.old is not None:
            stage(path, file.old, change.before, file.temporary, file.mode)
        _carry_out(change, file)

    # -- taking back ------------------------------------------------------------------------------

    def _to_undo(self) -> list[_Kept]:
        everything = self._load()
        in_force = _in_force(everything)
        return [kept for kept in everything if not kept.record.undoes and kept.id in in_force]

    def _to_redo(self) -> list[_Kept]:
        """The last undo, unless there was an edit after it."""
        everything = self._load()
        in_force = _in_force(everything)
        edits = {kept.id for kept in everything if not kept.record.undoes}
        for kept in everything:
            if kept.id in edits:
                break
            if kept.id in in_force and edits.issuperset(kept.record.undoes):
                return [kept]
        return []

    def _plan(self, kept: Sequence[_Kept], steps: int) -> list[tuple[Restoration, Change]]:
        """Several edits of one file become one: what it is now, to what it was before the first."""
        if len(kept) < steps:
            known = f"there are only {len(kept)} edits" if kept else "there is no edit"
            raise CannotUndo(f"Nothing was changed: {known} to take back in {self._root}.")
        first: dict[str, _File] = {}
        last: dict[str, _File] = {}
        foreign: set[str] = set()
        for file in (file for each in kept[:steps] for file in each.record.files):
            later = first.get(file.path)
            if later is not None and _digest(later.old) not in file.states():
                foreign.add(file.path)  # somebody changed it between the two edits
            first[file.path] = file
            last.setdefault(file.path, file)
        plan = []
        for name, file in first.items():
            path = self._unlinked(name)
            now = _look_at(path)
            ours = last[name].states() | {_digest(file.old)}
            changed = name in foreign or _digest(now.data) not in ours
            restoration = Restoration(name, now.data, file.old, changed)
            plan.append((restoration, Change(path, now.version, file.old, file.mode)))
        return plan

    def _take_back(self, kept: Sequence[_Kept], steps: int, force: bool) -> list[Restoration]:
        plan = self._plan(kept, steps)
        changed = [restoration.path for restoration, _ in plan if restoration.changed]
        if changed and not force:
            raise CannotUndo(
                "Nothing was taken back: what was changed since would be lost in "
                f"{', '.join(changed)}. To take the edit back all the same, use --force.",
                changed,
            )
        undone = kept[:steps]
        title = f"undo: {', '.join(each.record.title for each in undone)}"
        self._apply([change for _, change in plan], title, tuple(each.id for each in undone))
        for each in undone:
            self._remove_folders(each.record)
        return [restoration for restoration, _ in plan]

    # -- records ----------------------------------------------------------------------------------

    @property
    def _root(self) -> Path:
        return self._workspace.root

    @contextlib.contextmanager
    def _opened(self) -> Iterator[None]:
        """One program at a time; what a killed one left is cleared up first.

        Files of the workspace raise errors of their own, and what fails once they are changed is
        left to the next program: an OSError comes from the journal, and before any change.
        """
        lock = None
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
            lock = self._locked()
            self._recover()
            yield
        except OSError as error:
            raise CannotWrite(
                f"Nothing was changed: {self.folder}, where edits are noted to be undone later, "
                f"cannot be used: {reason(error)}."
            ) from error
        finally:
            if lock is not None:
                os.close(lock)

    def _locked(self) -> int:
        """Return the handle of the lock, once no other program has it."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another program would not see the lock of a file that is not there any more.
                if os.path.samestat(os.fstat(lock), (self.folder / "lock").lstat()):
                    return lock
            except (BlockingIOError, FileNotFoundError):
                pass
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)
            if time.monotonic() > deadline:
                raise CannotWrite(
                    f"Nothing was changed: another vivace is changing files in {self._root}. "
                    "Try again when it is done."
                )
            time.sleep(0.02)

    def _recover(self) -> None:
        for path in self.folder.glob("*.writing"):
            path.unlink()
        for path in self.folder.glob("*.interrupted"):
            with contextlib.suppress(CannotUndo):  # undo says what is wrong with it
                self._clear_up(self._read(path).record)  # what could not be removed then
        for path in self.folder.glob("*.started"):
            kept = self._read(path)
            self._clear_up(kept.record)
            states = {file: self._state_of(file) for file in kept.record.files}
            if all(state == file.new for file, state in states.items()):
                self._mark(kept, "done")
            elif all(state == _digest(file.old) for file, state in states.items()):
                path.unlink()
            else:
                self._mark(kept, "interrupted")

    def _clear_up(self, record: _Record) -> None:
        for file in record.files:
            discard(self._safe(file.path), file.temporary)
        self._remove_folders(record)

    def _remove_folders(self, record: _Record) -> None:
        for folder in reversed(record.folders):
            remove_folder(self._safe(folder))

    def _state_of(self, file: _File) -> str | None:
        try:
            return _digest(_look_at(self._safe(file.path)).data)
        except WorkspaceError:
            return "something else"

    def _unlinked(self, path: str) -> SafePath:
        """Return the file of a record, which was reached without a link when it was made."""
        found = self._workspace.resolve(path, allow=[path])
        if str(found) != path:
            raise PathRefused(f"{path} was not touched: something on the way to it is a link.")
        return found

    def _safe(self, path: str) -> SafePath:
        """A path that was resolved when the record was made; links are not followed anyway."""
        return SafePath(self._root, tuple(path.split("/")))

    def _path(self, kept: _Kept) -> Path:
        return self.folder / f"{kept.id:08}.{kept.state}"

    def _next_id(self) -> int:
        return max((int(path.stem) for path in self._files()), default=0) + 1

    def _files(self) -> Iterable[Path]:
        return (path for path in self.folder.iterdir() if _NUMBER.fullmatch(path.stem))

    def _write(self, kept: _Kept) -> None:
        path = self._path(kept)
        writing = path.with_suffix(".writing")
        try:
            handle = os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                file.write(msgspec.msgpack.encode(kept.record))
                file.flush()
                os.fsync(handle)
            writing.rename(path)
            self._sync()
        except OSError as error:
            with contextlib.suppress(OSError):
                writing.unlink(missing_ok=True)
            raise CannotWrite(
                f"Nothing was changed: the edit cannot be noted in {self.folder}, to be undone "
                f"later: {reason(error)}."
            ) from error

    def _mark(self, kept: _Kept, state: _State) -> _Kept:
        marked = msgspec.structs.replace(kept, state=state)
        self._path(kept).rename(self._path(marked))
        self._sync()
        return marked

    def _sync(self) -> None:
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _load(self) -> list[_Kept]:
        """The newest first."""
        return [self._read(path) for path in sorted(self._files(), reverse=True)]

    def _read(self, path: Path) -> _Kept:
        try:
            record = msgspec.msgpack.decode(_bytes_of(path), type=_Record)
            state = msgspec.convert(path.suffix[1:], type=_State)
            _check(record)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise CannotUndo(
                f"{path} cannot be read ({error}). If another version of Vivace did not write it, "
                "remove it."
            ) from error
        return _Kept(int(path.stem), state, record)

    def _prune(self) -> None:
        """The newest stays, however large."""
        size = 0
        for count, path in enumerate(sorted(self._files(), reverse=True)):
            size += path.stat().st_size
            if count and (count >= _MOST_EDITS or size > _MOST_BYTES):
                path.unlink()


def _bytes_of(path: Path) -> bytes:
    """Read a file of ours; a link, or what would have to be waited for, is none."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK)
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle
        return file.read()


def _check(record: _Record) -> None:
    """Raise ValueError if the record was not written by us: it names files to be removed."""
    for path in (*record.folders, *(file.path for file in record.files)):
        if not path or {"", ".", ".."}.intersection(path.split("/")) or "\0" in path:
            raise ValueError(f"it names {path!r}, which is no path in a work tree")
    for file in record.files:
        if not is_temporary(file.temporary):
            raise ValueError(f"it names {file.temporary!r}, which is no temporary file of ours")


def _planned(change: Change) -> _File | None:
    """The record of a change, checked against the disk; None where it changes nothing."""
    found = _look_at(change.path)
    if _digest(found.data) != (change.before and change.before.sha256):
        raise FileChanged(
            f"{change.path} was not touched: it was changed after it was read. Try again."
        )
    if found.data == change.after:
        return None
    return _File(
        path=str(change.path),
        old=found.data,
        mode=found.mode,
        new=_digest(change.after),
        temporary=temporary_name(),
    )


def _carry_out(change: Change, file: _File) -> None:
    if change.after is not None:
        commit(change.path, change.before, file.temporary)
    elif change.before is not None:
        remove(change.path, change.before)


def _in_force(everything: Iterable[_Kept]) -> set[int]:
    """The records that nothing undoes; later ones come first."""
    undone: set[int] = set()
    force: set[int] = set()
    for kept in everything:
        if kept.id not in undone:
            force.add(kept.id)
            if kept.state == "done":
                undone.update(kept.record.undoes)
    return force


def _look_at(path: SafePath) -> _OnDisk:
    try:
        with open_folder(path) as folder:
            data, status = read_in(folder, path)
    except FileNotFoundError:
        return _OnDisk(None, None, 0o644)
    except OSError as error:
        raise explain(path, error) from error
    if len(data) > LARGEST:
        raise CannotWrite(f"{path} was not touched: it has become too large to be kept for undo.")
    return _OnDisk(data, version_of(data, status), stat.S_IMODE(status.st_mode))


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()
