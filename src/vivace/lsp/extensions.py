"""What we say to editors beyond the protocol; ``editors/vscode/src/protocol.ts`` mirrors this file.

A client says by ``capabilities.experimental.vivace`` what it knows of it (``Known``). Whoever knows
nothing of it misses no more than the sight of it: an edit's progress comes by ``$/progress``, and
what became of it by ``window/showMessage``.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from lsprotocol.types import Position, Range
from msgspec import Struct

__all__ = [
    "ACCEPTED",
    "CURSOR",
    "EDIT",
    "EDIT_PROGRESS",
    "PAUSE",
    "REDIRECT",
    "RENAME",
    "REVIEW",
    "STATUS",
    "STOP",
    "Accepted",
    "CursorMoved",
    "EditAsked",
    "EditEnded",
    "EditProgress",
    "Known",
    "Paused",
    "Redirected",
    "RenameAsked",
    "ReviewAsked",
    "ReviewEnded",
    "ShownHunk",
    "Status",
    "Stopped",
    "as_json",
]


class Known(Struct, frozen=True, kw_only=True, rename="camel"):
    """Of what is below, what a client knows."""

    edit: bool = False
    """It draws ``vivace/edit``."""
    status: bool = False
    """It shows ``vivace/status``."""
    instruction: bool = False
    """It asks the person for the instruction of a ``vivace.edit`` that has none."""
    rename: bool = False
    """It asks the person for the new name of a ``vivace.rename`` that has none."""


# -- commands: one object as their argument -------------------------------------------------------

EDIT = "vivace.edit"
REDIRECT = "vivace.redirect"
STOP = "vivace.stop"
PAUSE = "vivace.pause"
ACCEPTED = "vivace.accepted"
CURSOR = "vivace.cursor"
RENAME = "vivace.rename"
REVIEW = "vivace.review"


class EditAsked(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.edit``: answered when the edit is over. A document has one edit at a time."""

    uri: str
    instruction: str = ""
    range: Range | None = None
    """The selection; an empty one means the definition around it, none the file."""
    finding: str = ""
    """The rule whose finding there is to be fixed: what does not fix it is not applied."""


class RenameAsked(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.rename``: what stands there, with its uses; no model is asked."""

    uri: str
    position: Position
    new_name: str


class EditEnded(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to ``vivace.edit`` and ``vivace.rename``."""

    status: Literal["applied", "nothing", "refused", "stopped", "failed"]
    message: str = ""
    """What the person was told of it."""


class ReviewAsked(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.review``: a model is asked about what changed in a work tree since a commit. What it
    remarks is marked, as hints, in the files that are open; answered when all is said."""

    uri: str = ""
    """A document of the work tree; empty: that of the first folder."""
    revision: str = "HEAD"
    deep: bool = False
    """Whether the larger model is asked."""


class ReviewEnded(Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to ``vivace.review``."""

    status: Literal["done", "stopped", "failed"]
    remarks: int = 0
    dropped: int = 0
    """Remarks that quoted nothing of the new lines."""
    message: str = ""
    """What the person was told of it."""


class Redirected(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.redirect``: the running edit begins again in this direction."""

    uri: str
    instruction: str


class Stopped(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.stop``: the running edit is left."""

    uri: str


class Paused(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.pause``: completions rest, or come again."""

    paused: bool


class Accepted(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.accepted``: the command of each suggestion, which editors run when it is taken."""

    number: int


class CursorMoved(Struct, frozen=True, kw_only=True, rename="camel"):
    """``vivace.cursor``: it rests here, and a key may follow. Editors ask for code actions when it
    moves, but not on an empty line, where most is completed."""

    uri: str
    position: Position


# -- notifications to the client ------------------------------------------------------------------

EDIT_PROGRESS = "vivace/edit"
STATUS = "vivace/status"


class ShownHunk(Struct, frozen=True, kw_only=True, rename="camel"):
    range: Range
    new_text: str


class EditProgress(Struct, frozen=True, kw_only=True, rename="camel"):
    """All hunks so far, for the document's text of this version."""

    uri: str
    version: int
    hunks: tuple[ShownHunk, ...] = ()
    done: bool = False
    """Nothing is to be drawn any more."""
    message: str = ""
    """What is going on, in a few words."""


class Status(Struct, frozen=True, kw_only=True, rename="camel"):
    state: Literal["ready", "busy", "paused", "unreachable"] = "ready"
    why: str = ""
    """Why nothing comes, for the person."""
    uri: str = ""
    """The document this is about; empty for all of them."""
    model: str = ""
    speed: float | None = None
    """Tokens per second."""
    queue: int | None = None
    """The place in the queue."""


def as_json(message: Struct) -> Any:
    """As it goes over the wire."""
    return msgspec.to_builtins(message)
