"""Where in the person's own files a failure may have its reason, the likeliest place first.

An error is told with the line on which it happened. A test that expected something else only tells
its own line: then what that line calls is looked for, and what the test calls before it. A test is
never a place by itself where it expected something else, for to make it expect less is no fix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from vivace.edits.placing.region import Region, Selection
from vivace.failures.failure import Failure, Frame
from vivace.failures.own import is_test
from vivace.syntax.definitions import Definition
from vivace.syntax.languages import language_of, row_after
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source
from vivace.workspace.document import Document, read
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.ignore import why_not_read
from vivace.workspace.mentions import files_with
from vivace.workspace.paths import Workspace

__all__ = ["Place", "Sources", "expectation", "suspects"]

_MOST = 4
"""Places that are worth asking about."""
_MOST_FILES = 20
"""Files that have a name and are looked at for its definition."""
_MOST_NAMES = 12
_BEFORE, _AFTER = 10, 4
"""Lines of a test that are told, before the one that fails and of the statement it begins."""
_CALLED = re.compile(r"([A-Za-z_$][\w$]*)!?\s*(?:::<[^>]*>)?\(")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_VALUE = re.compile(
    r"(?:(?:export|pub|static|const|final|let|var|private|public)\s+)*(?P<name>[A-Za-z_$][\w$]*)"
    r"(?:\[\w*\])?\s*(?::[^=]*)?=(?!=)"
)
"""A name that a statement of the file gives a value."""
_FAMILIES = (
    frozenset({"c", "cpp"}),
    frozenset({"javascript", "typescript", "tsx"}),
)


@dataclass(frozen=True)
class Place:
    """Lines of a file that a fix may be about."""

    document: Document
    lines: Selection
    name: str
    """The function, or nothing."""
    at: int | None = None
    """The line on which it went wrong, if it did here."""

    @property
    def path(self) -> str:
        return str(self.document.path)

    @property
    def title(self) -> str:
        what = f"{self.name} in {self.path}" if self.name else self.path
        return f"{what} (lines {self.lines[0] + 1}-{self.lines[1]})"


class Sources:
    """The person's files as they are now, each read once; those that no model may see are none."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._known: dict[str, tuple[Document, Source] | None] = {}
        self._with_word: dict[str, list[str]] = {}

    def of(self, path: str) -> tuple[Document, Source] | None:
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: str) -> tuple[Document, Source] | None:
        try:
            document = read(self._workspace.resolve(path))
            if why_not_read(document.path, document.data) is not None:
                return None
        except WorkspaceError:
            return None
        return document, Source.of(path, document.text)

    def with_word(self, word: str) -> list[str]:
        """Files that have this name in them."""
        if word not in self._with_word:
            self._with_word[word] = files_with(self._workspace.root, word) or []
        return self._with_word[word]


def suspects(failure: Failure, sources: Sources) -> list[Place]:
    """``failure`` has only frames of the project. In a thread: files are read."""
    found = _distinct(_all(failure, sources))
    for place in found:  # which grows: where few places are known, what these use, and so on
        if len(found) == _MOST:
            break
        found[:] = _distinct((*found, *_used_in(place, sources)))
    return found


def _distinct(places: Iterable[Place]) -> list[Place]:
    found: list[Place] = []
    for place in places:
        if not any(each.path == place.path and each.lines == place.lines for each in found):
            found.append(place)
        if len(found) == _MOST:
            break
    return found


def _all(failure: Failure, sources: Sources) -> Iterator[Place]:
    placed = [(frame, place) for frame in failure.frames if (place := _place(frame, sources))]
    testing = {frame for frame, place in placed if _only_tells(failure, frame, place)}
    wrong = [place for frame, place in placed if frame not in testing]
    yield from wrong
    for place in wrong[:1]:
        yield from _used_in(place, sources)
    for frame in (frame for frame, _ in placed if frame in testing):
        called = list(islice(_called_by(frame, sources), _MOST))
        yield from called
        for place in called[:1]:
            yield from _used_in(place, sources)
    for frame, place in placed:
        if frame in testing and not place.name:
            yield from _called_before(frame, sources)
    if failure.kind != "assertion":
        yield from (place for frame, place in placed if frame in testing)


def expectation(failure: Failure, sources: Sources) -> str:
    """The code of the test that failed, up to the statement that did; empty where there is none."""
    for frame in failure.frames:
        place = _place(frame, sources)
        known = sources.of(frame.path)
        if place is None or known is None or not _only_tells(failure, frame, place):
            continue
        lines = known[1].lines
        first, end = place.lines if place.name else _statement(known[1], place.lines)
        first = first if place.name or end - first > 1 else 0  # a script has what came before
        at = end - 1 if frame.line is None else frame.line
        shown = lines[max(first, at - _BEFORE) : at + 1]
        while _is_open("".join(shown[-_AFTER:])) and at + 1 < min(len(lines), end):
            at += 1
            shown.append(lines[at])
        return "".join(shown).rstrip()
    return ""


def _is_open(code: str) -> bool:
    """Whether a statement goes on, by its brackets."""
    return sum(code.count(sign) for sign in "([") > sum(code.count(sign) for sign in ")]")


