"""What reaches a terminal, whatever a model, a server or a command says."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.cli.output import Control, command_output, put, readable, say, styled, visible

CLIPBOARD = "\x1b]52;c;cm0gLXJmIC8=\x07"
TURNED = "\u202e\u2066"
CONTROLS = {chr(code) for code in (*range(32), *range(127, 160))}
DIRECTIONS = {chr(code) for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))}
STEERING = (CONTROLS | DIRECTIONS) - {"\n", "\t"}

hostile = st.text(st.one_of(st.sampled_from(sorted(STEERING)), st.characters()))
pieces = st.lists(hostile)
plain = st.text(
    st.characters(exclude_categories=("Cc", "Cs"), exclude_characters=DIRECTIONS)
    | st.sampled_from("\n\t")
)


class Terminal(io.TextIOWrapper):
    def __init__(self, *, is_one: bool = True) -> None:
        self._is_one = is_one
        super().__init__(io.BytesIO(), encoding="utf-8", errors="strict", newline="")

    def isatty(self) -> bool:
        return self._is_one

    @property
    def shown(self) -> bytes:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue()


def shown(act: Callable[[], None], *, terminal: bool = True) -> bytes:
    with redirect_stdout(Terminal(is_one=terminal)) as out:
        act()
        return out.shown


def put_all(texts: Sequence[str]) -> None:
    for text in texts:
        put(text)


@given(pieces)
def test_nothing_that_steers_passes_however_the_answer_is_cut(texts: list[str]) -> None:
    seen = shown(lambda: put_all(texts)).decode()
    assert not STEERING & set(seen)


@given(pieces)
def test_it_does_not_matter_how_the_answer_is_cut(texts: list[str]) -> None:
    assert shown(lambda: put_all(texts)) == shown(lambda: put("".join(texts)))


@given(plain)
def test_plain_text_of_any_script_passes_unchanged(text: str) -> None:
    assert shown(lambda: put(text)).decode() == text
    assert readable(text) == text


@given(st.binary(), st.integers(min_value=1, max_value=5))
def test_nothing_that_steers_passes_from_a_command_whatever_its_bytes(
    data: bytes, size: int
) -> None:
    def run() -> None:
        show = command_output(err=False)
        for at in range(0, len(data), size):
            show(data[at : at + size])

    assert not STEERING & set(shown(run).decode())
    assert shown(run, terminal=False) == data


@given(hostile)
def test_of_a_line_every_character_can_be_seen(text: str) -> None:
    line = visible(text)
    assert not (STEERING | {"\n", "\t", "\u200b", "\u200d", "\ufeff", "\u2028"}) & set(line)


@pytest.mark.parametrize("text", [CLIPBOARD, TURNED, "\x9b2J", "a\bb", "a\x7fb"])
def test_what_would_steer_is_shown_as_a_mark(text: str) -> None:
    assert "\ufffd" in readable(text)
    assert "\ufffd" in visible(text)


def test_lines_that_end_as_on_windows_are_lines() -> None:
    assert readable("one\r\ntwo\r\n") == "one\ntwo\n"


def test_a_carriage_return_hides_nothing() -> None:
    assert readable("rm -rf /\rharmless") == "rm -rf /harmless"


def test_what_joins_letters_and_emoji_passes_in_prose_and_is_seen_in_code() -> None:
    joined = "\u0645\u06cc\u200c\u0631\u0648\u0645 \U0001f469\u200d\U0001f4bb"
    assert readable(joined) == joined
    assert visible("ad\u200dmin") == "ad\ufffdmin"


def test_a_pipe_gets_an_answer_byte_by_byte() -> None:
    text = f"\x1b[31mred\x1b[0m {CLIPBOARD}{TURNED}\r\n"
    assert shown(lambda: put(text), terminal=False).decode() == text


def test_our_own_colours_pass_and_those_in_the_text_do_not() -> None:
    seen = shown(lambda: say(styled("+\x1b[8mhidden", fg="green"), " \x1b[2J")).decode()
    assert seen == "\x1b[32m+\ufffd[8mhidden\x1b[0m \ufffd[2J\n"


def test_text_that_was_made_of_styled_text_is_foreign_again() -> None:
    assert shown(lambda: say(f"{Control(CLIPBOARD)}")).decode().count("\x1b") == 0


def test_half_a_character_is_no_reason_to_fail() -> None:
    assert shown(lambda: say("\ud83d")).decode() == "\ufffd\n"
