"""One edit from beginning to end: ask, let the person decide, write, check."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from vivace.client.errors import ClientError
from vivace.desk.applying import Accepted, EditConflict, Writer, Written
from vivace.desk.asking import LENIENCY, Asker, Made
from vivace.desk.checking import Checked, run_check
from vivace.desk.events import (
    Asked,
    CheckBegan,
    CheckFails,
    CheckSaid,
    Conflicted,
    Ended,
    NoAttemptPassed,
    NoFix,
    NothingWritten,
    Refused,
    Stopped,
    Unchanged,
    Wrote,
)
from vivace.desk.person import Person
from vivace.desk.renaming import renamed_by_server
from vivace.desk.repair import lines_to_repair, what_to_repair
from vivace.desk.targets import Target
from vivace.desk.too_long import TooLong, within_reach
from vivace.desk.trying import Trial, first_that_passes
from vivace.edits.checks import problems
from vivace.syntax.hunk import unified
from vivace.workspace.document import read

__all__ = ["Editing", "Result", "Settings", "Status", "diff_of"]

_TITLE = 200

Status = Literal["done", "nothing", "refused", "check_failed", "stopped"]
"""``done``: applied, or made where nothing is to be applied. ``nothing``: there was nothing to
change, or the person took none of it."""


@dataclass(frozen=True)
class Settings:
    """How the person wants it."""

    apply: bool = True
    """False: make it, and touch nothing."""
    check: str | None = None
    attempts: int = 1
    url: str = ""
    key: str | None = None
    """Where further attempts are asked for."""
    leniency: float = LENIENCY


@dataclass
class Result:
    status: Status = "done"
    edits: Sequence[Made] = ()
    applied: bool = False
    conflict: str | None = None
    checked: Checked | None = None


@dataclass
class Editing:
    asker: Asker
    writer: Writer
    settings: Settings
    _result: Result = field(default_factory=Result)

    @property
    def _person(self) -> Person:
        return self.asker.person

    async def run(self, targets: Sequence[Target], instruction: str) -> Result:
        result = self._result = Result()
        made = await self._edits(targets, instruction)
        if isinstance(made, str):
            result.status = made
        else:
            result.edits = made
            result.status = await self._decide(made, instruction)
        return result

    # -- making -----------------------------------------------------------------------------------

    async def _edits(self, targets: Sequence[Target], instruction: str) -> list[Made] | Status:
        if self.settings.attempts > 1:
            return await self._tried(targets, instruction)
        asker = self.asker
        if len(targets) == 1 and asker.sketch is None:
            [target] = targets
            by_server = await renamed_by_server(asker.workspace, target, instruction, self._person)
            if by_server:
                return by_server
        edits: list[Made] = []
        for target in targets:
            with within_reach(target):
                made = await self.asker.edit(target, instruction)
            if made is None:
                self._person.tell(Stopped(kept=False))
                return "stopped"
            edits.append(made)
        return edits

    async def _tried(self, targets: Sequence[Target], instruction: str) -> list[Made] | Status:
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
            asker.index,
        )
        edits = await first_that_passes(trial, settings.attempts, self._person)
        if edits is None:
            self._person.tell(NoAttemptPassed(settings.attempts))
            return "refused"
        for made in edits:
            self._person.tell(Asked(made.plan, made.model))
            self._person.tell(Ended(made.outcome.hunks, made.model, made.seconds, passed=True))
        return edits

    # -- deciding ---------------------------------------------------------------------------------

    async def _decide(self, edits: Sequence[Made], instruction: str) -> Status:
        changed = [made for made in edits if not _unchanged(made)]
        for made in edits:
            if made not in changed:
                self._person.tell(Unchanged(str(made.target.path), _reasons(made)))
        bad = [made for made in changed if not self._holds(made)]
        if bad and not await self._overruled(bad):
            return "refused"
        if not changed:
            return "nothing"
        if not self.settings.apply:
            return "done"
        accepted = await self._accepted(changed)
        if not any(each.hunks for each in accepted):
            self._person.tell(NothingWritten())
            return "nothing"
        return await self._write(accepted, instruction)

    def _holds(self, made: Made) -> bool:
        """Whether the person may be offered it: suspicions are weighed hunk by hunk, errors not."""
        weighed = self._person.reviews and bool(made.outcome.hunks)
        return made.outcome.good or (weighed and not made.outcome.invalid)

    async def _overruled(self, bad: Sequence[Made]) -> bool:
        """Whether the person wants what the checks refuse."""
        for made in bad:
            self._person.tell(Refused(str(made.target.path), _reasons(made), diff_of(made)))
        if await self._person.overrules(can_be_applied=all(made.outcome.hunks for made in bad)):
            return True
        self._person.tell(NothingWritten(refused=True))
        return False

    async def _accepted(self, edits: Sequence[Made]) -> Sequence[Accepted]:
        offered = [
            Accepted(made.target, made.outcome.hunks, made.outcome.problems) for made in edits
        ]
        accepted = await self._person.accepts(offered)
        some = any(each.hunks for each in accepted)
        for made, each in zip(edits, accepted, strict=True):
            broken = _left_behind(made, each) if some else ""
            broken = broken or _broken_by_choice(made, each)
            if broken and not await self._person.accepts_in_part(broken):
                return []
        return accepted

    # -- writing and checking ---------------------------------------------------------------------

    async def _write(self, accepted: Sequence[Accepted], instruction: str) -> Status:
        try:
            written = await self._put(accepted, instruction)
        except EditConflict as conflict:
            self._person.tell(Conflicted(conflict))
            self._result.conflict = str(conflict)
            return "refused"
        self._result.applied = True
        if self.settings.check is None:
            return "done"
        edited = [each.target for each in accepted if each.hunks]
        return await self._check(list(zip(edited, written, strict=True)))

    async def _put(self, accepted: Sequence[Accepted], title: str) -> list[Written]:
        written = await self.writer.write(accepted, title[:_TITLE])
        for each in written:
            self._person.tell(Wrote(each))
        return written

    async def _check(self, edited: Sequence[tuple[Target, Written]]) -> Status:
        checked = await self._run_check()
        if checked.passed:
            return "done"
        entries = 1
        if await self._person.wants_fix():
            named = (each for each in edited if each[0].path.name in checked.tail)
            fixed = await self._fix(*next(named, edited[-1]), checked)
            if fixed == "stopped":
                return "stopped"
            if fixed == "done":
                entries += 1
                if (await self._run_check()).passed:
                    return "done"
        self._person.tell(CheckFails(entries))
        return "check_failed"

    async def _run_check(self) -> Checked:
        assert self.settings.check is not None
        self._person.tell(CheckBegan(self.settings.check))
        try:
            checked = await run_check(
                self.settings.check,
                self.asker.workspace.root,
                lambda data: self._person.tell(CheckSaid(data)),
            )
        except asyncio.CancelledError:
            self._person.tell(Stopped(kept=True))
            raise
        self._result.checked = checked
        return checked

    async def _fix(self, target: Target, written: Written, checked: Checked) -> Status:
        """Another edit of what was edited, with what the check said as its reason."""
        document = read(target.path)
        lines = lines_to_repair(str(target.path), document.text, written.lines, checked.tail)
        again = Target(document, lines)
        try:
            with within_reach(again):
                made = await self.asker.edit(again, what_to_repair(checked))
        except (ClientError, TooLong) as error:
            self._person.tell(NoFix(str(error)))
            return "refused"
        if made is None:
            return "stopped"
        if not self._holds(made):
            self._person.tell(NoFix(_reasons(made)))
            return "refused"
        accepted = await self._accepted([made])
        if not any(each.hunks for each in accepted):
            return "nothing"
        await self._put(accepted, f"fix: {checked.command}")
        return "done"


def diff_of(made: Made) -> str:
    """As ``git apply`` takes it."""
    return unified(str(made.target.path), made.target.text, made.outcome.hunks)


def _unchanged(made: Made) -> bool:
    return not made.outcome.hunks and [each.code for each in made.outcome.problems] == ["unchanged"]


def _left_behind(made: Made, accepted: Accepted) -> str:
    if made.plan.known is None or accepted.hunks == made.outcome.hunks:
        return ""
    return f"A rename that is taken in part leaves the old name behind in {made.target.path}."


def _broken_by_choice(made: Made, accepted: Accepted) -> str:
    """What is wrong with a part of an edit of which the whole was in order."""
    if made.outcome.invalid or accepted.hunks in ((), made.outcome.hunks):
        return ""
    plan = made.plan
    after = plan.source.edited(accepted.hunks)
    found = problems(plan.source, after, accepted.hunks, plan.shown, plan.task.instruction)
    return next((each.person for each in found if each.code in ("syntax", "unbound")), "")


def _reasons(made: Made) -> str:
    return " ".join(problem.person for problem in made.outcome.problems)
