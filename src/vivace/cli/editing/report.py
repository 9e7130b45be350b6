"""What ``vivace edit`` ends with: its exit status, a diff, or one JSON object."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

from vivace.cli.editing.diff import coloured
from vivace.cli.explain import say_error
from vivace.cli.output import put, say
from vivace.client.errors import ClientError
from vivace.desk.asking import Made
from vivace.desk.edit import Result, Status, diff_of
from vivace.desk.too_long import TooLong
from vivace.errors import VivaceError
from vivace.syntax.finding import Finding

__all__ = ["EXIT", "Exit", "failed", "print_diff", "print_json"]


class Exit(IntEnum):
    DONE = 0
    NOTHING = 1
    MISUSED = 2
    REFUSED = 3
    CHECK_FAILED = 4
    NO_ANSWER = 5
    STOPPED = 130


EXIT: dict[Status, Exit] = {
    "done": Exit.DONE,
    "nothing": Exit.NOTHING,
    "refused": Exit.REFUSED,
    "check_failed": Exit.CHECK_FAILED,
    "stopped": Exit.STOPPED,
}


def failed(error: VivaceError, *, json: bool) -> Exit:
    """It ended before there was a result: say why, and with which status."""
    status, code = _kind(error)
    if json:
        said = {"applied": False, "files": [], "error": {"code": code, "message": str(error)}}
        put(f"{msgspec.json.encode(said).decode()}\n")
    say_error(error)
    return status


def _kind(error: VivaceError) -> tuple[Exit, str]:
    match error:
        case ClientError():
            return Exit.NO_ANSWER, error.code or "no_answer"
        case TooLong():
            return Exit.REFUSED, error.code
    return Exit.NOTHING, "failed"


def print_diff(edits: Sequence[Made]) -> None:
    for made in edits:
        diff = diff_of(made)
        if sys.stdout.isatty():
            for line in diff.removesuffix("\n").split("\n") if diff else ():
                say(coloured(line.removesuffix("\r")))
        else:
            put(diff)


def print_json(result: Result) -> None:
    report: dict[str, Any] = {
        "applied": result.applied,
        "files": [_file(made) for made in result.edits],
    }
    if result.conflict is not None:
        report["conflict"] = result.conflict
    if (checked := result.checked) is not None:
        report["check"] = {"command": checked.command, "status": checked.status}
    put(f"{msgspec.json.encode(report).decode()}\n")


def _file(made: Made) -> dict[str, Any]:
    region = made.plan.region
    return {
        "path": str(made.target.path),
        "region": {
            "kind": region.kind,
            "name": region.name,
            "first": region.start + 1,
            "last": region.end,
        },
        "hunks": [
            {"line": hunk.start + 1, "old": hunk.old, "new": hunk.new}
            for hunk in made.outcome.hunks
        ],
        "diff": diff_of(made),
        "problems": [_problem(each) for each in made.outcome.problems],
        "model": made.model,
        "tier": made.tier,
        "seconds": round(made.seconds, 3),
        "tokens": made.tokens,
        "retries": made.retries,
    }


def _problem(problem: Finding) -> dict[str, Any]:
    """``lines`` are those of the file as it was read, as the region's are."""
    lines = problem.lines
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.person,
        "lines": lines and {"first": lines[0] + 1, "last": max(lines[0] + 1, lines[1])},
    }
