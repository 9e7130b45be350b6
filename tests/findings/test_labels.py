"""On the labelled pairs that rules are tuned on, they find what is there and little else.

The shares are what was reached when a rule was last changed, never less. They say nothing of code
that nobody has looked at; for that there is a set that is held out.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.finding_sets.reader import Pair, read

from vivace.findings.bundled import bundled
from vivace.findings.scan import scan
from vivace.syntax.source import Source

_TUNING = Path(__file__).parents[2] / "bench" / "finding_sets" / "tuning"
_PAIRS = read(_TUNING)
_SAME = [
    {22, 23, 73},
    {77, 78},
    {94, 95},
    {119, 120, 121, 122, 242, 676, 787},
    {131, 190, 680},
    {259, 321, 798},
    {295, 297, 599},
    {326, 327, 328, 916},
    {330, 335, 337, 338},
]
"""Numbers of CWE that mean the same class."""
_FOUND_AND_FALSE = {
    "python": (26, 0),
    "javascript": (14, 0),
    "typescript": (12, 0),
    "c": (14, 0),
    "cpp": (9, 0),
    "go": (13, 0),
    "rust": (9, 0),
    "java": (13, 0),
}
"""By language: at least so many are found, and at most so many mended ones are reported."""


@pytest.mark.parametrize("language", _FOUND_AND_FALSE)
def test_as_many_are_found_as_ever(language: str) -> None:
    pairs = [each for each in _PAIRS if each.language == language]
    missed = [each.id for each in pairs if not _is_found(each)]
    alarms = [each.id for each in pairs if _reported(each.path, each.fixed)]
    found, false = _FOUND_AND_FALSE[language]
    assert len(pairs) - len(missed) >= found, missed
    assert len(alarms) <= false, alarms


def _is_found(pair: Pair) -> bool:
    return any(
        _is_same(cwe, pair.cwe) and not lines.isdisjoint(pair.lines)
        for cwe, lines in _reported(pair.path, pair.vulnerable)
    )


def _reported(path: str, text: str) -> list[tuple[int, set[int]]]:
    """The class of each finding, and its lines, from 1."""
    return [
        (int(each.evidence[0].removeprefix("CWE-")), {row + 1 for row in range(*each.lines)})
        for each in scan(Source.of(path, text), bundled())
        if each.lines and each.evidence
    ]


def _is_same(one: int, other: int) -> bool:
    return one == other or any({one, other} <= same for same in _SAME)
