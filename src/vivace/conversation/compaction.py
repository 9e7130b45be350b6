"""A long conversation in short: asked of the model, carried by the client, read back by us.

The client keeps the result and sends it as the first item of a new chain. Its content is the
client's own conversation, so it is wrapped, not encrypted: the wrapping says which version of us
can read it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from vivace.errors import InvalidRequest
from vivace.protocol.items import Compaction, InputText, Item, Message, NewId

__all__ = ["REQUEST", "expand", "pack", "question", "unpack"]

REQUEST = (
    "Summarise the conversation so far for a colleague who continues it and sees only your "
    "summary. Keep what was asked, what was decided, the names of files and symbols, what was "
    "tried and how it went, and what is still open. Leave out everything else."
)

_HEADING = "Summary of the conversation so far:\n"


def question() -> Message:
    """What the model is asked at the end of a conversation that is to be put in short."""
    return Message(role="user", content=REQUEST)


def pack(summary: str, new_id: NewId) -> Compaction:
    content = Compaction.MARK + base64.urlsafe_b64encode(summary.encode()).decode()
    return Compaction(id=new_id("cmp"), encrypted_content=content)


def unpack(item: Compaction, where: str) -> str:
    content = item.encrypted_content
    try:
        if item.ours:
            packed = content.removeprefix(Compaction.MARK)
            return base64.b64decode(packed, b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        pass
    raise InvalidRequest(
        "This compaction cannot be read here: it was changed since it was made. Send the "
        "conversation itself, or compact it again.",
        code="invalid_compaction",
        param=f"{where}.encrypted_content",
    )


def expand(items: Sequence[Item]) -> list[Item]:
    """The items as a model can read them: each compaction as the summary it carries."""
    return [
        Message(
            id=item.id,
            role="developer",
            content=[InputText(_HEADING + unpack(item, "input"))],
            status="completed",
        )
        if isinstance(item, Compaction)
        else item
        for item in items
    ]
