"""What the project's own files export, read once and after that only where a file has changed.

    listed    what git has or would take; secrets by their names, links and large files stay out
    read      with tree-sitter, the nearest first, up to a deadline; the rest is read next time
    kept      in memory, and in a file that only the person can read: names, sizes and times

Nothing of this reaches a model. Two programs may keep the same file: the later one wins, and since
an entry holds only for the size and time it names, none of them is ever wrong.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from itertools import takewhile
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from vivace.edits.importing.project import FAMILIES, Manifest, Modules, Project, folder_of
from vivace.syntax.exports import UNREAD, Exports, exports_of
from vivace.syntax.languages import language_of
from vivace.syntax.source import Source
from vivace.workspace.document import read_in
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.ignore import secret_name
from vivace.workspace.listing import names_below
from vivace.workspace.manifests import is_manifest, manifest_of
from vivace.workspace.paths import SafePath, Workspace, open_folder

__all__ = ["Index"]

_BUDGET_S = 3.0
_LARGEST = 512 * 1024
"""Bytes of a file that is read; larger ones are made by programs."""
_MOST_FILES = 20_000
_MOST_BYTES = 16 * 1024 * 1024
"""What is kept of one project."""
_MOST_KEPT = 32
"""Projects."""


class _Entry(Struct, frozen=True, array_like=True):
    size: int
    modified_ns: int
    exports: Exports = Exports()
    manifest: Manifest | None = None


class _Kept(Struct, frozen=True):
    version: Literal[2]
    entries: dict[str, _Entry]


class Index:
    """What one workspace exports; any thread may ask."""

    def __init__(
        self, workspace: Workspace, state: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``state`` is where the program keeps such things, outside of any workspace."""
        name = hashlib.sha256(os.fsencode(workspace.root)).hexdigest()[:16]
        self._kept = state / "index" / f"{name}.msgpack"
        self._root = workspace.root
        self._clock = clock
        self._entries: dict[str, _Entry] | None = None
        self._one_at_a_time = threading.Lock()
        self._deadline = 0.0
        self._closed = False

    def modules(self, path: str, budget_s: float = _BUDGET_S) -> Modules:
        """What a file can import, as far as it can be found out in that time."""
        with self._one_at_a_time:
            self._deadline = self._clock() + budget_s
            return self._modules(path)

    def hurry(self) -> None:
        """Have a reading that is under way end with what it has."""
        self._deadline = 0.0

    def close(self) -> None:
        """The same, and no more is read."""
        self._closed = True

    def _modules(self, path: str) -> Modules:
        known = self._load() if self._entries is None else self._entries
        found: dict[str, _Entry] = {}
        complete = True
        listed = self._listed()
        wanted = [each for each in listed if self._matters(each, path)]
        for each in sorted(wanted, key=lambda other: _distance(other, path)):
            status = self._status(each)
            if status is None:
                continue
            entry = known.get(each)
            if entry is None or (entry.size, entry.modified_ns) != status:
                if self._closed or self._clock() > self._deadline:
                    complete = False
                    continue
                entry = self._read(each, status)
            found[each] = entry
        self._remember(known, found, listed)
        return Modules(_project(found, listed, complete), path)

    # -- listing ----------------------------------------------------------------------------------

    def _listed(self) -> list[str]:
        try:
            return names_below(self._root, most=_MOST_FILES)[:_MOST_FILES]
        except (WorkspaceError, OSError):
            return []  # what git ignores cannot be told, so nothing is read

    def _matters(self, other: str, path: str) -> bool:
        """Whether a file of this language can know the other one, which may be read."""
        mine, theirs = language_of(path), language_of(other)
        if not is_manifest(other):
            if mine is None or theirs is None:
                return False
            if theirs.name not in FAMILIES.get(mine.name, (mine.name,)):
                return False
        return secret_name(other.split("/")) is None

    # -- reading ----------------------------------------------------------------------------------

    def _status(self, path: str) -> tuple[int, int] | None:
        """Size and time of a file; None of anything else."""
        try:
            status = (self._root / path).lstat()
        except (OSError, ValueError):
            return None
        return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else None

    def _read(self, path: str, status: tuple[int, int]) -> _Entry:
        if status[0] > _LARGEST:
            return _Entry(*status, exports=UNREAD)
        place = SafePath(self._root, tuple(path.split("/")))
        try:
            with open_folder(place) as folder:
                data, found = read_in(folder, place)
            text = data.decode("utf-8-sig")
        except (OSError, WorkspaceError, UnicodeDecodeError):
            return _Entry(*status, exports=UNREAD)
        status = (found.st_size, found.st_mtime_ns)
        if is_manifest(path):
            return _Entry(*status, manifest=manifest_of(path, text))
        return _Entry(*status, exports=exports_of(Source.of(path, text)))

    # -- keeping ----------------------------------------------------------------------------------

    def _load(self) -> dict[str, _Entry]:
        try:
            return msgspec.msgpack.decode(self._kept.read_bytes(), type=_Kept).entries
        except (OSError, msgspec.MsgspecError):
            return {}

    def _remember(
        self, known: dict[str, _Entry], found: dict[str, _Entry], listed: Iterable[str]
    ) -> None:
        """What was read of other languages stays, as long as the files are there."""
        there = set(listed)
        others = {path: entry for path, entry in known.items() if path in there}
        entries = others | found
        changed = entries != known
        self._entries = entries
        if changed:
            with contextlib.suppress(OSError):  # without it, it is read again
                self._write(msgspec.msgpack.encode(_Kept(2, entries)))

    def _write(self, data: bytes) -> None:
        if len(data) > _MOST_BYTES:
            return
        folder = self._kept.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".writing")  # for their owner only
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                file.write(data)
            Path(name).replace(self._kept)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _prune(folder)


def _prune(folder: Path) -> None:
    kept = sorted(folder.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
    for path in kept[_MOST_KEPT:]:
        path.unlink(missing_ok=True)


def _project(found: dict[str, _Entry], listed: Iterable[str], complete: bool) -> Project:
    manifests = [entry.manifest for entry in found.values() if entry.manifest is not None]
    files = {path: entry.exports for path, entry in found.items() if not is_manifest(path)}
    return Project(files, listed, manifests, complete=complete)


def _distance(path: str, other: str) -> tuple[int, str]:
    """How far a file is from another, by folders; manifests come first."""
    if is_manifest(path):
        return -1, path
    ours, theirs = folder_of(path).split("/"), folder_of(other).split("/")
    pairs = zip(ours, theirs, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return len(ours) + len(theirs) - 2 * shared, path
