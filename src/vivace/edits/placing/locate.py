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
from tree_sitter import Node

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
from vivace.syntax.languages import row_after
from vivace.syntax.source import Source

__all__ = ["Candidate", "Choice", "choose", "likeliest", "rename_scope"]

_SMALL = 90
"""A file of so many lines of code is shown whole when nothing in it is named."""
_ROOM = 120
"""Lines that are shown together at most."""
_MOST = 3
_FEW = 40
"""Lines that two or three places have at most that are shown though only one may be meant."""
_PHRASE, _LONG_PHRASE = 4, 8
"""How many words hardly follow each other by chance, and how many are looked for at most."""
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
_PREAMBLE = 0.25
"""What is only comments and imports has many words, and is rarely what is meant."""
_TESTS = 0.5
"""What is in a test is rarely what is meant, where nobody speaks of tests and most of the file is
none."""

_NO_CODE = frozenset({"comment", "hash_bang_line", "package_clause", "package_declaration"})
_NAME = re.compile(r"[A-Za-z_$][\w$]*(?:(?:\.|::|#|->)[A-Za-z_$][\w$]*)*")
_SIDE_BY_SIDE = re.compile(r"\W*(?:\w{1,4}\W+)?")
"""What stands between names of a list: commas, "and", "und", "y"."""
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]{2,80})\"|'([^'\n]{2,80})'|“([^”\n]+)”|«([^»\n]+)»")
_CODE_LIKE = re.compile(r"\w[_$.:]+\w|[a-z][A-Z]|^_+\w|[A-Z]{2,}[a-z]|\w\d")
_SIGN_OF_CODE = re.compile(r"\d{2,}|\w[_$]|_\w|[a-z][A-Z]|[A-Z]{3}")
"""What hardly stands in a sentence unless it was taken from the code."""
_NUMBER_OF_LINE = re.compile(r"(?:\blines?\s+|[:(])\d+", re.IGNORECASE)


class Candidate(Struct, frozen=True):
    region: Region
    score: float


class Choice(Struct, frozen=True, kw_only=True):
    """What to show, and how sure that is."""

    regions: tuple[Region, ...]
    sure: bool
    within: Region
    """What the person selected, or all."""
    ranked: tuple[Candidate, ...] = ()
    """The pieces of the file, the likeliest first."""


def choose(
    source: Source, instruction: str, selection: Selection | None = None, path: str = ""
) -> Choice:
    """What an instruction is about, as narrow as it can safely be."""
    within = whole_file(source)
    if selection is not None:
        within = selected(source, selection)
        # A name that is selected may be used before and behind the selection.
        within = around(source, within) if asked(instruction) else within
    if not len(within) or (selection is not None and len(within) <= _ROOM):
        return Choice(regions=(within,), sure=True, within=within)
    named = [each for each in _named(source, instruction) if within.contains(each)]
    ranked = tuple(
        each for each in _ranked(source, instruction, path, named) if within.contains(each.region)
    )
    known = _beyond_doubt(source, instruction, named, ranked)
    places = next(filter(None, known), ()) or _touched(ranked, selection)
    chosen = places or likeliest(ranked)
    return Choice(regions=chosen, sure=bool(places), within=within, ranked=ranked)


def _beyond_doubt(
    source: Source, instruction: str, named: Sequence[Region], ranked: Sequence[Candidate]
) -> Iterator[tuple[Region, ...]]:
    """What is meant by each kind of evidence, the surest first; nothing where it does not tell."""
    yield _renamed_in(instruction, source, ranked)
    yield _with_what_is_said(source, instruction, _fitting(named, ranked), ranked)
    if not ranked:
        yield (whole_file(source),)
        return
    same, others = _namesakes(ranked)
    if same[0].score >= max(_ENOUGH, _AHEAD * others):
        yield likeliest(same)
    yield _phrased(source, instruction, ranked)
    yield _few_ahead(source, instruction, ranked)
    yield _pinned(source, instruction, ranked)
    yield _all_of_little(source, ranked)
    yield _called_by_name(source, instruction, ranked)


