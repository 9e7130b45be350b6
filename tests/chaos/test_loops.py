"""Loops of real clients: what engines play, which turns were run twice, what all come to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from chaos.history import Worked
from chaos.loops.client import Gate
from chaos.loops.counting import Asked, asked_of
from chaos.loops.killing import KILLS
from chaos.loops.script import CODEX, DONE, SDK, TURNS, WORDS, came_out, question, script, wrong
from chaos.loops.table import Outcome, line_of, problems, rows, summary
from msgspec.structs import replace

from tests.support import virtual_time
from vivace.engines.base import Chat, Work
from vivace.engines.scripted import Call, Mark, Say, Script
from vivace.protocol.items import FunctionCallOutput, Item, Message

# -- what engines play ----------------------------------------------------------------------------


def played(item: Item) -> tuple[Any, ...]:
    prompt = Chat(items=(item,))
    work = Work(id="resp_1", model="coder", prompt=prompt)
    return msgspec.toml.decode(script(), type=Script).reply_to(work)


@pytest.mark.parametrize("kind", [SDK, CODEX])
def test_every_answer_calls_the_next_step_and_the_last_ends_the_loop(kind: str) -> None:
    outputs = (f"Wall time: 1 s\n{came_out(kind, number)}\n" for number in range(1, TURNS))
    asked: list[Item] = [
        Message(role="user", content=question(kind, "7-0")),
        *(FunctionCallOutput(call_id="call_1", output=each) for each in outputs),
    ]
    *steps, last = [played(item) for item in asked]
    assert len(steps) == TURNS - 1
    for number, (mark, announced, call) in enumerate(steps, 1):
        assert mark == Mark(WORDS)
        assert isinstance(call, Call)
        # Who has seen these words and not the call goes on from them.
        said = Message(role="assistant", content=words() + announced.text)
        assert played(said) == (call,)
        given = msgspec.json.decode(call.text)
        assert given.get("number", given.get("cmd")) in (number, f"./step {number}")
    assert (last[0], last[-1]) == (Mark(WORDS), Say(DONE))


def words(count: int = WORDS, first: int = 0) -> str:
    return "".join(f" m1.{index}@n1.a1" for index in range(first, first + count))


def test_an_answer_is_right_only_if_it_has_every_word_once_and_ends_where_it_should() -> None:
    assert wrong(words(), last=False) is None
    assert wrong(f"{words()}\nshown user-1\n{DONE}", last=True) is None
    assert wrong(words(WORDS - 1), last=False) is not None
    assert wrong(words(first=1), last=False) is not None
    assert wrong(words(30) + words(30, first=29), last=False) is not None
    assert wrong(words(), last=True) is not None
    assert wrong(f"{words()}\n{DONE}", last=False) is not None


def test_steps_wait_while_the_gate_is_shut(tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")

    async def pass_it() -> None:
        gate.open()  # it may be open
        gate.shut()
        passing = asyncio.create_task(gate.passed())
        await virtual_time.elapse(60)
        assert not passing.done()
        gate.open()
        await passing

    virtual_time.run(pass_it())


# -- what was run twice ---------------------------------------------------------------------------


def worked(
    at: float,
    what: Literal["began", "stopped"] = "began",
    *,
    shown: str = "",
    response: str = "resp_1",
    **more: Any,
) -> Worked:
    return Worked(at, "scripted", "p1", response, what, shown=tuple(shown.split()), **more)


ONE, TWO = "user-1", "user-1 assistant-1 function_call_output-1"


def test_turns_are_told_apart_by_what_was_shown() -> None:
    told = [
        worked(1, shown=ONE),
        worked(2, "stopped"),
        worked(3, shown=TWO, response="resp_2"),
    ]
    assert asked_of(told, 0) == Asked(turns=2, begun=2, twice=0, since=3)
    assert asked_of(reversed(told), 0) == asked_of(told, 0)
    assert asked_of(told[:2], 0) == Asked(turns=1, begun=1, twice=0, since=None)


def test_the_same_shown_again_is_a_turn_run_twice_whatever_its_id() -> None:
    first = worked(1, shown=ONE)
    assert asked_of([first, worked(2, shown=ONE, response="resp_2")], 0).twice == 1
    assert asked_of([first, worked(2, shown=ONE, attempt=2)], 0).twice == 1
    thrice = [first, worked(2, shown=ONE, attempt=2), worked(3, shown=ONE, response="resp_3")]
    assert asked_of(thrice, 0).twice == 2


def test_who_goes_on_after_the_words_of_another_runs_nothing_twice() -> None:
    told = [worked(1, shown=ONE), worked(2, shown=ONE, attempt=2, said=" m1.0@n1.a1")]
    assert asked_of(told, 0) == Asked(turns=1, begun=1, twice=0, since=2)


def test_what_is_only_read_is_no_turn() -> None:
    told = [worked(1, shown=ONE, answers=False), worked(2, shown=ONE, response="resp_2")]
    assert asked_of(told, 0) == Asked(turns=1, begun=1, twice=0, since=2)


def test_what_was_before_is_of_another_loop() -> None:
    told = [worked(1, shown=ONE), worked(2, shown=ONE, response="resp_2")]
    assert asked_of(told, 1.5) == Asked(turns=1, begun=1, twice=0, since=2)


def test_what_another_engine_has_left_behind_does_not_end_the_newest() -> None:
    told = [
        worked(1, shown=ONE),
        worked(2, shown=ONE, response="resp_2"),
        worked(3, "stopped"),
    ]
    assert asked_of(told, 0).since == 2


# -- what loops come to ---------------------------------------------------------------------------

HELD = Outcome(
    client="OpenAI SDK",
    keyed=True,
    turns=TURNS,
    kills=KILLS,
    twice=0,
    retries=5,
    why="",
    seconds=40.0,
)


def test_a_loop_of_twenty_turns_loses_four_gateways() -> None:
    assert (TURNS, KILLS) == (20, 4)


@pytest.mark.parametrize(
    "change",
    [{"why": "turn 3: it is failed"}, {"turns": TURNS - 1}, {"kills": KILLS - 1}, {"twice": 1}],
)
def test_a_loop_holds_only_if_all_of_it_does(change: dict[str, Any]) -> None:
    assert list(problems(HELD)) == []
    [told] = problems(replace(HELD, **change))
    assert told in line_of(replace(HELD, **change))


def test_who_sends_no_key_may_be_answered_twice() -> None:
    assert list(problems(replace(HELD, keyed=False, twice=4))) == []


def test_a_line_has_all_loops_of_a_client() -> None:
    other = replace(HELD, client="Codex CLI, HTTP", keyed=False, twice=4)
    broken = replace(HELD, why="turn 3: it is failed", turns=3, kills=1)
    assert list(rows([HELD, other, broken])) == [
        ("OpenAI SDK", "2", "23", "5", "1", "0", "10"),
        ("Codex CLI, HTTP", "1", "20", "4", "1", "4", "5"),
    ]
    assert "run twice" in summary([HELD])
