"""Unified diffs read: which files they change, and which lines.

What ``git diff`` writes is read, and what ``diff -u`` does. A diff may hold anything in its lines,
what looks like a header too: how many lines a hunk has is counted, never guessed from what they
begin with.

A diff is text that was decoded with ``surrogateescape``, so that names and lines in no encoding we
know stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, structs

from vivace.errors import EditError
from vivace.syntax.hunk import Hunk

__all__ = ["FileDiff", "read_diff"]

_NOWHERE = "/dev/null"
_SPANS = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


class FileDiff(Struct, frozen=True):
    """What becomes of one file."""

    old: str | None
    """Its path before; ``None``: it was not there."""
    new: str | None
    """Its path after; ``None``: it is gone."""
    hunks: tuple[Hunk, ...] = ()
    """In the lines of the old text, without the lines that stay."""
    binary: bool = False

    @property
    def added(self) -> tuple[tuple[int, int], ...]:
        """The lines that are new or other, in the new text: the first, and the one after the
        last."""
        found = []
        grown = 0
        for hunk in self.hunks:
            start = hunk.start + grown
            if hunk.new:
                found.append((start, start + len(hunk.new)))
            grown += len(hunk.new) - len(hunk.old)
        return tuple(found)


def read_diff(text: str) -> list[FileDiff]:
    """The files that a diff is about, in its order; what stands around them is passed over."""
    return list(_Reader(text).files())


class _Reader:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        if not self._lines[-1]:
            self._lines.pop()
        self._at = 0
        self._file: FileDiff | None = None
        self._hunks: list[Hunk] = []
        self._grown = 0
        """By how many lines the new text is ahead of the old one."""
        self._named = False

    def files(self) -> Iterator[FileDiff]:
        while (line := self._line()) is not None:
            if line.startswith("diff --git "):
                yield from self._finished()
                self._file = _of_header(line.removeprefix("diff --git "))
                self._at += 1
            elif line.startswith("--- ") and (self._line(1) or "").startswith("+++ "):
                if self._named:
                    yield from self._finished()
                self._file, self._named = self._names(), True
            elif line.startswith("@@ "):
                self._read_hunk()
            else:
                self._refuse_combined(line)
                if self._file is not None and not self._hunks:
                    self._file = _told(self._file, line)
                self._at += 1
        yield from self._finished()

    def _finished(self) -> Iterator[FileDiff]:
        if self._file is not None:
            yield structs.replace(self._file, hunks=tuple(self._hunks))
        self._file, self._hunks, self._grown, self._named = None, [], 0, False

    def _line(self, ahead: int = 0) -> str | None:
        at = self._at + ahead
        return self._lines[at] if at < len(self._lines) else None

    def _names(self) -> FileDiff:
        old, new = (self._lines[self._at + each][4:] for each in (0, 1))
        self._at += 2
        return FileDiff(_path(old, "a/"), _path(new, "b/"))

    def _refuse_combined(self, line: str) -> None:
        if line.startswith(("diff --cc ", "diff --combined ", "@@@ ")):
            raise EditError(
                f"The diff compares with several commits at once (line {self._at + 1}), which "
                "cannot be read. Compare with one of them."
            )

    def _read_hunk(self) -> None:
        if self._file is None:
            raise self._wrong("no file is named before it")
        for hunk in self._hunk():
            self._hunks.append(hunk)
            self._grown += len(hunk.new) - len(hunk.old)

    def _hunk(self) -> Iterator[Hunk]:
        spans = _SPANS.match(self._lines[self._at])
        if spans is None:
            raise self._wrong("its header is none")
        first, olds, new_first, news = (1 if each is None else int(each) for each in spans.groups())
        # An empty span names the line before it.
        at = first - (olds > 0)
        if at < 0 or at + self._grown != new_first - (news > 0):
            raise self._wrong("its line numbers contradict each other")
        header = self._at
        self._at += 1
        old: list[str] = []
        new: list[str] = []
        while olds or news or self._unended():
            line = self._line()
            mark = (line or " ")[0]
            if line is None or mark not in " -+\\":
                self._at = header
                raise self._wrong("it has fewer lines than its header says")
            self._at += 1
            if mark == "\\":
                continue  # what it is about was read with the line before it
            text = line[1:] if self._unended() else f"{line[1:]}\n"
            if mark == " ":
                if old or new:
                    yield Hunk(at, tuple(old), tuple(new))
                at += len(old) + 1
                old, new = [], []
            else:
                (old if mark == "-" else new).append(text)
            olds -= mark in " -"
            news -= mark in " +"
            if olds < 0 or news < 0:
                self._at = header
                raise self._wrong("it has more lines than its header says")
        if old or new:
            yield Hunk(at, tuple(old), tuple(new))

    def _unended(self) -> bool:
        """Whether the line before this has no end in the file: the diff says so behind it."""
        return (self._line() or "").startswith("\\")

    def _wrong(self, why: str) -> EditError:
        return EditError(
            f"The diff cannot be read: the hunk at its line {self._at + 1}: {why}. It may have "
            "been cut off or edited; make it again."
        )


def _of_header(names: str) -> FileDiff:
    """The file of a ``diff --git`` line. Unless it is renamed, which is said below, both names are
    the same, so that spaces in them do not matter."""
    if names.startswith('"') and (quoted := _QUOTED.match(names)):
        both = _path(quoted[0], "a/")
    else:
        half = (len(names) - len("a/ b/")) // 2 + len("a/")
        both = names[2:half] if names[half:] == f" b/{names[2:half]}" else names
    return FileDiff(both, both)


def _told(file: FileDiff, line: str) -> FileDiff:
    """What else a header says of the file."""
    match line.split(" ", 2):
        case ["new", "file", _]:
            return structs.replace(file, old=None)
        case ["deleted", "file", _]:
            return structs.replace(file, new=None)
        case ["rename" | "copy", "from", name]:
            return structs.replace(file, old=_path(name))
        case ["rename" | "copy", "to", name]:
            return structs.replace(file, new=_path(name))
        case ["Binary", "files", _] | ["GIT", "binary", "patch"]:
            return structs.replace(file, binary=True)
    return file


def _path(written: str, prefix: str = "") -> str | None:
    if written.startswith('"') and (quoted := _QUOTED.match(written)):
        name = _unquoted(quoted[0][1:-1])
    else:
        name = written.partition("\t")[0].removesuffix("\r")
    return None if name == _NOWHERE else name.removeprefix(prefix)


def _unquoted(name: str) -> str:
    """As git writes names with characters that are not plain: as in C, byte by byte."""

    def meant(found: re.Match[bytes]) -> bytes:
        said = found[1]
        if len(said) == 3:
            return bytes([int(said, 8) & 0xFF])
        return bytes([_ESCAPED.get(said[0], said[0])])

    raw = name.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(meant, raw).decode("utf-8", "surrogateescape")
