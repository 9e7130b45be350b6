"""Findings as SARIF 2.1.0, the form in which code hosts and dashboards take them.

Columns are counted in characters, which the run says of itself (``columnKind``). The code itself is
not in it, but for what a fix puts in: a report is kept longer and seen by more people than code is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from vivace.findings.report import Located, Skipped, place_of, printable
from vivace.syntax.finding import Severity
from vivace.syntax.hunk import Hunk

__all__ = ["SCHEMA", "Described", "sarif_of"]

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_ROOT = "%SRCROOT%"
"""What paths are counted from, as the form has it."""
_UNESCAPED = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/")
_GRAVITY: dict[Severity, str] = {"error": "8.0", "warning": "5.5", "note": "2.0"}
"""Code hosts sort vulnerabilities by a number, as CVSS has it: high, medium, low."""


class Described(Protocol):
    """What a report says of a kind of finding; rules are that."""

    @property
    def id(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def note(self) -> str: ...
    @property
    def severity(self) -> Severity: ...
    @property
    def cwe(self) -> int | None: ...
    @property
    def kind(self) -> str: ...


def sarif_of(
    found: Sequence[Located],
    rules: Iterable[Described],
    version: str,
    skipped: Sequence[Skipped] = (),
) -> dict[str, Any]:
    """A whole SARIF log. Of the rules, those are described that found something; a finding that no
    rule is known for has its code alone. ``version`` is the program's."""
    known = {rule.id: rule for rule in rules}
    codes = list(dict.fromkeys(each.finding.code for each in found))
    described = [_rule(known[code]) if code in known else {"id": code} for code in codes]
    driver = {"name": "Vivace", "semanticVersion": version, "rules": described}
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(skipped)],
        "results": [_result(each, codes.index(each.finding.code)) for each in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _invocation(skipped: Sequence[Skipped]) -> dict[str, Any]:
    told = [
        {
            "level": "note",
            "message": {"text": printable(each.why)},
            "locations": [{"physicalLocation": {"artifactLocation": _artifact(each.path)}}],
        }
        for each in skipped
    ]
    return {"executionSuccessful": True, "toolExecutionNotifications": told}


def _rule(rule: Described) -> dict[str, Any]:
    tags = [rule.kind] if rule.cwe is None else [rule.kind, f"external/cwe/cwe-{rule.cwe:03}"]
    properties: dict[str, Any] = {"tags": tags}
    if rule.kind == "security":
        properties["security-severity"] = _GRAVITY[rule.severity]
    value: dict[str, Any] = {
        "id": rule.id,
        "shortDescription": {"text": rule.message},
        "help": {"text": rule.note or rule.message},
        "defaultConfiguration": {"level": rule.severity},
        "properties": properties,
    }
    if rule.cwe is not None:
        value["helpUri"] = f"https://cwe.mitre.org/data/definitions/{rule.cwe}.html"
    return value


def _result(each: Located, index: int) -> dict[str, Any]:
    finding = each.finding
    where: dict[str, Any] = {"artifactLocation": _artifact(each.path)}
    if (place := place_of(finding)) is not None:
        where["region"] = _region(place, whole=finding.columns is None)
    value: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": printable(finding.person)},
        "locations": [{"physicalLocation": where}],
    }
    if each.fingerprint:
        value["partialFingerprints"] = {"vivaceFinding/v1": each.fingerprint}
    if finding.fix:
        value["fixes"] = [_fix(each, finding.fix)]
    return value


def _region(place: tuple[int, int, int, int], *, whole: bool) -> dict[str, int]:
    line, column, end_line, end_column = place
    if whole:
        return {"startLine": line, "endLine": end_line}
    return {
        "startLine": line,
        "startColumn": column,
        "endLine": end_line,
        "endColumn": end_column,
    }


def _fix(each: Located, hunks: Sequence[Hunk]) -> dict[str, Any]:
    changes = {
        "artifactLocation": _artifact(each.path),
        "replacements": [
            {
                "deletedRegion": _deleted(hunk),
                "insertedContent": {"text": printable("".join(hunk.new))},
            }
            for hunk in hunks
        ],
    }
    return {
        "description": {"text": f"The rewrite of the rule {each.finding.code}."},
        "artifactChanges": [changes],
    }


def _deleted(hunk: Hunk) -> dict[str, int]:
    """Whole lines: up to the beginning of the next one, or to the end of a last one that has no
    line end."""
    region = {"startLine": hunk.start + 1, "startColumn": 1}
    if hunk.old and not hunk.old[-1].endswith("\n"):
        return region | {"endLine": hunk.end, "endColumn": len(hunk.old[-1]) + 1}
    return region | {"endLine": hunk.end + 1, "endColumn": 1}


def _artifact(path: str) -> dict[str, str]:
    raw = path.encode("utf-8", "surrogateescape")
    uri = "".join(chr(byte) if byte in _UNESCAPED else f"%{byte:02X}" for byte in raw)
    return {"uri": f"file://{uri}"} if path.startswith("/") else {"uri": uri, "uriBaseId": _ROOT}
