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
        self._whole: dict[str, Words] = {}
        """The whole conversation up to the answer, of those whose record has all of it."""
        for life in story.lives.values():  # parents come before those who follow them
            self.inputs[life.id] = self._input_of(life)
        self._unseen: dict[str, Words] = {
            name: self._own(name, row["previous_id"], words_of(row["input"]))
            for name, row in story.rows.items()
            if name not in self.inputs
        }
        """Of those that no client saw, and which are on record."""

    def _input_of(self, life: Life) -> Words | None:
        for call in self._story.asked("GET", life.id, _ITEMS):
            if call.status == 200:
                return self._own(life.id, life.parent, words_of(call.answer["data"]))
        row = self._story.rows.get(life.id)
        if row is not None:
            return self._own(life.id, life.parent, words_of(row["input"]))
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

    def _own(self, name: str, parent: str | None, said: Words) -> Words:
        """Behind a turn that is not kept, one that is has all that came before on its record."""
        continued = self._story.lives.get(parent or "")
        if continued is None or continued.stored:
            return said
        before, _ = self._before(parent)
        # A turn whose end could not be stored says that it is not kept, and may be on record.
        has_all = said[: len(before)] == before if before else parent not in self._story.rows
        if not has_all:
            return said
        self._whole[name] = said
        return said[len(before) :]

    def past_of(self, life: Life) -> Words | None:
        """All that was said before, oldest first; None where clients do not know."""
        said, whole = self._before(life.parent)
        return said if whole else None

    def _before(self, name: str | None) -> tuple[Words, bool]:
        """The conversation up to the end of this turn as far as it is known from the beginning,
        and whether that is all of it.

        A turn that was steered before it recited anything tells nobody what it was asked.
        """
        line: list[str] = []
        while name is not None:
            life = self._story.lives.get(name)
            if life is None:
                return (), False
            line.append(name)
            name = None if name in self._whole else life.parent
        said: list[str] = []
        for each in reversed(line):
            own, ends = self._whole.get(each, self.inputs.get(each)), self._story.ends.get(each)
            said += own or ()
            if own is None or not ends:
                return tuple(said), False
            said += words_of(ends[0].response["output"])
        return tuple(said), True

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
