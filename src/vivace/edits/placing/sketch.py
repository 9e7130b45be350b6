"""Where a sketch goes: new code in which what stays is left out, as larger models write it.

Definitions that are written out take the place of their namesakes, new ones stand beside those they
are sketched beside, and what was left out stays. No model is needed for that. Where code is left
out within a function, or where something new is no definition, nothing is placed here: a model has
to carry it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from vivace.edits.diff import between
from vivace.edits.placing.fitting import with_margin_of
from vivace.edits.placing.region import Region
from vivace.edits.relevance import alike
from vivace.errors import EditError
from vivace.syntax.definitions import Definition
from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import Language, row_after
from vivace.syntax.lines import line_end, lines_of, margin_of
from vivace.syntax.source import Source

__all__ = ["Placed", "defined_in", "has_comments", "leaves_out", "placed", "unfenced"]

_COMMENT = re.compile(r"\s*(?:#|//|/\*|--|<!--)")
_LEFT_OUT = re.compile(
    r"(?:\.\.\.|…).*\b(?:rest|existing|unchanged|remain\w*|same|other|previous|omitted|as before|"
    r"code|implementation|methods?|functions?|here|keep)\b|"
    r"\b(?:rest|existing|unchanged|remain\w*|same|other|previous|keep)\b.*(?:\.\.\.|…)",
    re.IGNORECASE,
)
_ALONE = frozenset({"...", "…", "# ...", "// ...", "# …", "// …", "/* ... */"})

_ALIKE, _RENAMED = 0.5, 0.75
"""How alike a definition is to what it was: by its own name, and under another."""


class Placed(Struct, frozen=True):
    """What a sketch makes of a file."""

    hunks: tuple[Hunk, ...]
    regions: tuple[Region, ...]
    """The definitions of the file that it is about."""
    imports: tuple[str, ...]
    """Lines that it imports something by; where they go is not decided here."""


_Change = tuple[int, int, list[str]]
"""From which line of the file up to which, and what takes their place."""


class _Unclear(EditError):
    """Nothing but a model can carry it out."""


def leaves_out(line: str) -> bool:
    """Whether a line stands for code that stays as it is."""
    bare = line.strip()
    return bare in _ALONE or bool(_COMMENT.match(line) and _LEFT_OUT.search(line))


def has_comments(sketch: str) -> bool:
    """Whether comments may be what is to change."""
    return any(_COMMENT.match(line) and not leaves_out(line) for line in sketch.splitlines())


def unfenced(sketch: str) -> str:
    """A sketch without the fence that it may come in, every line ended."""
    lines = sketch.replace("\r\n", "\n").strip("\n").split("\n")
    if len(lines) > 1 and lines[0].startswith("```") and lines[-1].strip() == "```":
        lines = lines[1:-1]
    return "".join(line + "\n" for line in lines)


def defined_in(sketch: str, language: Language | None) -> list[str]:
    """The names of what a sketch writes out or adds to, outer before inner."""
    if language is None:
        return []
    found = Source(unfenced(sketch), language).definitions
    return list(dict.fromkeys(each.name for each in found))


def placed(source: Source, sketch: str) -> Placed | None:
    """The sketch in its place; None where a model is needed to find that."""
    if source.language is None or source.errors:
        return None
    try:
        return _Placing(source, unfenced(sketch), source.language).placed()
    except _Unclear:
        return None


class _Placing:
    def __init__(self, source: Source, sketch: str, language: Language) -> None:
        lines = lines_of(sketch)
        self._left_out = [row for row, line in enumerate(lines) if leaves_out(line)]
        self._margins = {row: margin_of(lines[row : row + 1]) for row in self._left_out}
        # Empty in their place: as comments they would belong to what follows.
        blank = ["\n" if row in self._margins else line for row, line in enumerate(lines)]
        self._source, self._language = source, language
        self._given = Source("".join(blank), language)
        self._written = {each.name for each in self._given.definitions}

    def placed(self) -> Placed:
        given = self._given
        if given.errors or not given.definitions:
            raise _Unclear
        self._look_at_gaps()
        pieces = list(self._pieces(given.definitions))
        if len({piece.name for piece in pieces}) < len(pieces):
            raise _Unclear  # overloads: nobody knows which is which
        imports = self._imports(pieces)
        places = [self._place(piece) for piece in pieces]
        changes: list[_Change] = []
        touched: list[Definition] = []
        for number, (piece, place) in enumerate(zip(pieces, places, strict=True)):
            if place is None:
                beside, behind = self._neighbour(number, pieces, places)
                changes.append(self._added(piece, beside, behind=behind))
            else:
                beside = place
                changes.append(self._replaced(piece, place))
            touched.append(beside)
        return Placed(self._hunks(changes), tuple(map(_region, touched)), imports)

    # -- what the sketch has ----------------------------------------------------------------------

    def _look_at_gaps(self) -> None:
        """Code may be left out between definitions, and nowhere else."""
        known = self._given.definitions
        for row in self._left_out:
            if any(each.kind == "function" and each.code < row < each.end for each in known):
                raise _Unclear
            before = [each for each in known if each.code < row][-1:]
            behind = [each for each in known if each.code > row][:1]
            if self._margins[row] not in [self._margin(each) for each in (*before, *behind)]:
                raise _Unclear

    def _margin(self, each: Definition) -> str:
        return margin_of(self._given.lines[each.code : each.code + 1])

    def _pieces(self, known: Sequence[Definition]) -> Iterator[Definition]:
        """What is written out whole: of a class that is not, its members."""
        end = 0
        for each in known:
            if each.start < end:
                continue  # inside the last one
            end = each.end
            inside = _inside(each, known)
            if each.kind == "function" or self._is_whole(each, inside):
                yield each
            elif inside:
                yield from self._pieces(inside)
            else:
                raise _Unclear

    def _is_whole(self, each: Definition, inside: Sequence[Definition]) -> bool:
        """Whether nothing of a class is left out, in words or because it is not there."""
        known = self._source.definitions
        there = [one for one in known if one.name == each.name]
        members = {one.name for outer in there for one in _inside(outer, known)}
        if self._gap_in(each) or len(there) > 1:
            return False
        return members.issubset(one.name for one in inside)

    def _gap_in(self, each: Definition) -> bool:
        """Whether code is left out in a class; what is at its end stands behind it."""
        following = [one.start for one in self._given.definitions if one.start >= each.end]
        upto = min(following, default=len(self._given.lines))
        own = len(self._margin(each))
        return any(
            each.code < row < upto and len(self._margins[row]) > own for row in self._left_out
        )

    def _imports(self, pieces: Sequence[Definition]) -> tuple[str, ...]:
        """Refuses what is neither a definition nor an import, unless the file has the line."""
        lines = self._given.lines
        written = {row for each in pieces for row in range(each.start, each.end)}
        imports = {
            row
            for node in self._given.nodes(self._language.imports)
            for row in range(node.start_point.row, row_after(node))
        } - written
        there = {"", *(line.strip() for line in self._source.lines)}
        for row, line in enumerate(lines):
            if row not in written | imports and line.strip() not in there:
                raise _Unclear
        return tuple(lines[row] for row in sorted(imports))

    # -- where it goes ----------------------------------------------------------------------------

    def _place(self, piece: Definition) -> Definition | None:
        """What the file has in its stead; None where it is new."""
        known = self._source.definitions
        same = [each for each in known if each.name == piece.name]
        if not same and not _parent(piece):  # a method may come without its class
            same = [each for each in known if _last(each) == piece.name]
            if not all(self._was(each, piece) for each in same):
                raise _Unclear
        if not same:
            others = [each for each in known if each.name not in self._written]
            if any(self._was(each, piece, _RENAMED) for each in others):
                raise _Unclear  # in its stead, or beside it?
            return None
        [place, *others] = same
        crossed = any(_crosses(place, each) for each in known)
        if others or crossed or place.kind != piece.kind:
            raise _Unclear
        return place

    def _was(self, each: Definition, piece: Definition, share: float = _ALIKE) -> bool:
        old, new = self._source.part(each.code, each.end), self._given.part(piece.code, piece.end)
        if each.kind != piece.kind or not share <= len(old) / len(new) <= 1 / share:
            return False  # there may be thousands to compare with
        return alike(old, new, share)

    def _replaced(self, piece: Definition, place: Definition) -> _Change:
        """What leads the old one stays unless the sketch has something to say there too."""
        old, new = self._source.lines, self._given.lines
        there, comes = old[place.code : place.end], new[piece.start : piece.end]
        if not _decorators(there) <= _decorators(comes):
            raise _Unclear  # left out, or to be removed?
        start = place.code if piece.start == piece.code else place.start
        return start, place.end, _moved(comes, there)

    def _neighbour(
        self, number: int, pieces: Sequence[Definition], places: Sequence[Definition | None]
    ) -> tuple[Definition, bool]:
        """Which definition of the file a new one stands beside, and whether behind it."""
        piece = pieces[number]
        near = [
            (each, place)
            for each, place in zip(pieces, places, strict=True)
            if place is not None and _parent(each) == _parent(piece)
        ]
        before = next(((a, b) for a, b in reversed(near) if a.start < piece.start), None)
        after = next(((a, b) for a, b in near if a.start > piece.start), None)
        if before and not self._gap_between(before[0].end, piece.start):
            return before[1], True
        if after and not self._gap_between(piece.end, after[0].start):
            return after[1], False
        there = [each for each in self._source.definitions if _parent(each) == _parent(piece)]
        if after is None and there:
            return there[-1], True
        if before is None:
            raise _Unclear
        return before[1], True

    def _gap_between(self, start: int, end: int) -> bool:
        return any(start <= row < end for row in self._left_out)

    def _added(self, piece: Definition, beside: Definition, *, behind: bool) -> _Change:
        lines = self._source.lines
        if not lines[beside.end - 1].endswith("\n"):
            raise _Unclear
        own = self._given.lines[piece.start : piece.end]
        new = _moved(own, lines[beside.code : beside.end])
        gap = [line_end(lines)] * self._apart(beside)
        row = beside.end if behind else beside.start
        return row, row, [*gap, *new] if behind else [*new, *gap]

    def _apart(self, beside: Definition) -> int:
        """How many empty lines the file has between definitions, there."""
        above, lines = beside.start, self._source.lines
        while above and not lines[above - 1].strip():
            above -= 1
        usual = 2 if self._source.is_in("python") and not _parent(beside) else 1
        return (beside.start - above) or usual

    def _hunks(self, changes: Sequence[_Change]) -> tuple[Hunk, ...]:
        lines = list(self._source.lines)
        for start, end, new in sorted(changes, key=lambda each: each[:2], reverse=True):
            lines[start:end] = new
        return tuple(between(self._source.text, "".join(lines)))


def _moved(lines: Sequence[str], there: Sequence[str]) -> list[str]:
    if margin_of(lines[:1]) == margin_of(there[:1]):
        return list(lines)
    return with_margin_of(lines, there)


def _inside(outer: Definition, known: Sequence[Definition]) -> list[Definition]:
    return [each for each in known if each is not outer and _holds(outer, each)]


def _holds(outer: Definition, each: Definition) -> bool:
    return outer.start <= each.start and each.end <= outer.end


def _crosses(one: Definition, other: Definition) -> bool:
    """Whether they share a line though neither is in the other."""
    apart = one.end <= other.start or other.end <= one.start
    return not apart and not _holds(one, other) and not _holds(other, one)


def _region(each: Definition) -> Region:
    return Region(each.start, each.end, each.kind, each.name)


def _parent(each: Definition) -> str:
    return each.name.rpartition(".")[0]


def _last(each: Definition) -> str:
    return each.name.rpartition(".")[2]


def _decorators(lines: Sequence[str]) -> set[str]:
    return {line.strip() for line in lines if line.lstrip().startswith("@")}
