"""The person who types for a benchmark, and the ways that are compared while they do."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from bench._completers import Completer, InEditor, Sliding, Stable
from bench._editor import Editor
from bench._metered import Asked, Metered, Reckoned, Tokens
from bench._typist import Habits, Moment, changes, moments
from bench.typing import Reading, Typing, completer, fits, keys_in, settled, taken
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from tests.support.server import MODEL, RunningGateway
from vivace.client.gap import Gap
from vivace.desk.completing import Suggestion
from vivace.engines.scripted import Reply, Say
from vivace.models import Fim

BEFORE = "import os\n\n\ndef area(side):\n    return side\n\n\nprint(area(2))\n"
AFTER = (
    "import os\n\n\ndef area(width, height):\n    return abs(width * height)\n\n\n"
    'def name():\n    return "area"\n\n\nprint(area(2, 3))\n'
)
LINES = st.lists(st.sampled_from(["", "a", "f(x)", "  b = [1]", "'it'", "\tc {"]), max_size=8)


def typed(before: str = BEFORE, after: str = AFTER, seed: int = 1) -> list[Moment]:
    return list(moments(before, after, random.Random(seed)))


# -- the person -----------------------------------------------------------------------------------


@given(LINES, LINES, st.integers(0, 5))
def test_the_keys_of_a_change_make_the_new_text(old: list[str], new: list[str], seed: int) -> None:
    before, after = "\n".join(old), "\n".join(new)
    keys = typed(before, after, seed)
    assert (keys[-1].text if keys else before) == after


def test_what_is_kept_and_what_comes_is_the_new_text() -> None:
    found, rest = changes(BEFORE, AFTER)
    assert "".join(each.kept + each.new for each in found) + rest == AFTER
    assert "".join(each.kept + each.old for each in found) + rest == BEFORE


def test_new_lines_are_begun_behind_the_line_before_them() -> None:
    found, rest = changes("a\nb\n", "a\nnew\nb\n")
    assert [(each.kept, each.new) for each in found] == [("a", "\nnew")]
    assert rest == "\nb\n"


def test_the_same_seed_types_the_same() -> None:
    assert typed(seed=3) == typed(seed=3) != typed(seed=4)


def test_between_keys_pass_the_times_that_are_written_down() -> None:
    for moment in typed():
        if moment.pauses or moment.jumped:
            assert 0.5 <= moment.wait <= 8.0
        else:
            assert 0.1 <= moment.wait <= 0.2


def test_what_is_going_to_be_typed_stands_behind_the_cursor_in_the_end() -> None:
    last = {moment.place: moment for moment in typed()}
    for moment in typed():
        done = last[moment.place]
        before = done.text[: done.offset]
        assert before.endswith(moment.going)


def test_the_editor_closes_brackets_and_they_are_typed_over() -> None:
    keys = typed("x\n", "x\nf(a)\n")
    assert [key.text for key in keys if key.closers] == ["x\nf()\n", "x\nf(a)\n"]
    assert keys[-1].text == "x\nf(a)\n"


def test_a_place_is_left_for_another_at_the_rate_that_is_written_down() -> None:
    before = "\n".join(f"# {number}" for number in range(20))
    after = "\n".join(f"# {number} and some more words here" for number in range(20))
    dice = random.Random(1)
    keys = list(moments(before, after, dice, Habits(jumps=0.2)))
    jumps = sum(moment.jumped for moment in keys)
    assert 0.15 < jumps / len(keys) < 0.3


# -- the ways -------------------------------------------------------------------------------------


class Answering:
    """Says the same to every gap."""

    has_tiers = False

    def __init__(self, answer: str = "", held: int = 0) -> None:
        """The first ``held`` requests wait until they are broken off."""
        self.asked: list[Asked] = []
        self.under_way = asyncio.Event()
        self.broken_off = 0
        self._answer = answer
        self._held = held

    async def tokens(self) -> Tokens:
        return Tokens()

    async def fill(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        if not gap.generate:
            return
        self.under_way.set()
        if self._held:
            self._held -= 1
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.broken_off += 1
                raise
        yield self._answer


FILE = "".join(f"def f{number}():\n    return {number}\n\n\n" for number in range(100))


def test_a_stable_window_begins_and_ends_at_a_fixed_line_while_somebody_types() -> None:
    way = Stable(Answering(), "lane", "a.py", 600)
    at = FILE.index("def f50")
    first = way.window(FILE, at)
    for length in range(1, 60):
        text = FILE[:at] + "x" * length + FILE[at:]
        window = way.window(text, at + length)
        assert window.prefix == first.prefix + "x" * length
        assert window.suffix == first.suffix


@given(st.lists(st.integers(0, len(FILE)), min_size=1, max_size=6), st.integers(100, 5_000))
def test_no_way_has_more_than_its_room(places: list[int], room: int) -> None:
    for way in (Stable(Answering(), "l", "a.py", room), Sliding(Answering(), "l", "a.py", room)):
        for at in places:
            window = way.window(FILE, at)
            assert FILE[:at].endswith(window.prefix)
            assert FILE[at:].startswith(window.suffix)
            assert len(window.prefix) <= room * 2 / 3
            assert len(window.suffix) <= room / 3 + 1


def test_a_sliding_window_is_what_stands_around_the_cursor() -> None:
    window = Sliding(Answering(), "lane", "a.py", 30).window(FILE, 200)
    assert (window.prefix, window.suffix) == (FILE[180:200], FILE[200:210])


@pytest.mark.parametrize(
    ("way", "answer"),
    [("ours", "value = 1\n"), ("stable", "lue = 1\n"), ("sliding", "lue = 1\n")],
)
def test_a_way_shows_what_it_is_answered_and_does_not_ask_for_it_again(
    way: str, answer: str
) -> None:
    async def check() -> None:
        completing = made(way, Answering(answer))
        shown = [await completing.at(f"x = 1\n\n{word}\n", 7 + len(word)) for word in ("va", "val")]
        assert [each and each.text for each in shown] == ["lue = 1", "ue = 1"]
        assert completing.requests == 1

    asyncio.run(check())


@pytest.mark.parametrize("way", ["stable", "sliding"])
def test_the_next_key_breaks_off_what_is_under_way(way: str) -> None:
    async def check() -> None:
        server = Answering("answer\n", held=1)
        completing = made(way, server)
        first = asyncio.create_task(completing.at("x = \n", 4))
        await server.under_way.wait()
        second = await completing.at("x = y\n", 5)
        assert await first is None
        assert second is not None
        assert server.broken_off == 1

    asyncio.run(check())


def made(way: str, server: Answering) -> Completer:
    return completer(way, server, "a.py", asyncio.get_running_loop().time, 4_000)


def test_without_an_engine_what_is_typed_behind_the_suffix_alone_is_reckoned() -> None:
    letters = Tokenizer(WordLevel({chr(number): number for number in range(128)}, "\0"))
    letters.pre_tokenizer = Split(Regex("."), "isolated")
    template = Fim(prefix="<", suffix=">", middle="|")

    async def read(*fills: dict[str, str]) -> list[int]:
        server, found = Reckoned(letters, template), []
        for fill in fills:
            before = await server.tokens()
            async for _ in server.fill("lane", Gap(fill=fill)):
                pass
            found.append((await server.tokens()).since(before).read)
        return found

    gap = {"prefix": "abc", "suffix": "defg"}
    last = asyncio.run(read(gap, gap | {"typed": "x"}, gap | {"typed": "xyz"}))
    assert last == [10, 1, 2]
    assert asyncio.run(read(gap, gap | {"prefix": "abcx"})) == [10, 7]


def test_through_an_editor_the_language_server_is_asked_and_its_requests_are_counted(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    gateway.engine.play([Reply(then=(Say(" some(thing)\n\nx"),))])

    async def check() -> None:
        server = Metered(gateway.port, MODEL)
        async with Editor.started(tmp_path, gateway.url) as editor:
            path = tmp_path / "a.py"
            completing = await InEditor.opened(editor, path, "x = 1\n\ny =\n", server)
            await completing.arrived("x = 1\n\ny =\n", 10)
            keys = [f"x = 1\n\ny ={typed}\n" for typed in (" ", " s", " so")]
            shown = [await completing.at(text, len(text) - 1) for text in keys]
            assert [each and each.text for each in shown] == ["y = some(thing)"] * 3
            await completing.close()
        assert 1 <= completing.requests <= 3
        await server.close()

    asyncio.run(check())


# -- what is counted ------------------------------------------------------------------------------


def moment(text: str, going: str, closers: str = "", **more: Any) -> Moment:
    at = text.index("|")
    shown = text.replace("|", closers)
    return Moment(shown, at, 0, more.pop("written", 0), going, closers, 0.0, **more)


@pytest.mark.parametrize(
    ("suggestion", "new"),
    [
        (Suggestion("a, b", 2, 2), "a, b"),
        (Suggestion("f(a, b", 0, 2), "a, b"),
        (Suggestion("a, b)", 2, 3), "a, b)"),
        (Suggestion("a, c", 2, 2), ""),
        (Suggestion("a, b)\nmore", 2, 3), ""),
    ],
)
def test_a_person_takes_what_they_were_going_to_type_and_nothing_else(
    suggestion: Suggestion, new: str
) -> None:
    assert taken(suggestion, moment("f(|\n", "a, b)", ")")) == new


@pytest.mark.parametrize(
    "suggestion", [Suggestion("a", 3, 3), Suggestion("a", 0, 1), Suggestion("a", 2, 4)]
)
def test_a_suggestion_for_another_place_or_text_does_not_fit(suggestion: Suggestion) -> None:
    assert not fits(suggestion, moment("f(|\n", "a)", ")"))


def test_indentation_behind_a_new_line_costs_no_key() -> None:
    assert keys_in("a:\n        b") == 4


def test_a_window_that_is_known_is_settled_and_a_warm_up_is_not() -> None:
    old, new = ("a", "b"), ("c", "d")
    found = [
        Reading([Asked(old, True)], Tokens()),
        Reading([Asked(old, False)], Tokens()),
        Reading([], Tokens()),
        Reading([Asked(new, False)], Tokens()),
        Reading([Asked(new, False)], Tokens()),
    ]
    assert settled(found) == [False, True, True, False, True]


def test_keys_are_saved_once_though_they_are_typed_all_the_same() -> None:
    class Knowing:
        requests = 2

        async def at(self, text: str, offset: int) -> Suggestion | None:
            return Suggestion("abcd"[offset:], offset, offset)

        async def arrived(self, text: str, offset: int) -> None: ...

        async def close(self) -> None: ...

    keys = [
        moment("a|\n", "bcd", written=1, pauses=True),
        moment("ab|\n", "cd", written=2, pauses=True),
    ]
    found = asyncio.run(Typing(Knowing()).type(keys))
    assert [each.saved for each in found.pauses] == [2, 0]
    assert found.unfit == 0


def test_an_answer_that_comes_after_the_next_key_does_not_fit() -> None:
    class Late:
        requests = 2

        def __init__(self) -> None:
            self.next_key = asyncio.Event()

        async def at(self, text: str, offset: int) -> Suggestion | None:
            if offset == 2:
                self.next_key.set()
            await self.next_key.wait()
            return Suggestion("x", offset, offset)

        async def arrived(self, text: str, offset: int) -> None: ...

        async def close(self) -> None: ...

    keys = [moment("a|\n", "x"), moment("ab|\n", "x", pauses=True)]
    assert asyncio.run(Typing(Late()).type(keys)).unfit == 1
