"""What goes into an engine with a request whose answer repeats old code."""

from __future__ import annotations

import re

import msgspec

from vivace.engines.base import Chat
from vivace.engines.old_code import OLD, carried, terms_of
from vivace.protocol.items import Message
from vivace.protocol.requests import Prediction
from vivace.speculation.leniency import Terms

CODE = "```python\nlimit = fetch_all()\n```"


class Tokenizer:
    """Words with the space before them, and single signs."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        parts = re.findall(r"```\n?| ?\w+|.|\n", text)
        return [self.numbers.setdefault(part, len(self.numbers)) for part in parts]


def chat(text: str, prediction: Prediction | None) -> Chat:
    return Chat(items=[Message(role="user", content=text)], prediction=prediction)


def lenient(text: str, old: str = CODE) -> tuple[Tokenizer, Terms]:
    words = Tokenizer()
    given = carried(chat(text, Prediction(old, leniency=3)), words.encode)
    terms = terms_of(msgspec.json.decode(msgspec.json.encode(given)))
    assert terms is not None
    return words, terms


def test_without_leniency_only_the_old_code_is_carried() -> None:
    words = Tokenizer()
    given = carried(chat("change it", Prediction(CODE)), words.encode)
    assert given == {OLD: words.encode(CODE)}
    assert terms_of(given) is None


def test_where_there_is_no_old_code_nothing_is_carried() -> None:
    assert carried(chat("say yes", None), Tokenizer().encode) == {}
    assert carried(chat("say yes", Prediction("", leniency=4)), Tokenizer().encode) == {}


def test_the_closing_fence_does_not_count() -> None:
    words, terms = lenient("change it")
    assert terms.end == len(words.encode(CODE)) - 1
    words, terms = lenient("change it", "limit = 1\n")
    assert terms.end == len(words.encode("limit = 1\n"))


def test_what_the_instruction_names_is_free_with_and_without_the_space_before_it() -> None:
    words, terms = lenient(f"{CODE}\n\nThe change: rename fetch_all to read all of it")
    assert terms.nats == 3
    assert terms.free == {words.numbers["fetch_all"], words.numbers[" fetch_all"]}
    assert words.numbers["import"] in terms.openings


def test_it_is_told_which_tokens_end_a_line() -> None:
    words, terms = lenient("change it", "a = 1\nb = 2")
    assert terms.breaks == {words.numbers["\n"]}
