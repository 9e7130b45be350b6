"""Conversations as token ids that only ever grow.

Rendering and tokenising a long conversation anew at every turn costs seconds and, where the result
differs in one token, the whole prefix cache. So a chain keeps what the model has really seen and
said, and a new turn adds to it::

    ids of the last prompt + ids generated + the template's closing of a turn + ids of the new part

Whether a template allows that is found out once (``classify``). No I/O: a ``Template`` renders and
encodes.
"""

from __future__ import annotations

import contextlib
import json
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from vivace.engines.base import Chat
from vivace.engines.messages import chat_messages, estimate_tokens, with_user
from vivace.engines.thinking import Marks, template_arguments
from vivace.engines.tool_forms import ToolForms
from vivace.models import Thinking
from vivace.protocol.items import Item, by_model

__all__ = [
    "ChainBook",
    "Growth",
    "Messages",
    "Outline",
    "Prompt",
    "Template",
    "classify",
    "end_of_thoughts",
]

Messages = Sequence[Mapping[str, Any]]

Growth = Literal["append_only", "within_tool_turns", "unstable"]
"""How a template treats what was rendered before: it stays; it stays until the user speaks (earlier
thinking is dropped then); or it changes, and every turn must be rendered whole."""


class Template(Protocol):
    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        """The conversation as text; ``opens`` adds the beginning of the assistant's turn."""

    def told(self, arguments: Mapping[str, Any]) -> Template:
        """The same, with these for the template's own variables, such as whether to think."""

    def encode(self, text: str) -> list[int]: ...


# -- what a template does -------------------------------------------------------------------------

_STAGE: list[dict[str, Any]] = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
]
_SAID = {"role": "assistant", "content": "MARK"}
_THOUGHT = {"role": "assistant", "content": "<think>\nTHOUGHT\n</think>\n\nMARK"}
_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_CALLED = {**_THOUGHT, "tool_calls": [_CALL]}  # some templates add empty thoughts where none are
_LATER = [*_STAGE, _SAID, {"role": "user", "content": "v"}]
"""More of a past than ``_new_part`` has: some templates number their turns."""
_USER = [{"role": "user", "content": "NEW"}]
_SYSTEM = [{"role": "system", "content": "NOTE"}, *_USER]
_TOOL = [{"role": "tool", "tool_call_id": "c", "content": "NEW"}]
_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}
]


def classify(template: Template) -> Growth:
    """Try the template on small conversations; what it cannot render counts against it."""
    try:
        if not _grows(template, [*_LATER, _CALLED], _TOOL, _TOOLS):
            return "unstable"
        if "THOUGHT" not in template.render([*_STAGE, _THOUGHT, *_USER], [], opens=True):
            return "within_tool_turns"
        steady = all(
            _grows(template, [*_LATER, _SAID], new, tools)
            for new in (_USER, _SYSTEM)
            for tools in ([], _TOOLS)
        )
    except Exception:  # noqa: BLE001 - a template is a foreign program and fails in its own way
        return "unstable"
    return "append_only" if steady else "unstable"


def _grows(template: Template, past: Messages, new: Messages, tools: list[dict[str, Any]]) -> bool:
    """Whether new messages only add: as text, as tokens, and whatever tools there are."""
    before = template.render(past, tools, opens=False)
    after = template.render([*past, *new], tools, opens=True)
    if not after.startswith(before):
        return False
    added = after[len(before) :]
    alone = _NewParts(template)(new)
    return alone == added and template.encode(before) + template.encode(added) == template.encode(
        after
    )


class _NewParts:
    """Only the new messages, as they are rendered after an assistant's turn."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._pasts: dict[bool, tuple[list[dict[str, Any]], int]] = {}

    def __call__(self, new: Messages) -> str:
        past, length = self._past(after_call=new[0]["role"] == "tool")
        return self._template.render([*past, *new], [], opens=True)[length:]

    def _past(self, *, after_call: bool) -> tuple[list[dict[str, Any]], int]:
        if after_call not in self._pasts:
            past = [*_STAGE, _CALLED if after_call else _SAID]
            length = len(self._template.render(past, [], opens=False))
            self._pasts[after_call] = past, length
        return self._pasts[after_call]


def _closing(template: Template) -> list[int]:
    """The tokens between the end of what an assistant said and whatever follows."""
    text = template.render([*_STAGE, _SAID], [], opens=False)
    return template.encode(text[text.rindex("MARK") + len("MARK") :])


def _whole(template: Template, messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> str:
    try:
        return template.render(messages, tools, opens=True)
    except Exception:
        padded = with_user(messages)
        if padded is messages:
            raise
        return template.render(padded, tools, opens=True)


def end_of_thoughts(template: Template, marks: Marks) -> str:
    """What the template writes between thoughts and the answer, with the mark in it."""
    said = {"role": "assistant", "content": "MARK", "reasoning_content": "THOUGHT"}
    with contextlib.suppress(Exception):  # a foreign program, which fails in its own way
        _, found, text = template.render([*_STAGE, said], [], opens=False).rpartition("THOUGHT")
        between, ends, _ = text.partition("MARK")
        if found and ends and marks.closes in between:
            return between
    return f"\n{marks.closes}\n\n"


# -- chains ---------------------------------------------------------------------------------------


class Prompt(Struct, frozen=True):
    ids: list[int]
    key: str
    """Owner, instructions, tools and what the template is told: a chain is continued only under the
    same."""
    covered: int
    """How many items of the conversation these ids are."""
    last: str | None
    """The id of the newest of them."""
    before: array[int] | None = None
    """The chain that it continues, with which the ids begin."""

    @property
    def continued(self) -> bool:
        return self.before is not None


class Outline(Struct, frozen=True):
    """A prompt that is still to be written."""

    chat: Chat
    """All of it, or what has come since the chain that it continues."""
    forms: ToolForms
    arguments: Mapping[str, Any]
    """What the template is told."""
    key: str
    covered: int
    last: str | None
    before: array[int] | None = None
    """The chain's tokens, if there is one."""
    at_hand: list[int] = []
    """As many of them as need not be taken out of the array."""

    def estimate(self) -> int:
        """How many tokens are to be written, roughly."""
        fixed = len(self.key) if self.before is None else 0  # instructions and tools stand in it
        return estimate_tokens(self.chat.items) + fixed // 3


