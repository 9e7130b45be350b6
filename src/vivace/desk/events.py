"""What a person may be told while they wait, as values: how it is worded and shown is a view's."""

from __future__ import annotations

from msgspec import Struct

from vivace.desk.applying import EditConflict, Written
from vivace.edits.attempt import EditPlan
from vivace.syntax.hunk import Hunk

__all__ = [
    "Answered",
    "Asked",
    "AttemptFailed",
    "CheckBegan",
    "CheckFails",
    "CheckSaid",
    "Conflicted",
    "Ended",
    "Event",
    "NoAttemptPassed",
    "NoFix",
    "NothingWritten",
    "Reconnected",
    "Redirected",
    "Refused",
    "Speed",
    "Stopped",
    "Unchanged",
    "Withdrawn",
    "Wrote",
]


class Asked(Struct, frozen=True):
    """An answer is about to come."""

    plan: EditPlan
    model: str
    """Empty: the server's own choice."""


class Answered(Struct, frozen=True):
    """More of the answer came, and these hunks are settled."""

    text: str
    hunks: tuple[Hunk, ...]


class Redirected(Struct, frozen=True):
    """The answer begins again in this direction."""

    line: str


class Reconnected(Struct, frozen=True):
    """The connection was lost in the middle of the answer, and is back."""


class Withdrawn(Struct, frozen=True):
    """What was answered does not count; it is asked for again."""

    why: str
    model: str | None
    """Another model that is asked, if it is another."""


class Speed(Struct, frozen=True):
    """How fast an answer was."""

    tokens: int
    first_token: float | None
    per_second: float | None
    drafted: int = 0
    """Of the tokens, those that were drafted rather than written one by one."""


class Ended(Struct, frozen=True):
    """The answer is over; these are its hunks."""

    hunks: tuple[Hunk, ...]
    model: str
    seconds: float
    speed: Speed | None = None
    """None where no model was asked, or none is worth telling of."""
    passed: bool = False
    """It was tried, and passed the check."""


class AttemptFailed(Struct, frozen=True):
    """One of several attempts is none."""

    number: int
    why: str


class NoAttemptPassed(Struct, frozen=True):
    attempts: int


class Unchanged(Struct, frozen=True):
    path: str
    why: str


class Refused(Struct, frozen=True):
    """The checks speak against an edit."""

    path: str
    why: str
    diff: str


class Conflicted(Struct, frozen=True):
    conflict: EditConflict


class Wrote(Struct, frozen=True):
    written: Written


class NothingWritten(Struct, frozen=True):
    """By the person's choice, or because what was refused was not overruled."""

    refused: bool = False


class CheckBegan(Struct, frozen=True):
    command: str


class CheckSaid(Struct, frozen=True):
    data: bytes


class NoFix(Struct, frozen=True):
    why: str


class CheckFails(Struct, frozen=True):
    """The edit stays, though the check still fails; so many entries of the journal are its."""

    entries: int


class Stopped(Struct, frozen=True):
    """By the person."""

    kept: bool
    """Whether an edit had been written."""


Event = (
    Asked
    | Answered
    | Redirected
    | Reconnected
    | Withdrawn
    | Ended
    | AttemptFailed
    | NoAttemptPassed
    | Unchanged
    | Refused
    | Conflicted
    | Wrote
    | NothingWritten
    | CheckBegan
    | CheckSaid
    | NoFix
    | CheckFails
    | Stopped
)
