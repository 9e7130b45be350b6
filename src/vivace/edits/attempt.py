"""One edit from what is asked to what may be applied.

    plan     what to ask a model, and what it will probably say
    Attempt  its answer in, hunks out as they settle; at the end the edit and what is wrong with it
    retry    the next plan if something is: the reason goes to the end, nothing before it changes

Hunks that are shown on the way are those of the answer as it stands. The edit at the end may be
smaller: noise is undone and imports find their place.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from vivace.edits import checks, constants, headers, imports, renames
from vivace.edits.blocks import Block, Blocks, hunks_for
from vivace.edits.checks import Problem
from vivace.edits.context import Context
from vivace.edits.diff import between
from vivace.edits.fence import fence_for
from vivace.edits.formats import INSTRUCTIONS, SYSTEM, row_for
from vivace.edits.hunk import Hunk, apply, lines_of, shifted
from vivace.edits.languages import Language, language_of
from vivace.edits.lines import dedented, margin_of
from vivace.edits.names import bound_by, imports_for, unbound, used_imports
from vivace.edits.region import Region, Selection, choose
from vivace.edits.rewrite import Rewrite
from vivace.edits.settle import about_comments, about_layout, keep_comments, settle
from vivace.edits.splice import own_part, spliced
from vivace.errors import EditError
from vivace.models import EditFormat
from vivace.protocol.items import Message

__all__ = [
    "Attempt",
    "Outcome",
    "Plan",
    "Task",
    "accepted",
    "plan",
    "plan_delegate",
    "redirected",
    "retry",
]


class Task(Struct, frozen=True):
    """What a person wants of a file."""

    path: str
    text: str
    instruction: str
    selection: Selection | None = None


class Plan(Struct, frozen=True, kw_only=True):
    """What to send, and how to read the answer."""

    task: Task
    region: Region
    format: EditFormat
    items: tuple[Message, ...]
    prediction: str
    """What the answer will mostly be: the draft for the engine."""
    known: str | None = None
    """The answer itself, where no model is needed to know it."""

    @property
    def language(self) -> Language | None:
        return language_of(self.task.path)

    @property
    def old(self) -> str:
        """The region as it stands in the file."""
        return _part(self.task.text, self.region)


class Outcome(Struct, frozen=True, kw_only=True):
    """An edit of the file, and what speaks against applying it; good if nothing does."""

    hunks: tuple[Hunk, ...]
    text: str
    problems: tuple[Problem, ...]
    answer: str

    @property
    def good(self) -> bool:
        return not self.problems


# -- asking ---------------------------------------------------------------------------------------


def plan(task: Task, context: Context, model: str) -> Plan:
    """What to ask this model."""
    region = choose(task.text, language_of(task.path), task.instruction, task.selection)
    row = row_for(model, len(region))
    known = _known(task, region)
    if row.format == "search_replace" and known is None:
        return _plan_blocks(task, context, region)
    return replace(_plan_region(task, context, region, snapshot=row.snapshot), known=known)


def plan_delegate(task: Task, sketch: str, context: Context, model: str) -> Plan:
    """What to ask a fast model, so that it carries out what a deep one has sketched."""
    made = plan(task, context, model)
    fence = fence_for(sketch)
    ended = "" if sketch.endswith("\n") else "\n"
    carry_out = (
        f"Carry out this sketch of the change. Where it says that code stays as it is, write out "
        f"that code:\n{fence}\n{sketch}{ended}{fence}"
    )
    last = made.items[-1]
    asked = Message(role=last.role, content=f"{last.content}\n\n{carry_out}")
    return replace(made, items=(*made.items[:-1], asked), known=None)


def retry(made: Plan, outcome: Outcome) -> Plan:
    """The same again, with what was wrong at the end."""
    reasons = " ".join(problem.model for problem in outcome.problems)
    answered = Message(role="assistant", content=outcome.answer)
    asked = Message(role="user", content=f"{reasons} {_AGAIN[made.format]}".strip())
    return replace(made, items=(*made.items, answered, asked), known=None)


def redirected(made: Plan, said: str, line: str) -> Plan:
    """The same again in another direction, after an answer that was broken off."""
    answered = Message(role="assistant", content=said)
    asked = Message(role="user", content=f"{line} {_AGAIN[made.format]}")
    task = replace(made.task, instruction=f"{made.task.instruction}\n{line}")
    return replace(made, task=task, items=(*made.items, answered, asked), known=None)


def accepted(context: Context, made: Plan, outcome: Outcome) -> Context:
    """The context of the next edit, after the person took this one."""
    return context.after(made.items, outcome.answer, made.task.path, outcome.text)


_AGAIN: dict[EditFormat, str] = {
    "region": "Answer again with the whole code after the change, in one code block.",
    "search_replace": "Answer again with all blocks.",
}


def _plan_region(task: Task, context: Context, region: Region, *, snapshot: bool) -> Plan:
    block = _block(_part(task.text, region), language_of(task.path))
    change = task.instruction.strip()
    asked = f"File: {task.path}\n\nThe code to change:\n{block}\n\nThe change: {change}"
    if snapshot:
        context = context.showing(task.path, task.text)
        items = context.request(SYSTEM, f"{asked}\n\n{INSTRUCTIONS['region']}")
    else:
        # A small model takes what it was told before, or is told beside, for what it is asked.
        items = replace(context, past=()).request(INSTRUCTIONS["region"], asked)
    return Plan(task=task, region=region, format="region", items=items, prediction=block + "\n")


def _block(code: str, language: Language | None) -> str:
    """Code as it is shown and answered: in a fence, without its margin."""
    lines = lines_of(code)
    margin = margin_of(lines)
    shown = "".join(dedented(line, margin).rstrip() + "\n" for line in lines)
    fence = fence_for(shown)
    return f"{fence}{language.name if language else ''}\n{shown}{fence}"


def _known(task: Task, region: Region) -> str | None:
    language = language_of(task.path)
    new = renames.renamed(task.text, region.start, region.end, task.instruction, language)
    return None if new is None else _block(new, language)


def _plan_blocks(task: Task, context: Context, region: Region) -> Plan:
    where = ""
    if region.kind != "file":
        where = f" It is about lines {region.start + 1} to {region.end}; change nothing else."
    text = f"File: {task.path}\n\nThe change: {task.instruction.strip()}{where}"
    text += "\n\n" + INSTRUCTIONS["search_replace"]
    items = context.showing(task.path, task.text).request(SYSTEM, text)
    old = _part(task.text, region)
    return Plan(task=task, region=region, format="search_replace", items=items, prediction=old)


def _part(text: str, region: Region) -> str:
    return "".join(lines_of(text)[region.start : region.end])


# -- reading the answer ---------------------------------------------------------------------------


class Attempt:
    """The answer to a plan, while it is written."""

    def __init__(self, made: Plan) -> None:
        self._answer: list[str] = []
        self._reader: _Reader = (
            _RegionReader(made) if made.format == "region" else _BlockReader(made)
        )
        self._plan = made

    def feed(self, delta: str) -> list[Hunk]:
        """Hunks of the file that can be shown from now on."""
        self._answer.append(delta)
        return self._reader.feed(delta)

    def finish(self) -> Outcome:
        """The edit. Nothing is raised here: what is wrong is among the problems."""
        task, region = self._plan.task, self._plan.region
        found, hunks = self._reader.finish()
        try:
            text = apply(task.text, hunks)
        except EditError as error:
            found, hunks, text = [*found, _unfit(error)], [], task.text
        if not found:
            found = checks.problems(task.text, hunks, region, self._plan.language, task.instruction)
        return Outcome(
            hunks=tuple(hunks), text=text, problems=tuple(found), answer="".join(self._answer)
        )


def _unfit(error: EditError) -> Problem:
    return Problem("unfit", str(error), str(error))


class _RegionReader:
    def __init__(self, made: Plan) -> None:
        self._plan = made
        language = None if made.region.kind == "file" else made.language
        self._preamble = imports.Preamble(language, made.old)
        self._rewrite = Rewrite(made.old, self._preamble)

    def feed(self, delta: str) -> list[Hunk]:
        return shifted(self._rewrite.feed(delta), self._plan.region.start)

    def finish(self) -> tuple[list[Problem], list[Hunk]]:
        self._rewrite.finish()
        made, text = self._plan, self._plan.task.text
        answer = own_part(self._rewrite.answer, text, made.region, made.language)
        new = self._without_noise(spliced(answer, made.old))
        hunks = shifted(between(made.old, new), made.region.start)
        if made.language:
            asked = made.task.instruction
            hunks = constants.hoisted(text, hunks, made.language, asked)
            hunks = [*self._imports(hunks), *hunks]
        return [], sorted(hunks, key=lambda hunk: hunk.start)

    def _without_noise(self, new: str) -> str:
        old, asked, language = self._plan.old, self._plan.task.instruction, self._plan.language
        if not about_layout(asked):
            new = settle(old, new)
        if language and not about_comments(asked):
            new = keep_comments(old, new, language)
        return new

    def _imports(self, hunks: Sequence[Hunk]) -> list[Hunk]:
        """Those that came with the answer, and those it forgot."""
        text, language = self._plan.task.text, self._plan.language
        assert language is not None
        wanted, after = list(self._preamble.imports), apply(text, hunks)
        if language.name == "python":
            wanted = used_imports("".join(wanted), after)
            missing = unbound(after) - unbound(text)
            wanted += imports_for(missing - bound_by("".join(wanted)))
        elif language.name in ("c", "cpp"):
            wanted = [*headers.used(wanted, after), *headers.forgotten(text, after)]
        return imports.added(text, wanted, language)


class _BlockReader:
    def __init__(self, made: Plan) -> None:
        self._plan = made
        self._blocks = Blocks()
        self._hunks: list[Hunk] = []
        self._problems: list[Problem] = []

    def feed(self, delta: str) -> list[Hunk]:
        try:
            return self._read(self._blocks.feed(delta))
        except EditError as error:
            self._problems.append(_unfit(error))
            return []

    def finish(self) -> tuple[list[Problem], list[Hunk]]:
        try:
            self._read(self._blocks.finish())
        except EditError as error:
            self._problems.append(_unfit(error))
        return self._problems, sorted(self._hunks, key=lambda hunk: hunk.start)

    def _read(self, blocks: Sequence[Block]) -> list[Hunk]:
        path, text = self._plan.task.path, self._plan.task.text
        shown: list[Hunk] = []
        for block in blocks:
            if block.path not in (None, path):
                self._problems.append(
                    Problem(
                        "other_file",
                        f"The model wants to change {block.path}, which was not asked for.",
                        f"Change only {path}.",
                    )
                )
                continue
            shown += hunks_for(text, block)
        self._hunks += shown
        return shown


_Reader = _RegionReader | _BlockReader
