"""A command that is run whenever something is saved, and a fix for what fails in it.

    run       the command, in the work tree, as the person would
    read      what it printed: what failed, and where in their own files
    fix       asked for at the likeliest place, tried in a throwaway copy
    propose   hunks, and whether the command passed with them; the person decides

Nothing but the command is ever run, and nothing is written that nobody accepted. What is saved
meanwhile ends whatever is under way, for it may be out of date.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from vivace.desk.applying import Accepted, EditConflict, Writer
from vivace.desk.checking import run_check
from vivace.desk.events import Conflicted, NoFix, NothingWritten, Wrote
from vivace.desk.suspects import Sources, expectation, suspects
from vivace.desk.tried_fixes import Fixer, Wanted
from vivace.desk.watch_events import (
    CommandBegan,
    CommandFailed,
    CommandPassed,
    CommandSaid,
    Fix,
    Proposed,
    Saved,
    Watcher,
)
from vivace.errors import VivaceError
from vivace.failures.failure import Failure
from vivace.failures.output import Kept
from vivace.failures.own import Project
from vivace.failures.reading import read
from vivace.workspace.bytecode import discard_bytecode
from vivace.workspace.listing import names_below
from vivace.workspace.paths import SafePath, Workspace, open_folder

__all__ = ["Ran", "Round", "Saves", "Watching"]

_TITLE = 200
_PATIENCE = 5
"""How much longer than the command took to fail it may take to pass."""
_LEAST_S = 120.0
"""In the copy everything may have to be built anew."""
_MOST_FILES = 100_000
_READ_FAILURES = 5
"""Failures of which the first with a place is to be mended."""


class Saves(Protocol):
    """What the person saves, and what of it is our own doing."""

    def __aiter__(self) -> AsyncIterator[tuple[str, ...]]: ...

    def command(self) -> AbstractContextManager[None]:
        """While this lasts the command runs, which may write files too."""

    def settled(self, paths: Iterable[str]) -> None:
        """These were written by us: as they are now, they are no save."""


@dataclass(frozen=True)
class Ran:
    """One run of the command in the work tree."""

    status: int
    seconds: float
    failures: tuple[Failure, ...] = ()
    """Those with a place in the project."""

    @property
    def passed(self) -> bool:
        return self.status == 0


@dataclass(frozen=True)
class Round:
    """A run, and what came of it."""

    ran: Ran
    fix: Fix | None = None
    applied: bool = False
    seconds: float = 0.0
    """From the failure to the fix, or to knowing that there is none."""


@dataclass
class Watching:
    command: str
    workspace: Workspace
    here: str
    """Where the command runs, from the root down; empty is the root."""
    fixer: Fixer
    writer: Writer
    watcher: Watcher
    saves: Saves | None = None
    patience_s: float = _LEAST_S
    """The least that the command may take with a fix."""
    _files: frozenset[str] = frozenset()
    """The project's, as they were when the command failed last."""

    async def once(self) -> int:
        """Run it; where it fails, propose a fix. The status of the command as things stand at the
        end: if something was accepted, it is run again."""
        found = await self.round()
        while found.applied:
            found = await self.round()
        return found.ran.status

    async def until_stopped(self) -> None:
        """Again at each save, for ever."""
        assert self.saves is not None
        saves = aiter(self.saves)
        saved = asyncio.ensure_future(anext(saves))
        running: asyncio.Task[int] | None = None
        try:
            while True:
                running = asyncio.create_task(self.once())
                await asyncio.wait({running, saved}, return_when=asyncio.FIRST_COMPLETED)
                if not saved.done():
                    running.result()  # or what went wrong
                    await asyncio.wait({saved})
                await _end(running)
                await asyncio.to_thread(self._discard_bytecode, saved.result())
                self.watcher.tell(Saved(saved.result()))
                saved = asyncio.ensure_future(anext(saves))
        finally:
            saved.cancel()
            if running is not None:
                await _end(running)
            await asyncio.gather(saved, return_exceptions=True)

    async def round(self) -> Round:
        status, seconds, said = await self._run()
        ran = Ran(status, seconds)
        if ran.passed:
            self.watcher.tell(CommandPassed(seconds))
            return Round(ran)
        began = time.perf_counter()
        try:
            ran = Ran(status, seconds, await asyncio.to_thread(self._read, said))
            self.watcher.tell(CommandFailed(status, seconds, ran.failures))
            fix = await self._fix(ran)
            seconds = time.perf_counter() - began
            if fix is None:
                return Round(ran, seconds=seconds)
            self.watcher.tell(Proposed(fix, seconds))
            applied = await self._decide(fix)
        except VivaceError as error:
            self.watcher.tell(NoFix(str(error)))
            return Round(ran, seconds=time.perf_counter() - began)
        return Round(ran, fix, applied, seconds)

    def _discard_bytecode(self, names: Iterable[str]) -> None:
        """Discard bytecode of saved files that the command would run instead of the new text:
        it was compiled within the same second from a text of equal length."""
        for name in names:
            path = SafePath(self.workspace.root, tuple(name.split("/")))
            with contextlib.suppress(OSError), open_folder(path) as folder:
                discard_bytecode(folder, path.name)

    # -- running ----------------------------------------------------------------------------------

    async def _run(self) -> tuple[int, float, str]:
        """Its status, how long it took, and what it printed."""
        self.watcher.tell(CommandBegan(self.command))
        said = Kept()

        def show(data: bytes) -> None:
            said.add(data)
            self.watcher.tell(CommandSaid(data))

        began = time.perf_counter()
        folder = self.workspace.root / self.here
        if self.saves is None:
            checked = await run_check(self.command, folder, show)
        else:
            with self.saves.command():
                checked = await run_check(self.command, folder, show)
        return checked.status, time.perf_counter() - began, said.text

    def _read(self, text: str) -> tuple[Failure, ...]:
        root = self.workspace.root
        self._files = frozenset(names_below(root, most=_MOST_FILES))
        project = Project(str(root), self._files, self.here)
        own = (project.own(failure) for failure in read(text))
        return tuple(failure for failure in own if failure.frames)

    # -- mending ----------------------------------------------------------------------------------

    async def _fix(self, ran: Ran) -> Fix | None:
        if not ran.failures:
            self.watcher.tell(NoFix("What it printed names no line of a file of this project."))
            return None
        wanted = await asyncio.to_thread(self._wanted, ran)
        if wanted is None:
            self.watcher.tell(
                NoFix("No code of this project is named that a model may see and change.")
            )
            return None
        fix = await self.fixer.fix(wanted, self.watcher)
        if fix is None:
            self.watcher.tell(NoFix("None of the attempts made it pass; nothing was changed."))
        return fix

    def _wanted(self, ran: Ran) -> Wanted | None:
        sources = Sources(self.workspace)
        seconds = max(self.patience_s, _PATIENCE * ran.seconds)
        for failure in ran.failures[:_READ_FAILURES]:
            if places := suspects(failure, sources):
                test = expectation(failure, sources)
                return Wanted(
                    self.command, failure, places, ran.failures, self._files, test, seconds
                )
        return None

    async def _decide(self, fix: Fix) -> bool:
        made = fix.made
        offered = Accepted(made.target, made.outcome.hunks, made.outcome.problems)
        accepted = await self.watcher.accepts(offered, passed=fix.passed)
        if not any(each.hunks for each in accepted):
            self.watcher.tell(NothingWritten())
            return False
        try:
            written = await self.writer.write(accepted, f"fix: {self.command}"[:_TITLE])
        except EditConflict as conflict:
            self.watcher.tell(Conflicted(conflict))
            return False
        if self.saves is not None:
            self.saves.settled([each.path for each in written])
        for each in written:
            self.watcher.tell(Wrote(each))
        return True


async def _end(task: asyncio.Task[int]) -> None:
    """Whatever it was doing, the command it ran and the copy it tried something in are gone."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