def _only_tells(failure: Failure, frame: Frame, place: Place) -> bool:
    """Whether a frame is where something was noticed rather than where it is wrong."""
    if failure.kind == "compile":
        return False
    main = failure.kind == "assertion" and place.name in ("main", "")
    return main or is_test(frame.path) or Region(*place.lines, name=place.name).is_test


def _place(frame: Frame, sources: Sources) -> Place | None:
    """The function of a frame; lines of the file itself where it is in none."""
    if (known := sources.of(frame.path)) is None:
        return None
    document, source = known
    if frame.line is None or frame.line >= max(1, len(source.lines)):
        named = [each for each in source.definitions if _last(each.name) == _last(frame.name)]
        return _whole(document, named[0]) if named else None
    around = [each for each in source.definitions if each.start <= frame.line < each.end]
    functions = [each for each in around if each.kind == "function"] or around
    smallest = min(functions, key=lambda each: each.end - each.start, default=None)
    if smallest is None:
        return Place(document, (frame.line, frame.line + 1), "", frame.line)
    return Place(document, (smallest.start, smallest.end), smallest.name, frame.line)


def _whole(document: Document, definition: Definition) -> Place:
    return Place(document, (definition.start, definition.end), definition.name)


def _called_by(frame: Frame, sources: Sources) -> Iterator[Place]:
    """What a test calls: in the line that fails, then before it, then in all of it; and what its
    own helpers call."""
    place = _place(frame, sources)
    known = sources.of(frame.path)
    if place is None or known is None:
        return
    source = known[1]
    start, end = place.lines if place.name else _statement(source, place.lines)
    at = start if frame.line is None else frame.line
    lines = source.lines
    text = [*lines[at : at + 1], *reversed(lines[start:at]), *lines[at + 1 : end]]
    names = list(islice(_names(text), _MOST_NAMES))
    yield from _defined(names, frame.path, sources)
    helpers = [each for each in source.definitions if _last(each.name) in names]
    inner = [line for each in helpers for line in lines[each.start : each.end]]
    yield from _defined(_names(inner), frame.path, sources)


def _called_before(frame: Frame, sources: Sources) -> Iterator[Place]:
    """What a script calls before the line that fails, where no function is around it."""
    known = sources.of(frame.path)
    if known is not None and frame.line is not None:
        yield from _defined(_names(reversed(known[1].lines[: frame.line])), frame.path, sources)


def _used_in(place: Place, sources: Sources) -> Iterator[Place]:
    """What the function uses that went wrong, or seems to: what it calls, and values of its file
    that the line names."""
    if (known := sources.of(place.path)) is None:
        return
    document, source = known
    start, end = place.lines
    at = end if place.at is None else place.at
    text = [*source.lines[at : at + 1], *source.lines[start:at]]
    yield from _defined(_names(text), place.path, sources)
    named = set(_NAME.findall(text[0])) if place.at is not None and text else set()
    for first, statement in source.statements:
        value = _VALUE.match(statement)
        if value is not None and value["name"] in named:
            yield Place(document, (first, first + len(lines_of(statement))), value["name"])


def _statement(source: Source, lines: Selection) -> Selection:
    """The statement of the file that holds a line: a test may be a function without a name."""
    for node in source.top:
        if node.start_point.row <= lines[0] < row_after(node):
            return node.start_point.row, row_after(node)
    return lines


def _names(lines: Iterable[str]) -> Iterator[str]:
    """What is called, the nearest first; then what the first line only names, which may be called
    where it is defined."""
    known = list(lines)
    called = (name for line in known for name in _CALLED.findall(line))
    named = (name for line in known[:1] for name in _NAME.findall(line))
    seen: set[str] = set()
    for name in (*called, *named):
        if name not in seen and len(name) > 1 and not name.startswith("assert"):
            seen.add(name)
            yield name


def _defined(names: Iterable[str], path: str, sources: Sources) -> Iterator[Place]:
    """Functions of these names that are no tests, in files that this one may know; first in itself,
    then in those it names, as who imports a file does."""
    known = sources.of(path)
    words = set(_NAME.findall(known[1].text)) if known is not None else set()

    def near(other: str) -> tuple[bool, bool, str]:
        return other != path, PurePosixPath(other).stem not in words, other

    for name in islice(names, _MOST_NAMES):
        others = [each for each in sources.with_word(name) if _may_know(path, each)]
        for other in sorted(others, key=near)[:_MOST_FILES]:
            if (found := sources.of(other)) is None:
                continue
            document, source = found
            for each in source.definitions:
                region = Region(each.start, each.end, name=each.name)
                ours = each.kind == "function" and _last(each.name) == name
                if ours and not (is_test(other) or region.is_test or name == "main"):
                    yield _whole(document, each)


def _may_know(path: str, other: str) -> bool:
    mine, theirs = language_of(path), language_of(other)
    if mine is None or theirs is None:
        return False
    both = {mine.name, theirs.name}
    return len(both) == 1 or any(both <= family for family in _FAMILIES)


def _last(name: str) -> str:
    return re.split(r"\.|::|#", name.partition("[")[0])[-1]
