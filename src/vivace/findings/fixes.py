"""What a fix must pass before it is shown: a wrong one is worse than none.

It must be right code, the finding must be gone, no other may have come, and it may change nothing
but the statement the finding is in and the imports that needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tree_sitter import Node

from vivace.errors import EditError
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.syntax.languages import row_after
from vivace.syntax.source import Source

__all__ = ["why_not"]

_HOLDS_STATEMENTS = ("block", "_body", "suite", "compound_statement", "declaration_list")
"""How the kinds of nodes end that do."""


def why_not(before: Source, hunks: Sequence[Hunk], finding: Finding, rules: RuleSet) -> str | None:
    """Why a fix of this finding may not be shown; ``None`` if it may."""
    if before.language is None:
        return "The language of the file is not known, so the fix cannot be checked."
    if not hunks:
        return "The fix changes nothing."
    outside = _outside(before, hunks, finding)
    if outside is not None:
        return (
            f"The fix also changes line {outside + 1}, which is no part of the statement and no "
            "import."
        )
    try:
        after = before.edited(hunks)
    except EditError as error:
        return str(error)
    if after.text == before.text:
        return "The fix changes nothing."
    if after.tree.root_node.has_error and not before.tree.root_node.has_error:
        return f"The fix breaks the grammar at line {after.errors[0] + 1}."
    if len(after.errors) > len(before.errors):
        return "The fix breaks the grammar."
    return _still_found(scan(before, rules), scan(after, rules), finding)


def _still_found(
    before: Sequence[Finding], after: Sequence[Finding], finding: Finding
) -> str | None:
    """Counted by what they say, since what is below a fix may have moved."""
    had, has = Counter(map(_said, before)), Counter(map(_said, after))
    by_code = Counter(each.code for each in after)
    if by_code[finding.code] >= Counter(each.code for each in before)[finding.code]:
        return f"With the fix '{finding.code}' is still found."
    for (code, _), count in has.items():
        if code != finding.code and count > had[code, _]:
            return f"The fix brings a new finding: '{code}'."
    return None


def _said(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.person


def _outside(before: Source, hunks: Sequence[Hunk], finding: Finding) -> int | None:
    """A line that a fix of this finding must not change."""
    assert before.language is not None
    statement = _statement(before, finding)
    imports = [
        (node.start_point.row, row_after(node)) for node in before.nodes(before.language.imports)
    ]
    top = _first_code(before)
    for hunk in hunks:
        rows = range(hunk.start, hunk.end)
        for row in rows:
            if not _is_in(row, statement) and not any(_is_in(row, each) for each in imports):
                return row
        is_new = not rows  # lines are only put in
        if is_new and not statement[0] <= hunk.start <= statement[1]:
            beside = any(start <= hunk.start <= end for start, end in imports)
            if not beside and hunk.start > top:
                return hunk.start
            if not _are_imports(before, hunk.new):
                return hunk.start
    return None


def _are_imports(before: Source, lines: Sequence[str]) -> bool:
    assert before.language is not None
    added = Source("".join(lines), before.language)
    return all(node.type in before.language.imports or "comment" in node.type for node in added.top)


def _first_code(before: Source) -> int:
    """Where imports go in a file that has none: below what is said at its top."""
    assert before.language is not None
    for node in before.top:
        text = "string" in node.type or "comment" in node.type
        if not text and not (node.named_children and "string" in node.named_children[0].type):
            return node.start_point.row
    return len(before.lines)


def _statement(before: Source, finding: Finding) -> tuple[int, int]:
    """The lines of the statement that a finding is in."""
    if finding.lines is None:
        return 0, 0
    first, last = finding.lines
    column = finding.columns[0] if finding.columns else 0
    line = before.lines[first][:column] if first < len(before.lines) else ""
    at = first, len(line.encode("utf-8", "surrogatepass"))
    node: Node | None = before.tree.root_node.descendant_for_point_range(at, at)
    while node is not None and node.parent is not None and not _holds_statements(node.parent):
        node = node.parent
    if node is None or node.parent is None:
        return first, last
    return min(first, node.start_point.row), max(last, row_after(node))


def _holds_statements(node: Node) -> bool:
    return node.parent is None or node.type.endswith(_HOLDS_STATEMENTS)


def _is_in(row: int, rows: tuple[int, int]) -> bool:
    return rows[0] <= row < rows[1]
