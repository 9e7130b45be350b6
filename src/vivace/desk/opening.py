"""The desk as somebody sits down at it: one connection, one conversation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from vivace.client.connection import open_connection
from vivace.client.models import served_models
from vivace.desk.applying import Journaled, Writer
from vivace.desk.asking import Asker
from vivace.desk.edit import Editing, Settings
from vivace.desk.events import Reconnected
from vivace.desk.person import Person
from vivace.workspace.index import Index
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

__all__ = ["Models", "open_desk"]


@dataclass(frozen=True)
class Models:
    """Which models answer."""

    fast: str | None = None
    """None: the server's first."""
    deep: str | None = None
    sketch: str | None = None
    """What a larger one has sketched, to be carried out."""


@asynccontextmanager
async def open_desk(
    workspace: Workspace,
    person: Person,
    settings: Settings,
    models: Models,
    state: Path,
    writer: Writer | None = None,
) -> AsyncIterator[Editing]:
    """``state`` is where journals are kept, and what is known of the project. Without a ``writer``,
    edits go to disk."""
    fast = models.fast or next(iter(await served_models(settings.url, settings.key)), "")
    index = Index(workspace, state)
    async with open_connection(settings.url, settings.key) as connection:
        connection.waits = True
        connection.on_back = lambda: person.tell(Reconnected())
        asker = Asker(
            connection,
            person,
            workspace,
            fast,
            models.deep,
            models.sketch,
            leniency=settings.leniency,
            index=index,
            guesses=not settings.apply,
        )
        try:
            yield Editing(asker, writer or Journaled(Journal(workspace, state)), settings)
        finally:
            index.close()  # nobody waits for it at the end
