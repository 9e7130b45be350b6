"""Whether a regular expression is found in a text, in a time that grows with it and no faster.

Rules come with repositories, and Python's own matching takes forever on expressions made for that.
So it is asked only for those that cannot do so; all others are followed in all ways at once, with a
memory of what each character leads to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from typing import TypeAlias

from vivace.findings.pattern import Steps
from vivace.findings.regex_syntax import (
    Assertion,
    Branch,
    Chars,
    RegexError,
    Repeat,
    Sequence,
    Text,
    Tree,
    read,
)

__all__ = ["Regex", "RegexError", "regex_of"]

_SHORT = 4_000
"""Characters in which Python may look for an expression that has one repetition."""
_BEGINNING = 512
_NAME = 63
"""Bytes of a text whose answer is remembered."""
_MOST_KNOWN = 2_000
"""Texts that are remembered of an expression."""
_LARGEST = 4_000
"""States of an expression."""
_REMEMBERED = 2_000
_MOST_WORDS = 80
_SHORT_WORD = 5
"""Characters of a word that stands in most files, as ``self.`` does."""
_MOST_JOINED = 12
_FOUND = -1


class Regex:
    """Expressions stand in many rules: ``regex_of`` has each once."""

    def __init__(self, text: str) -> None:
        self._tree = tree = read(text)
        if _size(tree) > _LARGEST:
            raise RegexError("the regular expression is too large. Repeat less in it.")
        self.words = frozenset(word.encode() for word in _words(tree) or ())
        """If not empty: one of these stands in each text it is found in."""
        self._is_harmless = _is_harmless(tree)
        self._is_anchored = _is_anchored(tree)
        self._known: dict[bytes, bool] = {}
        """The answers for short texts: code has the same names again and again."""

    @cached_property
    def _quick(self) -> re.Pattern[str]:
        return re.compile(_python(self._tree))

    @cached_property
    def _ways(self) -> _Ways:
        return _Ways(self._tree)

    def found_in(self, raw: bytes, steps: Steps) -> bool:
        if len(raw) <= _NAME:
            found = self._known.get(raw)
            if found is None:
                if len(self._known) >= _MOST_KNOWN:
                    self._known.clear()
                found = self._known[raw] = self._in_short(raw)
            return found
        if len(raw) <= _SHORT:
            steps.take(len(raw) // 64)
            return self._in_short(raw)
        if self._is_anchored:
            # Nearly always the beginning tells; the rest may be a whole file.
            begun = self._ways.begun(raw[:_BEGINNING].decode("utf-8", "ignore"))
            if begun is not None:
                return begun
        steps.take(len(raw) // 16)
        return self._in(raw.decode("utf-8", "replace"))

    def _in_short(self, raw: bytes) -> bool:
        # A generator expression over the words takes longer than the search for all of them.
        if self.words:
            for word in self.words:
                if word in raw:
                    break
            else:
                return False
        text = raw.decode("utf-8", "replace")
        return self._quick.search(text) is not None if self._is_harmless else self._in(text)

    def _in(self, text: str) -> bool:
        return self._ways.found_in(text)


@cache
def regex_of(text: str) -> Regex:
    return Regex(text)


def _size(tree: Tree) -> int:
    """How many states it takes, about."""
    if isinstance(tree, Repeat):
        return _size(tree.inner) * max(1, tree.least, tree.most or 0) + 1
    if isinstance(tree, Sequence | Branch):
        return sum(_size(part) for part in tree.parts) + len(tree.parts)
    return len(tree.text) if isinstance(tree, Text) else 1


def _is_harmless(tree: Tree) -> bool:
    """Whether Python cannot take long: one repetition of single characters, few choices."""
    repeats = [each for each in _each(tree) if isinstance(each, Repeat)]
    many = [each for each in repeats if each.most != 1]
    return len(many) <= 1 and len(repeats) <= 6 and all(_is_one(each.inner) for each in many)


def _is_anchored(tree: Tree) -> bool:
    """Whether it can only be found at the beginning."""
    if isinstance(tree, Sequence):
        return bool(tree.parts) and _is_anchored(tree.parts[0])
    if isinstance(tree, Branch):
        return all(_is_anchored(part) for part in tree.parts)
    return isinstance(tree, Assertion) and tree.python == r"\A"


def _is_one(tree: Tree) -> bool:
    return isinstance(tree, Chars) or (isinstance(tree, Text) and len(tree.text) == 1)


def _each(tree: Tree) -> Iterator[Tree]:
    yield tree
    if isinstance(tree, Repeat):
        yield from _each(tree.inner)
    elif isinstance(tree, Sequence | Branch):
        for part in tree.parts:
            yield from _each(part)


def _python(tree: Tree) -> str:
    if isinstance(tree, Chars | Assertion):
        return tree.python
    if isinstance(tree, Text):
        return re.escape(tree.text)
    if isinstance(tree, Sequence):
        return "".join(_python(part) for part in tree.parts)
    if isinstance(tree, Branch):
        return f"(?:{'|'.join(_python(part) for part in tree.parts)})"
    most = "" if tree.most is None else tree.most
    return f"(?:{_python(tree.inner)}){{{tree.least},{most}}}"


def _words(tree: Tree) -> frozenset[str] | None:
    """Words of which one must stand in the text; ``None``: that cannot be said."""
    if isinstance(tree, Branch):
        found = [_words(part) for part in tree.parts]
        words = frozenset().union(*(each for each in found if each is not None))
        return None if None in found or len(words) > _MOST_WORDS else words
    if isinstance(tree, Repeat):
        return _words(tree.inner) if tree.least else None
    if isinstance(tree, Text):
        return frozenset({tree.text}) if len(tree.text) > 1 else None
    if isinstance(tree, Sequence):
        runs = [frozenset({run}) for run in _runs(tree) if len(run) > 1]
        parts = [_words(part) for part in tree.parts if not isinstance(part, Text)]
        candidates = [*runs, *(each for each in parts if each is not None)]
        best = max(candidates, key=_shortest, default=None)
        if best is None or _shortest(best) <= _SHORT_WORD:
            best = max(_joined(tree), best or frozenset([""]), key=_shortest)
        return best if _shortest(best) > 1 else None
    return None


def _shortest(words: frozenset[str]) -> int:
    return min(map(len, words))


def _joined(tree: Sequence) -> frozenset[str]:
    """Return the words that texts and choices between texts make which follow each other, as
    ``self.path`` and ``self.body`` in ``self\\.(path|body)``: the set with the longest words."""
    found, words = [frozenset([""])], frozenset([""])
    for part in tree.parts:
        ends = _all_texts(part)
        if ends is None or len(words) * len(ends) > _MOST_JOINED:
            words = frozenset([""])
        else:
            words = frozenset(start + end for start in words for end in ends)
            found.append(words)
    return max(found, key=_shortest)


def _all_texts(tree: Tree) -> frozenset[str] | None:
    """Return all texts that an expression stands for, if these are listed in it."""
    if isinstance(tree, Assertion):
        return frozenset([""])
    if isinstance(tree, Text):
        return frozenset([tree.text])
    if isinstance(tree, Branch) and all(isinstance(part, Text) for part in tree.parts):
        return frozenset(part.text for part in tree.parts if isinstance(part, Text))
    return None


def _runs(tree: Sequence) -> Iterator[str]:
    """Literal characters that follow each other."""
    run = ""
    for part in tree.parts:
        if isinstance(part, Text):
            run += part.text
        elif not isinstance(part, Assertion):
            yield run
            run = ""
    yield run


# A state is what may come next: characters of a set, an assertion, two ways, or the end.
_State: TypeAlias = "tuple[re.Pattern[str], int] | tuple[str, int] | tuple[int, int] | tuple[()]"


class _Ways:
    """All ways through an expression at once, worked out as they are needed."""

    def __init__(self, tree: Tree) -> None:
        self._states: list[_State] = [()]
        self._start = self._add(tree, 0)
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[tuple[frozenset[int], str], int] = {}
        self._sets: list[tuple[frozenset[int], str]] = []
        self._next: list[dict[str, int]] = []
        self._begin = self._number(frozenset(), "start")

    def found_in(self, text: str) -> bool:
        if len(self._sets) > _REMEMBERED:
            self._forget()
        at = self._begin
        for character in text:
            after = self._next[at].get(character)
            at = self._step(at, character) if after is None else after
            if at == _FOUND:
                return True
        return self._step(at, "") == _FOUND

    def begun(self, beginning: str) -> bool | None:
        """What the beginning of a text tells of an expression that can be found nowhere else;
        ``None``: it depends on the rest."""
        at = self._begin
        for character in beginning:
            after = self._next[at].get(character)
            at = self._step(at, character) if after is None else after
            if at == _FOUND:
                return True
            if not self._sets[at][0]:
                return False
        return None

    def _step(self, at: int, character: str) -> int:
        states, before = self._sets[at]
        reached = self._closure(states | {self._start}, before, character)
        if 0 in reached:
            after = _FOUND
        else:
            moved = frozenset(self._moved(reached, character)) if character else frozenset[int]()
            after = self._number(moved, "word" if _is_word(character) else "other")
        self._next[at][character] = after
        return after

    def _moved(self, states: Iterable[int], character: str) -> Iterator[int]:
        for each in states:
            state = self._states[each]
            if state and isinstance(state[0], re.Pattern) and state[0].fullmatch(character):
                yield state[1]

    def _closure(self, states: Iterable[int], before: str, character: str) -> set[int]:
        reached: set[int] = set()
        waiting = list(states)
        while waiting:
            each = waiting.pop()
            if each in reached:
                continue
            reached.add(each)
            state = self._states[each]
            if state and isinstance(state[0], int):
                waiting += [state[0], state[1]]
            elif state and isinstance(state[0], str) and _holds(state[0], before, character):
                waiting.append(state[1])
        return reached

    def _number(self, states: frozenset[int], before: str) -> int:
        key = states, before
        if key not in self._numbers:
            self._numbers[key] = len(self._sets)
            self._sets.append(key)
            self._next.append({})
        return self._numbers[key]

    def _add(self, tree: Tree, then: int) -> int:
        """The state from which ``tree`` leads to ``then``."""
        if isinstance(tree, Chars):
            return self._new((_one_of(tree.python), then))
        if isinstance(tree, Text):
            for character in reversed(tree.text):
                then = self._new((_one_of(re.escape(character)), then))
            return then
        if isinstance(tree, Assertion):
            return self._new((tree.python, then))
        if isinstance(tree, Sequence):
            for part in reversed(tree.parts):
                then = self._add(part, then)
            return then
        if isinstance(tree, Branch):
            return self._either([self._add(part, then) for part in tree.parts])
        return self._repeated(tree, then)

    def _repeated(self, tree: Repeat, then: int) -> int:
        if tree.most is None:
            again = self._new((then, then))
            self._states[again] = (self._add(tree.inner, again), then)
            then = again
        else:
            for _ in range(tree.most - tree.least):
                then = self._new((self._add(tree.inner, then), then))
        for _ in range(tree.least):
            then = self._add(tree.inner, then)
        return then

    def _either(self, ways: list[int]) -> int:
        at = ways[-1]
        for way in reversed(ways[:-1]):
            at = self._new((way, at))
        return at

    def _new(self, state: _State) -> int:
        self._states.append(state)
        return len(self._states) - 1


@cache
def _one_of(python: str) -> re.Pattern[str]:
    return re.compile(python)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _holds(assertion: str, before: str, character: str) -> bool:
    if assertion == r"\A":
        return before == "start"
    if assertion == r"\Z":
        return not character
    is_edge = (before == "word") != (bool(character) and _is_word(character))
    return is_edge == (assertion == r"\b")
