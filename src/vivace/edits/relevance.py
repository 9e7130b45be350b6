"""Which hunks of an edit have to do with what was asked.

Small models change more than they are told to: an operand is dropped, a line is lost, a literal
becomes another. Such a change has nothing to do with the words of the instruction, nor with the
other changes. It is taken back where the rest stands without it. What the words mean is never asked
for, so that it holds in any language; where no hunk has a word of the instruction, none is taken
back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from vivace.edits.diff import changes
from vivace.edits.placing.words import nearest, telling, terms_of, vocabulary, words_in
from vivace.syntax.hunk import Hunk

__all__ = ["about", "alike", "divided", "said_by", "unrelated"]

_TOKEN = re.compile(r"\w+|[^\w\s]")
_ALIKE = 0.5


class _Delta(Struct, frozen=True):
    """What tokens a hunk takes out, and which words it takes out and puts in."""

    gone: frozenset[str]
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


def unrelated(hunks: Sequence[Hunk], said: Collection[str]) -> list[Hunk]:
    """Those that neither the instruction nor another hunk gives a reason for."""
    deltas = [_delta(hunk) for hunk in hunks]
    about = [bool(each.terms & set(said)) for each in deltas]
    if len(hunks) < 2 or not any(about):
        return []
    reached = {at for at, each in enumerate(about) if each}
    while grown := {
        at
        for at in range(len(hunks))
        if at not in reached and any(_shares(deltas[at], deltas[other]) for other in reached)
    }:
        reached |= grown
    return [hunk for at, hunk in enumerate(hunks) if at not in reached and deltas[at].takes]


def _shares(one: _Delta, other: _Delta) -> bool:
    """Whether a name that one of them brings or takes is in what the other changes."""
    return bool(one.come_terms & other.come_terms or one.gone_terms & other.gone_terms)


def _delta(hunk: Hunk) -> _Delta:
    old = _TOKEN.findall("".join(hunk.old))
    new = _TOKEN.findall("".join(hunk.new))
    gone: set[str] = set()
    come: set[str] = set()
    for a, b, c, d in changes(old, new):
        gone.update(old[a:b])
        come.update(new[c:d])
    return _Delta(frozenset(gone), _terms(gone), _terms(come))


def _terms(tokens: Collection[str]) -> frozenset[str]:
    return frozenset(terms_of(" ".join(word for token in tokens for word in words_in(token))))
