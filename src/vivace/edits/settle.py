"""Undoing what a model changed without being asked: space, line ends, empty lines, comments.

Nothing here looks at what the code means. It compares the answer with the old text, and where the
two differ by noise alone the old text stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from vivace.edits.diff import between, changes
from vivace.syntax.hunk import Hunk, apply
from vivace.syntax.languages import Language, row_after
from vivace.syntax.lines import dedented, line_end, lines_of, margin_of
from vivace.syntax.source import Source

__all__ = ["about_comments", "about_layout", "keep_comments", "settle"]

_LAYOUT = re.compile(
    r"\b(indent\w*|dedent\w*|whitespace|blank lines?|empty lines?|newlines?|line (?:ends|endings?)|"
    r"crlf|tabs?|spaces|(?:re)?format(?:ting)? (?:the|this|it)\b|black|prettier|gofmt)\b",
    re.IGNORECASE,
)


_COMMENTS = re.compile(
    r"\b(comments?|commented|docs?|docstrings?|document\w*|explain\w*|describ\w*|clarif\w*|todo|"
    r"fixme|notes?|licen[cs]e|copyright|header|annotat\w*|typos?|spelling|pragma|noqa|jsdoc|"
    r"imports?|includes?|unused|dead|remov\w*|delet\w*|strip\w*|clean\w*)\b",
    re.IGNORECASE,
)

_MARKS = "#/*-! \t\r\n"
"""What makes a comment of a line of code, and space."""


def about_comments(instruction: str) -> bool:
    """Whether comments, docstrings or imports may be what is to change."""
    return bool(_COMMENTS.search(instruction))


def about_layout(instruction: str) -> bool:
    """Whether what is noise otherwise may be what is asked."""
    return bool(_LAYOUT.search(instruction))


def settle(old: str, new: str) -> str:
    """The new text without the noise."""
    before = lines_of(old)
    after = _reindented(before, lines_of(new))
    after = _edges(before, after)
    after = _kept(before, after)
    return _ended(before, after)


def keep_comments(old: str, new: str, language: Language) -> str:
    """The new text with the old comments where nothing but comments was changed.

    Small models sign their work ("# Added type hints") and drop what they take for clutter:
    remarks, docstrings, the head of a file. What stands elsewhere now was not dropped.
    """
    was, comes = Source(old, language), Source(new, language)
    before, after = _comment_rows(was), _comment_rows(comes)
    grown = 0
    code: list[Hunk] = []
    noise: list[Hunk] = []
    for hunk in between(old, new):
        start = hunk.start + grown
        grown += len(hunk.new) - len(hunk.old)
        remarks = before.issuperset(range(hunk.start, hunk.end)) and after.issuperset(
            range(start, start + len(hunk.new))
        )
        (noise if remarks else code).append(hunk)
    come = _bare(line for hunk in code for line in hunk.new)
    rows = {row for row in before | _clutter_rows(was) if come.isdisjoint(_bare([was.lines[row]]))}
    kept = [_keeping_head(hunk, rows, language) for hunk in code]
    gone = _bare(line for hunk in kept for line in hunk.old)
    kept += [hunk for hunk in noise if come & _bare(hunk.old) or gone & _bare(hunk.new)]
    return apply(old, sorted(kept, key=lambda hunk: hunk.start)) if kept else new


def _bare(lines: Iterable[str]) -> set[str]:
    """Lines that hold something, without their margin, and without the mark of a comment: it may
    have become code."""
    return {line.strip(_MARKS) for line in lines} - {""}


def _keeping_head(hunk: Hunk, rows: set[int], language: Language) -> Hunk:
    """A hunk that puts code in the place of comments and code, without the comments."""
    added = Source("".join(hunk.new), language)
    if _clutter_rows(added) | _remarks(added):
        return hunk
    start = hunk.start
    while start < hunk.end and start in rows:
        start += 1
    if not any(line.strip() for line in hunk.old[: start - hunk.start]):
        return hunk
    return Hunk(start, hunk.old[start - hunk.start :], hunk.new)


def _remarks(source: Source) -> set[int]:
    """The rows of comments that hold something."""
    return {row for row in _comment_rows(source) if source.lines[row].strip()}


def _clutter_rows(source: Source) -> set[int]:
    """The rows of imports and docstrings."""
    assert source.language is not None
    imports = source.language.imports
    rows: set[int] = set()
    for node in source.nodes(imports | {"expression_statement"}):
        string = [child.type for child in node.named_children] == ["string"]
        if string or node.type in imports:
            rows.update(range(node.start_point.row, row_after(node)))
    return rows


def _comment_rows(source: Source) -> set[int]:
    """The lines that hold nothing but a comment, or nothing at all."""
    lines = source.lines
    rows = {row for row, line in enumerate(lines) if not line.strip()}
    for node in source.nodes(("comment", "line_comment", "block_comment")):
        first = node.start_point
        if not lines[first.row].encode()[: first.column].strip():
            rows.update(range(first.row, row_after(node)))
    return rows


# -- indentation ----------------------------------------------------------------------------------


def _reindented(before: Sequence[str], after: list[str]) -> list[str]:
    """The answer in the old indentation, if all of it was moved or written in another unit.

    Only all of it: a part that is indented anew may be what was asked (a loop around it).
    """
    moved = _moved_back(before, after)
    candidates = [moved, _in_unit_of(before, after), _in_unit_of(before, moved)]
    return max([after, *candidates], key=lambda lines: _common(before, lines))


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines are the same, empty ones and space at the end aside."""
    old = [line.rstrip() for line in before if line.strip()]
    new = [line.rstrip() for line in after if line.strip()]
    return len(old) - sum(b - a for a, b, _, _ in changes(old, new))


