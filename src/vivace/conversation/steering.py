"""Steers on their way: accepted, waiting for required input, or handed back.

An accepted steer is ours: it is applied by exactly one later response, or returned by ``failed``
with its input. The successor's ``created`` is the point from which it counts as applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from vivace.conversation.chain import Link
from vivace.errors import InvalidRequest
from vivace.protocol.codec import error_payload
from vivace.protocol.events import (
    RequiredOutput,
    ReturnedSteer,
    SteerAccepted,
    SteerFailed,
    SteerPending,
    SteerReceipt,
)
from vivace.protocol.items import CustomToolCall, Item, ToolCall
from vivace.protocol.once import Once
from vivace.protocol.requests import CreateResponse, Steer, SteerWhen

__all__ = ["Accepted", "Desk", "SteerCode", "open_calls", "successor_of"]

SteerCode = Literal[
    "response_not_found",
    "invalid_input",
    "steering_not_supported",
    "too_many_pending_steers",
    "idempotency_key_needs_store",
    "response_already_completed",
    "response_not_active",
    "successor_creation_failed",
]


class Accepted(Struct, frozen=True):
    """A steer that we own."""

    id: str
    target: str
    input: Raw
    """As it came, for handing it back."""
    items: tuple[Item, ...]
    held: object = None
    """Its memory is counted by this."""
    once: Once | None = None
    """By which it is known again when it is sent again."""


class Desk:
    """Writes receipts, numbered in the order they are given out."""

    def __init__(self) -> None:
        self._number = 0

    def _next(self) -> int:
        self._number += 1
        return self._number - 1

    def accepted(self, steer: Accepted, lane: str | None, when: SteerWhen = "now") -> SteerAccepted:
        receipt = replace(_receipt(steer), when=_told(when))
        return SteerAccepted(sequence_number=self._next(), steer=receipt, stream_id=lane or UNSET)

    def pending(self, steer: Accepted, lane: str | None, calls: Sequence[ToolCall]) -> SteerPending:
        return SteerPending(
            sequence_number=self._next(),
            steer=_receipt(steer),
            reason="waiting_for_required_input",
            required_input=[_stub(call) for call in calls],
            stream_id=lane or UNSET,
        )

    def failed(
        self, steer: Accepted | Steer, lane: str | None, code: SteerCode, message: str
    ) -> SteerFailed:
        if isinstance(steer, Accepted):
            returned = ReturnedSteer(
                id=steer.id, previous_response_id=steer.target, input=steer.input
            )
        else:
            returned = ReturnedSteer(
                previous_response_id=steer.previous_response_id,
                input=steer.input,
                when=_told(steer.when),
            )
        return SteerFailed(
            sequence_number=self._next(),
            error=error_payload(InvalidRequest(message, code=code)),
            steer=returned,
            stream_id=lane or UNSET,
        )


def _told(when: SteerWhen) -> Literal["end_thinking"] | UnsetType:
    """A client must know which of its words is meant: no successor comes of this one."""
    return "end_thinking" if when == "end_thinking" else UNSET


def _receipt(steer: Accepted) -> SteerReceipt:
    return SteerReceipt(id=steer.id, previous_response_id=steer.target)


def _stub(call: ToolCall) -> RequiredOutput:
    if isinstance(call, CustomToolCall):
        return RequiredOutput(type="custom_tool_call_output", call_id=call.call_id)
    return RequiredOutput(type="function_call_output", call_id=call.call_id, name=call.name)


def open_calls(link: Link) -> list[ToolCall]:
    """Calls that the client must answer before a turn can follow this one."""
    return [item for item in link.output if isinstance(item, ToolCall)]


def successor_of(
    request: CreateResponse, response_id: str, steers: Sequence[Accepted]
) -> CreateResponse:
    """The request that continues a steered response: its settings, the steers as its input."""
    body = replace(
        request.body,
        previous_response_id=response_id,
        input=None,
        generate=None,
        prompt_cache_options=None,
    )
    items = tuple(item for steer in steers for item in steer.items)
    return replace(request, body=body, items=items, places=(), once=None)
