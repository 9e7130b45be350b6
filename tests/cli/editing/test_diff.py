"""Diffs as they are shown, hunk by hunk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vivace.cli.editing.diff import GrowingDiff, coloured, grouped
from vivace.edits.diff import between
from vivace.syntax.hunk import Hunk

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
texts = st.lists(st.sampled_from("abcdefgh"), max_size=40).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


def shown(text: str, hunks: list[Hunk]) -> list[str]:
    diff = GrowingDiff(text)
    return [line for hunk in hunks for line in diff.add(hunk)] + list(diff.end())


def test_what_follows_a_hunk_waits_until_it_is_sure_to_stay() -> None:
    diff = GrowingDiff(TEXT)
    first = list(diff.add(Hunk(9, ("line 10\n",), ("ten\n",))))
    assert first == ["@@ line 10 @@", " line 7", " line 8", " line 9", "-line 10", "+ten"]
    near = list(diff.add(Hunk(12, ("line 13\n",), ())))
    assert near == [" line 11", " line 12", "-line 13"]
    far = list(diff.add(Hunk(25, (), ("new\n",))))
    assert far[:4] == [" line 14", " line 15", " line 16", "@@ line 26 @@"]
    assert list(diff.end()) == [" line 26", " line 27", " line 28"]


@given(texts, texts)
def test_every_change_is_shown_once_and_in_order(old: str, new: str) -> None:
    hunks = between(old, new)
    lines = shown(old, hunks)
    assert [line[1:] + "\n" for line in lines if line[0] == "-"] == [
        line for hunk in hunks for line in hunk.old
    ]
    assert [line[1:] + "\n" for line in lines if line[0] == "+"] == [
        line for hunk in hunks for line in hunk.new
    ]


@given(texts, texts)
def test_what_stays_and_what_goes_is_the_old_text_without_gaps_inside_a_group(
    old: str, new: str
) -> None:
    for group in grouped(between(old, new)):
        lines = shown(old, group)
        assert sum(line.startswith("@@") for line in lines) == 1
        seen = "".join(line[1:] + "\n" for line in lines if line[0] in " -")
        assert seen in old


@given(texts, texts)
def test_groups_are_all_hunks(old: str, new: str) -> None:
    hunks = between(old, new)
    assert [hunk for group in grouped(hunks) for hunk in group] == hunks


def test_a_line_is_coloured_by_what_becomes_of_it() -> None:
    assert coloured("+new") == "\x1b[32m+new\x1b[0m"
    assert coloured("-old").startswith("\x1b[31m")
    assert "\x1b[3" not in coloured(" kept")
