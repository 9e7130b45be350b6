"""A conversation's items as the chat messages most engines take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, TypeVarTuple

import msgspec

from vivace.engines.base import Chat, Fill
from vivace.engines.tool_forms import ToolForms
from vivace.protocol.items import Item, Message, Reasoning, ToolCall, ToolOutput, by_model, text_of
from vivace.threads import in_thread

__all__ = ["chat_messages", "estimate_tokens", "most_tokens", "with_user", "written"]

# Where no tokenizer is at hand, lengths are guessed from characters. Code has more tokens than
# prose; three characters for one keeps the guess on the safe side.
_CHARACTERS_PER_TOKEN = 3
_PER_ITEM = 8
_MANY_ITEMS = 1000
"""Items of a conversation; each takes some microseconds to write."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def estimate_tokens(items: Sequence[Item]) -> int:
    sizes = (len(msgspec.json.encode(item)) for item in items)
    return sum(size // _CHARACTERS_PER_TOKEN + _PER_ITEM for size in sizes)


async def written(prompt: Chat | Fill, write: Callable[[*Ts], T], *args: *Ts) -> T:
    """Return what ``write`` makes of a prompt, in a thread if that is a long conversation: the
    event loop has the streams of others to carry meanwhile."""
    if isinstance(prompt, Chat) and len(prompt.items) > _MANY_ITEMS:
        return await in_thread(write, *args)
    return write(*args)


def most_tokens(estimate: int) -> int:
    """How many tokens items may be at most that were estimated so: none is less than a byte."""
    return _CHARACTERS_PER_TOKEN * estimate


def chat_messages(chat: Chat, forms: ToolForms, *, thoughts: bool = False) -> list[dict[str, Any]]:
    """System, user, assistant and tool messages, in order.

    Open models know no developer role; such a message becomes a system message where it stands,
    because moving it to the front would change everything behind it and empty the cache.

    ``thoughts`` stand in the message that they led to: its chat template knows how long it wants
    them, most until the user speaks again. Thoughts that led to nothing are left out, and so are
    all for servers of others, some of which refuse them.
    """
    messages: list[dict[str, Any]] = []
    thought: list[str] = []
    if chat.instructions:
        messages.append({"role": "system", "content": chat.instructions})
    for item in chat.items:
        if isinstance(item, Reasoning):
            thought += filter(None, [text_of(item.content or ())])
            continue
        if isinstance(item, ToolCall):
            name, arguments = forms.call(item)
            call = {
                "id": item.call_id,
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            _assistant(messages).setdefault("tool_calls", []).append(call)
        else:
            message = _message(item)
            if message is not None:
                messages.append(message)
        if thoughts and thought and by_model(item):
            before = messages[-1].get("reasoning_content")
            messages[-1]["reasoning_content"] = "\n".join(filter(None, [before, *thought]))
        thought = []
    return _outputs_first(messages)


def with_user(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Some templates refuse a conversation in which no user has spoken, as a warm-up is. What is
    put there is at the end, where it makes nothing before it another."""
    if any(message["role"] == "user" for message in messages):
        return messages
    return [*messages, {"role": "user", "content": "."}]


def _outputs_first(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Templates want a tool's output right behind its call, even if a user spoke in between."""
    sorted_out: list[dict[str, Any]] = []
    said: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] == "tool":
            sorted_out.append(message)
        elif message["role"] == "assistant":
            sorted_out += [*said, message]
            said = []
        else:
            said.append(message)
    return sorted_out + said


def _assistant(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The message a call belongs to: text and calls of one turn are one message."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": ""})
    return messages[-1]


def _message(item: Item) -> dict[str, Any] | None:
    if isinstance(item, Message):
        role = "system" if item.role == "developer" else item.role
        return {"role": role, "content": text_of(item.content)}
    if isinstance(item, ToolOutput):
        return {"role": "tool", "tool_call_id": item.call_id, "content": text_of(item.output)}
    return None  # tools are declared elsewhere
