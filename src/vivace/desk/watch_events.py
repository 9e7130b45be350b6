"""What happens while a command is watched, as values; and who is told, and decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from vivace.desk.applying import Accepted
from vivace.desk.asking import Made
from vivace.desk.events import Conflicted, NoFix, NothingWritten, Wrote
from vivace.desk.suspects import Place
from vivace.failures.failure import Failure

__all__ = [
    "Asking",
    "CommandBegan",
    "CommandFailed",
    "CommandPassed",
    "CommandSaid",
    "Fix",
    "FixFailed",
    "Proposed",
    "Saved",
    "WatchEvent",
    "Watcher",
]


class Saved(Struct, frozen=True):
    """The person saved these files."""

    paths: tuple[str, ...]


class CommandBegan(Struct, frozen=True):
    command: str


class CommandSaid(Struct, frozen=True):
    data: bytes


class CommandPassed(Struct, frozen=True):
    seconds: float


class CommandFailed(Struct, frozen=True):
    status: int
    seconds: float
    failures: tuple[Failure, ...]
    """Those that name a file of the project, with the frames that do; the first is to be mended."""


class Asking(Struct, frozen=True):
    """A model is asked for a fix at this place."""

    number: int
    place: str
    model: str
    """Empty: the server's own choice."""


class FixFailed(Struct, frozen=True):
    """One attempt is no fix."""

    number: int
    why: str


class Fix(Struct, frozen=True):
    """An edit that was tried."""

    made: Made
    place: Place
    passed: bool
    """Whether the command passed with it; else it fails, but otherwise than before."""


class Proposed(Struct, frozen=True):
    """A fix was found; the work tree is as it was."""

    fix: Fix
    seconds: float
    """Since the command had failed."""


WatchEvent = (
    Saved
    | CommandBegan
    | CommandSaid
    | CommandPassed
    | CommandFailed
    | Asking
    | FixFailed
    | Proposed
    | NoFix
    | Wrote
    | NothingWritten
    | Conflicted
)


class Watcher(Protocol):
    """Who watches."""

    def tell(self, event: WatchEvent) -> None: ...

    async def accepts(self, edit: Accepted, *, passed: bool) -> Sequence[Accepted]:
        """Which hunks of a fix are wanted; none where nobody is there to say it. ``passed``: the
        command passed with all of them."""
