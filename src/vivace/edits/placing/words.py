"""The words of code and of what people say about it, brought to one form.

A name counts as a whole and by its parts: ``hsvToRGB``, ``hsv_to_rgb`` and "hsv to rgb" share all
of theirs. Endings are cut off by a rule that knows nothing of any language but that plurals and
verbs have some; what is written wrong is taken for the nearest word of the file.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache

__all__ = [
    "nearest",
    "parts_of",
    "short_for",
    "signs_in",
    "telling",
    "terms_of",
    "vocabulary",
    "words_in",
]

_WORD = re.compile(r"\w(?:(?<=[^\W\d_])[\w$]*|(?<=_)[\w$]+|(?<=0)[xXbBoO]|(?<=\d)\d*(?:\.\d+)?)")
_SIGN = re.compile(
    r"\\[a-z0\\]|[&|^%~!<>=+*/?@-](?<![\w\"'].)[&|^%~!<>=+*/?@-]{0,2}(?!\w)|\^(?<=\[\^)"
)
"""Escapes, and operators that stand by themselves. What both patterns may begin with is said in one
set, and more of it behind: whatever is not in the set is then passed over at once."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
_ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ers", "ed", "er", "es", "ly", "s", "e", "y")
_COMMON = (
    "a an the this that these those it its is are was be been being do does did done not no "
    "nor and or but if when then than so as at by for from in into of off on onto out over to "
    "up with without should would could can may must will shall i we you he she they me my our "
    "us your their them there here what which who how why all any some more most only also "
    "just pls please make made let get have has had need needs want wants like too very new "
    "now file function method class code line"
)
_STOP = frozenset(_COMMON.split())
"""Words that say nothing of what is meant."""
_STEM = 4
"""Letters that an ending must leave."""
_TYPO = 5
"""Letters of a word that may be written wrong."""
_ALIKE = 0.77
_SHORT = 3
"""Letters of an abbreviation."""
_KNOWN = 50_000
"""Words whose parts are remembered: a file has the same ones again and again."""


def words_in(text: str) -> list[str]:
    """Names and numbers as they stand there."""
    return _WORD.findall(text)


def signs_in(text: str) -> list[str]:
    """Escapes and operators, which are no words."""
    return _SIGN.findall(text)


def telling(text: str) -> list[str]:
    """Those that say something of what is meant."""
    return [word for word in words_in(text) if word.lower() not in _STOP]


def parts_of(word: str) -> list[str]:
    """The parts of a name in small letters, without their endings."""
    return [_stem(part.lower()) for part in _PART.findall(word)]


def _stem(part: str) -> str:
    if len(part) <= _STEM or not part.endswith(_ENDINGS):
        return part
    for ending in _ENDINGS:
        if part.endswith(ending) and len(part) - len(ending) >= _STEM:
            return part[: -len(ending)]
    return part


def terms_of(text: str) -> Counter[str]:
    """Each name as a whole and by its parts, each escape and operator, and how often."""
    found: Counter[str] = Counter()
    for word, often in Counter(words_in(text)).items():
        for term in _terms(word):
            found[term] = found.get(term, 0) + often
    found.update(signs_in(text))
    return found


def vocabulary(text: str) -> set[str]:
    """All names as wholes and by their parts."""
    return {term for word in set(words_in(text)) for term in _terms(word)}


@lru_cache(_KNOWN)
def _terms(word: str) -> tuple[str, ...]:
    parts = tuple(parts_of(word))
    return (*parts, "".join(parts)) if len(parts) > 1 else parts


def short_for(term: str, known: Collection[str]) -> str | None:
    """The longest word of the file that this one may be written as: ``max`` for maximum."""
    near = [each for each in known if _SHORT <= len(each) < len(term) and term.startswith(each)]
    return max(near, key=len, default=None) if term.isalpha() else None


def nearest(term: str, known: Collection[str]) -> str | None:
    """The word of the file that a misspelt one was meant to be."""
    if len(term) < _TYPO or not term.isalpha() or not term.isascii():
        return None
    near = [each for each in known if abs(len(each) - len(term)) <= 2 and each[:1] == term[:1]]
    return next(iter(difflib.get_close_matches(term, near, n=1, cutoff=_ALIKE)), None)