class _Chain(Struct, frozen=True):
    ids: array[int]
    key: str
    covered: int
    last: str | None
    said: int
    """How many items the model added."""


class ChainBook:
    """Remembers the newest chains, up to a number of tokens."""

    def __init__(
        self,
        template: Template,
        growth: Growth,
        capacity: int = 8_000_000,
        at_hand: int = 500_000,
        thinking: Thinking | None = None,
    ) -> None:
        """``thinking``: how the model is told how much to think.

        Chains are kept as arrays, of four bytes a token. The newest prompts stay ``at_hand`` as
        the lists they were, of forty: to make a list of 100,000 takes 3 ms, to copy it 0.2."""
        self.growth = growth
        self._template = template
        self._thinking = thinking
        self._new_parts: dict[str, _NewParts] = {}
        self._capacity = capacity
        self._chains: OrderedDict[str, _Chain] = OrderedDict()
        self._held = 0
        self._at_hand: OrderedDict[str, list[int]] = OrderedDict()
        self._room = at_hand
        self._closing = _closing(template) if growth != "unstable" else []

    def prompt(self, chat: Chat, forms: ToolForms, parent: str | None, owner: str) -> Prompt:
        return self.finish(self.begin(chat, forms, parent, owner))

    def begin(self, chat: Chat, forms: ToolForms, parent: str | None, owner: str) -> Outline:
        """What is to be written, which is quickly said; ``finish`` writes it."""
        arguments = template_arguments(self._thinking, chat.effort)
        key = json.dumps([owner, chat.instructions, forms.declarations(), arguments])
        covered, last = len(chat.items), chat.items[-1].id if chat.items else None
        new = self._new_items(chat, parent, key)
        if new is None:
            return Outline(chat, forms, arguments, key, covered, last)
        assert parent is not None
        before, at_hand = self._chains[parent].ids, self._taken_up(parent)
        return Outline(Chat(items=new), forms, arguments, key, covered, last, before, at_hand)

    def finish(self, outline: Outline) -> Prompt:
        """Render and encode. It touches no chain, so that another thread may do it."""
        messages = chat_messages(outline.chat, outline.forms, thoughts=True)
        template = self._template.told(outline.arguments)
        if outline.before is None:
            ids = template.encode(_whole(template, messages, outline.forms.declarations()))
        else:
            said = outline.before[len(outline.at_hand) :].tolist()
            new_part = self._new_part(template, outline.arguments)
            ids = [*outline.at_hand, *said, *template.encode(new_part(messages))]
        return Prompt(ids, outline.key, outline.covered, outline.last, outline.before)

    def _new_part(self, template: Template, arguments: Mapping[str, Any]) -> _NewParts:
        return self._new_parts.setdefault(json.dumps(arguments), _NewParts(template))

    def keep(self, response_id: str, prompt: Prompt, generated: Sequence[int], said: int) -> None:
        """Remember what the model saw and said, closed as its template closes a turn."""
        if self.growth == "unstable" or not said:
            return  # without a word there is no turn to close
        closing = self._closing
        if closing and generated and generated[-1] == closing[0]:
            closing = closing[1:]  # the model ended its turn itself
        ids = array("I") if prompt.before is None else prompt.before[:]
        ids.extend(prompt.ids[len(ids) :])
        ids.extend(generated)
        ids.extend(closing)
        if response_id in self._chains:
            self._held -= len(self._chains.pop(response_id).ids)
            self._taken_up(response_id)
        self._chains[response_id] = _Chain(ids, prompt.key, prompt.covered, prompt.last, said)
        self._held += len(ids)
        while self._held > self._capacity and len(self._chains) > 1:
            name, dropped = self._chains.popitem(last=False)
            self._held -= len(dropped.ids)
            self._taken_up(name)
        self._put_at_hand(response_id, prompt.ids)

    def _put_at_hand(self, response_id: str, ids: list[int]) -> None:
        self._at_hand[response_id] = ids
        self._room -= len(ids)
        while self._room < 0:
            _, dropped = self._at_hand.popitem(last=False)
            self._room += len(dropped)

    def _taken_up(self, response_id: str) -> list[int]:
        """From now on another goes before it: who continues an answer seldom does so twice."""
        ids = self._at_hand.pop(response_id, [])
        self._room += len(ids)
        return ids

    def _new_items(self, chat: Chat, parent: str | None, key: str) -> Sequence[Item] | None:
        """What has come since the parent; None when its chain cannot be continued."""
        chain = self._chains.get(parent or "")
        if chain is None or chain.key != key:
            return None
        covered = chain.covered
        if covered and (len(chat.items) < covered or chat.items[covered - 1].id != chain.last):
            return None  # something was dropped from the past
        if not all(map(by_model, chat.items[covered : covered + chain.said])):
            return None  # what it said was dropped, in part or whole: interrupted, or truncated
        new = chat.items[covered + chain.said :]
        messages = chat_messages(Chat(items=new), ToolForms(chat.toolbox))
        if not messages or messages[0]["role"] == "assistant":
            return None
        by_user = any(message["role"] != "tool" for message in messages)
        if self.growth == "within_tool_turns" and by_user:
            return None
        self._chains.move_to_end(parent or "")
        return new
