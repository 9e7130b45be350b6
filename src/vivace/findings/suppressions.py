"""Comments that say why a finding is no matter: ``vivace: ignore[rule-id] reason``.

On the line itself or alone on the line before. A reason is needed: who reads the code next wants to
know it, and what cannot be explained should not be silenced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from tree_sitter import Point

from vivace.syntax.finding import Finding
from vivace.syntax.source import Source

__all__ = ["WITHOUT_REASON", "Suppression", "Suppressions"]

WITHOUT_REASON = "suppression-without-reason"
_MARK = "vivace: ignore"
_COMMENT = re.compile(r"vivace: ignore(?:\[([^\]\n]*)\])?[ \t:-]*([^\n]*)")
_ENDS = ("*/", "-->")


class Suppression(Struct, frozen=True):
    row: int
    """Of the comment."""
    columns: tuple[int, int]
    rules: frozenset[str]
    """By id; empty: the comment names none, and suppresses none."""
    reason: str
    about: int
    """The line it is about."""

    @property
    def is_explained(self) -> bool:
        return bool(self.rules and self.reason)

    def silences(self, finding: Finding) -> bool:
        """A finding of several lines may have it on its first or its last."""
        if finding.lines is None or finding.code not in self.rules or not self.is_explained:
            return False
        return self.about in (finding.lines[0], finding.lines[1] - 1)


class Suppressions:
    def __init__(self, found: Sequence[Suppression]) -> None:
        self.found = tuple(found)

    @classmethod
    def of(cls, source: Source) -> Suppressions:
        if _MARK not in source.text or source.language is None:
            return cls(())
        return cls([each for row in range(len(source.lines)) for each in _in_line(source, row)])

    def applied(self, findings: Iterable[Finding]) -> list[Finding]:
        """Those that no comment suppresses, and the comments that say no reason or name no rule."""
        if not self.found:
            return list(findings)
        kept = [each for each in findings if not any(one.silences(each) for one in self.found)]
        kept += [_unexplained(each) for each in self.found if not each.is_explained]
        kept.sort(key=lambda each: (each.lines or (-1, -1), each.columns or (0, 0), each.code))
        return kept


def _in_line(source: Source, row: int) -> Iterator[Suppression]:
    line = source.lines[row]
    match = _COMMENT.search(line) if _MARK in line else None
    if match is None:
        return
    start = len(line[: match.start()].encode("utf-8", "surrogatepass"))
    node = source.tree.root_node.descendant_for_point_range((row, start), (row, start + 1))
    if node is None or "comment" not in node.type:  # it stands in a string, say
        return
    rules = frozenset(name.strip() for name in (match.group(1) or "").split(",") if name.strip())
    reason = match.group(2).strip()
    for end in _ENDS:
        reason = reason.removesuffix(end).strip()
    yield Suppression(
        row, (match.start(), match.end()), rules, reason, _about(source, row, node.start_point)
    )


def _about(source: Source, row: int, start: Point) -> int:
    """A comment that is alone on its line is about the next that is not one."""
    assert source.language is not None
    if source.lines[start.row].encode("utf-8", "surrogatepass")[: start.column].strip():
        return row
    for after in range(row + 1, len(source.lines)):
        line = source.lines[after].strip()
        if line and not line.startswith((source.language.comment, "*", "/*")):
            return after
    return row


def _unexplained(suppression: Suppression) -> Finding:
    what = "says no reason" if suppression.rules else "names no rule"
    how = "'vivace: ignore[rule-id] why it is no matter here'"
    return Finding(
        WITHOUT_REASON,
        f"This comment would suppress a finding, but {what}, so it does nothing. Write {how}.",
        f"Write the comment as {how}.",
        severity="warning",
        lines=(suppression.row, suppression.row + 1),
        columns=suppression.columns,
    )
