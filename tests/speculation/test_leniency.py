"""Old code is believed behind the first change, where the place is sure, and never twice."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.speculation.cursor import Cursor
from vivace.speculation.drafter import Drafter
from vivace.speculation.leniency import Leniency, Terms, named_words

code = st.lists(st.integers(0, 40), min_size=1, max_size=80)
seeds = st.integers(0, 2**32)


@st.composite
def rewrites(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Old code, and an answer made of long pieces of it, in any order, and new tokens between."""
    old = draw(st.lists(st.integers(0, 40), min_size=20, max_size=80))
    place, new = 0, list[int]()
    for _ in range(draw(st.integers(1, 6))):
        end = draw(st.integers(place, len(old)))
        new += old[place:end]
        new += draw(st.lists(st.integers(0, 41), max_size=3))
        place = draw(st.sampled_from([end, end, min(end + 1, len(old)), end // 2, 0]))
    return old, new + old[place:]


BREAKS = frozenset({0, 3, 13, 23, 33, 53})


def terms(old: Sequence[int], nats: float = 4.0, openings: frozenset[int] = frozenset()) -> Terms:
    return Terms(nats=nats, end=len(old), breaks=BREAKS, openings=openings)


class Model:
    """Mostly copies, with margins as small as those of real damage; the same after the same."""

    def __init__(self, old: Sequence[int], seed: int) -> None:
        self._old, self._seed = old, seed

    def scores(self, written: Sequence[int]) -> list[float]:
        cursor = Cursor(self._old)
        for token in written:
            cursor.write(token)
        dice = random.Random(f"{self._seed} {list(written)}")
        found = [dice.uniform(0, 6) for _ in range(42)]
        if cursor.place < len(self._old):
            found[self._old[cursor.place]] += dice.choice([2] + [8] * 9)
        return found


def answer(
    model: Model, old: Sequence[int], given: Terms | None, widths: Iterable[int], length: int = 60
) -> list[int]:
    """Play an engine that verifies drafts of these lengths."""
    drafter, written = Drafter(old), list[int]()
    leniency = Leniency(old, given) if given else None
    for width in widths:
        draft = drafter.draft(width)
        wanted = leniency.along(draft) if leniency else [None] * (len(draft) + 1)
        new: list[int] = []
        for place, preferred in enumerate(wanted):
            scores = model.scores([*written, *new])
            if preferred is not None and given:
                scores[preferred] += given.nats
            new.append(scores.index(max(scores)))
            if place == len(draft) or new[-1] != draft[place]:
                break
        drafter.write(new)
        if leniency:
            leniency.write(new)
        written += new
        if len(written) >= length:
            return written[:length]
    raise AssertionError("the widths did not suffice")


@given(code, seeds, st.lists(st.integers(0, 20), min_size=1, max_size=9))
def test_the_answer_does_not_depend_on_how_much_is_drafted(
    old: list[int], seed: int, widths: list[int]
) -> None:
    model = Model(old, seed)
    plain = answer(model, old, terms(old), cycle([0]))
    assert answer(model, old, terms(old), cycle(widths)) == plain


@given(code, seeds)
def test_nothing_given_changes_nothing(old: list[int], seed: int) -> None:
    model = Model(old, seed)
    assert answer(model, old, terms(old, nats=0), cycle([5])) == answer(
        model, old, None, cycle([5])
    )


@given(code, code)
def test_until_the_answer_leaves_the_old_text_nothing_is_preferred(
    old: list[int], draft: list[int]
) -> None:
    leniency = Leniency(old, terms(old))
    for token in old:
        assert leniency.preferred() is None
        assert leniency.along(draft)[0] is None
        leniency.write([token])
    assert leniency.along(old) == [None] * (len(old) + 1)


@given(rewrites())
def test_a_place_that_was_written_or_left_is_not_preferred_again(
    rewrite: tuple[list[int], list[int]],
) -> None:
    old, new = rewrite
    leniency, cursor = Leniency(old, terms(old)), Cursor(old)
    decided: set[int] = set()
    for token in new:
        preferred = leniency.preferred()
        if preferred is not None:
            assert preferred == cursor.next()
            assert cursor.place not in decided
            decided.add(cursor.place)
        leniency.write([token])
        cursor.write(token)


@given(rewrites(), st.frozensets(st.integers(0, 40)), st.integers(0, 80))
def test_named_tokens_and_the_closing_fence_are_never_preferred(
    rewrite: tuple[list[int], list[int]], free: frozenset[int], end: int
) -> None:
    old, new = rewrite
    bounds = Terms(nats=4, end=min(end, len(old)), free=free, breaks=BREAKS)
    leniency, cursor = Leniency(old, bounds), Cursor(old)
    for token in new:
        if leniency.preferred() is not None:
            assert leniency.preferred() not in free
            assert cursor.place < bounds.end
        leniency.write([token])
        cursor.write(token)


@given(rewrites(), st.integers(0, 200))
def test_to_look_ahead_along_a_draft_commits_to_nothing(
    rewrite: tuple[list[int], list[int]], cut: int
) -> None:
    old, new = rewrite
    looked, straight = Leniency(old, terms(old)), Leniency(old, terms(old))
    for token in new[:cut]:
        looked.along(new)
        looked.write([token])
        straight.write([token])
    found = looked.along(new[cut:])
    for token in new[cut:]:
        assert found.pop(0) == straight.preferred()
        straight.write([token])
    assert found == [straight.preferred()]


OLD = list(range(100))


def after(*written: int, openings: frozenset[int] = frozenset()) -> Leniency:
    leniency = Leniency(OLD, terms(OLD, openings=openings))
    leniency.write(written)
    return leniency


def test_behind_the_first_change_old_text_is_preferred_from_the_next_line_on() -> None:
    changed = (*OLD[:10], 500)
    assert after(*changed, *OLD[11:13]).preferred() is None
    assert after(*changed, *OLD[11:14]).preferred() is None, "the indentation of the next"
    assert after(*changed, *OLD[11:15]).preferred() == 15


def test_what_was_written_is_not_preferred_a_second_time() -> None:
    changed = (*OLD[:10], 500, *OLD[11:40])
    assert after(*changed).preferred() == 40
    assert after(*changed, 501, *OLD[11:30]).preferred() is None
    assert after(*changed, 501, *OLD[24:40]).preferred() is None, "it was left"


def test_four_tokens_must_fit() -> None:
    replaced = (*OLD[:10], 500, 501)
    assert after(*replaced, *OLD[13:16]).preferred() is None
    assert after(*replaced, *OLD[13:17]).preferred() == 17


def test_behind_a_jump_ahead_twelve_must() -> None:
    jumped = (*OLD[:10], 500)
    assert after(*jumped, *OLD[50:61]).preferred() is None
    assert after(*jumped, *OLD[50:62]).preferred() == 62


def test_a_line_that_is_indented_anew_leaves_the_next_free_to_be_so_too() -> None:
    indented = (*OLD[:4], 500, *OLD[4:14])
    assert after(*indented).preferred() is None
    assert after(*indented, 501, *OLD[14:24]).preferred() is None
    assert after(*indented, *OLD[14:16]).preferred() == 16


def test_what_was_skipped_is_preferred_when_the_answer_comes_back_to_it() -> None:
    moved = (*OLD[:10], 500, *OLD[50:70])
    assert after(*moved, *OLD[21:27]).preferred() == 27


def test_an_import_that_is_added_is_not_yet_the_change() -> None:
    added = (*OLD[:5], 700, 701, 3)
    assert after(*added, *OLD[5:20]).preferred() == 20
    assert after(*added, *OLD[5:20], openings=frozenset({700})).preferred() is None
    changed = (*added, *OLD[5:20], 500, *OLD[21:28])
    assert after(*changed, openings=frozenset({700})).preferred() == 28


def test_words_before_the_code_are_not_yet_the_change() -> None:
    assert after(900, 901, 902, *OLD[:20]).preferred() is None


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("rename `load` to `read_text`", {"load", "read_text"}),
        ("Give fetch() a timeout of 30 seconds", {"fetch", "30"}),
        ("use os.path, not pathlib.", {"os", "path"}),
        ('answer "not found" then', {"not", "found"}),
        ("don't use maxSize, it's MAX now", {"maxSize", "MAX"}),
        ("Make it simpler. Then stop.", set()),
    ],
)
def test_words_that_look_like_code_are_told_from_prose(instruction: str, words: set[str]) -> None:
    assert named_words(instruction) == words
