"""Where in a file an instruction is to be carried out.

Everything the person gave is evidence: names of definitions, words that stand in code, strings or
comments, pieces of code that are quoted, line numbers and names in a pasted error. Pieces of the
file are ranked by it, as documents are by a query (BM25). Where one is far ahead, the edit is about
that; where not, the person is asked.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from msgspec import Struct

from vivace.edits.placing.named_lines import lines_named
from vivace.edits.placing.pieces import LONGEST, pieces
from vivace.edits.placing.region import Region, Selection, around, regions, selected, whole_file
from vivace.edits.placing.words import (
    nearest,
    short_for,
    signs_in,
    telling,
    terms_of,
    vocabulary,
    words_in,
)
from vivace.edits.renaming.renames import asked
from vivace.syntax.source import Source

__all__ = ["Candidate", "Choice", "choose", "likeliest", "rename_scope"]

_SMALL = 60
"""A file of so many lines is shown whole when nothing in it is named."""
_ROOM = 120
"""Lines that are shown together at most."""
_MOST = 3
_WORTH = 0.35
"""A piece that scores less than this part of the best is not shown beside it."""

_SATURATION = 1.2
_BY_LENGTH = 0.5
"""The usual constants of BM25."""
_IN_NAME = 2.0
"""How much more a word says that stands in the name of a definition."""
_NAMED = 8.0
_FRAME = 12.0
"""The weight of a line number in an error, against which words hardly count."""
_QUOTED_CODE = 5.0
_MISSPELT = 0.6
_AHEAD = 2.0
_ENOUGH = 6.0
_TESTS = 0.5
"""What is in a test is rarely what is meant, where nobody speaks of tests and most of the file is
none."""

_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*")
_SIDE_BY_SIDE = re.compile(r"\W*(?:\w{1,4}\W+)?")
"""What stands between names of a list: commas, "and", "und", "y"."""
_TEST = re.compile(r"(?:^|[._])tests?(?:$|[._])")
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]{2,80})\"|'([^'\n]{2,80})'|“([^”\n]+)”|«([^»\n]+)»")
_CODE_LIKE = re.compile(r"\w[_$.:]+\w|[a-z][A-Z]|^_+\w|[A-Z]{2,}[a-z]|\w\d")


class Candidate(Struct, frozen=True):
    region: Region
    score: float


class Choice(Struct, frozen=True, kw_only=True):
    """What to show, and how sure that is."""

    regions: tuple[Region, ...]
    sure: bool
    ranked: tuple[Candidate, ...] = ()
    """The pieces of the file, the likeliest first."""


def choose(
    source: Source, instruction: str, selection: Selection | None = None, path: str = ""
) -> Choice:
    """What an instruction is about, as narrow as it can safely be."""
    whole = whole_file(source)
    if selection is not None:
        chosen = selected(source, selection)
        # A name that is selected may be used before and behind the selection.
        return _surely(around(source, chosen) if asked(instruction) else chosen)
    if not len(whole):
        return _surely(whole)
    named = _named(source, instruction)
    ranked = tuple(_ranked(source, instruction, path, named))
    if places := _renamed_in(instruction, source, ranked):
        return Choice(regions=places, sure=True, ranked=ranked)
    if fitting := _fitting(named, ranked):
        return Choice(regions=fitting, sure=True, ranked=ranked)
    if len(whole) <= _SMALL or not ranked:
        return Choice(regions=(whole,), sure=True, ranked=ranked)
    first = [each.score for each in ranked[:2]] + [0.0, 0.0]
    if first[0] >= _ENOUGH and first[0] >= _AHEAD * first[1]:
        return Choice(regions=(ranked[0].region,), sure=True, ranked=ranked)
    return Choice(regions=likeliest(ranked), sure=False, ranked=ranked)


def _surely(region: Region) -> Choice:
    return Choice(regions=(region,), sure=True)


def likeliest(ranked: Sequence[Candidate]) -> tuple[Region, ...]:
    """The best pieces that can be shown together."""
    chosen: list[Region] = []
    for each in ranked:
        if len(chosen) == _MOST:
            break
        full = _lines(chosen) + len(each.region) > _ROOM
        if chosen and (full or each.score < _WORTH * ranked[0].score):
            break
        chosen.append(each.region)
    return tuple(chosen)


def _renamed_in(
    instruction: str, source: Source, ranked: Sequence[Candidate]
) -> tuple[Region, ...]:
    """All pieces that have the names of a rename, if they can be shown together."""
    rename = asked(instruction)
    if rename is None:
        return ()
    names = {old.rpartition(".")[2] for old, _ in rename.names}
    pieces = [each.region for each in ranked]
    places = [
        each for each in pieces if not names.isdisjoint(words_in(source.part(each.start, each.end)))
    ]
    return tuple(places) if _lines(places) <= _ROOM else ()


def _lines(chosen: Sequence[Region]) -> int:
    return sum(map(len, chosen))


def _fitting(named: Sequence[Region], ranked: Sequence[Candidate]) -> tuple[Region, ...]:
    """The named definitions, as many as can be shown together; of a large one its best pieces."""
    chosen: list[Region] = []
    for each in named:
        parts: Sequence[Region] = [each]
        if len(each) > LONGEST:
            inside = [one for one in ranked if each.contains(one.region)]
            parts = likeliest(inside)
        inner = [other for other in named if each.contains(other) and each != other]
        if inner and each.kind == "class":
            continue  # the method that is named with its class
        if _lines(chosen) + _lines(parts) <= _ROOM:
            chosen += parts
    return tuple(chosen)


def rename_scope(source: Source, instruction: str, selection: Selection | None) -> Region:
    """Where a rename applies: ``rename x to y in f`` in f alone, else around the selection, else in
    the whole file."""
    if selection is not None:
        return around(source, selected(source, selection))
    rename = asked(instruction)
    if rename is None or not rename.scope:
        return whole_file(source)
    within = [each for each in regions(source) if each.name == rename.scope]
    within = within or [each for each in regions(source) if each.name.endswith("." + rename.scope)]
    one = len(within) == 1 and within[0].kind == "function"
    return within[0] if one else whole_file(source)


def _ranked(
    source: Source, instruction: str, path: str, named: Sequence[Region]
) -> list[Candidate]:
    known = pieces(source)
    texts = [source.part(each.start, each.end) for each in known]
    counts = [terms_of(text) for text in texts]
    names = [vocabulary(each.name.rpartition(".")[2]) for each in known]
    spread = Counter(chain.from_iterable(counts))
    asked = _asked(instruction, spread)
    mean = sum(map(len, texts)) / max(1, len(texts))
    frames = lines_named(path, instruction, bare=True)
    quoted = [(each, sum(each in text for text in texts)) for each in _fragments(instruction)]
    tests_meant = "test" in asked or 2 * sum(map(_is_test, known)) >= len(known)
    found: list[Candidate] = []
    for each, text, count, name in zip(known, texts, counts, names, strict=True):
        long = 1 - _BY_LENGTH + _BY_LENGTH * len(text) / mean
        score = 0.0
        for term, weight in asked.items():
            rare = math.log(1 + (len(known) - spread[term] + 0.5) / (spread[term] + 0.5))
            often = count[term]
            score += weight * rare * often * (_SATURATION + 1) / (often + _SATURATION * long)
            score += weight * rare * _IN_NAME * (term in name)
        if not tests_meant and _is_test(each):
            score *= _TESTS
        score += sum(_FRAME for row in frames if each.start <= row < each.end)
        score += sum(_QUOTED_CODE / held for code, held in quoted if code in text)
        found.append(Candidate(each, score))
    for region in named:
        found = [
            Candidate(each.region, each.score + _NAMED * _share(each.region, region))
            for each in found
        ]
    return sorted(found, key=lambda each: -each.score)


def _is_test(piece: Region) -> bool:
    return _TEST.search(piece.name) is not None


def _share(piece: Region, named: Region) -> float:
    if piece == named:
        return 1.0
    return 0.5 if named.contains(piece) or piece.contains(named) else 0.0


def _asked(instruction: str, known: Collection[str]) -> dict[str, float]:
    """What to look for, and how much it counts."""
    weights: dict[str, float] = {}
    for term in [*terms_of(" ".join(telling(instruction))), *signs_in(instruction)]:
        if term in known:
            weights[term] = 1.0
        elif (meant := nearest(term, known) or short_for(term, known)) is not None:
            weights.setdefault(meant, _MISSPELT)
    return weights


def _fragments(instruction: str) -> Iterator[str]:
    """Code that is quoted: in backticks or quotation marks, or a line by itself."""
    for found in _QUOTED.finditer(instruction):
        text = next(filter(None, found.groups()), "").strip()
        if len(text) > 2 or not text.isalpha():
            yield text
    lines = instruction.strip().splitlines()
    yield from (line.strip() for line in lines[1:] if len(line.strip()) > 8)


class _Named(Struct, frozen=True):
    """A definition and where in the instruction it is named."""

    region: Region
    start: int
    end: int


def _named(source: Source, instruction: str) -> list[Region]:
    """Definitions that are named by a word which can hardly be anything else; but not those that
    are only spoken of, as what another one of them uses."""
    found = list(_mentioned(source, instruction))
    kept: list[_Named] = []
    for each in found:
        listed = kept and _SIDE_BY_SIDE.fullmatch(instruction[kept[-1].end : each.start])
        if listed or not any(_uses(source, other.region, each.region) for other in kept):
            kept.append(each)
    return [each.region for each in kept]


def _uses(source: Source, one: Region, other: Region) -> bool:
    inside = one.contains(other) or other.contains(one)
    name = other.name.rpartition(".")[2]
    return not inside and name in words_in(source.part(one.start, one.end))


def _mentioned(source: Source, instruction: str) -> Iterator[_Named]:
    known = regions(source)
    quoted = set(_fragments(instruction))
    seen: set[Region] = set()
    for match in _NAME.finditer(instruction):
        word = match[0]
        called = instruction[match.end() : match.end() + 1] == "("
        if not (called or _CODE_LIKE.search(word) or word in quoted):
            continue
        name = re.sub(r"::|#|->", ".", word)
        fitting = [each for each in known if each.name == name]
        fitting = fitting or [each for each in known if each.name.endswith("." + name)]
        last = name.rpartition(".")[2]
        fitting = fitting or [each for each in known if each.name.rpartition(".")[2] == last]
        for each in fitting:
            if each not in seen:
                seen.add(each)
                yield _Named(each, match.start(), match.end())
