"""A file in pieces that can each be rewritten by itself.

Every filled line is in exactly one piece: a function, a small class, what stands between
definitions (imports, constants, fields), or a run of statements where a function is too long for a
small model to rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from vivace.edits.placing.region import Region, regions
from vivace.syntax.source import Source

__all__ = ["LONGEST", "pieces"]

LONGEST = 80
"""Lines that a small model still copies without a slip."""
_SMALL = 30
"""A class of so many lines is one piece."""


def pieces(source: Source) -> list[Region]:
    """All pieces in the order of the file."""
    if source.language is None:
        return list(_by_gaps(source, 0, len(source.lines), ""))
    return list(_within(source, regions(source), 0, len(source.lines), ""))


def _within(
    source: Source, known: Sequence[Region], start: int, end: int, name: str
) -> Iterator[Region]:
    """The outermost definitions between these lines, and what stands between them."""
    at = start
    for number, each in enumerate(known):
        if each.start < at or each.end > end:
            continue  # inside the last one, or on one line with another
        yield from _between(source, at, each.start, name)
        yield from _definition(source, each, _inside(each, known[number + 1 :]))
        at = each.end
    yield from _between(source, at, end, name)


def _inside(outer: Region, following: Sequence[Region]) -> list[Region]:
    near = takewhile(lambda each: each.start < outer.end, following)
    return [each for each in near if outer.contains(each)]


def _definition(source: Source, each: Region, inner: Sequence[Region]) -> Iterator[Region]:
    short = len(each) <= (LONGEST if each.kind == "function" else _SMALL)
    if short or (each.kind == "class" and not inner and len(each) <= LONGEST):
        yield each
    elif (code := _behind_comments(source, each)).start > each.start:
        yield from _by_gaps(source, each.start, code.start, each.name)
        yield from _definition(source, code, inner)
    elif inner:
        yield from _within(source, inner, each.start, each.end, each.name)
    else:
        yield from _by_gaps(source, each.start, each.end, each.name)


def _behind_comments(source: Source, each: Region) -> Region:
    """A definition without what leads it: what explains it at length need not be written anew."""
    if each.kind != "function":  # the fields of a class stand between its comment and its methods
        return each
    known = (one for one in source.definitions if each.start <= one.code < each.end == one.end)
    return Region(next((one.code for one in known), each.start), each.end, each.kind, each.name)


def _between(source: Source, start: int, end: int, name: str) -> Iterator[Region]:
    """What is no definition, if it is more than closing brackets."""
    lines = source.lines
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    if any(any(map(str.isalnum, line)) for line in lines[start:end]):
        yield from _by_gaps(source, start, end, name)


def _by_gaps(source: Source, start: int, end: int, name: str) -> Iterator[Region]:
    """Lines in parts of a good length, divided where the indentation is least; an empty line is the
    best place."""
    if end - start <= LONGEST:
        if start < end:
            yield Region(start, end, name=name)
        return
    middle = (start + end) // 2
    reach = (end - start) // 4
    at = min(
        range(middle - reach, middle + reach + 1),
        key=lambda row: (_depth(source.lines, row), abs(row - middle)),
    )
    yield from _by_gaps(source, start, at, name)
    yield from _by_gaps(source, at, end, name)


def _depth(lines: Sequence[str], row: int) -> float:
    """How deep a cut before this line would go; one after an empty line goes less deep."""
    line = lines[row]
    if not line.strip():
        return 1000
    depth = len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip())
    closing = line.lstrip()[0] in ")]}"
    after_empty = row > 0 and not lines[row - 1].strip()
    return depth + (8 if closing else 0) - (2 if after_empty else 0)
