"""Answers of language servers as values: what is not as the protocol has it is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from vivace.syntax.lines import lines_of
from vivace.workspace.document import LARGEST
from vivace.workspace.language_server import ServerFailed, path_of

__all__ = ["Place", "TextEdit", "apply_edits", "read_edits", "read_places"]

_Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
T = TypeVar("T")


class _Position(Struct, frozen=True):
    line: _Count
    character: _Count
    """In halves of UTF-16."""


class _Range(Struct, frozen=True):
    start: _Position
    end: _Position


class TextEdit(Struct, frozen=True, rename="camel"):
    range: _Range
    new_text: str


class _Document(Struct, frozen=True):
    uri: str


class _DocumentEdit(Struct, frozen=True, rename="camel"):
    kind: str | None = None
    """Kind of an operation on a whole file; None for edits."""
    text_document: _Document | None = None
    edits: tuple[TextEdit, ...] = ()


class _WorkspaceEdit(Struct, frozen=True, rename="camel"):
    changes: dict[str, tuple[TextEdit, ...]] | None = None
    document_changes: tuple[_DocumentEdit, ...] | None = None


class _Location(Struct, frozen=True, rename="camel"):
    uri: str | None = None
    range: _Range | None = None
    target_uri: str | None = None
    target_selection_range: _Range | None = None


class Place(Struct, frozen=True):
    path: Path
    line: int
    character: int


def read_edits(answer: Any) -> dict[Path, list[TextEdit]]:
    """Return the edits of a rename by the files they are for, or raise ServerFailed."""
    found = _read(answer, _WorkspaceEdit | None) or _WorkspaceEdit()
    edits: dict[Path, list[TextEdit]] = {}
    for uri, changes in (found.changes or {}).items():
        edits.setdefault(_path(uri), []).extend(changes)
    for each in found.document_changes or ():
        if each.kind is not None or each.text_document is None:
            raise ServerFailed("A file would have to be made, moved or removed.")
        edits.setdefault(_path(each.text_document.uri), []).extend(each.edits)
    return edits


def read_places(answer: Any) -> Iterator[Place]:
    """Yield the places where something is defined; raises ServerFailed."""
    given = answer if isinstance(answer, list) else [answer] if answer else []
    for each in _read(given, tuple[_Location, ...]):
        uri, found = each.uri or each.target_uri, each.range or each.target_selection_range
        if uri is None or found is None:
            raise ServerFailed("A language server named a place that is none.")
        yield Place(_path(uri), found.start.line, found.start.character)


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Return the text after edits that were all made for it, or raise ServerFailed."""
    starts, ends = [0], []
    for line in lines_of(text):
        starts.append(starts[-1] + _size(line))
        ends.append(starts[-1] - _size(line[len(line.rstrip("\r\n")) :]))
    ends.append(starts[-1])

    def offset(place: _Position) -> int:
        if place.line >= len(ends):
            return starts[-1]
        return min(starts[place.line] + 2 * place.character, ends[place.line])

    if sum(len(each.new_text) for each in edits) > LARGEST:
        raise ServerFailed("A language server wants to put in more than a file can hold.")
    raw = text.encode("utf-16-le", "surrogatepass")
    parts: list[bytes] = []
    at = 0
    for first, last, new in sorted(
        {(offset(each.range.start), offset(each.range.end), each.new_text) for each in edits}
    ):
        if not at <= first <= last:
            raise ServerFailed("Edits of a language server overlap.")
        parts += [raw[at:first], new.encode("utf-16-le", "surrogatepass")]
        at = last
    try:
        return b"".join([*parts, raw[at:]]).decode("utf-16-le")
    except UnicodeDecodeError as error:
        raise ServerFailed("Edits of a language server leave half a character.") from error


def _size(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass"))


def _read(answer: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise ServerFailed(f"A language server broke the protocol: {error}.") from error


def _path(uri: str) -> Path:
    try:
        return path_of(uri)
    except ValueError as error:
        raise ServerFailed("A language server named a file that is none.") from error
