"""The editor's documents: their text, as it was last typed, and where its lines begin.

A line ends where an editor ends it: at ``\\n`` or ``\\r\\n``, or at ``\\r`` in a text without any
``\\n``. A form feed or a Unicode separator ends none, and a stray ``\\r`` neither, whatever the
protocol says of it: no editor that keeps one counts it.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from lsprotocol.types import (
    Position,
    Range,
    TextDocumentContentChangePartial,
    TextDocumentContentChangeWholeDocument,
)

from vivace.lsp.positions import Encoding, column_at, offset_at
from vivace.lsp.typed import difference, typed
from vivace.syntax.languages import nests_too_deep
from vivace.syntax.source import Source

__all__ = ["Change", "Document", "Documents"]

Change = TextDocumentContentChangePartial | TextDocumentContentChangeWholeDocument

_MUCH = 100
"""Characters that are put in or taken out before it is looked whether the text nests too deep now:
no key makes it deeper by more than one."""


class Document:
    """``text`` is replaced, never changed: whoever took it has a snapshot."""

    def __init__(self, uri: str, path: str, version: int, text: str, encoding: Encoding) -> None:
        self.uri = uri
        self.path = path
        """With an ending by which its language is known."""
        self.version = version
        self.worked_at = 0
        """Where it was changed last."""
        self.changed_at = float("-inf")
        """When, by the clock that only goes on."""
        self.text = text
        self.encoding: Encoding = encoding
        self._starts = _starts(text)
        self._source = Source.of(path, text)
        self._touched = 0
        """Characters that came and went since it was looked how deep the text nests."""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def source(self) -> Source:
        """The text as code; what was read of it before is read again only where it was touched."""
        if self._source.text is not self.text:
            self._source = self._read()
        return self._source

    def _read(self) -> Source:
        if self._source.language is None:  # it may nest less deep by now
            return Source.of(self.path, self.text)
        if self._touched > _MUCH:
            self._touched = 0
            if nests_too_deep(self.text):
                return Source(self.text, None)
        source = self._source.edited(typed(self._source.text, self.text))
        source.text = self.text  # the same, by which it is known to be read
        return source

    def change(self, version: int, changes: Sequence[Change]) -> None:
        for each in changes:
            if isinstance(each, TextDocumentContentChangePartial):
                self._replace(*self.span(each.range), each.text)
            else:
                self._replace(*difference(self.text, each.text))
        self.version = version
        self.changed_at = time.monotonic()

    def _replace(self, start: int, end: int, new: str) -> None:
        before = self.text
        self.text = before[:start] + new + before[end:]
        self.worked_at = start + len(new)
        self._touched += end - start + len(new)
        if _line_end(before) == _line_end(self.text) == "\n":
            first, last = bisect_right(self._starts, start), bisect_right(self._starts, end)
            grown = len(new) - (end - start)
            self._starts[last:] = [each + grown for each in self._starts[last:]]
            self._starts[first:last] = [start + each for each in _ends(new, "\n")]
        else:
            self._starts = _starts(self.text)

    # -- places -----------------------------------------------------------------------------------

    def offset(self, position: Position) -> int:
        """Behind the end of a line is its end, and behind the last line the end of the text."""
        if position.line >= len(self._starts):
            return len(self.text)
        start = self._starts[position.line]
        return start + offset_at(self._line(position.line), position.character, self.encoding)

    def position(self, offset: int) -> Position:
        number = bisect_right(self._starts, offset) - 1
        start = self._starts[number]
        column = column_at(self.text[start:offset], offset - start, self.encoding)
        return Position(line=number, character=column)

    def span(self, within: Range) -> tuple[int, int]:
        start, end = self.offset(within.start), self.offset(within.end)
        return min(start, end), max(start, end)

    def range(self, start: int, end: int) -> Range:
        return Range(start=self.position(start), end=self.position(end))

    def line_start(self, number: int) -> int:
        """Where a line begins; the end of the text where there is no such line."""
        return self._starts[number] if number < len(self._starts) else len(self.text)

    def line_end(self, number: int) -> int:
        """Where a line ends, before what ends it."""
        return self._starts[number] + len(self._line(number))

    def line_of(self, offset: int) -> int:
        return bisect_right(self._starts, offset) - 1

    def _line(self, number: int) -> str:
        line = self.text[self._starts[number] : self.line_start(number + 1)]
        if number + 1 == len(self._starts):
            return line
        return line[:-2] if line.endswith("\r\n") else line[:-1]


class Documents:
    """Those that are open, by their URIs."""

    def __init__(self) -> None:
        self.encoding: Encoding = "utf-16"
        self._open: dict[str, Document] = {}

    def open(self, uri: str, path: str, version: int, text: str) -> Document:
        document = self._open[uri] = Document(uri, path, version, text, self.encoding)
        return document

    def get(self, uri: str) -> Document | None:
        return self._open.get(uri)

    def change(self, uri: str, version: int, changes: Sequence[Change]) -> Document | None:
        """The document after these; None where it is not open."""
        document = self._open.pop(uri, None)
        if document is not None:
            self._open[uri] = document
            document.change(version, changes)
        return document

    def close(self, uri: str) -> None:
        self._open.pop(uri, None)

    def __iter__(self) -> Iterator[Document]:
        """Those that were worked on last come first."""
        return reversed(list(self._open.values()))


def _line_end(text: str) -> Literal["\n", "\r"]:
    return "\r" if "\n" not in text and "\r" in text else "\n"


def _starts(text: str) -> list[int]:
    return [0, *_ends(text, _line_end(text))]


def _ends(text: str, line_end: str) -> Iterator[int]:
    """The places behind the ends of lines."""
    at = text.find(line_end)
    while at >= 0:
        yield at + 1
        at = text.find(line_end, at + 1)
