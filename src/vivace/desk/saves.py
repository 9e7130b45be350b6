"""What a person saves: files of the project whose content has changed.

Only folders with files that git does not ignore are watched, and none that programs fill. A save is
told once it is over and the editor is at rest. What we write ourselves is none, nor is a file that
is touched and stays the same. What the command writes is a file in no language we read, most
likely: one that changes while it runs, run after run, is taken for its doing.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

from vivace.errors import VivaceError
from vivace.extras import how_to_install
from vivace.syntax.languages import language_of
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.ignore import ignored, own_folders
from vivace.workspace.listing import names_below
from vivace.workspace.paths import SafePath, Workspace

__all__ = ["CannotWatch", "SavedFiles", "folders_of"]

_QUIET_MS = 60
_LONGEST_MS = 600
"""How long an editor may take to save several files at once."""
_AFTER_S = 1.0
"""How long after its end the command's own files may still be told of."""
_MOST_FOLDERS = 5000
_MOST_FILES = 100_000
_LARGEST = 8 * 1024 * 1024
"""Bytes of a file that is read to see whether it has changed; larger ones by size and time."""
_PASSING = re.compile(
    r"(?:\.#.*|#.*#|.*~|.*\.sw[a-p]x?|4913|\.vivace-.*\.tmp|.*___jb_\w+___|.*\.tmp)"
)
"""Files that editors, and we, make for a moment."""


class CannotWatch(VivaceError):
    """Saves cannot be seen here; the message says what to do."""


def folders_of(root: Path, files: Iterable[str]) -> list[Path]:
    """The folders that have these files, and those between; the root is one of them, and none that
    programs fill, whether git ignores it or not."""
    found = {root}
    for file in files:
        if _passes(file):
            continue
        for folder in (root / file).parents:
            if folder in found or not folder.is_relative_to(root):
                break
            found.add(folder)
    return sorted(found)


class SavedFiles:
    """The saves of one workspace, from when it is made."""

    def __init__(
        self,
        workspace: Workspace,
        watch: Callable[..., AsyncIterator[set[tuple[Any, str]]]] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._root = workspace.root
        self._watch = watch or _watchfiles()
        self._clock = clock
        self._known: dict[str, object] = {}
        """The last content of files that have changed, as far as it has been looked at."""
        self._running = False
        self._ran_until = float("-inf")
        self._made: set[str] = set()
        """Files in no language we read that have changed while the command ran."""

    @contextmanager
    def command(self) -> Iterator[None]:
        self._running = True
        try:
            yield
        finally:
            self._running = False
            self._ran_until = self._now()

    def settled(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._known[path] = self._content(path)

    async def __aiter__(self) -> AsyncIterator[tuple[str, ...]]:
        while True:
            folders = await asyncio.to_thread(self._folders)
            async with aclosing(self._changes(folders)) as changes:
                async for changed in changes:
                    names = [self._name(path) for path in changed]
                    saved = self.saved(name for name in names if name is not None)
                    if saved:
                        yield saved
                    if await asyncio.to_thread(self._folders) != folders:
                        break  # there are new ones to be watched, or old ones are gone

    async def _changes(self, folders: list[Path]) -> AsyncGenerator[set[str]]:
        options = {"recursive": False, "step": _QUIET_MS, "debounce": _LONGEST_MS}
        watched = self._watch(*folders, watch_filter=None, **options)
        async for changes in watched:
            yield {path for _, path in changes}

    def _folders(self) -> list[Path]:
        try:
            names = names_below(self._root, most=_MOST_FILES)
        except WorkspaceError as error:
            raise CannotWatch(f"Which files are to be watched cannot be told. {error}") from error
        found = folders_of(self._root, names)
        if len(found) > _MOST_FOLDERS:
            raise CannotWatch(
                f"{self._root} has {len(found):,} folders with files that git does not ignore; up "
                f"to {_MOST_FOLDERS:,} can be watched. Have git ignore those that programs fill, "
                "or use --once."
            )
        return [each for each in found if each.is_dir()]

    # -- which of them are saves ------------------------------------------------------------------

    def saved(self, names: Iterable[str]) -> tuple[str, ...]:
        """Those of the files that have changed that a person has saved."""
        candidates = [each for each in sorted(set(names)) if not _passes(each)]
        found = [each for each in candidates if self._has_changed(each)]
        found = [each for each in found if not self._is_made(each)]
        return tuple(self._not_ignored(found))

    def _has_changed(self, name: str) -> bool:
        path = self._root / name
        if path.is_dir():
            return False
        now = self._content(name)
        if name not in self._known and now is None:
            return False  # it came and went
        before = self._known.get(name, _UNKNOWN)
        self._known[name] = now
        return now != before

    def _is_made(self, name: str) -> bool:
        """Whether the command makes it, as far as that can be told: the first time it cannot."""
        if language_of(name) is not None or not (
            self._running or self._now() - self._ran_until < _AFTER_S
        ):
            return False
        known = name in self._made
        self._made.add(name)
        return known

    def _not_ignored(self, names: list[str]) -> list[str]:
        if not names:
            return []
        paths = {name: SafePath(self._root, tuple(name.split("/"))) for name in names}
        try:
            out = ignored(paths.values())
        except WorkspaceError:
            return names  # rather once too often
        return [name for name, path in paths.items() if path not in out]

    def _content(self, name: str) -> object:
        """What is the same as long as the file is; None where there is none."""
        path = self._root / name
        try:
            status = path.stat()
            if status.st_size > _LARGEST:
                return status.st_size, status.st_mtime_ns
            return hashlib.sha256(path.read_bytes()).digest()
        except OSError:
            return None

    def _name(self, path: str) -> str | None:
        try:
            return Path(path).relative_to(self._root).as_posix()
        except ValueError:
            return None

    def _now(self) -> float:
        return self._clock() if self._clock else asyncio.get_running_loop().time()


_UNKNOWN = object()


def _passes(name: str) -> bool:
    *folders, last = name.split("/")
    return own_folders(folders) != folders or _PASSING.fullmatch(last) is not None


def _watchfiles() -> Callable[..., AsyncIterator[set[tuple[Any, str]]]]:
    try:
        from watchfiles import awatch
    except ImportError as error:
        raise CannotWatch(
            f"To see what is saved, vivace watch needs watchfiles: {how_to_install('watch')}. "
            "Without it, vivace watch --once runs the command once."
        ) from error
    return awatch