def _moved_back(before: Sequence[str], after: Sequence[str]) -> list[str]:
    theirs, ours = margin_of(after), margin_of(before)
    return [ours + line.removeprefix(theirs) if line.strip() else line for line in after]


def _in_unit_of(before: Sequence[str], after: Sequence[str]) -> list[str]:
    theirs, ours = _unit(after), _unit(before)
    if not theirs or not ours or theirs == ours:
        return list(after)
    margin = margin_of(after)
    lines: list[str] = []
    for line in after:
        inner = dedented(line, margin)
        bare = inner.lstrip(" \t")
        depth, rest = divmod(len(inner) - len(bare), len(theirs))
        lines.append(margin + ours * depth + " " * rest + bare if bare.strip() else line)
    return lines


def _unit(lines: Sequence[str]) -> str:
    """One step of indentation below the margin; empty where there is none."""
    margin = margin_of(lines)
    inner = [dedented(line, margin) for line in lines if line.strip()]
    steps = [line[: len(line) - len(line.lstrip(" \t"))] for line in inner]
    if any("\t" in step for step in steps):
        return "\t"
    return min(filter(None, steps), key=len, default="")


# -- empty lines and line ends --------------------------------------------------------------------


def _edges(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """The empty lines at the beginning and the end as they were."""
    first, last = _filled(before)
    start, stop = _filled(after)
    return [*before[:first], *after[start:stop], *before[last:]]


def _filled(lines: Sequence[str]) -> tuple[int, int]:
    filled = [at for at, line in enumerate(lines) if line.strip()]
    return (filled[0], filled[-1] + 1) if filled else (0, 0)


def _kept(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Old lines where the new ones differ in space at the end, or only in empty lines."""
    old, new = [line.rstrip() for line in before], [line.rstrip() for line in after]
    end = line_end(before)
    lines: list[str] = []
    at = 0
    for a, b, c, d in changes(old, new):
        lines += before[at:a]
        came = [_with_end(line, end) for line in after[c:d]]
        # As many lines as before, written anew: no reason to put in or take out empty ones.
        same = len(list(filter(None, old[a:b]))) == len(list(filter(None, new[c:d])))
        lines += _edges(before[a:b], came) if same else came
        at = b
    return [*lines, *before[at:]]


def _with_end(line: str, end: str) -> str:
    return line.removesuffix("\n").removesuffix("\r") + end


def _ended(before: Sequence[str], after: Sequence[str]) -> str:
    """With every line but the last ended, and that one as the old text's last."""
    if not after or not before:
        return "".join(after)
    end = line_end(before)
    lines = [line if line.endswith("\n") else line + end for line in after]
    if not before[-1].endswith("\n"):
        lines[-1] = lines[-1].removesuffix("\n").removesuffix("\r")
    return "".join(lines)
