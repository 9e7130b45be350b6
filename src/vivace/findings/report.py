"""Findings as they are told: with the file they stand in, as lines of text or as JSON values.

What goes to a log or a program never quotes a secret: of a line with one, only the place is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from vivace.findings.baseline import Known, fingerprints
from vivace.syntax.finding import Finding, Severity
from vivace.syntax.hunk import Hunk

__all__ = [
    "SECRETS",
    "SEVERITIES",
    "Located",
    "Skipped",
    "at_least",
    "json_of",
    "located",
    "place_of",
    "printable",
    "quoted",
    "summary",
    "text_of",
]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note")
"""The gravest first."""
SECRETS = frozenset({"CWE-259", "CWE-321", "CWE-798"})
"""What is found there is itself a secret."""
_WIDEST = 200
"""Characters of a line that are quoted; a longer one was written by a program."""


class Located(Struct, frozen=True):
    """A finding and where it was found."""

    path: str
    """From the root of the work tree; absolute outside of one."""
    finding: Finding
    line: str = ""
    """The first line it marks, as it stands there."""
    fingerprint: str = ""

    @property
    def known(self) -> Known:
        return Known(printable(self.path), self.finding.code, self.fingerprint)


class Skipped(Struct, frozen=True):
    """A file that was not looked at."""

    path: str
    why: str


def located(path: str, lines: Sequence[str], findings: Sequence[Finding]) -> list[Located]:
    """The findings of one file, each with what it is known again by."""
    prints = fingerprints(path, lines, findings)
    return [
        Located(path, finding, _first_line(lines, finding), fingerprint)
        for finding, fingerprint in zip(findings, prints, strict=True)
    ]


def _first_line(lines: Sequence[str], finding: Finding) -> str:
    if finding.lines is None or finding.lines[0] >= len(lines):
        return ""
    return lines[finding.lines[0]].rstrip("\r\n")


def at_least(severity: Severity, found: Iterable[Located]) -> list[Located]:
    """Those that are so grave, or graver."""
    wanted = SEVERITIES[: SEVERITIES.index(severity) + 1]
    return [each for each in found if each.finding.severity in wanted]


def place_of(finding: Finding) -> tuple[int, int, int, int] | None:
    """First line and column, last line and the column after the last, all counted from 1; a column
    is a character. ``None`` where it is about no place."""
    if finding.lines is None:
        return None
    start, end = finding.lines
    first, last = finding.columns or (0, 0)
    return start + 1, first + 1, max(end, start + 1), last + 1


def quoted(each: Located) -> str | None:
    """The line for a person to see; ``None`` where there is none to be shown."""
    if not each.line.strip() or SECRETS.intersection(each.finding.evidence):
        return None
    line = each.line.expandtabs(4)
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"


def text_of(each: Located, shown: str) -> str:
    """One line in the form of compilers, which editors and scripts know how to read. ``shown`` is
    the path as it is to be told."""
    finding = each.finding
    place = place_of(finding)
    where = shown if place is None else f"{shown}:{place[0]}:{place[1]}"
    named = ", ".join((finding.code, *finding.evidence))
    return f"{where}: {finding.severity}: {' '.join(finding.person.split())} [{named}]"


def summary(found: Sequence[Located]) -> str:
    """How many of each severity, for example ``2 errors, 1 warning``."""
    counts = [
        (sum(1 for each in found if each.finding.severity == severity), severity)
        for severity in SEVERITIES
    ]
    told = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counts if count]
    return ", ".join(told) or "no findings"


def json_of(each: Located) -> dict[str, Any]:
    """The finding as a value of JSON; lines and columns are counted from 1."""
    finding = each.finding
    value: dict[str, Any] = {
        "path": printable(each.path),
        "rule": finding.code,
        "severity": finding.severity,
        "message": printable(finding.person),
        "evidence": list(finding.evidence),
        "fingerprint": each.fingerprint,
    }
    if (place := place_of(finding)) is not None:
        line, column, end_line, end_column = place
        value |= {"line": line, "end_line": end_line}
        if finding.columns is not None:
            value |= {"column": column, "end_column": end_column}
    if finding.fix:
        value["fix"] = [_hunk(hunk) for hunk in finding.fix]
    return value


def _hunk(hunk: Hunk) -> dict[str, Any]:
    return {
        "line": hunk.start + 1,
        "old": [printable(line) for line in hunk.old],
        "new": [printable(line) for line in hunk.new],
    }


def printable(text: str) -> str:
    """Names of files may hold bytes that are no characters, which JSON has no way to write."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
