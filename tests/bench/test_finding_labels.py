"""A fault is found on its line and as its class; any word about the mended file is an alarm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench._finding_labels import judged, same_class
from bench._finding_tools import Reported
from bench.finding_sets import Language, Pair

PAIR = Pair(id="py-1", language="python", cwe=78, line=(2, 3), vulnerable="a\nb\nc\n", fixed="a\n")
OTHER = Pair(id="go-1", language="go", cwe=78, line=1, vulnerable="a\n", fixed="b\n")


@dataclass(frozen=True)
class Says:
    """A program that says what it is told to."""

    said: tuple[Reported, ...]
    name: str = "says"
    languages: tuple[Language, ...] = ("python",)

    def lacks(self) -> str | None:
        return None

    def version(self) -> str:
        return "1"

    def found(self, folder: Path) -> Iterator[Reported]:
        assert (folder / "vulnerable/py-1.py").read_text() == PAIR.vulnerable
        assert (folder / "fixed/py-1.py").read_text() == PAIR.fixed
        yield from self.said


def at(first: int, last: int, *cwes: int) -> Reported:
    return Reported("vulnerable/py-1.py", first, last, frozenset(cwes))


@pytest.mark.parametrize(
    ("said", "found", "elsewhere"),
    [
        (at(3, 3, 78), True, False),
        (at(1, 2, 77), True, False),
        (at(2, 2), True, False),
        (at(1, 1, 78), False, True),
        (at(2, 2, 89), False, True),
    ],
)
def test_a_fault_is_found_by_line_and_class(said: Reported, found: bool, elsewhere: bool) -> None:
    (result,) = judged(Says((said,)), [PAIR, OTHER])
    assert (result.found, result.elsewhere, result.alarm) == (found, elsewhere, False)


def test_whatever_is_said_of_the_mended_file_is_an_alarm() -> None:
    (result,) = judged(Says((Reported("fixed/py-1.py", 1, 1),)), [PAIR])
    assert (result.found, result.alarm) == (False, True)


def test_some_numbers_are_one_class() -> None:
    assert same_class(22, 73)
    assert same_class(89, 89)
    assert not same_class(78, 89)
