"""``vivace demo``: the same change of the same file, the plain way and Vivace's, side by side."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from vivace.cli import options
from vivace.cli.demonstration.desk import desk
from vivace.cli.demonstration.sides import Edit, Plain
from vivace.cli.keyboard import keys
from vivace.cli.output import say
from vivace.client.connection import open_connection
from vivace.client.models import served_models

if TYPE_CHECKING:
    from vivace.cli.demonstration.screen import Screen

__all__ = ["demo"]

_FRAME_S = 0.1
_LOOK_S = 1.5
"""So long the end can be looked at before it gives way to the summary."""

Way = Callable[[], Coroutine[Any, Any, None]]


@click.command()
@click.option("--model", "-m", help="Which model edits; by default the server's first.")
@options.url
@options.key
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    default=60,
    show_default=True,
    help="How long each way may take.",
)
@click.option(
    "--together", is_flag=True, help="Both at the same time, for a server that has room for two."
)
@click.option("--once", is_flag=True, help="Print only the summary, as when piped.")
def demo(
    model: str | None, url: str, key: str | None, seconds: float, together: bool, once: bool
) -> None:
    """Watch one edit being made in two ways, side by side.

    Both ways ask the same model on your server for the same change of one function in a file of
    400 lines. On the left the whole file is sent and written again. On the right is what vivace
    edit does: only the function is rewritten, the old code is its draft, and a line that is typed
    on the way redirects it. The edit is applied to a temporary copy and undone at the end; none of
    your files is touched.

    The right side goes first and the left follows, so that each has the server for itself. Needs a
    running server: vivace up. q or Ctrl-C ends it; the summary stays.
    """
    live = not once and sys.stdout.isatty()
    asyncio.run(_show(url, key, model, _Rules(seconds, together, live)))


@dataclass(frozen=True)
class _Rules:
    seconds: float
    together: bool
    live: bool


async def _show(url: str, key: str | None, model: str | None, rules: _Rules) -> None:
    # Drawing is for this command only; the others need not wait for its import.
    from vivace.cli.demonstration.screen import Screen, summary

    with desk() as place:
        async with open_connection(url, key) as left, open_connection(url, key) as right:
            chosen = model or next(iter(await served_models(url, key)), "")
            plain, edit = Plain(chosen), Edit(chosen, place)
            ways = [partial(edit.run, right), partial(plain.run, left)]
            race = asyncio.create_task(_race(ways, rules))
            with Screen(plain, edit) if rules.live else contextlib.nullcontext() as screen:
                await _until_over(race, edit, screen)
        edit.undo()
    say(summary(plain, edit, url))


async def _race(ways: Sequence[Way], rules: _Rules) -> None:
    for group in [ways] if rules.together else [[way] for way in ways]:
        await _run(group, rules.seconds)


async def _run(ways: Sequence[Way], seconds: float) -> None:
    """Until they are done or have had their time; what goes wrong with one ends all."""
    tasks = [asyncio.create_task(way()) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            await _stop(task)


async def _until_over(race: asyncio.Task[None], edit: Edit, screen: Screen | None) -> None:
    """Show the race and the undo; q and Ctrl-C cut that short."""
    showing = asyncio.create_task(_play(race, edit, screen))

    def typed(key: str) -> None:
        if key in "qQ":
            showing.cancel()

    with contextlib.suppress(asyncio.CancelledError), keys(typed):
        await showing
    for task in (showing, race):
        await _stop(task)
    if not race.cancelled():
        race.result()


async def _play(race: asyncio.Task[None], edit: Edit, screen: Screen | None) -> None:
    while not race.done():
        if screen is not None:
            screen.draw()
        await asyncio.wait({race}, timeout=_FRAME_S)
    if screen is not None and race.exception() is None:
        edit.undo()
        screen.draw()
        await asyncio.sleep(_LOOK_S)


async def _stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
