"""A rewritten region becomes hunks while it is written, the same ones however it arrives."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.files import commits
from vivace.edits.diff import between, changes
from vivace.edits.rewrite import Rewrite
from vivace.syntax.hunk import Hunk, apply
from vivace.syntax.lines import lines_of

OLD = """\
def total(items):
    result = 0
    for item in items:
        result += item.price
    return result


def mean(items):
    if not items:
        return 0
    return total(items) / len(items)
"""

lines = st.lists(
    st.sampled_from(
        ["", "}", "a = 1", "  b = 2", "the_long_line_that_stands_once(of, many)", "x", "  # note"]
    ),
    max_size=20,
)
regions = st.tuples(lines, st.sampled_from(["\n", "\r\n"]), st.booleans()).map(
    lambda made: made[1].join(made[0]) + (made[1] if made[2] and made[0] else "")
)


def read(old: str, answer: str, cuts: list[int] | None = None) -> list[Hunk]:
    rewrite = Rewrite(old)
    hunks: list[Hunk] = []
    start = 0
    for cut in cuts or []:
        hunks += rewrite.feed(answer[start : start + cut])
        start += cut
    hunks += rewrite.feed(answer[start:])
    return hunks + rewrite.finish()


def bare(text: str) -> list[str]:
    """What a rewrite promises to keep: all but space at the ends of lines and of the region."""
    found = [line.rstrip() for line in lines_of(text)]
    while found and not found[-1]:
        found.pop()
    return found


@given(regions, lines)
def test_the_hunks_turn_the_region_into_the_answer(old: str, new: list[str]) -> None:
    new = ["start", *new]  # at the margin, so that nothing has to be moved there
    answer = "```\n" + "".join(line + "\n" for line in new) + "```\n"
    old = "start\n" + old
    assert bare(apply(old, read(old, answer))) == bare("\n".join(new))


@given(regions, lines, st.lists(st.integers(1, 9), max_size=60))
def test_it_does_not_matter_in_which_pieces_the_answer_came(
    old: str, new: list[str], cuts: list[int]
) -> None:
    answer = "Here:\n```python\n" + "\n".join(new) + "\n```\nDone."
    assert read(old, answer, cuts) == read(old, answer)


@given(regions)
def test_a_copy_changes_nothing(old: str) -> None:
    old = "start\n" + old
    assert read(old, f"```\n{old}\n```") == []


def test_a_hunk_is_out_as_soon_as_old_lines_follow_it() -> None:
    rewrite = Rewrite(OLD)
    answer = OLD.replace("result = 0", "result = 0.0")
    seen: list[tuple[int, Hunk]] = []
    for number, line in enumerate(lines_of("```python\n" + answer + "```\n")):
        seen += [(number, hunk) for hunk in rewrite.feed(line)]
    assert [hunk for _, hunk in seen] == [Hunk(1, ("    result = 0\n",), ("    result = 0.0\n",))]
    assert seen[0][0] == 3
    assert rewrite.finish() == []
    assert rewrite.whole


def test_one_line_settles_what_was_put_in_before_it_though_it_stands_there_twice() -> None:
    rewrite = Rewrite("a\nreturn x\nb\nreturn x\n")
    assert rewrite.feed("```\na\nnew\n") == []
    assert rewrite.feed("return x\n") == [Hunk(1, (), ("new\n",))]


def test_a_line_alone_settles_if_it_says_enough_for_what_it_leaves_out() -> None:
    gone = "".join(f"gone{number}\n" for number in range(4))
    for line, settles in (("short", False), ("a_line_that_says_enough", True)):
        rewrite = Rewrite(f"a\nb\n{gone}{line}\nc\n")
        assert rewrite.feed("```\na\nB\n") == []
        assert bool(rewrite.feed(f"{line}\n")) is settles


def test_brackets_and_empty_lines_settle_nothing_alone() -> None:
    rewrite = Rewrite("a\nb\n}\n\nc\n")
    assert rewrite.feed("```\na\nB\n}\n\n") == []
    assert rewrite.feed("c\n") == [Hunk(1, ("b\n",), ("B\n",))]


def test_a_method_comes_back_with_its_margin() -> None:
    old = "    def f(self):\n        return 1\n"
    new = "    def f(self):\n        return 2\n"
    for answer in ("```\ndef f(self):\n    return 2\n```", f"```\n{new}```"):
        assert apply(old, read(old, answer)) == new


def test_a_line_put_in_after_an_unfinished_last_line_is_not_glued_to_it() -> None:
    assert apply("a\nb", read("a\nb", "```\na\nb\nc\n```")) == "a\nb\nc"


def test_line_ends_and_space_at_the_end_of_lines_stay_as_they_were() -> None:
    old = "a  \r\nb\r\nc\r\n"
    assert apply(old, read(old, "```\na\nx\nc\n```")) == "a  \r\nx\r\nc\r\n"


def test_an_answer_that_was_cut_off_is_told() -> None:
    rewrite = Rewrite(OLD)
    rewrite.feed("```python\ndef total(items):\n")
    rewrite.finish()
    assert not rewrite.whole


@pytest.mark.release
def test_of_several_hunks_the_first_is_out_before_half_of_the_answer() -> None:
    """Real commits; the committed text as the answer, line by line."""
    shares = [
        share_at_first_hunk(edit["before"], edit["after"])
        for edit in commits()
        if len(between(edit["before"], edit["after"])) > 1
    ]
    assert len(shares) > 100
    assert statistics.median(shares) < 0.5


@pytest.mark.release
def test_a_hunk_mostly_appears_with_the_line_after_it() -> None:
    """Real commits; how many lines after its own each hunk is out."""
    late = sorted(each for edit in commits() for each in waits(edit["before"], edit["after"]))
    assert len(late) > 500
    assert late[len(late) // 2] == 1
    assert late[len(late) * 9 // 10] <= 3


def waits(old: str, new: str) -> list[int]:
    before, after = ([line.rstrip() for line in lines_of(text)] for text in (old, new))
    rewrite = Rewrite(old)
    shown: list[tuple[int, Hunk]] = []
    for number, line in enumerate(["```\n", *lines_of(new)]):
        shown += [(number, hunk) for hunk in rewrite.feed(line)]
    shown += [(len(after), hunk) for hunk in rewrite.finish()]
    return [
        max(0, min(n for n, hunk in shown if hunk.start <= b and hunk.end >= a) - d)
        for a, b, _, d in changes(before, after)
        if any(hunk.start <= b and hunk.end >= a for _, hunk in shown)
    ]


def share_at_first_hunk(old: str, new: str) -> float:
    rewrite = Rewrite(old)
    said = 0
    for line in lines_of(new):
        said += len(line)
        if rewrite.feed(line):
            break
    return said / len(new)
