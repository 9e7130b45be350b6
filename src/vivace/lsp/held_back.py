"""Which findings are shown while somebody types.

Whoever has written half a line knows that it is not right yet. So what is found on the line that is
being written waits until they leave it or pause, unless its rule says that nothing that follows
could make it right. Marks that come and go with every key are worse than none: what was marked on
this line stays marked as long as it is found there, and what was marked elsewhere until the line is
left, since half a line can keep what follows it from being read.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, shifted

__all__ = ["carried_over", "codes_kept", "lost_marks", "shown_while_writing", "touches"]


def touches(finding: Finding, first: int, after: int) -> bool:
    """Whether it stands on any of the lines from the first up to another."""
    if finding.lines is None:
        return False
    start, end = finding.lines
    return start < after and first < max(end, start + 1)


def shown_while_writing(
    findings: Sequence[Finding],
    writing: int | None,
    certain: Collection[str],
    kept: Collection[str],
) -> list[Finding]:
    """``writing`` is the line; on it, those of rules that are ``certain`` are shown, and those that
    are ``kept``: they were shown there before."""
    if writing is None:
        return list(findings)
    return [
        each
        for each in findings
        if each.code in certain or each.code in kept or not touches(each, writing, writing + 1)
    ]


def codes_kept(shown: Sequence[Finding], hunks: Sequence[Hunk], writing: int | None) -> set[str]:
    """The rules whose findings were shown where the line that is written now has come from."""
    if writing is None:
        return set()
    grown = 0
    for hunk in hunks:
        start = hunk.start + grown
        if writing < start:
            break
        if writing < start + len(hunk.new):
            return {each.code for each in shown if touches(each, hunk.start, hunk.end)}
        grown += len(hunk.new) - len(hunk.old)
    was = writing - grown
    return {each.code for each in shown if touches(each, was, was + 1)}


def carried_over(
    shown: Sequence[Finding], hunks: Sequence[Hunk], found: Sequence[Finding]
) -> list[Finding]:
    """What was shown, is found no more, and stands in lines that nobody touched: where these are
    now."""
    now = {(each.code, each.lines) for each in found}
    kept = []
    for each in shown:
        if each.lines is None or any(_is_near(each, hunk) for hunk in hunks):
            continue
        by = sum(len(hunk.new) - len(hunk.old) for hunk in hunks if hunk.end <= each.lines[0])
        lines = (each.lines[0] + by, each.lines[1] + by)
        if (each.code, lines) not in now:
            kept.append(replace(each, lines=lines, fix=tuple(shifted(each.fix, by))))
    return kept


def _is_near(finding: Finding, hunk: Hunk) -> bool:
    """In its lines or beside them, where a comment may speak of it."""
    return touches(finding, hunk.start - 1, hunk.end + 1)


def lost_marks(shown: Sequence[Finding], hunks: Sequence[Hunk]) -> bool:
    """Whether an edit touched what is marked: an editor may have lost the mark with the text."""
    return any(
        touches(each, hunk.start, max(hunk.end, hunk.start + 1)) for each in shown for hunk in hunks
    )
