"""One edit from what is asked to what may be applied.

    plan     what to ask a model, and what it will probably say
    Attempt  its answer in, hunks out as they settle; at the end the edit and what is wrong with it
    retry    the next plan if something is: the reason goes to the end, nothing before it changes

Hunks that are shown on the way are those of the answer as it stands. The edit at the end may be
smaller: noise is undone and imports find their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from vivace.edits import checks, constants, headers, imports, renames
from vivace.edits.blocks import Block, Blocks, hunks_for
from vivace.edits.context import Context
from vivace.edits.diff import between
from vivace.edits.fence import fence_for
from vivace.edits.formats import INSTRUCTIONS, SYSTEM, row_for
from vivace.edits.names import bound_by, imports_for, newly_unbound, used_imports
from vivace.edits.region import Region, Selection, choose, whole_file
from vivace.edits.rewrite import Rewrite
from vivace.edits.settle import about_comments, about_layout, keep_comments, settle
from vivace.edits.splice import own_part, spliced
from vivace.errors import EditError
from vivace.models import EditFormat
from vivace.protocol.items import Message
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, shifted
from vivace.syntax.languages import Language
from vivace.syntax.lines import dedented, lines_of, margin_of
from vivace.syntax.source import Source

__all__ = [
    "Attempt",
    "EditPlan",
    "Outcome",
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
    elsewhere: frozenset[str] | None = None
    """Of the names that a rename asks about, those that other files have; None: not looked at."""


class EditPlan(Struct, frozen=True, kw_only=True):
    """What to send, and how to read the answer."""

    task: Task
    source: Source
    """The file as the task has it."""
    region: Region
    format: EditFormat
    items: tuple[Message, ...]
    prediction: str
    """What the answer will mostly be: the draft for the engine."""
    known: str | None = None
    """The answer itself, where no model is needed to know it."""

    @property
    def old(self) -> str:
        """The region as it stands in the file."""
        return self.source.part(self.region.start, self.region.end)


class Outcome(Struct, frozen=True, kw_only=True):
    """An edit of the file, and what speaks against applying it; good if nothing does."""

    hunks: tuple[Hunk, ...]
    text: str
    problems: tuple[Finding, ...]
    answer: str

    @property
    def good(self) -> bool:
        return not self.problems


# -- asking ---------------------------------------------------------------------------------------


def plan(task: Task, context: Context, model: str) -> EditPlan:
    """What to ask this model."""
    source = Source.of(task.path, task.text)
    region = choose(source, task.instruction, task.selection)
    row = row_for(model, len(region))
    known, region = _known(task, source, region)
    if row.format == "search_replace" and known is None:
        return _plan_blocks(task, source, context, region)
    made = _plan_region(task, source, context, region, snapshot=row.snapshot)
    return replace(made, known=known)


def plan_delegate(task: Task, sketch: str, context: Context, model: str) -> EditPlan:
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


def retry(made: EditPlan, outcome: Outcome) -> EditPlan:
    """The same again, with what was wrong at the end."""
    reasons = " ".join(problem.model for problem in outcome.problems)
    answered = Message(role="assistant", content=outcome.answer)
    asked = Message(role="user", content=f"{reasons} {_AGAIN[made.format]}".strip())
    return replace(made, items=(*made.items, answered, asked), known=None)


def redirected(made: EditPlan, said: str, line: str) -> EditPlan:
    """The same again in another direction, after an answer that was broken off."""
    answered = Message(role="assistant", content=said)
    asked = Message(role="user", content=f"{line} {_AGAIN[made.format]}")
    task = replace(made.task, instruction=f"{made.task.instruction}\n{line}")
    return replace(made, task=task, items=(*made.items, answered, asked), known=None)


def accepted(context: Context, made: EditPlan, outcome: Outcome) -> Context:
    """The context of the next edit, after the person took this one."""
    return context.after(made.items, outcome.answer, made.task.path, outcome.text)


_AGAIN: dict[EditFormat, str] = {
    "region": "Answer again with the whole code after the change, in one code block.",
    "search_replace": "Answer again with all blocks.",
}


def _plan_region(
    task: Task, source: Source, context: Context, region: Region, *, snapshot: bool
) -> EditPlan:
    block = _block(source.part(region.start, region.end), source.language)
    change = task.instruction.strip()
    asked = f"File: {task.path}\n\nThe code to change:\n{block}\n\nThe change: {change}"
    if snapshot:
        context = context.showing(task.path, task.text)
        items = context.request(SYSTEM, f"{asked}\n\n{INSTRUCTIONS['region']}")
    else:
        # A small model takes what it was told before, or is told beside, for what it is asked.
        items = replace(context, past=()).request(INSTRUCTIONS["region"], asked)
    return EditPlan(
        task=task,
        source=source,
        region=region,
        format="region",
        items=items,
        prediction=block,
    )


def _block(code: str, language: Language | None) -> str:
    """Code as it is shown and answered: in a fence, without its margin."""
    lines = lines_of(code)
    margin = margin_of(lines)
    shown = "".join(dedented(line, margin).rstrip() + "\n" for line in lines)
    fence = fence_for(shown)
    return f"{fence}{language.name if language else ''}\n{shown}{fence}"


def _known(task: Task, source: Source, region: Region) -> tuple[str | None, Region]:
    """The answer to a rename that can be proven, and the region that has all of it."""
    rows = (region.start, region.end)
    found = renames.judged(source, *rows, task.instruction, task.elsewhere)
    if not isinstance(found, renames.Proven):
        return None, region
    if found.rows[0] < region.start or region.end < found.rows[1]:
        region = whole_file(source)
    new = "".join(lines_of(found.text)[region.start : region.end])
    return _block(new, source.language), region


def _plan_blocks(task: Task, source: Source, context: Context, region: Region) -> EditPlan:
    where = ""
    if region.kind != "file":
        where = f" It is about lines {region.start + 1} to {region.end}; change nothing else."
    text = f"File: {task.path}\n\nThe change: {task.instruction.strip()}{where}"
    text += "\n\n" + INSTRUCTIONS["search_replace"]
    items = context.showing(task.path, task.text).request(SYSTEM, text)
    return EditPlan(
        task=task,
        source=source,
        region=region,
        format="search_replace",
        items=items,
        prediction=source.part(region.start, region.end),
    )


# -- reading the answer ---------------------------------------------------------------------------


class Attempt:
    """The answer to a plan, while it is written."""

    def __init__(self, made: EditPlan) -> None:
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
        before, asked = self._plan.source, self._plan.task.instruction
        try:
            found, hunks, after = self._reader.finish()
        except EditError as error:
            found, hunks, after = [_unfit(error)], [], before
        if not found:
            found = checks.problems(before, after, hunks, self._plan.region, asked)
            if self._plan.known is None:
                found += self._renamed(after)
        return Outcome(
            hunks=tuple(hunks), text=after.text, problems=tuple(found), answer="".join(self._answer)
        )

    def _renamed(self, after: Source) -> Iterator[Finding]:
        """What is wrong with a rename that a model made."""
        task, region = self._plan.task, self._plan.region
        rows = (region.start, region.end)
        return renames.wrong(self._plan.source, after, rows, task.instruction, task.elsewhere)


def _unfit(error: EditError) -> Finding:
    return Finding("unfit", str(error), str(error))


class _RegionReader:
    def __init__(self, made: EditPlan) -> None:
        self._plan = made
        language = None if made.region.kind == "file" else made.source.language
        self._preamble = imports.Preamble(language, made.old)
        self._rewrite = Rewrite(made.old, self._preamble)

    def feed(self, delta: str) -> list[Hunk]:
        return shifted(self._rewrite.feed(delta), self._plan.region.start)

    def finish(self) -> tuple[list[Finding], list[Hunk], Source]:
        self._rewrite.finish()
        made, source = self._plan, self._plan.source
        answer = own_part(self._rewrite.answer, source, made.region)
        new = self._without_noise(spliced(answer, made.old))
        hunks = shifted(between(made.old, new), made.region.start)
        hunks = constants.hoisted(source, hunks, made.task.instruction)
        after = source.edited(hunks)
        if imported := self._imports(after):
            hunks = sorted([*imported, *hunks], key=lambda hunk: hunk.start)
            after = source.edited(hunks)
        return [], hunks, after

    def _without_noise(self, new: str) -> str:
        old, asked = self._plan.old, self._plan.task.instruction
        language = self._plan.source.language
        if not about_layout(asked):
            new = settle(old, new)
        if language and not about_comments(asked):
            new = keep_comments(old, new, language)
        return new

    def _imports(self, after: Source) -> list[Hunk]:
        """Those that came with the answer, and those it forgot."""
        before, wanted = self._plan.source, list(self._preamble.imports)
        if before.is_in("python"):
            wanted = used_imports("".join(wanted), after.text)
            missing = newly_unbound(before, after)
            wanted += imports_for(missing - bound_by("".join(wanted)))
        elif before.is_in("c", "cpp"):
            used = headers.used(wanted, after.text)
            wanted = [*used, *headers.forgotten(before.text, after.text)]
        return imports.added(before, wanted)


class _BlockReader:
    def __init__(self, made: EditPlan) -> None:
        self._plan = made
        self._blocks = Blocks()
        self._hunks: list[Hunk] = []
        self._problems: list[Finding] = []

    def feed(self, delta: str) -> list[Hunk]:
        try:
            return self._read(self._blocks.feed(delta))
        except EditError as error:
            self._problems.append(_unfit(error))
            return []

    def finish(self) -> tuple[list[Finding], list[Hunk], Source]:
        try:
            self._read(self._blocks.finish())
        except EditError as error:
            self._problems.append(_unfit(error))
        hunks = sorted(self._hunks, key=lambda hunk: hunk.start)
        return self._problems, hunks, self._plan.source.edited(hunks)

    def _read(self, blocks: Sequence[Block]) -> list[Hunk]:
        path, text = self._plan.task.path, self._plan.task.text
        shown: list[Hunk] = []
        for block in blocks:
            if block.path not in (None, path):
                self._problems.append(
                    Finding(
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
