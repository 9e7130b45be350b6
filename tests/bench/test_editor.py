"""The editor that types for a benchmark, before a real language server and gateway."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench._editor import Editor
from bench._language_server import NEW_LINE, SUGGESTION, long_file, place_in

from tests.support.server import RunningGateway
from vivace.desk.completing import Suggestion
from vivace.engines.scripted import Reply, Say, Stall

BEFORE = "def area(width, height):\n    return\n\n\nprint('é𝄞')\n"


def play(gateway: RunningGateway, folder: Path, work: Callable[[Editor], Awaitable[None]]) -> None:
    async def session() -> None:
        async with Editor.started(folder, gateway.url) as editor:
            assert editor.introduced_in > 0
            await work(editor)

    asyncio.run(session())


def test_a_key_is_answered_for_the_text_as_it_is_then(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    gateway.engine.play([Reply(then=(Say(" width * height\n\nx"),))])

    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", BEFORE)
        at = BEFORE.index("return") + len("return")
        answer = await buffer.press(at, at, " ").answer()
        assert answer.suggestion == Suggestion("return width * height", at - len("return"), at + 1)
        assert answer.seconds > 0
        typed = buffer.text.replace("return ", "return wi")
        answer = await buffer.become(typed, at + 3).answer()
        assert buffer.text == typed
        assert answer.suggestion is not None
        assert answer.suggestion.text == "return width * height"

    play(gateway, tmp_path, work)


def test_an_answer_to_a_text_that_is_no_more_is_late(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    gateway.engine.play([Reply(then=(Stall(0.2), Say(" width\n\nx")))])

    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", BEFORE)
        at = BEFORE.index("return") + len("return")
        pressed = buffer.press(at, at, " ")
        buffer.replace(0, 0, "# new\n")
        answer = await pressed.answer()
        assert answer.suggestion is None
        assert 0 < answer.late < answer.seconds

    play(gateway, tmp_path, work)


def test_lines_are_begun_where_code_can_stand() -> None:
    text = long_file(100)
    assert text.count("\n") >= 100
    for seed in range(20):
        at = place_in(text, random.Random(seed))
        compile(f"{text[:at]}{NEW_LINE} {SUGGESTION}\n{text[at:]}", "long.py", "exec")
