"""The hub's tokenizer as it is used beside the event loop, with a small one made here."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

from vivace.engines.hub_template import HubTemplate

CODE = Path(__file__).read_text() * 4


class Hub:
    """The wrapper that the hub's library puts around it, as far as it is used."""

    def __init__(self, core: Tokenizer) -> None:
        self.backend_tokenizer = core


def trained() -> Tokenizer:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1000,
        special_tokens=["<s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator([CODE], trainer)
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair=None, special_tokens=[("<s>", 0)]
    )
    return core


CORE = trained()
template = HubTemplate(Hub(CORE))


@given(st.text())
def test_tokens_are_those_of_the_tokenizer_itself(text: str) -> None:
    assert template.encode(text) == CORE.encode(text, add_special_tokens=False).ids
    assert template.encode(text, special=True) == CORE.encode(text).ids


@given(st.lists(st.text()))
def test_parts_of_a_text_are_tokenised_one_by_one(parts: list[str]) -> None:
    each = [token for part in parts for token in template.encode(part)]
    assert template.encode_parts(parts) == [*template.encode("", special=True), *each]


def test_a_mark_that_is_parted_is_no_mark() -> None:
    assert template.encode_parts(["<s>", "a<", "s>"])[:2] == [0, 0]
    assert template.encode_parts(["a<", "s>"]).count(0) == 1


@given(st.lists(st.text()))
def test_a_count_is_the_number_of_tokens_of_all(texts: list[str]) -> None:
    assert template.count(texts) == sum(len(template.encode(text)) for text in texts)


@pytest.mark.parametrize("what", ["encode", "count"])
def test_others_run_while_a_long_text_is_tokenised(what: str) -> None:
    text = CODE * 60
    took = 0.0

    def work() -> None:
        nonlocal took
        began = time.perf_counter()
        template.encode(text) if what == "encode" else template.count([text])
        took = time.perf_counter() - began

    thread = threading.Thread(target=work)
    longest, last = 0.0, time.perf_counter()
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    assert took > 0.1, "too short to show anything"
    assert longest < took / 2
