"""One edit from what is asked to what may be applied.

    plan       what to ask a model, and what it will probably say
    Attempt    its answer in, hunks out as they settle; at the end the edit and what speaks against
    explained  the same for a bug: the model says what is wrong before it writes the code
    others     where else to look if the answer does not hold
    retry      the same again with the reason at its end, for models that understand one

Hunks that are shown on the way are those of the answer as it stands. The edit at the end may be
smaller: noise is undone and imports find their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from vivace.edits import checks, constants
from vivace.edits.blocks import Block, Blocks, hunks_for
from vivace.edits.context import Context
from vivace.edits.diff import between
from vivace.edits.fence import fence_for, longest_block
from vivace.edits.formats import (
    EXPLAINED,
    INSTRUCTIONS,
    SYSTEM,
    WHICH_LINE,
    ability_of,
    row_for,
)
from vivace.edits.importing import headers, imports
from vivace.edits.importing.missing import missing
from vivace.edits.importing.names import used_imports
from vivace.edits.importing.project import Modules
from vivace.edits.indentation import in_unit_of
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.fitting import fitted
from vivace.edits.placing.locate import Choice, choose, likeliest, rename_scope
from vivace.edits.placing.region import Region, Selection, whole_file
from vivace.edits.placing.sketch import has_comments
from vivace.edits.placing.words import words_in
from vivace.edits.relevance import divided, said_by, unrelated
from vivace.edits.renaming import renames
from vivace.edits.rewrite import Rewrite
from vivace.edits.settle import about_comments, about_layout, keep_comments, settle
from vivace.errors import EditError
from vivace.models import EditFormat
from vivace.protocol.items import Message
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk, apply
from vivace.syntax.languages import Language
from vivace.syntax.lines import dedented, lines_of, margin_of
from vivace.syntax.source import Source

__all__ = [
    "Attempt",
    "EditPlan",
    "Outcome",
    "Task",
    "accepted",
    "explained",
    "others",
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
    shown: Excerpt
    """What of it the model is shown, and may change."""
    format: EditFormat
    items: tuple[Message, ...]
    prediction: str
    """What the answer will mostly be: the draft for the engine."""
    choice: Choice | None = None
    """How the place was found, where it was not given."""
    known: str | None = None
    """The answer itself, where no model is needed to know it."""
    proven: str = ""
    """The file after that answer."""
    sketch: str = ""
    """What a larger model has sketched, if it is that which is carried out."""
    explained: bool = False
    """Whether the model says what is wrong before it writes the code."""

    @property
    def old(self) -> str:
        """What is shown, as it stands in the file."""
        return self.shown.text

    @property
    def region(self) -> Region:
        """From the first line that is shown to the last."""
        first, last = self.shown.regions[0], self.shown.regions[-1]
        if first == last:
            return first
        names = ", ".join(each.name for each in self.shown.regions if each.name)
        return Region(first.start, last.end, "selection", names)


class Outcome(Struct, frozen=True, kw_only=True):
    """An edit of the file, and what speaks against applying it; good if nothing does."""

    hunks: tuple[Hunk, ...]
    text: str
    problems: tuple[Finding, ...]
    answer: str

    @property
    def good(self) -> bool:
        return not self.problems

    @property
    def invalid(self) -> bool:
        """Whether it cannot be meant; else what speaks against it is for the person to decide."""
        return any(problem.severity == "error" for problem in self.problems)


# -- asking ---------------------------------------------------------------------------------------


def plan(
    task: Task, context: Context, model: str, places: Sequence[Region] | None = None
) -> EditPlan:
    """What to ask this model, about these places or those that are found."""
    source = Source.of(task.path, task.text)
    if places is None and (known := _known(task, source)) is not None:
        answer, shown, text = known
        made = _plan_region(task, shown, context, snapshot=False)
        return replace(made, known=answer, proven=text)
    return _plan_for(task, source, context, model, places, task.instruction)


def _plan_for(
    task: Task,
    source: Source,
    context: Context,
    model: str,
    places: Sequence[Region] | None,
    clues: str,
) -> EditPlan:
    """``clues``: all that was said by which the places can be found."""
    choice = None
    if places is None:
        choice = choose(source, clues, task.selection, task.path)
        # A large model finds the place by itself.
        large = ability_of(model) == "search_replace" and not choice.sure
        places = (choice.within,) if large else choice.regions
    shown = Excerpt(source, places)
    row = row_for(model, len(shown))
    if row.format == "search_replace":
        return replace(_plan_blocks(task, shown, context), choice=choice)
    return replace(_plan_region(task, shown, context, snapshot=row.snapshot), choice=choice)


def others(made: EditPlan, outcome: Outcome) -> list[tuple[Region, ...]]:
    """Where else to look after an answer that does not hold, the likeliest first. To ask the same
    again with what was wrong makes a small model copy its mistake."""
    choice = made.choice
    if choice is None or outcome.good:
        return []
    shown = made.shown.regions
    found: list[tuple[Region, ...]] = []
    codes = {problem.code for problem in outcome.problems}
    if "empty" in codes:  # what it leaves out on purpose shows beside what it keeps
        found.append(_with_neighbours(choice, shown))
    changed = codes != {"unchanged"}
    if changed and len(choice.regions) > 1:
        found += [(each,) for each in choice.regions]
    if not choice.sure:
        rest = [each for each in choice.ranked if not made.shown.holds(*each.region.span)]
        found.append(likeliest(rest))
    return [places for places in found if places and places != shown]


def _with_neighbours(choice: Choice, shown: Sequence[Region]) -> tuple[Region, ...]:
    """The same with the pieces before and behind it."""
    pieces = sorted((each.region for each in choice.ranked), key=lambda each: each.start)
    first, last = shown[0].start, shown[-1].end
    before = [each for each in pieces if each.end <= first][-1:]
    behind = [each for each in pieces if each.start >= last][:1]
    return (*before, *shown, *behind)


def plan_delegate(
    task: Task,
    sketch: str,
    context: Context,
    model: str,
    places: Sequence[Region] | None = None,
) -> EditPlan:
    """What to ask a fast model, so that it carries out what a deep one has sketched, about these
    places or those that the sketch shows."""
    source = Source.of(task.path, task.text)
    clues = f"{task.instruction}\n{sketch}"
    made = _plan_for(task, source, context, model, places, clues)
    fence = fence_for(sketch)
    ended = "" if sketch.endswith("\n") else "\n"
    carry_out = (
        f"Carry out this sketch of the change. Where it says that code stays as it is, write out "
        f"that code:\n{fence}\n{sketch}{ended}{fence}"
    )
    last = made.items[-1]
    asked = Message(role=last.role, content=f"{last.content}\n\n{carry_out}")
    return replace(made, items=(*made.items[:-1], asked), sketch=sketch)


def explained(made: EditPlan) -> EditPlan:
    """The same, but the model is to say what is wrong before it writes the code: one that would
    only copy it then does not."""
    if made.format != "region":
        return made
    *before, last = (
        replace(item, content=str(item.content).replace(INSTRUCTIONS["region"], EXPLAINED))
        for item in made.items
    )
    asked = replace(last, content=f"{last.content}\n\n{WHICH_LINE}")
    return replace(made, items=(*before, asked), explained=True)


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


def _plan_region(task: Task, shown: Excerpt, context: Context, *, snapshot: bool) -> EditPlan:
    block = _block(shown.text, shown.source.language)
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
        source=shown.source,
        shown=shown,
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


def _known(task: Task, source: Source) -> tuple[str, Excerpt, str] | None:
    """The answer to a rename that can be proven, what has all of it, and the file after it."""
    region = rename_scope(source, task.instruction, task.selection)
    found = renames.judged(source, *region.span, task.instruction, task.elsewhere)
    if not isinstance(found, renames.Proven):
        return None
    if found.rows[0] < region.start or region.end < found.rows[1]:
        region = whole_file(source)
    new = "".join(lines_of(found.text)[region.start : region.end])
    return _block(new, source.language), Excerpt(source, [region]), found.text


def _plan_blocks(task: Task, shown: Excerpt, context: Context) -> EditPlan:
    where = ""
    if len(shown) < len(shown.source.lines):
        lines = ", ".join(f"{each.start + 1} to {each.end}" for each in shown.regions)
        where = f" It is about lines {lines}; change nothing else."
    text = f"File: {task.path}\n\nThe change: {task.instruction.strip()}{where}"
    text += "\n\n" + INSTRUCTIONS["search_replace"]
    items = context.showing(task.path, task.text).request(SYSTEM, text)
    return EditPlan(
        task=task,
        source=shown.source,
        shown=shown,
        format="search_replace",
        items=items,
        prediction=shown.text,
    )


# -- reading the answer ---------------------------------------------------------------------------


class Attempt:
    """The answer to a plan, while it is written."""

    def __init__(self, made: EditPlan) -> None:
        self._answer: list[str] = []
        self._reader = _reader_for(made)
        self._plan = made

    def feed(self, delta: str) -> list[Hunk]:
        """Hunks of the file that can be shown from now on."""
        self._answer.append(delta)
        return self._reader.feed(delta)

    @property
    def complete(self) -> bool:
        """Whether whatever is still said is no part of the edit."""
        return self._reader.complete

    def finish(self, modules: Modules | None = None) -> Outcome:
        """The edit; ``modules`` are those of its project. Nothing is raised here: what is wrong is
        among the problems."""
        before, asked = self._plan.source, self._plan.task.instruction
        try:
            found, hunks, after = self._reader.finish(modules)
        except EditError as error:
            found, hunks, after = [_unfit(error)], [], before
        if self._plan.known is not None:  # above any other suspicion
            found = checks.broken(before, after)
        elif not found:
            found = checks.problems(before, after, hunks, self._plan.shown, asked, modules)
            found += self._renamed(after)
        return Outcome(
            hunks=tuple(hunks), text=after.text, problems=tuple(found), answer="".join(self._answer)
        )

    def _renamed(self, after: Source) -> Iterator[Finding]:
        """What is wrong with a rename that a model made."""
        task, source = self._plan.task, self._plan.source
        rows = rename_scope(source, task.instruction, task.selection).span
        return renames.wrong(source, after, rows, task.instruction, task.elsewhere)


def _unfit(error: EditError) -> Finding:
    return Finding("unfit", str(error), str(error))


class _ProvenReader:
    """What is proven is taken as it is: nothing of it has to be placed, completed or undone."""

    complete = True

    def __init__(self, made: EditPlan) -> None:
        self._source = made.source
        self._hunks = between(made.source.text, made.proven)
        self._shown = False

    def feed(self, delta: str) -> list[Hunk]:
        shown, self._shown = self._shown, True
        return [] if shown else self._hunks

    def finish(self, modules: Modules | None) -> tuple[list[Finding], list[Hunk], Source]:
        return [], self._hunks, self._source.edited(self._hunks)


class _RegionReader:
    def __init__(self, made: EditPlan) -> None:
        self._plan = made
        whole = len(made.shown) == len(made.source.lines)
        self._preamble = imports.Preamble(None if whole else made.source.language, made.old)
        self._rewrite = Rewrite(made.old, self._preamble)

    @cached_property
    def _said(self) -> frozenset[str]:
        made = self._plan
        return said_by(f"{made.task.instruction}\n{made.sketch}", made.source.text)

    @property
    def complete(self) -> bool:
        return self._rewrite.complete

    def feed(self, delta: str) -> list[Hunk]:
        _ = self._said  # worked out while the model writes, nobody waits for it
        try:
            return self._plan.shown.in_file(self._rewrite.feed(delta))
        except EditError:  # it will be said at the end
            return []

    def finish(self, modules: Modules | None) -> tuple[list[Finding], list[Hunk], Source]:
        self._rewrite.finish()
        made, source = self._plan, self._plan.source
        named = set(words_in(made.task.instruction))
        answer = self._rewrite.answer
        if source.language and not about_layout(made.task.instruction):
            answer = in_unit_of(source.lines, lines_of(made.old), answer)
        new = self._without_noise(fitted(answer, made.shown, named))
        hunks = made.shown.in_file(self._asked_for(between(made.old, new)))
        elsewhere = modules.project.homes if modules is not None else ()
        hunks = constants.hoisted(source, hunks, made.task.instruction, elsewhere)
        after = source.edited(hunks)
        if imported := self._imports(after, modules):
            hunks = imports.together(imported, hunks)
            after = source.edited(hunks)
        return [], hunks, after

    def _asked_for(self, hunks: list[Hunk]) -> list[Hunk]:
        """Without those that nothing gives a reason for, as far as the rest stands without them."""
        source, shown = self._plan.source, self._plan.shown
        parts = divided(hunks)
        strays = unrelated(parts, self._said)
        if not strays or checks.breaks(source, source.edited(shown.in_file(hunks))) is not None:
            return hunks
        for stray in strays:
            rest = [hunk for hunk in parts if hunk not in stray]
            after = source.edited(shown.in_file(rest))
            if rest and checks.breaks(source, after) is None:
                parts = rest
        return between(self._plan.old, apply(self._plan.old, parts))

    def _without_noise(self, new: str) -> str:
        old, asked = self._plan.old, self._plan.task.instruction
        language = self._plan.source.language
        if not about_layout(asked):
            new = settle(old, new)
        if language and not about_comments(asked) and not has_comments(self._plan.sketch):
            new = keep_comments(old, new, language)
        return new

    def _imports(self, after: Source, modules: Modules | None) -> list[Hunk]:
        """Those that came with the answer, and those it forgot."""
        before, wanted = self._plan.source, list(self._preamble.imports)
        if before.is_in("python"):
            wanted = used_imports("".join(wanted), after.text)
        elif before.is_in("c", "cpp"):
            wanted = headers.used(wanted, after.text)
        wanted += missing(before, after, modules, "".join(wanted))
        return imports.added(before, wanted)


class _ExplainedReader(_RegionReader):
    """Shows nothing before the end: a block may be a line that is quoted."""

    def __init__(self, made: EditPlan) -> None:
        super().__init__(made)
        self._text = ""
        self._least = (len(lines_of(made.old)) + 1) // 2

    @property
    def complete(self) -> bool:
        return longest_block(self._text, self._least) is not None

    def feed(self, delta: str) -> list[Hunk]:
        self._text += delta
        return []

    def finish(self, modules: Modules | None) -> tuple[list[Finding], list[Hunk], Source]:
        super().feed(longest_block(self._text, self._least) or self._text)
        return super().finish(modules)


class _BlockReader:
    complete = False
    """There may always be another block."""

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

    def finish(self, modules: Modules | None) -> tuple[list[Finding], list[Hunk], Source]:
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


_Reader = _ProvenReader | _RegionReader | _BlockReader


def _reader_for(made: EditPlan) -> _Reader:
    if made.known is not None:
        return _ProvenReader(made)
    if made.format == "search_replace":
        return _BlockReader(made)
    return _ExplainedReader(made) if made.explained else _RegionReader(made)
