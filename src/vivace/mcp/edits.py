"""Edits that agents ask for, at the desk: one after another for each file, a few at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vivace.desk.edit import Settings
from vivace.desk.opening import Models, open_desk
from vivace.desk.targets import Target, read_target
from vivace.edits.placing.region import Selection
from vivace.edits.placing.sketch import defined_in
from vivace.errors import VivaceError
from vivace.mcp.person import AtAgent
from vivace.mcp.results import Reply, failure, reply_of
from vivace.mcp.tools import ApplySketch, EditFile
from vivace.syntax.languages import language_of
from vivace.workspace.errors import PathRefused, WorkspaceError
from vivace.workspace.paths import SafePath, Workspace

__all__ = ["Edits"]

_AT_ONCE = 4
"""More wait here: an agent that asks for fifty edits is not to fill the server's queue."""
_NAMED = 8
"""Definitions of a sketch that are named to the model; the sketch has them all."""


@dataclass
class _Turn:
    """Who works on a file, and how many want to."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


class Edits:
    def __init__(
        self, folder: Path, url: str, key: str | None, models: Models, state: Path
    ) -> None:
        """``folder`` is what may be edited, ``state`` where the journal is kept."""
        self.folder = Path(os.path.realpath(folder))
        self._workspace = Workspace.around(cwd=self.folder)
        self._settings = Settings(url=url, key=key)
        self._models = models
        self._state = state
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._turns: dict[SafePath, _Turn] = {}

    def person(self) -> AtAgent:
        return AtAgent(self.folder)

    async def carry_out(self, asked: EditFile | ApplySketch, person: AtAgent) -> Reply:
        """What is answered, whatever comes of it."""
        try:
            _refuse_empty(asked)
            path = self._path(asked.path)
            async with self._alone(path), self._room:
                return await self._edit(asked, path, person)
        except VivaceError as error:
            return failure(error)

    def _path(self, given: str) -> SafePath:
        """The file that is meant, from the folder on; protected ones are not for agents."""
        prefix = self.folder.relative_to(self._workspace.root)
        inside = given if given.startswith("/") or not prefix.parts else f"{prefix}/{given}"
        path = self._workspace.resolve(inside)
        if not path.absolute.is_relative_to(self.folder):
            raise PathRefused(
                f"{given} was refused: it leads out of {self.folder}, where edits have to stay."
            )
        return path

    @asynccontextmanager
    async def _alone(self, path: SafePath) -> AsyncIterator[None]:
        """Nobody else edits the file meanwhile; who came first goes first."""
        turn = self._turns.setdefault(path, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[path]

    async def _edit(self, asked: EditFile | ApplySketch, path: SafePath, person: AtAgent) -> Reply:
        selection = _lines(asked.selection) if isinstance(asked, EditFile) else None
        sketch = asked.sketch if isinstance(asked, ApplySketch) else None
        target = await asyncio.to_thread(read_target, path, selection)
        models = Models(self._models.fast, self._models.deep, sketch)
        desk = open_desk(self._workspace, person, self._settings, models, self._state)
        async with desk as editing:
            return reply_of(await editing.run([target], _instruction(asked, target)), person)


def _refuse_empty(asked: EditFile | ApplySketch) -> None:
    said = asked.instruction if isinstance(asked, EditFile) else asked.sketch
    if not (said or "").strip():
        name = "instruction" if isinstance(asked, EditFile) else "sketch"
        raise WorkspaceError(f"What is to be changed? The {name} is empty.")


def _lines(selection: str | None) -> Selection | None:
    if selection is None:
        return None
    first, _, last = selection.partition("-")
    return int(first) - 1, int(last or first)


def _instruction(asked: EditFile | ApplySketch, target: Target) -> str:
    """What the checks take for what was asked; of a sketch, that which it writes out."""
    if isinstance(asked, EditFile):
        return asked.instruction
    if asked.instruction and asked.instruction.strip():
        return asked.instruction
    names = defined_in(asked.sketch, language_of(str(target.path)))[:_NAMED]
    return f"Make the change that is sketched{': ' if names else '.'}{', '.join(names)}"