def _with_what_is_said(
    source: Source, instruction: str, chosen: Sequence[Region], ranked: Sequence[Candidate]
) -> tuple[Region, ...]:
    """What was named, with the piece that has a number or a name which was said too and does not
    stand there; nothing if that may be one of several."""
    if not chosen:
        return ()
    places = list(chosen)
    held = [(each.region, set(words_in(source.part(*each.region.span)))) for each in ranked]
    defined = {each.name.rpartition(".")[2] for each in regions(source)}
    said = telling(_NUMBER_OF_LINE.sub("", instruction))
    for word in dict.fromkeys(said):
        if word in defined or not _SIGN_OF_CODE.search(word):
            continue
        if any(word in words_in(source.part(*each.span)) for each in places):
            continue
        having = [region for region, words in held if word in words]
        if len(having) > 1:
            return ()
        places += having
    return tuple(places) if _lines(places) <= _ROOM else ()


def _phrased(source: Source, instruction: str, ranked: Sequence[Candidate]) -> tuple[Region, ...]:
    """The one piece in which words follow each other as they do in the instruction: a message
    that somebody copied, or remembers."""
    said = [word.lower() for word in words_in(instruction)]
    held = [(each.region, words_in(source.part(*each.region.span).lower())) for each in ranked]
    for size in range(min(len(said), _LONG_PHRASE), _PHRASE - 1, -1):
        runs = {run for run in _runs(said, size) if len(set(telling(" ".join(run)))) > 1}
        having = [region for region, words in held if not runs.isdisjoint(_runs(words, size))]
        if having:
            return tuple(having) if len(having) == 1 else ()
    return ()


