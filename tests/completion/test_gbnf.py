"""A beginning as llama.cpp's grammars write it."""

from __future__ import annotations

import pytest

from vivace.completion.gbnf import beginning_with


@pytest.mark.parametrize(
    ("text", "grammar"),
    [
        ("retu", 'root ::= "retu" .*'),
        ('"\\n', r'root ::= "\"\\n" .*'),
        ("\r\n\tx", r'root ::= "\r\n\tx" .*'),
        ("é[", 'root ::= "é[" .*'),
    ],
)
def test_every_character_means_itself(text: str, grammar: str) -> None:
    assert beginning_with(text) == grammar
