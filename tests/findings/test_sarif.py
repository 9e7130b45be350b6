"""Findings as SARIF 2.1.0: places, rules with their CWE, fixes, fingerprints, and no code."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vivace.findings.report import Located, Skipped, located
from vivace.findings.sarif import sarif_of
from vivace.syntax.finding import Finding, Severity
from vivace.syntax.hunk import Hunk, apply

LINES = ["import os\n", "os.system(name)\n", "# 😀 os.system(name)"]
SHELL = Finding(
    "shell", "Why.", "Do.", lines=(1, 2), columns=(0, 15), evidence=("CWE-78",), severity="warning"
)


class Rule(msgspec.Struct, frozen=True):
    id: str = "shell"
    message: str = "A shell reads this."
    note: str = "Give a list."
    severity: Severity = "warning"
    cwe: int | None = 78
    kind: str = "security"


def run_of(found: list[Located], *rules: Rule, skipped: tuple[Skipped, ...] = ()) -> Any:
    log = sarif_of(found, rules, "1.2.3", skipped)
    assert log["version"] == "2.1.0"
    (run,) = msgspec.json.decode(msgspec.json.encode(log))["runs"]
    return run


def test_a_result_names_rule_place_and_fingerprint() -> None:
    found = located("src/a b.py", LINES, [SHELL])
    run = run_of(found, Rule())
    (result,) = run["results"]
    (place,) = result["locations"]
    assert run["tool"]["driver"]["semanticVersion"] == "1.2.3"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "shell"
    assert result["level"] == "warning"
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "src/a%20b.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 2, "startColumn": 1, "endLine": 2, "endColumn": 16},
    }
    assert result["partialFingerprints"] == {"vivaceFinding/v1": found[0].fingerprint}
    assert "os.system" not in str(run)


def test_rules_carry_what_code_hosts_sort_by() -> None:
    bug = Rule("nan", "Never equal.", "Use isnan.", "error", None, "bug")
    found = located("a.py", LINES, [SHELL, Finding("nan", "Why.", "", lines=(0, 1))])
    security, other = run_of(found, Rule(), bug, Rule("unused"))["tool"]["driver"]["rules"]
    assert security["properties"] == {
        "tags": ["security", "external/cwe/cwe-078"],
        "security-severity": "5.5",
    }
    assert security["helpUri"].endswith("/78.html")
    assert other["properties"] == {"tags": ["bug"]}
    assert other["defaultConfiguration"] == {"level": "error"}


def test_a_finding_without_a_rule_or_place_is_told_all_the_same() -> None:
    (result,) = run_of(located("a.py", LINES, [Finding("odd", "Why.", "")]))["results"]
    assert "region" not in result["locations"][0]["physicalLocation"]


def test_columns_are_characters_and_the_run_says_so() -> None:
    finding = msgspec.structs.replace(SHELL, lines=(2, 3), columns=(4, 19))
    run = run_of(located("a.py", LINES, [finding]), Rule())
    assert run["columnKind"] == "unicodeCodePoints"
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    line = LINES[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "os.system(name)"


@pytest.mark.parametrize(
    "hunk",
    [
        Hunk(1, (LINES[1],), ("run([name])\n",)),
        Hunk(1, (LINES[1],), ()),
        Hunk(1, (), ("import sys\n", "\n")),
        Hunk(2, (LINES[2],), ("# 😀",)),
        Hunk(1, tuple(LINES[1:]), ("pass",)),
    ],
)
def test_a_fix_put_in_place_by_its_region_gives_the_fixed_text(hunk: Hunk) -> None:
    finding = msgspec.structs.replace(SHELL, fix=(hunk,))
    (result,) = run_of(located("a.py", LINES, [finding]), Rule())["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    (replacement,) = change["replacements"]
    region = replacement["deletedRegion"]
    starts = [0]
    for line in LINES:
        starts.append(starts[-1] + len(line))
    text = "".join(LINES)
    first = starts[region["startLine"] - 1] + region["startColumn"] - 1
    last = starts[region["endLine"] - 1] + region["endColumn"] - 1
    assert text[:first] + replacement["insertedContent"]["text"] + text[last:] == apply(
        text, [hunk]
    )


def test_files_outside_the_root_and_of_odd_names_have_addresses() -> None:
    found = [*located("/tmp/x.py", LINES, [SHELL]), *located("a\udcff%.py", LINES, [SHELL])]
    first, second = run_of(found, Rule())["results"]
    assert first["locations"][0]["physicalLocation"]["artifactLocation"] == {
        "uri": "file:///tmp/x.py"
    }
    address = second["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert address == "a%FF%25.py"


def test_what_was_not_looked_at_is_noted() -> None:
    run = run_of([], skipped=(Skipped("big.js", "big.js has 9 MB."),))
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is True
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"] == "big.js has 9 MB."
    assert run["results"] == []
