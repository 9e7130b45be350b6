"""Several edits at once, each in a throwaway copy of the work tree: the first that passes wins."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from vivace.cli.editing.asking import Asker, Made, Sampling
from vivace.cli.editing.checking import run_check
from vivace.cli.editing.targets import Target
from vivace.cli.editing.view import PlainView, View
from vivace.client.connection import open_connection
from vivace.errors import VivaceError
from vivace.workspace.installed import environment_for
from vivace.workspace.paths import Workspace
from vivace.workspace.throwaway import throwaway
from vivace.workspace.write import replace

__all__ = ["Trial", "first_that_passes"]

_TEMPERATURE = 0.7


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


async def first_that_passes(trial: Trial, attempts: int, view: View) -> list[Made] | None:
    """The edits of the first attempt that passes; None when none does. The rest are stopped."""
    tasks = [asyncio.create_task(_attempt(trial, number)) for number in range(attempts)]
    try:
        async with view.ticking():
            for done in asyncio.as_completed(tasks):
                made = await done
                if isinstance(made, str):
                    view.say(made)
                else:
                    return made
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return None


async def _attempt(trial: Trial, number: int) -> list[Made] | str:
    """The edits, or why this attempt is none."""
    name = f"attempt {number + 1}"
    # The first is what would have come without the others.
    sampling = Sampling(_TEMPERATURE, seed=number) if number else Sampling()
    edits: list[Made] = []
    try:
        async with open_connection(trial.url, trial.key) as connection:
            asker = Asker(
                connection,
                _Silent(),
                trial.workspace,
                trial.model,
                sketch=trial.sketch,
                sampling=sampling,
                patient=False,
            )
            for target in trial.targets:
                made = await asker.edit(target, trial.instruction)
                if made is None or not made.outcome.good:
                    why = made.outcome.problems[0].person if made else "It was stopped."
                    return f"{name}: {why}"
                edits.append(made)
        return edits if await _passes(trial, edits) else f"{name}: the check failed."
    except VivaceError as error:
        return f"{name}: {error}"


async def _passes(trial: Trial, edits: Sequence[Made]) -> bool:
    with ExitStack() as stack:
        copy = Workspace(stack.enter_context(throwaway(trial.workspace.root)))
        for made in edits:
            document = made.target.document
            path = copy.resolve(str(document.path), allow=[str(document.path)])
            replace(path, document.encode(made.outcome.text), document.version)
        own = environment_for(trial.workspace.root, copy.root, os.environ)
        checked = await run_check(trial.command, copy.root, lambda _: None, own)
        return checked.passed


class _Silent(PlainView):
    """Of several at once, nothing is shown until one of them has won."""

    def finish(self, hunks: object, summary: str) -> None:
        pass
