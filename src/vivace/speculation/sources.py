"""Where drafts come from: what the client foretells, or else the code the conversation shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vivace.protocol.items import CustomToolCall, Item, Message, ToolOutput, text_of
from vivace.protocol.requests import Prediction

__all__ = ["instruction", "old_text"]

_MOST = 60_000
"""Characters; what was shown longer ago is seldom rewritten."""
_FENCED = re.compile(r"^```[^\n]*\n.*?(?:^```|\Z)", re.DOTALL | re.MULTILINE)
"""A block that is never closed, or closed behind its last line, goes to the end."""


def old_text(items: Sequence[Item], prediction: Prediction | None) -> str:
    """The text that an answer may repeat, the newest first; empty when there is none."""
    if prediction is not None:
        return text_of(prediction.content)
    found: list[str] = []
    room = _MOST
    for text in _shown(items):
        if len(text) > room:
            break
        found.append(text)
        room -= len(text)
    return "\n".join(found)


def instruction(items: Sequence[Item]) -> str:
    """What the user said, without the code that was shown with it."""
    said = (item for item in items if isinstance(item, Message) and item.role == "user")
    return "\n".join(_FENCED.sub("", text_of(item.content)) for item in said)


def _shown(items: Sequence[Item]) -> Iterator[str]:
    """Code blocks of messages, outputs of tools and patches, from the newest on."""
    for item in reversed(items):
        if isinstance(item, Message):
            yield from reversed(_FENCED.findall(text_of(item.content)))
        elif isinstance(item, ToolOutput):
            yield text_of(item.output)
        elif isinstance(item, CustomToolCall):
            yield item.input
