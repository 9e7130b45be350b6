"""The prompts of scripted engines: how many tokens they are, and what of them was read before."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from vivace.engines.base import Chat, Work
from vivace.protocol.items import (
    AdditionalTools,
    CustomToolCall,
    FunctionCall,
    Item,
    Message,
    Reasoning,
    ToolOutput,
    text_of,
)

__all__ = ["PrefixCache", "Prompt", "length_of", "text_of_item", "texts_of", "tokens"]

_TOKEN = re.compile(r"\s*\w{1,8}|\s*[^\w\s]|\s+")
_CHARACTERS_PER_TOKEN = 4


def tokens(text: str) -> Iterator[str]:
    """Cut as a tokenizer would, roughly; nothing is lost or added."""
    return (found[0] for found in _TOKEN.finditer(text))


def length_of(text: str) -> int:
    """Counting must not cost what cutting does: conversations are long and counted every turn."""
    return len(text) // _CHARACTERS_PER_TOKEN + 1


def text_of_item(item: Item) -> str:
    match item:
        case Message():
            return text_of(item.content)
        case FunctionCall():
            return item.arguments
        case CustomToolCall():
            return item.input
        case Reasoning():
            return text_of(item.content or ())
        case _ if isinstance(item, ToolOutput):
            return text_of(item.output)
        case AdditionalTools():
            return msgspec.json.encode(item.tools).decode()
    return ""


def texts_of(work: Work) -> list[str]:
    """Return the texts of a prompt, in the order in which they are read."""
    if not isinstance(work.prompt, Chat):
        fill = work.prompt
        texts = [*(file.text for file in fill.files), fill.prefix, fill.suffix or ""]
        return [*texts, *tokens(fill.typed)]
    tools = bytes(work.prompt.toolbox.echo).decode() if work.prompt.toolbox.tools else ""
    fixed = (work.prompt.instructions or "") + tools
    return [*([fixed] if fixed else ()), *map(text_of_item, work.prompt.items)]


def _walk(work: Work, texts: Iterable[str]) -> Iterator[tuple[int, int]]:
    key = hash((work.owner, work.model))
    for text in texts:
        key = hash((key, text))
        yield key, length_of(text)


class Prompt(Struct, frozen=True):
    length: int
    cached: int
    key: int
    """Names the whole prompt in the cache, so that what is said next can be added to it."""


class PrefixCache:
    """Remembers beginnings of prompts, item by item, and forgets the least recently used."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._used = 0
        self._prefixes: OrderedDict[int, int] = OrderedDict()

    def read(self, work: Work, texts: Iterable[str]) -> Prompt:
        """Return how long the prompt of these texts is, and how much of it is known; from now on
        all of it is."""
        total = cached = key = 0
        hit = True
        for key, length in _walk(work, texts):
            total += length
            if hit and key in self._prefixes:
                cached = total
                self._prefixes.move_to_end(key)
            else:
                hit = False
                self._remember(key, length)
        return Prompt(total, cached, key)

    def keep(self, prompt: Prompt, said: Iterable[str]) -> None:
        """What was generated is in the cache too, behind the prompt it answered."""
        key = prompt.key
        for text in said:
            key = hash((key, text))
            self._remember(key, length_of(text))

    def _remember(self, key: int, length: int) -> None:
        if key in self._prefixes:
            return
        self._prefixes[key] = length
        self._used += length
        while self._used > self._capacity:
            _, freed = self._prefixes.popitem(last=False)
            self._used -= freed
