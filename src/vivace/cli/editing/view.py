"""What is seen of an edit in a terminal while it is made.

The diff grows hunk by hunk over a line with speed and time. When the answer begins again, what was
shown of it goes, as far as the terminal can take it back.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import AsyncIterator, Sequence

import click
from rich.cells import cell_len

from vivace.cli.editing.diff import GrowingDiff, coloured
from vivace.cli.output import Control, say, styled, visible
from vivace.edits.attempt import EditPlan
from vivace.edits.placing.region import Region
from vivace.syntax.hunk import Hunk

__all__ = ["LiveView", "describe_region"]

_TICK_S = 0.1
_ERASE_LINE = Control("\r\x1b[K")
_CHARACTERS_PER_TOKEN = 4


class LiveView:
    """The diff while it grows, and the line below it."""

    def __init__(self) -> None:
        self._text = ""
        self._diff = GrowingDiff("")
        self._shown: list[Hunk] = []
        self._rows = 0
        """Rows of the screen that are of the present answer, below its title."""
        self._title = 0
        self._model = ""
        self._started = 0.0
        self._first: float | None = None
        self._deltas = self._characters = 0
        self._status = self._paused = False

    def begin(self, plan: EditPlan, model: str) -> None:
        self._text, self._model = plan.task.text, model
        self._rows = 0
        self._begin_again()
        self._line(styled(f"{plan.task.path}{_about(plan.region)}", bold=True))
        self._title, self._rows = self._rows, 0

    def _begin_again(self) -> None:
        self._diff, self._shown = GrowingDiff(self._text), []
        self._started, self._first = time.perf_counter(), None
        self._deltas = self._characters = 0
        self._paused = False

    def progress(self, text: str, hunks: Sequence[Hunk]) -> None:
        self._paused = False
        self._first = self._first or time.perf_counter()
        self._deltas += 1
        self._characters += len(text)
        for hunk in hunks:
            self._shown.append(hunk)
            for line in self._diff.add(hunk):
                self._line(coloured(line))
        self._draw_status()

    def pause(self) -> None:
        self._clear_status()
        self._paused = True

    def turned(self, line: str) -> None:
        self._rows += _rows_of(f"> {line}")  # it stands there as it was typed
        self._take_back()
        say(f"> {line}", bold=True)
        self._begin_again()

    def finish(self, hunks: Sequence[Hunk], summary: str) -> None:
        self._clear_status()
        if list(hunks) != self._shown:
            self._take_back()
            self._diff = GrowingDiff(self._text)
            for hunk in hunks:
                for line in self._diff.add(hunk):
                    self._line(coloured(line))
        for line in self._diff.end():
            self._line(coloured(line))
        self._line(styled(summary, dim=True))

    def withdrawn(self, why: str) -> None:
        self._rows += self._title
        self._take_back()
        say(why, fg="yellow")

    def clear(self) -> None:
        """Something else is about to be said."""
        self._clear_status()

    @contextlib.asynccontextmanager
    async def ticking(self) -> AsyncIterator[None]:
        async def tick() -> None:
            while True:
                self._draw_status()
                await asyncio.sleep(_TICK_S)

        task = asyncio.create_task(tick())
        try:
            yield
        finally:
            task.cancel()
            self._clear_status()

    # -- the screen -------------------------------------------------------------------------------

    def _line(self, text: Control) -> None:
        self._clear_status()
        self._rows += _rows_of(click.unstyle(text))
        say(text)

    def _take_back(self) -> None:
        """Clear what was shown of this answer; what has scrolled away can only be disowned."""
        self._clear_status()
        if self._rows < shutil.get_terminal_size().lines:
            say(Control(f"\x1b[{self._rows}A\x1b[J" if self._rows else ""), nl=False)
        else:
            say("-- what stands above does not count any more --", dim=True)
        self._rows = 0

    def _draw_status(self) -> None:
        if self._paused:
            return
        now = time.perf_counter()
        parts = [self._model or "the model", f"{now - self._started:.1f} s"]
        if self._first is not None and now - self._first > _TICK_S:
            # Drafted tokens come several at a time; the exact number comes at the end.
            tokens = max(self._deltas, self._characters // _CHARACTERS_PER_TOKEN)
            parts.append(f"{tokens / (now - self._first):.0f} tokens/s")
        parts.append("type to redirect, Esc stops")
        text = visible(" · ".join(parts))[: shutil.get_terminal_size().columns - 1]
        say(_ERASE_LINE, styled(text, dim=True), nl=False)
        self._status = True

    def _clear_status(self) -> None:
        if self._status:
            say(_ERASE_LINE, nl=False)
        self._status = False


def describe_region(region: Region) -> str:
    return f"{region.kind} {region.name}, {region.lines}" if region.name else region.lines


def _about(region: Region) -> str:
    return "" if region.kind == "file" else f" ({describe_region(region)})"


def _rows_of(text: str) -> int:
    return max(1, -(-cell_len(text) // shutil.get_terminal_size().columns))
