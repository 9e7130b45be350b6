"""The tables a response moves by.

::

    queued ──► in_progress ──► completed    the engine said it was done
       ├────────────┼────────► incomplete   length limit, interrupt, steer
       ├────────────┼────────► cancelled    cancel request; also an incomplete event on the wire
       └────────────┴────────► failed       the engine failed

Within a response at most one item is open. A delta that the open item cannot take closes it and
opens the kind named in ``OPENS``.
"""

from __future__ import annotations

from typing import Literal

from vivace.conversation.deltas import CallOpened, CallText, ReasoningDelta, TextDelta
from vivace.protocol.events import ResponseCompleted, ResponseFailed, ResponseIncomplete

__all__ = ["MOVES", "OPENS", "TAKES", "TERMINAL_EVENT", "ItemKind", "Status"]

Status = Literal["queued", "in_progress", "completed", "incomplete", "cancelled", "failed"]
ItemKind = Literal["message", "reasoning", "call"]

MOVES: dict[Status, frozenset[Status]] = {
    "queued": frozenset({"in_progress", "incomplete", "cancelled", "failed"}),
    "in_progress": frozenset({"completed", "incomplete", "cancelled", "failed"}),
    "completed": frozenset(),
    "incomplete": frozenset(),
    "cancelled": frozenset(),
    "failed": frozenset(),
}

TERMINAL_EVENT: dict[
    Status, type[ResponseCompleted] | type[ResponseIncomplete] | type[ResponseFailed]
] = {
    "completed": ResponseCompleted,
    "incomplete": ResponseIncomplete,
    "cancelled": ResponseIncomplete,
    "failed": ResponseFailed,
}

OPENS: dict[type, ItemKind] = {
    TextDelta: "message",
    ReasoningDelta: "reasoning",
    CallOpened: "call",
}

TAKES: dict[ItemKind, type] = {
    "message": TextDelta,
    "reasoning": ReasoningDelta,
    "call": CallText,
}
