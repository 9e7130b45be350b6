"""Which hunks of an edit have to do with what was asked.

Small models change more than they are told to: an operand is dropped, a line is lost, a literal
becomes another. Such a change has nothing to do with the words of the instruction, nor with the
other changes. It is taken back where the rest stands without it; of what was moved both ends or
none, or it would stand there twice. What the words mean is never asked for, so that it holds in any
language; where no hunk has a word of the instruction, none is taken back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from vivace.edits.diff import changes
from vivace.edits.placing.words import nearest, telling, terms_of, vocabulary, words_in
from vivace.syntax.hunk import Hunk

__all__ = ["about", "alike", "divided", "said_by", "unrelated"]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_TYPE = re.compile(r"(?<!:):(?!:).*", re.DOTALL)
"""What stands between a name and its value; of ``:=`` the colon."""
_ALIKE = 0.5
_NEAR = 2
"""Tokens from a name to what is done with it: ``seen.add``, ``len(seen)``."""


class _Delta(Struct, frozen=True):
    """What tokens hunks take out, what stands beside others that they put in, and which words they
    take out and put in."""

    gone: frozenset[str]
    beside: frozenset[str]
    gone_terms: frozenset[str]
    come_terms: frozenset[str]

    @property
    def takes(self) -> bool:
        """Whether something is lost by it; what is only added does less harm, and may be needed."""
        return any(any(map(str.isalnum, token)) for token in self.gone)

    @property
    def terms(self) -> frozenset[str]:
        return self.gone_terms | self.come_terms


@lru_cache(1)
def said_by(instruction: str, text: str) -> frozenset[str]:
    """The words of an instruction, as code could have them; asked for twice in an edit."""
    known = vocabulary(text)
    said: set[str] = set()
    for term in terms_of(" ".join(telling(instruction))):
        said.add(term)
        if term not in known and (meant := nearest(term, known)) is not None:
            said.add(meant)
    return frozenset(said)


def about(code: str, said: Collection[str]) -> bool:
    """Whether code has a word of the instruction."""
    return not terms_of(code).keys().isdisjoint(said)


def divided(hunks: Sequence[Hunk]) -> list[Hunk]:
    """Hunks in which each line became another one, line by line. What is taken out beside what is
    put in belongs to it: a loop makes way for a call."""
    return [part for hunk in hunks for part in _parts(hunk)]


def _parts(hunk: Hunk) -> Iterator[Hunk]:
    pairs = list(zip(hunk.old, hunk.new, strict=False))
    if len(hunk.old) != len(hunk.new) or not all(alike(old, new) for old, new in pairs):
        yield hunk
        return
    for at, (old, new) in enumerate(pairs):
        yield Hunk(hunk.start + at, (old,), (new,))


def alike(old: str, new: str, share: float = _ALIKE) -> bool:
    """Whether one piece of code became the other: so large a share of the tokens is the same."""
    a, b = _TOKEN.findall(old), _TOKEN.findall(new)
    enough = share * max(len(a), len(b), 1)
    if (Counter(a) & Counter(b)).total() < enough:
        return False  # whatever their order; to compare that takes long where all is different
    same = len(a) - sum(end - start for start, end, _, _ in changes(a, b))
    return same >= enough


def unrelated(hunks: Sequence[Hunk], said: Collection[str]) -> list[list[Hunk]]:
    """Those that neither the instruction nor another hunk gives a reason for, each with those that
    lines were moved to or from."""
    groups = _together(hunks)
    deltas = [_delta(group) for group in groups]
    about = [bool(each.terms & set(said)) for each in deltas]
    if len(groups) < 2 or not any(about):
        return []
    asked = {at for at, each in enumerate(about) if each}
    given = {name for at in asked for hunk in groups[at] for name in _given(_lines(hunk)[1])}
    # With what got another value something else may have to be done.
    reached = asked | {at for at, each in enumerate(deltas) if each.beside & given}
    while grown := {
        at
        for at in range(len(groups))
        if at not in reached and any(_shares(deltas[at], deltas[other]) for other in reached)
    }:
        reached |= grown
    return [group for at, group in enumerate(groups) if at not in reached and deltas[at].takes]


def _together(hunks: Sequence[Hunk]) -> list[list[Hunk]]:
    """The hunks by the lines that were moved between them."""
    lines = [_lines(hunk) for hunk in hunks]
    groups: list[list[int]] = []
    for at, (gone, come) in enumerate(lines):
        joined = [
            group
            for group in groups
            if any(_moved(gone, lines[to][1]) or _moved(lines[to][0], come) for to in group)
        ]
        groups = [group for group in groups if group not in joined]
        groups.append([*(each for group in joined for each in group), at])
    return [[hunks[at] for at in group] for group in groups]


def _lines(hunk: Hunk) -> tuple[Counter[str], Counter[str]]:
    """Those that it takes out and puts in, without their margin; what holds signs alone stands
    everywhere."""
    old, new = (
        Counter(line.strip() for line in side if any(map(str.isalnum, line)))
        for side in (hunk.old, hunk.new)
    )
    return old - new, new - old


def _moved(gone: Counter[str], come: Counter[str]) -> bool:
    """Whether what goes here comes there: so much of it that it is a good part of one of them."""
    return 0 < _ALIKE * min(gone.total(), come.total()) <= (gone & come).total()


def _given(lines: Collection[str]) -> Iterator[str]:
    """The names that these lines give a value to."""
    for line in lines:
        head, sign, value = line.partition("=")
        if not sign or value.startswith(("=", ">")):
            continue
        named = _TOKEN.findall(_TYPE.sub("", head))
        if named.count("(") > named.count(")"):
            continue  # an argument
        for name, behind in pairwise([*named, ","]):
            if behind == "," and name.isidentifier():
                yield name


def _shares(one: _Delta, other: _Delta) -> bool:
    """Whether a name that one of them brings or takes is in what the other changes."""
    return bool(one.come_terms & other.come_terms or one.gone_terms & other.gone_terms)


def _delta(hunks: Sequence[Hunk]) -> _Delta:
    gone: set[str] = set()
    come: set[str] = set()
    beside: set[str] = set()
    for hunk in hunks:
        old = _TOKEN.findall("".join(hunk.old))
        new = _TOKEN.findall("".join(hunk.new))
        for a, b, c, d in changes(old, new):
            gone.update(old[a:b])
            come.update(new[c:d])
            if not all(map(str.isdecimal, new[c:d])):
                beside.update(old[max(a - _NEAR, 0) : a], old[b : b + _NEAR])
    return _Delta(frozenset(gone), frozenset(beside), _terms(gone), _terms(come))


def _terms(tokens: Collection[str]) -> frozenset[str]:
    return frozenset(terms_of(" ".join(word for token in tokens for word in words_in(token))))
