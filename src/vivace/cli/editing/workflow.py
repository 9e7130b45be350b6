"""One edit from beginning to end: ask, show, let the person decide, write, check."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import msgspec

from vivace.cli.editing.applying import Accepted, EditConflict, Written, write_all
from vivace.cli.editing.asking import Asker, Made
from vivace.cli.editing.checking import Checked, run_check
from vivace.cli.editing.diff import coloured
from vivace.cli.editing.review import Ask, agreed, review
from vivace.cli.editing.targets import Target
from vivace.cli.editing.trying import Trial, first_that_passes
from vivace.cli.output import command_output, put, say
from vivace.edits.checks import problems
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import unified
from vivace.syntax.lines import lines_of
from vivace.workspace.document import read
from vivace.workspace.journal import Journal

__all__ = ["Exit", "Settings", "Workflow"]

_TITLE = 200


class Exit(IntEnum):
    DONE = 0
    NOTHING = 1
    MISUSED = 2
    REFUSED = 3
    CHECK_FAILED = 4
    STOPPED = 130


@dataclass(frozen=True)
class Settings:
    """How the person wants it."""

    yes: bool = False
    diff: bool = False
    json: bool = False
    check: str | None = None
    attempts: int = 1
    url: str = ""
    key: str | None = None


@dataclass
class Workflow:
    asker: Asker
    journal: Journal
    settings: Settings
    ask: Ask | None
    """None where nobody can be asked."""
    _report: dict[str, Any] = field(default_factory=dict)

    async def run(self, targets: Sequence[Target], instruction: str) -> Exit:
        edits = await self._edits(targets, instruction)
        status = edits if isinstance(edits, Exit) else await self._decide(edits, instruction)
        if self.settings.json:
            files = [] if isinstance(edits, Exit) else [_as_json(made) for made in edits]
            report = {"applied": False, "files": files} | self._report
            put(f"{msgspec.json.encode(report).decode()}\n")
        return status

    # -- making -----------------------------------------------------------------------------------

    async def _edits(self, targets: Sequence[Target], instruction: str) -> list[Made] | Exit:
        if self.settings.attempts > 1:
            return await self._tried(targets, instruction)
        edits: list[Made] = []
        for target in targets:
            made = await self.asker.edit(target, instruction)
            if made is None:
                say("stopped; nothing was written", err=True)
                return Exit.STOPPED
            edits.append(made)
        return edits

    async def _tried(self, targets: Sequence[Target], instruction: str) -> list[Made] | Exit:
        settings, asker = self.settings, self.asker
        assert settings.check is not None
        trial = Trial(
            settings.url,
            settings.key,
            asker.model,
            asker.sketch,
            asker.workspace,
            targets,
            instruction,
            settings.check,
        )
        edits = await first_that_passes(trial, settings.attempts, asker.view)
        if edits is None:
            say(f"None of {settings.attempts} attempts passed; nothing was written.", err=True)
            return Exit.REFUSED
        for made in edits:
            asker.view.begin(made.plan, made.model)
            asker.view.finish(made.outcome.hunks, f"{made.model} · the check passed")
        return edits

    # -- deciding ---------------------------------------------------------------------------------

    async def _decide(self, edits: Sequence[Made], instruction: str) -> Exit:
        changed = [made for made in edits if not _unchanged(made)]
        for made in edits:
            if made not in changed:
                say(f"{made.target.path}: {_reasons(made)}", err=True)
        bad = [made for made in changed if not made.outcome.good]
        if bad and not await self._overruled(bad):
            return Exit.REFUSED
        if not changed:
            return Exit.NOTHING
        if self.settings.diff:
            _print_diff(changed)
            return Exit.DONE
        if self.settings.json and not self.settings.yes:
            return Exit.DONE
        accepted = await self._accepted(changed)
        if not any(each.hunks for each in accepted):
            say("nothing was written", err=True)
            return Exit.NOTHING
        return await self._write(accepted, instruction)

    async def _overruled(self, bad: Sequence[Made]) -> bool:
        """Whether the person wants what the checks refuse."""
        for made in bad:
            say(f"{made.target.path}: refused. {_reasons(made)}", err=True, fg="red")
            if not self.asker.view.live and not self.settings.json:
                say(_diff_of(made), err=True, nl=False)
        if self.ask is not None and all(made.outcome.hunks for made in bad):
            return await agreed(self.ask, "Apply it all the same?")
        say("Nothing was written. Say it in other words, or try another --model.", err=True)
        return False

    async def _accepted(self, edits: Sequence[Made]) -> list[Accepted]:
        if self.ask is None or self.settings.yes:
            return [Accepted(made.target, made.outcome.hunks) for made in edits]
        accepted = await review([(made.target, made.outcome.hunks) for made in edits], self.ask)
        for made, each in zip(edits, accepted, strict=True):
            broken = _broken_by_choice(made, each)
            if broken and not await agreed(self.ask, f"{broken} Apply it all the same?"):
                return []
        return accepted

    # -- writing and checking ---------------------------------------------------------------------

    async def _write(self, accepted: Sequence[Accepted], instruction: str) -> Exit:
        try:
            written = write_all(self.journal, accepted, instruction[:_TITLE])
        except EditConflict as conflict:
            for line in str(conflict).split("\n"):
                say(coloured(line), err=True)
            self._report["conflict"] = str(conflict)
            return Exit.REFUSED
        self._report["applied"] = True
        for each in written:
            self._tell(each)
        if self.settings.check is None:
            return Exit.DONE
        return await self._check([each.target for each in accepted if each.hunks])

    def _tell(self, written: Written) -> None:
        since = "  (carried over to what was changed meanwhile)" if written.rebased else ""
        say(f"{written.path}  +{written.added} -{written.removed}{since}", err=self.settings.json)

    async def _check(self, targets: Sequence[Target]) -> Exit:
        checked = await self._run_check()
        if checked.passed:
            return Exit.DONE
        entries = 1
        if await self._wants_fix():
            target = next((each for each in targets if each.path.name in checked.tail), targets[-1])
            fixed = await self._fix(target, checked)
            if fixed is not Exit.DONE:
                return fixed if fixed is Exit.STOPPED else self._failed(entries)
            entries += 1
            if (await self._run_check()).passed:
                return Exit.DONE
        return self._failed(entries)

    async def _run_check(self) -> Checked:
        assert self.settings.check is not None
        say(f"$ {self.settings.check}", err=True, bold=True)
        show = command_output(err=self.settings.json)
        try:
            checked = await run_check(self.settings.check, self.asker.workspace.root, show)
        except asyncio.CancelledError:
            say("\nThe edit is kept; to take it back: vivace undo", err=True)
            raise
        self._report["check"] = {"command": checked.command, "status": checked.status}
        return checked

    async def _wants_fix(self) -> bool:
        if self.settings.yes or self.ask is None:
            return True
        return await agreed(self.ask, "The check fails. Ask for a fix?")

    async def _fix(self, target: Target, checked: Checked) -> Exit:
        """Another edit of the same file, with what the check said as its reason."""
        document = read(target.path)
        lines = len(lines_of(document.text))
        made = await self.asker.edit(
            Target(document, _moved(target, lines)),
            f"Fix the code so that this passes: {checked.command}\nIt fails with:\n{checked.tail}",
        )
        if made is None:
            return Exit.STOPPED
        if not made.outcome.good:
            say(f"No fix was found. {_reasons(made)}", err=True)
            return Exit.REFUSED
        accepted = await self._accepted([made])
        if not any(each.hunks for each in accepted):
            return Exit.NOTHING
        for each in write_all(self.journal, accepted, f"fix: {checked.command}"[:_TITLE]):
            self._tell(each)
        return Exit.DONE

    def _failed(self, entries: int) -> Exit:
        steps = "" if entries == 1 else f" -n {entries}"
        say(
            f"The check still fails. The edit is kept; to take it back: vivace undo{steps}",
            err=True,
        )
        return Exit.CHECK_FAILED


def _moved(target: Target, lines: int) -> tuple[int, int] | None:
    """The selection in the file after an edit of it."""
    if target.selection is None:
        return None
    first, last = target.selection
    return first, max(first + 1, last + lines - len(lines_of(target.text)))


def _unchanged(made: Made) -> bool:
    return not made.outcome.hunks and [each.code for each in made.outcome.problems] == ["unchanged"]


def _broken_by_choice(made: Made, accepted: Accepted) -> str:
    """What is wrong with a part of an edit of which the whole was good."""
    if not made.outcome.good or accepted.hunks in ((), made.outcome.hunks):
        return ""
    plan = made.plan
    after = plan.source.edited(accepted.hunks)
    found = problems(plan.source, after, accepted.hunks, plan.region, plan.task.instruction)
    return next((each.person for each in found if each.code in ("syntax", "unbound")), "")


def _reasons(made: Made) -> str:
    return " ".join(problem.person for problem in made.outcome.problems)


def _diff_of(made: Made) -> str:
    return unified(str(made.target.path), made.target.text, made.outcome.hunks)


def _print_diff(edits: Sequence[Made]) -> None:
    for made in edits:
        diff = _diff_of(made)
        if sys.stdout.isatty():
            for line in diff.removesuffix("\n").split("\n"):
                say(coloured(line.removesuffix("\r")))
        else:
            put(diff)


def _as_json(made: Made) -> dict[str, Any]:
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
        "diff": _diff_of(made),
        "problems": [_problem(each) for each in made.outcome.problems],
        "model": made.model,
        "tier": made.tier,
        "seconds": round(made.seconds, 3),
        "tokens": made.tokens,
        "retries": made.retries,
    }


def _problem(problem: Finding) -> dict[str, str]:
    return {"code": problem.code, "message": problem.person}
