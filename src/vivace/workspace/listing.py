"""The files of a project that are its own: what git has or would take, and never through a link.

Folders are listed by git, with its own rules of what is ignored; outside of a repository by
``.gitignore`` files and by the names of folders that programs fill. What a person names, they mean:
a named file or folder is listed though git ignores it. As no link is followed, each file is listed
once, and none outside of what was named.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vivace.workspace.errors import PathRefused
from vivace.workspace.git import run_git
from vivace.workspace.ignore import ignored, own_folders
from vivace.workspace.paths import SafePath, Workspace, top_level

__all__ = ["LeftOut", "Listing", "WhyNot", "list_files", "names_below", "shown_path"]


WhyNot = Callable[[SafePath], str | None]
"""Why a file is not wanted; None where it is."""


@dataclass(frozen=True)
class LeftOut:
    """What was named or met, and is not listed."""

    path: Path
    why: str


@dataclass(frozen=True)
class Listing:
    files: tuple[SafePath, ...]
    """By their paths; each once, whatever was named twice."""
    left_out: tuple[LeftOut, ...]


def list_files(given: Iterable[Path], cwd: Path, why_not: WhyNot) -> Listing:
    """The files of these files and folders; PathRefused where there is no such file or folder.
    ``why_not`` says why a file is not wanted, which is told only of one that was named."""
    files: dict[Path, SafePath] = {}
    left_out: dict[Path, LeftOut] = {}
    for each in given:
        path = cwd / each.expanduser()
        for found in (_below if path.is_dir() else _named)(path, cwd, why_not):
            if isinstance(found, LeftOut):
                left_out[found.path] = found
            else:
                files[found.absolute] = found
    in_order = tuple(files[path] for path in sorted(files))
    return Listing(in_order, tuple(left_out[path] for path in sorted(left_out)))


def _named(path: Path, cwd: Path, why_not: WhyNot) -> Iterator[SafePath | LeftOut]:
    if not os.path.lexists(path):
        raise PathRefused(f"There is no file or folder {path}.")
    try:
        safe = Workspace(_root_of(path.parent, cwd)).named(path, cwd)
    except PathRefused as error:
        yield LeftOut(path, str(error))
        return
    why = why_not(safe)
    yield safe if why is None else LeftOut(path, why)


def _below(folder: Path, cwd: Path, why_not: WhyNot) -> Iterator[SafePath | LeftOut]:
    folder = Path(os.path.realpath(folder))
    root = _root_of(folder, cwd)
    under = folder.relative_to(root).parts
    meant = bool(under) and bool(ignored([SafePath(root, under)]))
    for name in _walked(root, under) if meant else names_below(root, under):
        path = SafePath(root, tuple(name.rstrip("/").split("/")))
        try:
            kind = stat.S_IFMT(path.absolute.lstat().st_mode)
        except (OSError, ValueError):
            continue  # git still has it, the disk does not
        if kind == stat.S_IFDIR:
            yield LeftOut(path.absolute, "it is a repository of its own: name it to have it read")
        elif kind == stat.S_IFREG and why_not(path) is None:
            yield path


def shown_path(path: Path, base: Path) -> str:
    """As reports name a file: from a folder down, or absolute outside of it."""
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)


def _root_of(folder: Path, cwd: Path) -> Path:
    """The git work tree that holds a folder; without one the current folder, as everywhere, unless
    it is outside of that."""
    real, here = Path(os.path.realpath(folder)), Path(os.path.realpath(cwd))
    return top_level(real) or (here if real.is_relative_to(here) else real)


def names_below(root: Path, under: Sequence[str] = (), most: int | None = None) -> list[str]:
    """The project's own files below a folder in it, named from the root, in order. Outside of git
    the search ends with the folder in which ``most`` is passed. Raises GitFailed."""
    if top_level(root) is not None:
        return sorted(_from_git(root, under))
    found = list(_walked(root, under, most))
    places = {SafePath(root, tuple(name.split("/"))): name for name in found}
    out = ignored(places) if places else set()
    return sorted(name for path, name in places.items() if path not in out)


def _from_git(root: Path, under: Sequence[str]) -> Iterator[str]:
    options = ("--cached", "--others", "--exclude-standard", "--deduplicate")
    place = f":(literal){'/'.join(under)}" if under else "."
    said = run_git(root, "ls-files", "-z", *options, "--", place)
    return (os.fsdecode(name) for name in said.split(b"\0") if name)


def _walked(root: Path, under: Sequence[str], most: int | None = None) -> Iterator[str]:
    count = 0
    for folder, inner, names in os.walk(root.joinpath(*under)):
        inner[:] = own_folders(inner)
        parts = Path(folder).relative_to(root).parts
        yield from ("/".join((*parts, name)) for name in names)
        count += len(names)
        if most is not None and count > most:
            break
