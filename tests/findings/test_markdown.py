"""Findings as Markdown: what others wrote stays words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.findings.markdown import markdown_of
from vivace.findings.report import Located, Skipped
from vivace.syntax.finding import Finding


def said(words: str, line: str = "", path: str = "a.py", row: int = 0) -> Located:
    return Located(path, Finding("remark", words, words, "note", (row, row + 1)), line)


def test_findings_stand_by_file_in_the_order_of_the_lines() -> None:
    secret = Finding(
        "hard-coded-secret", "A secret.", "", "error", (2, 3), (0, 4), evidence=("CWE-798",)
    )
    found = [
        said("Second.", "y = `1`", row=9),
        Located("b.py", secret, "KEY = 'abc'"),
        said("First.", "x = 1  "),
    ]
    skipped = [Skipped("c.bin", "c.bin is not text.")]
    assert markdown_of(found, skipped, "## Review") == (
        "## Review\n\n"
        "### `a.py`\n\n"
        "- **line 1, note** (remark): First.\n"
        "  `x = 1`\n"
        "- **line 10, note** (remark): Second.\n"
        "  `` y = `1` ``\n\n"
        "### `b.py`\n\n"
        "- **line 3, error** (hard-coded-secret, CWE-798): A secret.\n\n"
        "### Not looked at\n\n"
        "- `c.bin`: c.bin is not text.\n"
    )


def test_nothing_found_is_nothing() -> None:
    assert markdown_of([]) == ""


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("![x](https://example.org/?q)", "`![x](https://example.org/?q)`"),
        ("![x](//example.org/?q)", "\\!\\[x\\](//example.org/?q)"),
        ("<img src=x> a & b", "\\<img src=x\\> a \\& b"),
        ("ask @somebody, see #12", "ask `@somebody,` see `#12`"),
        ("use `with` *now*", "use `with` \\*now\\*"),
        ("a ` b", "a \\` b"),
        ("one\n\n# two", "one \\# two"),
        ("\x1b[2J\u202e", "\ufffd\\[2J\ufffd"),
    ],
)
def test_what_others_wrote_stays_words(words: str, shown: str) -> None:
    assert f"(remark): {shown}\n" in markdown_of([said(words)])


@given(st.text(alphabet=st.sampled_from("`a \\<*\n")))
def test_no_code_closes_its_own_fence(line: str) -> None:
    *_, last = markdown_of([said("Words.", line)]).rstrip("\n").split("\n")
    if last.startswith("  `"):
        first, *inside, _ = re.findall("`+", last)
        assert all(len(run) < len(first) for run in inside)
