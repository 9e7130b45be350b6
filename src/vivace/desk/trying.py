"""Several edits at once, each in a throwaway copy of the work tree: the first that passes wins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from vivace.client.connection import open_connection
from vivace.desk.asking import Asker, Made, Sampling
from vivace.desk.checking import Checked, run_check
from vivace.desk.events import AttemptFailed
from vivace.desk.person import Person, Unattended
from vivace.desk.targets import Target
from vivace.desk.too_long import within_reach
from vivace.errors import VivaceError
from vivace.workspace.index import Index
from vivace.workspace.installed import environment_for
from vivace.workspace.paths import Workspace
from vivace.workspace.throwaway import throwaway
from vivace.workspace.write import replace

__all__ = ["InCopy", "Trial", "checked_in_copy", "first_that_passes"]

_TEMPERATURE = 0.7


@dataclass(frozen=True)
class InCopy:
    """What a command said of edits in a throwaway copy of the work tree."""

    checked: Checked
    root: Path
    """Where the copy was; it is gone, but what was printed may name it."""


@dataclass(frozen=True)
class Trial:
    """What every attempt has in common."""

    url: str
    key: str | None
    model: str
    sketch: str | None
    workspace: Workspace
    targets: Sequence[Target]
    instruction: str
    command: str
    index: Index | None = None


async def first_that_passes(trial: Trial, attempts: int, person: Person) -> list[Made] | None:
    """The edits of the first attempt that passes; None when none does. The rest are stopped. Of
    several at once, nothing is told until one of them has won."""
    tasks = [asyncio.create_task(_attempt(trial, number)) for number in range(attempts)]
    try:
        async with person.waiting(None):
            for done in asyncio.as_completed(tasks):
                made = await done
                if isinstance(made, AttemptFailed):
                    person.tell(made)
                else:
                    return made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return None


async def _attempt(trial: Trial, number: int) -> list[Made] | AttemptFailed:
    """The edits, or why this attempt is none."""
    # The first is what would have come without the others.
    sampling = Sampling(_TEMPERATURE, seed=number) if number else Sampling()
    edits: list[Made] = []
    try:
        async with open_connection(trial.url, trial.key) as connection:
            asker = Asker(
                connection,
                Unattended(),
                trial.workspace,
                trial.model,
                sketch=trial.sketch,
                sampling=sampling,
                patient=False,
                index=trial.index,
                guesses=True,
            )
            for target in trial.targets:
                with within_reach(target):
                    made = await asker.edit(target, trial.instruction)
                if made is None or not made.outcome.good:
                    why = made.outcome.problems[0].person if made else "It was stopped."
                    return AttemptFailed(number + 1, why)
                edits.append(made)
        if (await checked_in_copy(trial.workspace, edits, trial.command)).checked.passed:
            return edits
        return AttemptFailed(number + 1, "the check failed.")
    except VivaceError as error:
        return AttemptFailed(number + 1, str(error))


async def checked_in_copy(
    workspace: Workspace,
    edits: Sequence[Made],
    command: str,
    here: str = "",
    show: Callable[[bytes], None] = lambda _: None,
) -> InCopy:
    """What the command says of the edits, in a throwaway copy of the work tree; ``here`` is the
    folder it runs in, from the root down."""
    with ExitStack() as stack:
        copy = Workspace(stack.enter_context(throwaway(workspace.root)))
        for made in edits:
            document = made.target.document
            path = copy.resolve(str(document.path), allow=[str(document.path)])
            replace(path, document.encode(made.outcome.text), document.version)
        own = environment_for(workspace.root, copy.root, os.environ)
        return InCopy(await run_check(command, copy.root / here, show, own), copy.root)