def _runs(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    return (tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _few_ahead(source: Source, instruction: str, ranked: Sequence[Candidate]) -> tuple[Region, ...]:
    """Two or three short pieces that are far ahead of all others, and are so without the first word
    too, which is often what to do."""
    few = _ahead(ranked)
    return few if few and set(few) == set(_ahead(_without_first(source, instruction))) else ()


def _ahead(ranked: Sequence[Candidate]) -> tuple[Region, ...]:
    if ranked[0].score < _ENOUGH:
        return ()
    scores = [*(each.score for each in ranked), 0.0]
    for count in range(2, min(_MOST, len(ranked)) + 1):
        few = [each.region for each in ranked[:count]]
        if scores[count - 1] >= _AHEAD * scores[count] and _lines(few) <= _FEW:
            return tuple(few)
    return ()


def _without_first(source: Source, instruction: str) -> list[Candidate]:
    return _ranked(source, instruction.strip().partition(" ")[2], "", ())


def _all_of_little(source: Source, ranked: Sequence[Candidate]) -> tuple[Region, ...]:
    """The file, or all of its code, where that is little."""
    if len(source.lines) <= _SMALL:
        return (whole_file(source),)
    without = _without_code(source)
    code = [each.region for each in ranked if not _is_preamble(source, each.region, without)]
    return tuple(code) if _lines(code) <= _SMALL else ()


def _namesakes(ranked: Sequence[Candidate]) -> tuple[list[Candidate], float]:
    """The likeliest piece with those of its name (overloads, parts of one function), and the score
    of the best of the others."""
    name = ranked[0].region.name
    same = [each for each in ranked if name and each.region.name == name] or list(ranked[:1])
    return same, next((each.score for each in ranked if each not in same), 0.0)


def _without_code(source: Source) -> set[int]:
    """The lines that are only comments, imports and what stands at the beginning of every file."""
    language = source.language
    if language is None:
        return set()
    nodes = source.nodes(language.imports | language.leading | _NO_CODE)
    nodes += [node for node in source.top if _is_string(node)]
    return {row for node in nodes for row in range(node.start_point.row, row_after(node))}


def _is_string(node: Node) -> bool:
    return node.type == "expression_statement" and node.named_children[0].type == "string"


def _is_preamble(source: Source, piece: Region, without: Collection[int]) -> bool:
    rows = range(piece.start, piece.end)
    return all(row in without for row in rows if source.lines[row].strip())


def _pinned(source: Source, instruction: str, ranked: Sequence[Candidate]) -> tuple[Region, ...]:
    """The few pieces that have the numbers and names of the instruction which no other has, if
    these are among the likeliest."""
    said = telling(_NUMBER_OF_LINE.sub("", instruction))
    words = [word for word in dict.fromkeys(said) if _SIGN_OF_CODE.search(word)]
    held = [(each.region, set(words_in(source.part(*each.region.span)))) for each in ranked]
    places: list[Region] = []
    for word in words:
        having = [region for region, inside in held if word in inside]
        if len(having) == 1 and having[0] not in places:
            places += having
    near = {each.region for each in ranked[:_MOST]}
    fits = len(places) <= _MOST and _lines(places) <= _ROOM and near.issuperset(places)
    return tuple(places) if fits else ()


def _called_by_name(
    source: Source, instruction: str, ranked: Sequence[Candidate]
) -> tuple[Region, ...]:
    """The definitions whose names are words of the instruction, if the likeliest is one of them: by
    itself a plain word such as ``quote`` may be anything. The first one is often what to do: what
    is likeliest must be so without it."""
    said = {word for word in telling(instruction) if len(word) > 2}
    called = [each for each in ranked if each.region.name.rpartition(".")[2] in said]
    if ranked[0] not in called:
        return ()
    best = _without_first(source, instruction)[0].region
    return likeliest(called) if any(each.region == best for each in called) else ()


def _touched(ranked: Sequence[Candidate], selection: Selection | None) -> tuple[Region, ...]:
    """The pieces with the lines that are selected, or with that of the cursor, if they are few."""
    if selection is None:
        return ()
    start, end = selection
    touched = [
        each.region for each in ranked if each.region.start < end and start < each.region.end
    ]
    return tuple(touched) if _lines(touched) <= _ROOM else ()


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
    names = [_called(each.name) for each in known]
    for count, name in zip(counts, names, strict=True):
        count.update(name - count.keys())
    spread = Counter(chain.from_iterable(counts))
    asked = _asked(instruction, spread)
    mean = sum(map(len, texts)) / max(1, len(texts))
    frames = lines_named(path, instruction, bare=True)
    quoted = [(each, sum(each in text for text in texts)) for each in _fragments(instruction)]
    without = _without_code(source)
    tests_meant = "test" in asked or 2 * sum(each.is_test for each in known) >= len(known)
    found: list[Candidate] = []
    for each, text, count, name in zip(known, texts, counts, names, strict=True):
        long = 1 - _BY_LENGTH + _BY_LENGTH * len(text) / mean
        score = 0.0
        for term, weight in asked.items():
            rare = math.log(1 + (len(known) - spread[term] + 0.5) / (spread[term] + 0.5))
            often = count[term]
            score += weight * rare * often * (_SATURATION + 1) / (often + _SATURATION * long)
            score += weight * rare * _IN_NAME * (term in name)
        if not tests_meant and each.is_test:
            score *= _TESTS
        if _is_preamble(source, each, without):
            score *= _PREAMBLE
        score += sum(_FRAME for row in frames if each.start <= row < each.end)
        score += sum(_QUOTED_CODE / held for code, held in quoted if code in text)
        found.append(Candidate(each, score))
    for region in named:
        found = [
            Candidate(each.region, each.score + _NAMED * _share(each.region, region))
            for each in found
        ]
    return sorted(found, key=lambda each: -each.score)


def _called(name: str) -> set[str]:
    """By which words a definition is meant."""
    around, _, last = name.rpartition(".")
    makes = last == "__init__" or (last and last == around.rpartition(".")[2])
    return vocabulary(f"{last} constructor" if makes else last)


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
        behind = instruction[match.end() : match.end() + 1]
        begins = not instruction[: match.start()].strip()
        spelt = (word[0].isupper() and not begins) or (begins and behind == ":")
        code = behind == "(" or _CODE_LIKE.search(word) or word in quoted
        if not code and not spelt:
            continue
        name = re.sub(r"::|#|->", ".", word)
        fitting = [each for each in known if each.name == name]
        fitting = fitting or [each for each in known if each.name.endswith("." + name)]
        last = name.rpartition(".")[2]
        fitting = fitting or [each for each in known if each.name.rpartition(".")[2] == last]
        if not code and len(fitting) > 1:
            continue
        for each in fitting:
            if each not in seen:
                seen.add(each)
                yield _Named(each, match.start(), match.end())
