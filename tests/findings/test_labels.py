"""On the labelled pairs that rules are tuned on, they find what is there and nothing else.

That says nothing of code that nobody has looked at; for that there is a set that is held out.
"""

from __future__ import annotations

import pytest
from bench._finding_labels import SETS, Ours, judged
from bench.finding_sets import LANGUAGES, read

_PAIRS = read(SETS / "tuning")


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_fault_is_found_and_what_is_mended_is_left_alone(language: str) -> None:
    pairs = [each for each in _PAIRS if each.language == language]
    found = judged(Ours(), pairs)
    assert len(found) == len(pairs) > 0
    assert [each.pair.id for each in found if not each.found] == []
    assert [each.pair.id for each in found if each.alarm] == []
