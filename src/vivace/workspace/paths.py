"""Which file a path means, and whether an edit may go there.

``Workspace.resolve`` decides by name. What happens between that and the write cannot be decided by
name: so everything that opens a file walks to it from the root, one folder at a time, each opened
in the one before and none of them through a link. A link that is put in the way meanwhile is an
error, never a way out.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vivace.workspace.errors import PathRefused, Protected, WorkspaceError, explain
from vivace.workspace.links import why_linked
from vivace.workspace.protected import is_short_name, plain_name, why_protected

__all__ = ["SafePath", "Workspace", "open_folder", "top_level"]

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_LONGEST = 1000
"""Characters; every system takes a path of so many."""
_KINDS = {
    stat.S_IFLNK: "a symbolic link. Name the file it leads to",
    stat.S_IFDIR: "a folder. Name a file in it",
    stat.S_IFIFO: "a named pipe, not a file",
    stat.S_IFSOCK: "a socket, not a file",
    stat.S_IFCHR: "a device, not a file",
    stat.S_IFBLK: "a device, not a file",
}


@dataclass(frozen=True)
class SafePath:
    """A file in the workspace, there or not yet; made by ``Workspace.resolve`` and nobody else."""

    root: Path
    parts: tuple[str, ...]
    """From the root down, without any link as far as could be seen."""

    @property
    def name(self) -> str:
        return self.parts[-1]

    @property
    def absolute(self) -> Path:
        return self.root.joinpath(*self.parts)

    def __str__(self) -> str:
        return "/".join(self.parts)


class Workspace:
    """The folder that edits stay in."""

    def __init__(self, root: Path) -> None:
        if os.open not in os.supports_dir_fd:
            raise WorkspaceError(
                "Files cannot be changed safely on this system. On Windows, use Vivace in WSL."
            )
        self.root = Path(os.path.realpath(root))
        if not self.root.is_dir():
            raise PathRefused(f"There is no folder {root}.")

    @classmethod
    def around(cls, path: Path | None = None, cwd: Path | None = None) -> Workspace:
        """The git work tree that holds the path; without one, the current folder."""
        here = cwd or Path.cwd()
        return cls(top_level(here / path if path else here) or here)

    def named(self, path: str | Path, cwd: Path | None = None) -> SafePath:
        """Return the file that a person typed the path of, from the current folder, which may be
        any. Protected files are opened if they are named so: through a link with an everyday name,
        nobody can see which file it is.
        """
        full = os.path.join(cwd or Path.cwd(), Path(path).expanduser())  # noqa: PTH118 - keeps ".."
        if ".." in Path(full).parts:
            full = _without_links_above(full)
        found = self.resolve(full, allow=[full])
        why = why_protected(found.parts)
        if why is not None and why_protected(self._lexical(full) or Path(full).parts) is None:
            raise Protected(found, why)
        return found

    def resolve(self, path: str | Path, *, allow: Iterable[str | Path] = ()) -> SafePath:
        """The file a path means, from the root down, or PathRefused with the reason.

        ``allow`` holds the protected files that the person named.
        """
        given = os.fspath(path)
        if (wrong := _wrong_with(given)) is not None:
            raise PathRefused(f"{given[:100]!r} was refused: {wrong}.")
        found = self._real(given)
        if found is None:
            raise PathRefused(
                f"{given} was refused: it leads out of {self.root}, where edits have to stay."
            )
        if found not in [self._real(os.fspath(each)) for each in allow]:
            lexical = self._lexical(given) or found.parts
            why = (
                why_protected(found.parts)
                or why_protected(lexical)
                or why_linked(self.root, found.parts)
            )
            if why is not None:
                raise Protected(found, why)
        _refuse_short_names(found)
        _refuse_other_kinds(found)
        return found

    def _real(self, given: str) -> SafePath | None:
        try:
            real = Path(_without_links_above(os.path.join(self.root, given)))  # noqa: PTH118
        except OSError as error:  # a link came or went while we looked
            raise explain(given, error, PathRefused) from error
        if real == self.root or not real.is_relative_to(self.root):
            return None
        return SafePath(self.root, real.relative_to(self.root).parts)

    def _lexical(self, given: str) -> tuple[str, ...]:
        """The names as they were given: a link called ``.vscode`` is an editor's, wherever to."""
        path = Path(given)
        if not path.is_absolute():
            return path.parts
        return path.relative_to(self.root).parts if path.is_relative_to(self.root) else ()


def top_level(path: Path) -> Path | None:
    """The git work tree that holds the path, if one does."""
    real = Path(_without_links_above(os.path.abspath(path)))  # noqa: PTH100 - links are kept
    for folder in (real, *real.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    return None


@contextmanager
def open_folder(path: SafePath, *, make: bool = False) -> Iterator[int]:
    """The folder of a file, opened without passing through a link; ``make`` makes missing ones."""
    handle = os.open(path.root, _FOLDER)
    try:
        for name in path.parts[:-1]:
            if make:
                _make_folder(name, handle)
            inner = os.open(name, _FOLDER, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _make_folder(name: str, parent: int) -> None:
    try:
        os.mkdir(name, dir_fd=parent)
    except FileExistsError:
        return
    os.fsync(parent)


def _without_links_above(path: str) -> str:
    """The path with every link resolved, but for the last name itself."""
    above, name = os.path.split(path.rstrip("/") or "/")
    if name in ("", ".", ".."):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(above), name)  # noqa: PTH118


def _wrong_with(given: str) -> str | None:
    """What keeps a string from being a path that can be trusted and shown."""
    names = given.split("/")
    if len(given) > _LONGEST:
        return "it is too long"
    if not given or given.endswith("/"):
        return "it names no file"
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in given):
        return "it holds characters that cannot be shown"
    if "\\" in given:
        return "it holds a backslash. Folders are divided by /"
    if ".." in names:
        return "it goes up by '..'. Name the file from the workspace's root"
    if names[0].startswith("~"):
        return "'~' is not the home folder here. Name the file from the workspace's root"
    if any(not plain_name(name) for name in names if name not in ("", ".")):
        return "it holds a name of nothing that can be seen"
    return None


def _refuse_short_names(path: SafePath) -> None:
    """A name that Windows made up for a file beside its own hides which file it is. Such a name is
    not in the folder's listing, unless a file is really called so."""
    for depth, name in enumerate(path.parts):
        if is_short_name(name) and name not in _listing(path.root.joinpath(*path.parts[:depth])):
            raise PathRefused(
                f"{path} was refused: {name} may be a short name that Windows has for another "
                "file. Give the name from the folder's listing."
            )


def _listing(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []


def _refuse_other_kinds(path: SafePath) -> None:
    try:
        with open_folder(path) as folder:
            found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
            kind = stat.S_IFMT(found.st_mode)
            if kind != stat.S_IFREG:
                raise PathRefused(f"{path} was refused: it is {_KINDS.get(kind, 'no file')}.")
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise explain(path, error, PathRefused) from error
        _refuse_twin(path)


def _refuse_twin(path: SafePath) -> None:
    """A new file must not look exactly like one that is there."""
    if path.name.isascii():
        return
    try:
        with open_folder(path) as folder:
            names = os.listdir(folder)  # noqa: PTH208 - an open folder
    except OSError:
        return  # no folder, no twin
    wanted = unicodedata.normalize("NFC", path.name)
    for name in names:
        if name != path.name and unicodedata.normalize("NFC", name) == wanted:
            raise PathRefused(
                f"{path} was refused: {name!r} is there already, which looks the same and is "
                "written with other characters. Copy the name from the folder's listing."
            )
