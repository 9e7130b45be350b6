"""Turns that follow each other: a chain from the newest response back to the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from vivace.conversation import compaction
from vivace.errors import InvalidRequest
from vivace.protocol.bounds import check_items, size_of
from vivace.protocol.items import (
    AdditionalTools,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Tool,
)

__all__ = ["Link", "check_input", "links_of", "past_items", "tools_in"]

_CALLS = (FunctionCall, CustomToolCall)
_OUTPUTS = (FunctionCallOutput, CustomToolCallOutput)
"""Types of tool outputs. ``isinstance`` takes half the time for a tuple as for a union."""


class Link(Struct, frozen=True):
    """One finished turn and the way to the one before it."""

    id: str
    parent: Link | None
    input: tuple[Item, ...]
    output: tuple[Item, ...]
    tokens: int = 0
    """How long the conversation is after this turn, without instructions and tools, as far as an
    engine has counted it: what was dropped before it saw the rest counts too. 0 if none has."""
    whole: bool = True
    """Whether it came to its own end: not failed, cut off or cancelled."""
    held: object = None
    """Its memory is counted by this, for as long as anything goes on from it."""
    mark: bytes = b""
    """Of all that was said up to its end, by which a client that says it again is understood."""
    kept: bool = False
    """Whether it is on record, so that what follows it need not say it again."""

    @property
    def size(self) -> int:
        """Bytes of memory that this turn alone takes, as far as they are counted."""
        return size_of(self.held)


def links_of(link: Link | None) -> list[Link]:
    """Return the turns of a conversation, oldest first."""
    links: list[Link] = []
    while link is not None:
        links.append(link)
        link = link.parent
    return links[::-1]


def past_items(link: Link | None) -> list[Item]:
    """Everything said so far, oldest first."""
    items: list[Item] = []
    for each in links_of(link):
        items += each.input
        items += each.output
    return items


def tools_in(items: Sequence[Item]) -> Iterator[Tool]:
    """Tools that came as items and hold for the rest of the chain."""
    for item in items:
        if isinstance(item, AdditionalTools):
            yield from item.tools


def check_input(items: Sequence[Item], past: Sequence[Item], resent: int = 0) -> tuple[Item, ...]:
    """The new items with references resolved; refuses what does not fit the conversation.

    The first ``resent`` of the items stand in the past.
    """
    check_items(len(past) + len(items) - resent)
    known = {item.id for item in past}
    resolved: list[Item] = []
    for index, item in enumerate(items[resent:], resent):
        if isinstance(item, ItemReference):
            if item.id not in known:
                raise InvalidRequest(
                    f"Item '{item.id}' is not in this conversation.",
                    code="item_not_found",
                    param=f"input[{index}].id",
                )
            continue  # it stands in the past already; saying it twice would change its meaning
        if isinstance(item, Compaction):
            compaction.unpack(item, f"input[{index}]")
        resolved.append(item)
    _check_outputs(items, past, resent)
    return tuple(resolved)


def _check_outputs(items: Sequence[Item], past: Sequence[Item], resent: int) -> None:
    calls: set[str] | None = None
    for index, item in enumerate(items[resent:], resent):
        if not isinstance(item, _OUTPUTS):
            continue
        if calls is None:
            calls = {each.call_id for each in (*past, *items) if isinstance(each, _CALLS)}
        if item.call_id not in calls:
            raise InvalidRequest(
                f"No tool call found for the output with call_id '{item.call_id}'. Send the call "
                "with it, or continue the response that made the call.",
                code="tool_call_not_found",
                param=f"input[{index}].call_id",
            )
