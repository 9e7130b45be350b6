"""The hub's tokenizer as it is used beside the event loop, with a small one made here."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
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


@pytest.fixture
def only_voluntary_switches() -> Iterator[None]:
    """Threads run until they wait, or let others run of their own accord."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("only_voluntary_switches")
@pytest.mark.parametrize("what", ["encode", "count"])
def test_others_run_while_a_long_text_is_tokenised(what: str) -> None:
    text = CODE * 5
    stage = 0

    def work() -> None:
        nonlocal stage
        stage = 1
        template.encode(text) if what == "encode" else template.count([text])
        stage = 2

    def runs_meanwhile() -> bool:
        nonlocal stage
        stage = 0
        thread = threading.Thread(target=work)
        thread.start()  # returns when the thread has begun, and lets this one run
        seen = stage
        thread.join()
        return seen == 1

    # A busy machine may have something better to do than to go on with this thread in time.
    assert any(runs_meanwhile() for _ in range(200))
