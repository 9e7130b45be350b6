"""Which file a document is, and whether a model may read it.

git is asked once for each file, and again when a file that says what is ignored has changed. For
keys the whole text is searched when it is opened and when more is put in at once than is typed;
until it holds none, it is searched again. What is about to be sent is searched in any case, by
whoever sends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from vivace.lsp.documents import Change, Document
from vivace.syntax.languages import LANGUAGES, language_of
from vivace.workspace.errors import PathRefused, WorkspaceError
from vivace.workspace.ignore import secret_content, why_not_read
from vivace.workspace.language_server import path_of
from vivace.workspace.paths import SafePath, Workspace, top_level

__all__ = ["File", "Files", "folders_on_disk", "name_for"]

_PASTED = 16
"""Characters; who types puts in fewer at once, and every key has more."""
_ON_DISK = frozenset({"file", "vscode-notebook-cell"})
_UNTITLED = "untitled"
_THIS_MACHINE = frozenset({"", "localhost"})
"""Hosts of addresses as RFC 8089 has them; another one is a share of another machine."""
_MAX_PATH = 4096
"""Characters; no system takes a longer path."""
_OTHER_IDS = {"javascriptreact": "javascript", "typescriptreact": "tsx"}
"""What editors call languages that we call otherwise."""
_SUFFIXES = {language.name: language.suffixes[0] for language in LANGUAGES}

_Stamp = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class File:
    workspace: Workspace
    path: SafePath
    """There or not yet."""


@dataclass
class _Known:
    file: File | None
    why_not: str | None
    stamp: _Stamp
    """Of the files that say what is ignored."""


@dataclass
class Files:
    untitled: Path
    """A folder for what is in none."""
    folders: Sequence[Path] = ()
    """Those that the editor has open."""
    _known: dict[str, _Known] = field(default_factory=dict)
    _unsearched: set[str] = field(default_factory=set)
    """Documents that may hold a key."""

    def opened(self, document: Document) -> None:
        self._known.pop(document.uri, None)
        self._unsearched.add(document.uri)

    def changed(self, document: Document, changes: Sequence[Change]) -> None:
        if any(len(each.text) >= _PASTED for each in changes):
            self._unsearched.add(document.uri)

    def closed(self, uri: str) -> None:
        self._known.pop(uri, None)
        self._unsearched.discard(uri)

    async def why_not(self, document: Document) -> str | None:
        """Why no model may read a document, for the person; None where one may."""
        known = await self._looked_up(document)
        if known.why_not is not None:
            return known.why_not
        if document.uri in self._unsearched:
            text = document.text
            if (why := await asyncio.to_thread(_wrong_with, text)) is not None:
                return f"{document.name} is not read: {why}."
            if document.text is text:
                self._unsearched.discard(document.uri)
        return None

    async def is_worked_on(self, document: Document) -> bool:
        """Whether it is a file of the person's own: not what git ignores, nor one for secrets. A
        text with a key in it is: no model reads it, but whoever looks for such keys does."""
        return (await self._looked_up(document)).why_not is None

    async def _looked_up(self, document: Document) -> _Known:
        known = self._known.get(document.uri)
        if known is None or known.stamp != _stamp(known.file):
            known = await asyncio.to_thread(self._look_up, document.uri)
            self._known[document.uri] = known
        return known

    def known_to_be_readable(self, document: Document) -> bool:
        """The same for whoever cannot wait."""
        known = self._known.get(document.uri)
        if known is None or known.why_not is not None or document.uri in self._unsearched:
            return False
        return known.stamp == _stamp(known.file)

    def path_for(self, document: Document) -> str:
        """Where it is, as a model is told: from the workspace on, with the language's ending."""
        return "/".join((*self.find(document.uri).path.parts[:-1], document.name))

    def find(self, uri: str) -> File:
        """The file behind a document, or PathRefused."""
        scheme, path = _parts_of(uri)
        if scheme == _UNTITLED:
            self.untitled.mkdir(parents=True, exist_ok=True)
            workspace = Workspace(next(filter(Path.is_dir, self.folders), self.untitled))
            return File(workspace, workspace.resolve(path.name))
        if scheme not in _ON_DISK:
            raise PathRefused(f"What {scheme} shows is no file.")
        within = [each for each in self.folders if path.is_relative_to(each)]
        root = top_level(path) or max(within, key=lambda each: len(each.parts), default=path.parent)
        workspace = Workspace(root)
        real = os.path.realpath(path)  # a link may lead to another file of the workspace
        return File(workspace, workspace.resolve(real, allow=[real]))

    def _look_up(self, uri: str) -> _Known:
        try:
            file = self.find(uri)
        except WorkspaceError as error:
            return _Known(None, str(error), _stamp(None))
        stamp = _stamp(file)
        return _Known(file, why_not_read(file.path, b""), stamp)


def _wrong_with(text: str) -> str | None:
    """Why a text is none for a model."""
    if "\0" in text:
        return "it is not text"
    what = secret_content(text.encode("utf-8", "surrogatepass"))
    return f"it seems to hold {what}" if what is not None else None


def folders_on_disk(uris: Iterable[str]) -> list[Path]:
    """Of an editor's folders: some are on no disk."""
    found = []
    for uri in uris:
        with contextlib.suppress(PathRefused):
            scheme, path = _parts_of(uri)
            found += [path] if scheme == "file" else []
    return found


def _parts_of(uri: str) -> tuple[str, Path]:
    """The scheme and the path."""
    try:
        (scheme, host, *_), path = urlsplit(uri), path_of(uri)
    except ValueError:
        raise PathRefused("Its address is none of a file.") from None
    if scheme in _ON_DISK and not (path.is_absolute() and host in _THIS_MACHINE):
        raise PathRefused("Its address is none of a file of this machine.")
    if any(unicodedata.category(each) in ("Cc", "Cs") for each in str(path)):
        raise PathRefused("Its address holds characters that no name of a file has.")
    if len(str(path)) > _MAX_PATH:
        raise PathRefused("Its address is longer than that of any file.")
    return scheme, path


def name_for(uri: str, language_id: str) -> str:
    """A name by which the language is known, where the file's own does not tell it."""
    try:
        path = str(_parts_of(uri)[1])
    except PathRefused:
        path = uri
    suffix = _SUFFIXES.get(_OTHER_IDS.get(language_id, language_id), "")
    return path if language_of(path) is not None else path + suffix


def _stamp(file: File | None) -> _Stamp:
    return tuple(map(_status, _rules(file.path))) if file is not None else ()


def _rules(path: SafePath) -> Iterator[Path]:
    """The files of the workspace that say what git ignores."""
    for depth in range(len(path.parts)):
        yield path.root.joinpath(*path.parts[:depth], ".gitignore")
    yield path.root / ".git" / "info" / "exclude"


def _status(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
