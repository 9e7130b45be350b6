"""The text of tokens as they come, with small tokenizers made here."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from vivace.engines.token_text import TokenText

CODE = Path(__file__).read_text()
MARK = "<|mark|>"


def of_bytes() -> Tokenizer:
    """Its tokens are bytes, so that a character may be several."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=[MARK],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([CODE], trainer)
    return core


def of_words() -> Tokenizer:
    """It takes the space before a text's first word away."""
    core = Tokenizer(models.WordLevel({"▁": 0, "▁say": 1, "▁it": 2, "▁again": 3}, "▁"))
    core.pre_tokenizer = pre_tokenizers.Metaspace()
    core.decoder = decoders.Metaspace()
    return core


BYTES, WORDS = of_bytes(), of_words()


def ids(text: str) -> list[int]:
    tokens: list[int] = BYTES.encode(text).ids
    return tokens


@given(st.text(), st.text(), st.integers(1, 5))
def test_the_pieces_are_the_text_however_many_tokens_come_at_once(
    prompt: str, answer: str, step: int
) -> None:
    words, tokens = TokenText(BYTES, ids(prompt), special=False), ids(answer)
    pieces = [words.read(tokens[at : at + step]) for at in range(0, len(tokens), step)]
    assert "".join(pieces) == answer.replace(MARK, "")


def test_a_character_comes_whole() -> None:
    words = TokenText(BYTES, ids("Say it:"), special=False)
    tokens = ids("\N{SNOWMAN}")
    assert len(tokens) == 3
    assert [words.read([token]) for token in tokens] == ["", "", "\N{SNOWMAN}"]


def test_the_first_word_keeps_its_space() -> None:
    words = TokenText(WORDS, WORDS.encode("say it").ids, special=False)
    assert words.read(WORDS.encode("again").ids) == " again"
    assert TokenText(WORDS, [], special=False).read(WORDS.encode("again").ids) == "again"


@pytest.mark.parametrize(("special", "text"), [(False, "ab"), (True, f"a{MARK}b")])
def test_marks_are_text_only_where_they_are_asked_for(special: bool, text: str) -> None:
    words = TokenText(BYTES, ids("Say it:"), special=special)
    assert words.read(ids(f"a{MARK}b")) == text


@given(st.lists(st.integers(0, BYTES.get_vocab_size() - 1)))
def test_whatever_tokens_come_text_goes_on_behind_them(junk: list[int]) -> None:
    words = TokenText(BYTES, ids("Say it:"), special=False)
    words.read(junk)
    assert words.read(ids("\n\nand so on\n")).endswith("and so on\n")


def test_a_long_prompt_does_not_delay_the_first_word(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def begun(ids: list[int], skip_special_tokens: bool) -> Any:
        decoded.append(len(ids))
        return decoders.DecodeStream(ids=ids, skip_special_tokens=skip_special_tokens)

    monkeypatch.setitem(sys.modules, "tokenizers.decoders", SimpleNamespace(DecodeStream=begun))
    assert TokenText(BYTES, ids(CODE) * 100, special=False).read(ids("Yes")) == "Yes"
    assert len(decoded) == 1
    assert decoded[0] < 20, "the end of the prompt is enough"


class Confused:
    def step(self, tokenizer: Tokenizer, token: int) -> str:
        raise RuntimeError("Invalid prefix encountered while decoding stream.")


def test_a_decoder_that_has_lost_its_way_begins_anew() -> None:
    words = TokenText(BYTES, ids("Say it:"), special=False)
    words._stream = Confused()
    assert words.read(ids("go on")) == "go on"
