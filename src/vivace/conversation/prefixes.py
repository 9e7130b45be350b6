"""Which turn a conversation goes on from that is sent whole each time.

Stateless clients (Messages, Chat Completions, Codex over HTTP) say everything again at every turn.
What was said up to the end of a turn has a mark, made of the marks before it; a client that says
the same again is taken to continue that turn, as if it had named it.

Said the same is what means the same: ids of items, thoughts, which clients leave out, the spacing
of arguments, and whether a text comes in one part or in several make no difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from vivace.conversation.chain import Link, past_items
from vivace.protocol.items import (
    AdditionalTools,
    Compaction,
    CustomToolCall,
    FunctionCall,
    InputFile,
    InputImage,
    Item,
    ItemReference,
    Message,
    Part,
    Reasoning,
    ToolOutput,
    by_model,
    text_of,
)

__all__ = ["mark_of", "marks"]

_encoder = msgspec.json.Encoder(order="sorted")

_MAX_ARGUMENTS = 100_000
"""Characters of arguments that are decoded; they may hold a value for each two of them."""


def mark_of(parent: Link | None, said: Sequence[Item]) -> bytes:
    """The mark of a turn that says this after its parent."""
    before = parent.mark if parent else b""
    if parent is not None and not before:
        said = [*past_items(parent), *said]
    for each in _after(before, said):
        before = each
    return before


def marks(items: Sequence[Item]) -> list[tuple[int, bytes]]:
    """Where a turn may have ended, and its mark, longest first; something new follows each."""
    ends = [at for at, item in enumerate(items[:-1], 1) if by_model(item)]
    found = list(_after(b"", items[: max(ends, default=0)]))
    return [(at, found[at - 1]) for at in reversed(ends)]


def _after(mark: bytes, items: Sequence[Item]) -> Iterator[bytes]:
    """The mark after each item."""
    for item in items:
        meant = _meaning(item)
        if meant is not None:
            mark = hashlib.blake2b(_encoder.encode(meant), key=mark, digest_size=32).digest()
        yield mark


def _meaning(item: Item) -> object:
    """What must be the same; None for what makes no difference."""
    match item:
        case Message(role="assistant"):
            said = _content(item.content)
            said = said.strip() if isinstance(said, str) else said
            return ["assistant", said] if said else None
        case Message():
            return [item.role, _content(item.content)]
        case FunctionCall():
            return ["call", item.call_id, item.name, item.namespace or "", _json(item.arguments)]
        case CustomToolCall():
            return ["call", item.call_id, item.name, item.namespace or "", item.input]
        case Reasoning():
            return None
        case Compaction():
            return ["compaction", item.encrypted_content]
        case AdditionalTools():
            return ["tools", item.tools]
        case ItemReference():
            return ["reference", item.id]
        case _:
            assert isinstance(item, ToolOutput)
            return ["output", item.call_id, _content(item.output)]


def _content(content: str | list[Part]) -> str | list[Part]:
    """As text, if that is all it is."""
    if not isinstance(content, str) and any(
        isinstance(part, InputImage | InputFile) for part in content
    ):
        return content
    return text_of(content)


def _json(text: str) -> object:
    """Return what the text stands for; itself, if a model did not write it right, or if to read it
    would take more memory than a difference in spacing is worth."""
    if len(text) > _MAX_ARGUMENTS:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
