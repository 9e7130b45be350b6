"""An edit survives the person's own typing, or is handed back; no text is ever lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from vivace.edits.diff import between
from vivace.edits.rebase import Conflict, Rebased, rebase
from vivace.syntax.hunk import Hunk, apply
from vivace.syntax.lines import lines_of

BASE = "".join(f"line {n}\n" for n in range(10))

lines = st.lists(st.sampled_from(["a", "b", "c", "}", ""]), max_size=12)
texts = st.tuples(lines, st.booleans()).map(
    lambda made: "\n".join(made[0]) + ("\n" if made[1] and made[0] else "")
)


@st.composite
def changed(draw: st.DrawFn, base: str) -> str:
    """The base after some typing: lines put in, taken out and changed."""
    found = lines_of(base)
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(found)))
        end = draw(st.integers(start, min(len(found), start + 2)))
        found[start:end] = [
            f"{word}\n" for word in draw(st.lists(st.sampled_from("xyzab"), max_size=2))
        ]
    return "".join(found)


@st.composite
def triples(draw: st.DrawFn) -> tuple[str, str, str]:
    base = draw(st.one_of(texts, st.just(BASE)))
    return base, draw(st.one_of(changed(base), texts)), draw(st.one_of(changed(base), texts))


@settings(max_examples=examples(400))
@given(triples())
def test_both_edits_hold_in_either_order_or_a_conflict_is_told(made: tuple[str, str, str]) -> None:
    base, model, person = made
    ours, theirs = between(base, model), between(base, person)
    onto_person, onto_model = rebase(ours, base, person), rebase(theirs, base, model)
    assert bool(onto_person.conflicts) == bool(onto_model.conflicts)
    if not onto_person.conflicts:
        assert apply(person, onto_person.hunks) == apply(model, onto_model.hunks)


@given(triples())
def test_no_hunk_and_no_typed_line_is_lost(made: tuple[str, str, str]) -> None:
    base, model, person = made
    ours, theirs = between(base, model), between(base, person)
    rebased = rebase(ours, base, person)
    handed_back = [conflict.hunk for conflict in rebased.conflicts]
    assert all(conflict.theirs for conflict in rebased.conflicts)
    same = [hunk for hunk in ours if hunk in theirs]
    assert len(rebased.hunks) + len(handed_back) + len(same) >= len(ours)
    assert {(hunk.old, hunk.new) for hunk in ours} == {
        (hunk.old, hunk.new) for hunk in [*rebased.hunks, *handed_back, *same]
    }
    result = lines_of(apply(person, rebased.hunks))
    for hunk in theirs:
        assert all(line in result for line in hunk.new)


@given(triples())
def test_what_is_carried_over_fits_the_text_as_it_is_now(made: tuple[str, str, str]) -> None:
    base, model, person = made
    rebased = rebase(between(base, model), base, person)
    apply(person, rebased.hunks)  # would refuse


def test_lines_typed_above_move_the_edit_down() -> None:
    hunk = Hunk(5, ("line 5\n",), ("five\n",))
    assert rebase([hunk], BASE, "new\n" + BASE) == Rebased((Hunk(6, hunk.old, hunk.new),))


def test_typing_in_the_same_line_is_a_conflict_that_shows_both_sides() -> None:
    hunk = Hunk(5, ("line 5\n",), ("five\n",))
    now = BASE.replace("line 5", "line 55")
    assert rebase([hunk], BASE, now) == Rebased(
        (), (Conflict(hunk, (Hunk(5, ("line 5\n",), ("line 55\n",)),)),)
    )


def test_one_conflict_does_not_stop_the_other_hunks() -> None:
    hunks = [Hunk(2, ("line 2\n",), ("two\n",)), Hunk(5, ("line 5\n",), ("five\n",))]
    rebased = rebase(hunks, BASE, BASE.replace("line 5", "line 55"))
    assert rebased.hunks == (hunks[0],)
    assert [conflict.hunk for conflict in rebased.conflicts] == [hunks[1]]


def test_what_the_person_typed_themselves_is_done_already() -> None:
    hunk = Hunk(5, ("line 5\n",), ("five\n",))
    assert rebase([hunk], BASE, BASE.replace("line 5", "five")) == Rebased(())


def test_lines_put_in_at_the_same_place_are_a_conflict() -> None:
    hunk = Hunk(5, (), ("model\n",))
    now = BASE.replace("line 5\n", "person\nline 5\n")
    assert [conflict.hunk for conflict in rebase([hunk], BASE, now).conflicts] == [hunk]


def test_a_line_is_never_glued_to_an_unfinished_one() -> None:
    hunk = Hunk(10, (), ("line 10\n",))
    rebased = rebase([hunk], BASE, BASE.removesuffix("\n"))
    assert [conflict.hunk for conflict in rebased.conflicts] == [hunk]
