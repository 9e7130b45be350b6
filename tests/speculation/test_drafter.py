"""Drafts from the text being edited: right where it is copied, harmless where it is not."""

from __future__ import annotations

import random
import re
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.files import commits
from vivace.speculation.drafter import Drafter
from vivace.speculation.pace import Pace

tokens = st.lists(st.integers(0, 9), max_size=60)


def steps(
    old: list[int], new: list[int], width: int = 64, pace: Pace | None = None
) -> tuple[int, int]:
    """Play an engine that writes ``new``: how many steps it takes, how many tokens it checks."""
    drafter = Drafter(old)
    done = count = checked = 0
    while done < len(new):
        [most] = pace.lengths([drafter.chance()], 0, width) if pace else [width]
        draft = drafter.draft(most)
        right = 0
        while right < len(draft) and done + right < len(new) and draft[right] == new[done + right]:
            right += 1
        count += 1
        checked += len(draft) + 1
        drafter.write(new[done : done + right + 1])
        done += right + 1
    return count, checked


@given(st.lists(st.integers(0, 9), min_size=1, max_size=200), st.integers(1, 64))
def test_a_copy_is_drafted_whole(old: list[int], width: int) -> None:
    count, _ = steps(old, old, width)
    assert count == -(-len(old) // (width + 1))


@given(tokens, tokens, st.integers(0, 20))
def test_a_draft_is_never_longer_than_asked(old: list[int], new: list[int], most: int) -> None:
    drafter = Drafter(old)
    drafter.write(new)
    draft = drafter.draft(most)
    assert len(draft) <= most
    assert set(draft) <= {*old, *new}


@given(tokens, tokens, st.lists(st.integers(1, 5), max_size=60))
def test_it_does_not_matter_in_which_pieces_the_answer_came(
    old: list[int], new: list[int], cuts: list[int]
) -> None:
    whole, pieces = Drafter(old), Drafter(old)
    whole.write(new)
    start = 0
    for cut in [*cuts, len(new)]:
        pieces.write(new[start : start + cut])
        start += cut
    pieces.write(new[start:])
    assert whole.draft(16) == pieces.draft(16)


@given(tokens)
def test_without_old_text_there_is_nothing_to_lose(new: list[int]) -> None:
    count, checked = steps([], new)
    assert count <= len(new)
    assert checked <= 65 * max(1, len(new))
    assert Drafter([]).draft(64) == []


def test_behind_an_insertion_it_finds_its_place_again() -> None:
    old = list(range(200))
    new = [*old[:50], *range(900, 930), *old[50:]]
    count, _ = steps(old, new)
    assert count <= 30 + 8


def test_behind_a_deletion_it_finds_its_place_again() -> None:
    old = list(range(200))
    count, _ = steps(old, [*old[:50], *old[65:]])
    assert count <= 6


def test_a_moved_block_is_followed() -> None:
    old = list(range(300))
    count, _ = steps(old, [*old[200:], *old[:200]])
    assert count <= 14


def test_a_renamed_name_costs_little_where_it_comes_again() -> None:
    line = [1, 2, 3, 7, 4, 5, 6]
    old = [token for number in range(30) for token in (*line, 100 + number)]
    new = [8 if token == 7 else token for token in old]
    count, checked = steps(old, new, pace=Pace())
    assert count <= 2 * 30
    assert checked <= 4 * len(new)


def test_a_patch_that_quotes_lines_is_mostly_drafted() -> None:
    lines = [[1000 + 10 * number + place for place in range(8)] for number in range(40)]
    old = [token for line in lines for token in line]
    removed, added, kept = 1, 2, 3
    patch = [*(t for line in lines[5:8] for t in (kept, *line)), removed, *lines[8], added]
    patch += [*range(900, 908), *(t for line in lines[9:12] for t in (kept, *line))]
    count, _ = steps(old, patch, pace=Pace())
    assert count <= len(patch) // 2


def test_where_drafts_keep_failing_next_to_nothing_is_drafted() -> None:
    old = list(range(100)) * 3
    dice = random.Random(5)
    new = [dice.randrange(100) for _ in range(400)]
    count, checked = steps(old, new, pace=Pace())
    assert checked - count < 0.9 * len(new)
    _, at_first = steps(old, new[:30], pace=Pace())
    assert checked / len(new) < at_first / 30


def test_where_copying_begins_late_drafts_grow_again() -> None:
    dice = random.Random(5)
    old = list(range(1000, 2000))
    new = [dice.randrange(1000, 2000) for _ in range(200)] + old[:600]
    count, _ = steps(old, new, pace=Pace())
    assert count < 200 + 60


@pytest.mark.release
def test_real_commits_are_mostly_copied() -> None:
    """Words and signs stand for tokens here; a real tokenizer cuts finer, and does no worse."""
    per_step, per_token = [], []
    numbers: dict[str, int] = {}
    pace = Pace()

    def cut(text: str) -> list[int]:
        parts = re.findall(r"\w+|\s+|[^\w\s]", text)
        return [numbers.setdefault(part, len(numbers)) for part in parts]

    for row in commits():
        old, new = cut(row["before"]), cut(row["after"])
        if 300 <= len(new) <= 2000:
            count, checked = steps(old, new, pace=pace)
            per_step.append(len(new) / count)
            per_token.append(checked / len(new))
    assert len(per_step) > 50
    assert median(per_step) > 20
    assert median(per_token) < 1.3
