"""Findings as editors mark them: in their lines and columns, with the weakness by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lsprotocol.types import (
    CodeDescription,
    Diagnostic,
    DiagnosticSeverity,
    Position,
    Range,
)

from vivace.lsp.documents import Document
from vivace.syntax.finding import REMARK, Finding

__all__ = ["SOURCE", "as_diagnostics", "place_of"]

SOURCE = "vivace"
_MOST = 200
"""In one document; who has more wants to see them elsewhere than in the margin."""
_SEVERITIES = {
    "error": DiagnosticSeverity.Error,
    "warning": DiagnosticSeverity.Warning,
    "note": DiagnosticSeverity.Information,
}
_CWE = re.compile(r"CWE-(\d+)")
_ABOUT = "https://cwe.mitre.org/data/definitions/{}.html"


def as_diagnostics(document: Document, findings: Sequence[Finding]) -> list[Diagnostic]:
    """Of a document whose text is the one they were found in."""
    marks = [_diagnostic(document, each) for each in findings[:_MOST]]
    if len(findings) > _MOST:
        top = Position(line=0, character=0)
        marks.append(
            Diagnostic(
                range=Range(start=top, end=top),
                message=f"The first {_MOST} of {len(findings):,} findings are marked. "
                "vivace check tells all of them.",
                severity=DiagnosticSeverity.Information,
                source=SOURCE,
            )
        )
    return marks


def _diagnostic(document: Document, finding: Finding) -> Diagnostic:
    weaknesses = [number for each in finding.evidence for number in _CWE.findall(each)]
    named = ", ".join(f"CWE-{number}" for number in weaknesses)
    return Diagnostic(
        range=place_of(document, finding),
        message=f"{finding.person} ({named})" if named else finding.person,
        severity=_severity(finding),
        code=finding.code,
        code_description=CodeDescription(href=_ABOUT.format(weaknesses[0])) if named else None,
        source=SOURCE,
    )


def _severity(finding: Finding) -> DiagnosticSeverity:
    """A model errs more often than rules do: what it remarks is a hint."""
    return DiagnosticSeverity.Hint if finding.code == REMARK else _SEVERITIES[finding.severity]


def place_of(document: Document, finding: Finding) -> Range:
    """Findings count lines as parsers do, which know no end of a line but ``\\n``; the document has
    them as its editor does."""
    first, after = finding.lines or (0, 1)
    last = max(first, after - 1)
    if "\n" not in document.text:
        first = last = 0
    if finding.columns is not None:
        start = _start(document, first) + finding.columns[0]
        return document.range(start, max(start, _start(document, last) + finding.columns[1]))
    start, end = _start(document, first), _start(document, last + 1)
    text = document.text[start:end]
    return document.range(end - len(text.lstrip()), start + len(text.rstrip()))


def _start(document: Document, line: int) -> int:
    """Where a line of a parser's begins."""
    if "\n" in document.text:
        return document.line_start(line)
    return 0 if line == 0 else len(document.text)
