"""Whether a conversation still fits the model, and what goes when it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vivace.errors import InvalidRequest
from vivace.protocol.items import (
    AdditionalTools,
    InputFile,
    InputImage,
    Item,
    Message,
    ToolCall,
    ToolOutput,
)

__all__ = ["Count", "fit", "refuse_images"]

Count = Callable[[Sequence[Item]], int]
"""How many tokens these items are to the model that will see them."""


def fit(
    past: Sequence[Item],
    new: Sequence[Item],
    *,
    known: int,
    fixed: int,
    limit: int,
    count: Count,
    truncate: bool,
) -> list[Item]:
    """What the model will see; an answer needs room for at least one token.

    ``known`` is how long an engine has counted the conversation up to here, instructions and
    tools included (0 if it has not); ``fixed`` is the length of those alone.
    """
    items = [*past, *new]
    total = known + count(new) if known else fixed + count(items)
    if total < limit:
        return items
    if truncate:
        kept = _drop_oldest(items, len(past), total - limit + 1, count)
        if kept is not None:
            return kept
    raise InvalidRequest(
        f"This conversation is {total} tokens long and the model takes {limit}. Compact it "
        "(POST /v1/responses/compact), send less, or set truncation to 'auto' to drop its oldest "
        "part.",
        code="context_length_exceeded",
        param="input",
    )


def _drop_oldest(items: list[Item], past: int, excess: int, count: Count) -> list[Item] | None:
    """Drop from the oldest on, but never a standing instruction nor anything of this turn.

    A call and its output go together: a model that sees half of a pair is misled.
    """
    sizes = [count([item]) for item in items]
    dropped: set[int] = set()
    calls: set[str] = set()
    answered = {item.call_id for item in items[past:] if isinstance(item, ToolOutput)}
    for index, item in enumerate(items):
        orphaned = isinstance(item, ToolOutput) and item.call_id in calls
        held = isinstance(item, ToolCall) and item.call_id in answered
        if orphaned or (excess > 0 and index < past and not held and not _standing(item)):
            dropped.add(index)
            excess -= sizes[index]
            if isinstance(item, ToolCall):
                calls.add(item.call_id)
    if excess > 0:
        return None
    return [item for index, item in enumerate(items) if index not in dropped]


def _standing(item: Item) -> bool:
    return isinstance(item, AdditionalTools) or (
        isinstance(item, Message) and item.role in ("system", "developer")
    )


def refuse_images(items: Sequence[Item], model: str) -> None:
    """Say at once that a text-only model cannot see, rather than answer as if it had."""
    for index, item in enumerate(items):
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
