"""Beginnings that an answer is held to, in the forms that engines take."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vivace.completion.beginnings import grammar, pattern

CODE = 'if a["b\\n"] == {1, 2} and c(d)[0]^2 | e.f*g+h? -$i:\n\treturn "\\x41" # ä 😀'


@given(st.text(), st.text())
@example(CODE, "\n\n    x")
def test_a_pattern_takes_whatever_begins_so(beginning: str, rest: str) -> None:
    assert re.fullmatch(pattern(beginning), beginning + rest)


@given(st.text(), st.text())
def test_a_pattern_takes_nothing_else(beginning: str, other: str) -> None:
    assert bool(re.fullmatch(pattern(beginning), other)) == other.startswith(beginning)


@given(st.text())
@example(CODE)
def test_a_grammar_has_the_beginning_as_a_literal_of_one_line(beginning: str) -> None:
    written = re.fullmatch(r'root ::= "(.*)" \.\*', grammar(beginning), re.DOTALL)
    assert written is not None
    literal = written[1]
    assert not re.search(r'["\x00-\x1f]', literal)
    meant = re.sub(r"\\x([0-9a-f]{2})", lambda found: chr(int(found[1], 16)), literal)
    assert meant == beginning


@pytest.mark.parametrize(
    ("beginning", "written"),
    [(" re", 'root ::= " re" .*'), ('"\\\n', 'root ::= "\\x22\\x5c\\x0a" .*')],
)
def test_a_grammar_is_written_as_llama_cpp_reads_it(beginning: str, written: str) -> None:
    assert grammar(beginning) == written
