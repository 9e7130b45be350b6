"""Findings and remarks as Markdown, for a pull request's comment or a file.

What is said of code was written by others: a model, a rule, whoever wrote the code. None of it may
become more than words where it is posted: no image that is fetched, no link, no HTML, nobody who is
notified by ``@name`` and no issue that is mentioned by ``#1``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from vivace.findings.report import Located, Skipped, place_of, quoted
from vivace.visible import visible

__all__ = ["markdown_of"]

_SPECIAL = re.compile(r"([\\`*_\[\]<>&~|#!$])")
_CODE = re.compile(r"`([^`]+)`")
_NOTIFIES = re.compile(r"@\w|://|www\.|#\d|\bGH-\d", re.IGNORECASE)
"""Words of which code hosts make links, or by which they call people."""


def markdown_of(
    found: Sequence[Located], skipped: Sequence[Skipped] = (), heading: str = ""
) -> str:
    """The whole document; ``heading`` is ours and stands as it is."""
    parts = [f"{heading}\n"] if heading else []
    ordered = sorted(found, key=lambda each: (each.path, place_of(each.finding) or (0, 0, 0, 0)))
    for path, group in groupby(ordered, key=lambda each: each.path):
        items = "".join(line for each in group for line in _item(each))
        parts.append(f"### {_code(path)}\n\n{items}")
    if skipped:
        told = "".join(f"- {_code(each.path)}: {_words(each.why)}\n" for each in skipped)
        parts.append(f"### Not looked at\n\n{told}")
    return "\n".join(parts)


def _item(each: Located) -> Iterator[str]:
    finding = each.finding
    place = place_of(finding)
    where = f"line {place[0]}, " if place is not None else ""
    named = ", ".join(map(_words, (finding.code, *finding.evidence)))
    yield f"- **{where}{finding.severity}** ({named}): {_words(finding.person)}\n"
    if (line := quoted(each)) is not None:
        yield f"  {_code(line.strip())}\n"


def _words(text: str) -> str:
    """Running text; what is code in it stays code, and so does what would notify somebody."""
    pieces = _CODE.split(" ".join(text.split()))
    return "".join(
        _code(piece) if at % 2 else _plain(piece) for at, piece in enumerate(pieces) if piece
    )


def _plain(text: str) -> str:
    return " ".join(
        _code(word) if _NOTIFIES.search(word) else _SPECIAL.sub(r"\\\1", visible(word))
        for word in text.split(" ")
    )


def _code(text: str) -> str:
    """A span of code, with a fence that nothing in it can close."""
    text = visible(text)
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest or not text.strip() else ""
    return f"{fence}{space}{text}{space}{fence}"
