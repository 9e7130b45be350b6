"""What engines were shown, as they recited it, beside what clients know of the conversation.

Everything is compared in the words of a recital (``vivace.engines.scripted.Recite``): one for each
item, of its kind and its text. Every reply of a script has to begin with one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any

from chaos.history import Event
from chaos.lives import Life
from chaos.story import Story
from vivace.engines.scripted import Recite

__all__ = ["Contexts", "Words", "items_of", "recital", "word_of", "words_of"]

Words = tuple[str, ...]

_ITEMS = "/input_items?limit=100&order=asc"


class Contexts:
    """What each response added to its conversation, and what stood before that."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.inputs: dict[str, Words | None] = {}
        """The items of each response's own input; None where nothing tells."""
        for life in story.lives.values():  # parents come before those who follow them
            self.inputs[life.id] = self._input_of(life)
        self._unseen: dict[str, Words] = {
            name: words_of(row["input"])
            for name, row in story.rows.items()
            if name not in self.inputs
        }
        """Of those that no client saw, and which are on record."""

    def _input_of(self, life: Life) -> Words | None:
        for call in self._story.asked("GET", life.id, _ITEMS):
            if call.status == 200:
                return self._own(life, words_of(call.answer["data"]))
        row = self._story.rows.get(life.id)
        if row is not None:
            return self._own(life, words_of(row["input"]))
        past, (shown, whole) = self.past_of(life), recital(life)
        if not whole:
            shown, whole = self._told_by_engine(life)
        return shown[len(past) :] if past is not None and whole else None

    def _told_by_engine(self, life: Life) -> tuple[Words, bool]:
        """Not every engine recites; some say what they were shown when they begin."""
        for work in self._story.work:
            if work.response == life.id and work.what == "began":
                return work.shown, True
        return (), False

    def _own(self, life: Life, said: Words) -> Words:
        """Behind a turn that is not kept, one that is has all that came before in its input."""
        parent = self._story.lives.get(life.parent or "")
        if parent is None or parent.stored or not life.stored:
            return said
        past = self.past_of(life)
        return said[len(past) :] if past and said[: len(past)] == past else said

    def past_of(self, life: Life) -> Words | None:
        """All that was said before, oldest first; None where clients do not know."""
        pieces: list[Words] = []
        parent = life.parent
        while parent is not None:
            before, ends = self._story.lives.get(parent), self._story.ends.get(parent)
            own = self.inputs.get(parent)
            if before is None or not ends or own is None:
                return None
            pieces += [words_of(ends[0].response["output"]), own]
            parent = before.parent
        return tuple(chain.from_iterable(reversed(pieces)))

    def applied(self) -> Counter[str]:
        """In the inputs of how many responses each steer stands, by its text."""
        texts = {word_of("user", text): text for text in self._story.steers}
        inputs = chain(self.inputs.values(), self._unseen.values())
        said = chain.from_iterable(words or () for words in inputs)
        return Counter(texts[word] for word in said if word in texts)


def recital(life: Life) -> tuple[Words, bool]:
    """What it said that it was shown, and whether it came to the end of that."""
    text = ""
    for number, event in enumerate(life.events):
        if event["sequence_number"] != number:  # nobody saw what stood here
            break
        if event["type"] == "response.output_text.delta" and event["output_index"] < 2:
            text += event["delta"]
            if "\n" in text:
                break
    whole = "\n" in text
    if not text.startswith("shown"):
        return (), False
    words = text.partition("\n")[0].split()[1:]
    return tuple(words if whole else words[:-1]), whole  # the last may be half of a word


def word_of(kind: str, text: str) -> str:
    return Recite.text([(kind, text)]).split()[1]


def words_of(items: Iterable[Event]) -> Words:
    return tuple(word_of(item.get("role") or item["type"], _text_of(item)) for item in items)


def items_of(given: Any) -> list[Event]:
    """The input of a request as items."""
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return list(given or ())


def _text_of(item: Event) -> str:
    for field in ("content", "arguments", "input", "output"):
        value = item.get(field)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "".join(part.get("text", "") for part in value)
    return ""
