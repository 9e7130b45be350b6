"""Whether a conversation still fits the model, and what goes when it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from vivace.errors import ContextOverflow, InvalidRequest
from vivace.protocol.items import (
    AdditionalTools,
    InputFile,
    InputImage,
    Item,
    Message,
    ToolCall,
    ToolOutput,
)

__all__ = ["Count", "Fitted", "fit", "refuse_images"]

Count = Callable[[Sequence[Item]], int]
"""How many tokens these items are to the model that will see them."""


class Fitted(Struct, frozen=True):
    """What the model will see of a conversation."""

    items: list[Item]
    room: int
    """How many tokens are left for the answer."""
    dropped: int = 0
    """How many tokens the rest of it is."""


def fit(
    past: Sequence[Item],
    new: Sequence[Item],
    *,
    known: int,
    fixed: int,
    limit: int,
    count: Count,
    truncate: bool,
    counted: int | None = None,
) -> Fitted:
    """As much as the model can take; an answer needs room for at least one token.

    ``known`` is how long all of ``past`` is as far as an engine has counted it, whether or not it
    was shown all of it (0 if none has); ``fixed`` is the length of instructions and tools, which
    stand beside it. ``counted`` is what is not known so, if that was counted before.
    """
    items = [*past, *new]
    if counted is None:
        counted = count(new if known else items)
    total = fixed + known + counted
    if total < limit:
        return Fitted(items, limit - total)
    fitted = _drop_oldest(items, len(past), total, fixed, limit, count) if truncate else None
    if fitted is not None:
        return fitted
    raise ContextOverflow(
        f"This conversation is {total} tokens long and the model takes {limit}. Compact it "
        "(POST /v1/responses/compact), send less, or set truncation to 'auto' to drop its oldest "
        "part.",
        total,
        limit,
    )


def _drop_oldest(
    items: list[Item], past: int, total: int, fixed: int, limit: int, count: Count
) -> Fitted | None:
    """Drop from the oldest on, but never a standing instruction nor anything of this turn.

    A call and its output go together: a model that sees half of a pair is misled. Single items are
    guessed at, so they are measured in parts of the whole, whose length may be known better.
    """
    sizes = [count([item]) for item in items]
    whole = left = max(1, fixed + sum(sizes))
    kept: list[Item] = []
    calls: set[str] = set()
    answered = {item.call_id for item in items[past:] if isinstance(item, ToolOutput)}
    for index, item in enumerate(items):
        orphaned = isinstance(item, ToolOutput) and item.call_id in calls
        held = isinstance(item, ToolCall) and item.call_id in answered
        too_long = left * total >= limit * whole
        if orphaned or (too_long and index < past and not held and not _standing(item)):
            left -= sizes[index]
            if isinstance(item, ToolCall):
                calls.add(item.call_id)
        else:
            kept.append(item)
    if left * total >= limit * whole:
        return None
    dropped = (whole - left) * total // whole
    return Fitted(kept, limit - total + dropped, dropped)


def _standing(item: Item) -> bool:
    return isinstance(item, AdditionalTools) or (
        isinstance(item, Message) and item.role in ("system", "developer")
    )


def refuse_images(items: Sequence[Item], model: str, first: int = 0) -> None:
    """Say at once that a text-only model cannot see, rather than answer as if it had.

    ``first``: the place of these items among all that the client sent.
    """
    for index, item in enumerate(items, first):
        parts = (
            item.content
            if isinstance(item, Message)
            else item.output
            if isinstance(item, ToolOutput)
            else ""
        )
        if isinstance(parts, str):
            continue
        for place, part in enumerate(parts):
            if isinstance(part, InputImage | InputFile):
                what = "images" if isinstance(part, InputImage) else "files"
                field = "output" if isinstance(item, ToolOutput) else "content"
                raise InvalidRequest(
                    f"Model '{model}' reads text only and cannot take {what}. Send the text "
                    "instead, or choose a model that can.",
                    code="unsupported_content",
                    param=f"input[{index}].{field}[{place}]",
                )
