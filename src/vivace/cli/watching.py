"""What ``vivace watch`` shows: to a person at a terminal, in a pipe, and as lines of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from vivace.cli.editing.diff import coloured
from vivace.cli.editing.review import review
from vivace.cli.editing.terminal import ask_answer
from vivace.cli.output import command_output, put, say
from vivace.desk.applying import Accepted
from vivace.desk.edit import diff_of
from vivace.desk.events import Conflicted, NoFix, NothingWritten, Wrote
from vivace.desk.watch_events import (
    Asking,
    CommandBegan,
    CommandFailed,
    CommandPassed,
    CommandSaid,
    Fix,
    FixFailed,
    Proposed,
    Saved,
    WatchEvent,
)
from vivace.failures.failure import Failure
from vivace.syntax.finding import Finding

__all__ = ["AsJson", "AtTerminal", "Piped"]

_MOST_FAILURES = 3
_MOST_PATHS = 3


class Piped:
    """Nobody can be asked: a fix is shown as a diff, and nothing is written."""

    def __init__(self, *, stays: bool) -> None:
        """``stays``: there is more to come, at the next save."""
        self._stays = stays
        self._command = ""
        self._output = command_output(err=False)

    def tell(self, event: WatchEvent) -> None:
        match event:
            case CommandBegan():
                self._command = event.command
                self._output = command_output(err=False)
                say(f"$ {event.command}", err=True, bold=True)
            case CommandSaid():
                self._output(event.data)
            case CommandPassed():
                waits = " Waiting for a save; Ctrl-C ends." if self._stays else ""
                say(f"{self._command} passes ({event.seconds:.1f} s).{waits}", err=True, fg="green")
            case CommandFailed():
                self._failed(event)
            case Proposed():
                self._proposed(event)
            case Conflicted():
                for line in str(event.conflict).split("\n"):
                    say(coloured(line), err=True)
            case Asking() | FixFailed():
                say(_words(event), err=True, dim=True)
            case _:
                say(_words(event), err=True)

    def _failed(self, event: CommandFailed) -> None:
        told = f"{self._command} fails (status {event.status}, {event.seconds:.1f} s)"
        say(told, err=True, fg="red")
        for failure in event.failures[:_MOST_FAILURES]:
            say(f"  {failure.message.partition(chr(10))[0]}", err=True)
            places = ", ".join(_place(failure, at) for at in range(min(3, len(failure.frames))))
            say(f"    {places}", err=True, dim=True)
        if (more := len(event.failures) - _MOST_FAILURES) > 0:
            say(f"  and {more} more", err=True)

    def _proposed(self, event: Proposed) -> None:
        self._headline(event)
        self._diff(event.fix)

    def _headline(self, event: Proposed) -> None:
        fix, command = event.fix, self._command
        passed = (
            f"{command} passes with it"
            if fix.passed
            else (f"{command} still fails with it, but no longer for this reason")
        )
        colour = "green" if fix.passed else "yellow"
        say(
            f"A fix by {fix.made.model}, {event.seconds:.1f} s after the failure: {passed}.",
            err=True,
            fg=colour,
        )

    def _diff(self, fix: Fix) -> None:
        put(diff_of(fix.made))

    async def accepts(self, edit: Accepted, *, passed: bool) -> Sequence[Accepted]:
        return []


class AtTerminal(Piped):
    """Decides hunk by hunk, as after ``vivace edit``."""

    def _diff(self, fix: Fix) -> None:
        """It is shown with the question."""

    async def accepts(self, edit: Accepted, *, passed: bool) -> Sequence[Accepted]:
        return await review([edit], ask_answer)


class AsJson:
    """An object a line on standard output; what the command prints goes to standard error."""

    def __init__(self) -> None:
        self._output = command_output(err=True)

    def tell(self, event: WatchEvent) -> None:
        if isinstance(event, CommandSaid):
            self._output(event.data)
        elif not isinstance(event, NothingWritten):
            put(f"{msgspec.json.encode(_object(event)).decode()}\n")

    async def accepts(self, edit: Accepted, *, passed: bool) -> Sequence[Accepted]:
        return []


def _place(failure: Failure, at: int) -> str:
    frame = failure.frames[at]
    line = "" if frame.line is None else f":{frame.line + 1}"
    return f"{frame.path}{line}{f' {frame.name}' if frame.name else ''}"


def _words(event: WatchEvent) -> str:
    match event:
        case Saved():
            more = len(event.paths) - _MOST_PATHS
            shown = ", ".join(event.paths[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")
            return f"\nsaved: {shown}"
        case Asking():
            return f"asking {event.model or 'the model'} about {event.place}"
        case FixFailed():
            return f"attempt {event.number}: {event.why}"
        case NoFix():
            return f"No fix is proposed. {event.why}"
        case Wrote():
            written = event.written
            since = "  (carried over to what was changed meanwhile)" if written.rebased else ""
            return f"{written.path}  +{written.added} -{written.removed}{since}"
        case NothingWritten():
            return "nothing was written"
    return ""


# -- as JSON --------------------------------------------------------------------------------------


def _object(event: WatchEvent) -> dict[str, Any]:
    match event:
        case CommandBegan():
            return {"event": "began", "command": event.command}
        case CommandPassed():
            return {"event": "passed", "seconds": round(event.seconds, 3)}
        case CommandFailed():
            return {
                "event": "failed",
                "status": event.status,
                "seconds": round(event.seconds, 3),
                "failures": [_failure(each) for each in event.failures],
            }
        case Asking():
            return {
                "event": "asking",
                "attempt": event.number,
                "place": event.place,
                "model": event.model,
            }
        case FixFailed():
            return {"event": "attempt_failed", "attempt": event.number, "why": event.why}
        case Proposed():
            return _proposal(event)
        case Saved():
            return {"event": "saved", "paths": event.paths}
        case NoFix():
            return {"event": "no_fix", "why": event.why}
    return {"event": type(event).__name__.lower()}


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "kind": failure.kind,
        "message": failure.message,
        "test": failure.test,
        "frames": [
            {
                "path": each.path,
                "line": None if each.line is None else each.line + 1,
                "name": each.name,
            }
            for each in failure.frames
        ],
    }


def _proposal(event: Proposed) -> dict[str, Any]:
    made = event.fix.made
    return {
        "event": "proposed",
        "passed": event.fix.passed,
        "path": str(made.target.path),
        "hunks": [
            {"line": each.start + 1, "old": each.old, "new": each.new}
            for each in made.outcome.hunks
        ],
        "diff": diff_of(made),
        "problems": [_problem(each) for each in made.outcome.problems],
        "model": made.model,
        "tier": made.tier,
        "seconds": round(event.seconds, 3),
    }


def _problem(problem: Finding) -> dict[str, Any]:
    return {"code": problem.code, "severity": problem.severity, "message": problem.person}
