"""A sketch that is carried out without a model, and held to the same checks as any edit."""

from __future__ import annotations

from vivace.edits import checks
from vivace.edits.attempt import EditPlan, Outcome, Task
from vivace.edits.importing import imports
from vivace.edits.importing.missing import missing
from vivace.edits.importing.project import Modules
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.region import Region
from vivace.edits.placing.sketch import placed
from vivace.syntax.source import Source

__all__ = ["carried_out"]


def carried_out(
    task: Task, sketch: str, modules: Modules | None = None
) -> tuple[EditPlan, Outcome] | None:
    """The edit, and what it is about; None where a model has to be asked."""
    source = Source.of(task.path, task.text)
    found = placed(source, sketch) if task.selection is None else None
    if found is None:
        return None
    hunks = list(found.hunks)
    touched = [*found.regions, *(Region(hunk.start, hunk.end) for hunk in hunks)]
    after = source.edited(hunks)
    came = "".join(found.imports)
    if imported := imports.added(source, [came, *missing(source, after, modules, came)]):
        hunks = imports.together(imported, hunks)
        after = source.edited(hunks)
    plan = EditPlan(
        task=task,
        source=source,
        shown=Excerpt(source, touched),
        format="region",
        items=(),
        prediction="",
        sketch=sketch,
    )
    problems = checks.problems(source, after, hunks, plan.shown, task.instruction, modules)
    outcome = Outcome(hunks=tuple(hunks), text=after.text, problems=tuple(problems), answer="")
    return plan, outcome
