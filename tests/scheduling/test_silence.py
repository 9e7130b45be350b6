"""When an engine counts as silent. Time is virtual throughout."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import virtual_time
from vivace.engines.base import Card, Chat, Tally, Work
from vivace.engines.scripted import Capacity, Reply, Say, Script, ScriptedEngine
from vivace.protocol.items import Message
from vivace.scheduling.silence import Reader, Silence

LOOK = 0.25


class Clock:
    """Looks at one engine four times a second."""

    def __init__(self, seconds: float = 5) -> None:
        self.silence = Silence({"e": seconds})
        self.now = 100.0

    def after(self, seconds: float, **readers: Reader) -> bool:
        """Whether it is silent when nothing changes for so long."""
        silent = self.silence.look("e", readers, self.now)
        for _ in range(round(seconds / LOOK)):
            self.now += LOOK
            silent = self.silence.look("e", readers, self.now)
        return silent

    def silent_after(self, most: float, **readers: Reader) -> float:
        """How long it takes until it is."""
        began = self.now
        while not self.after(LOOK, **readers):
            assert self.now - began < most
        return self.now - began


def writing(steps: int) -> Reader:
    return Reader(steps, 0, begun=True)


def reading(tokens: int, steps: int = 0) -> Reader:
    return Reader(steps, tokens, begun=False)


def test_an_engine_without_work_is_never_silent() -> None:
    assert not Clock().after(3600)


def test_one_that_writes_may_pause_for_five_seconds() -> None:
    clock = Clock()
    assert not clock.after(4.5, a=writing(1))
    assert not clock.after(4.5, a=writing(2))
    assert 4.9 <= clock.silent_after(10, a=writing(2)) + 4.5 <= 5.6


def test_a_step_for_anyone_is_a_step() -> None:
    clock = Clock()
    for step in range(20):
        assert not clock.after(4, waits=writing(1), served=writing(step + 1))


def test_silence_begins_when_there_is_work() -> None:
    clock = Clock()
    assert not clock.after(3, a=writing(1))
    assert not clock.after(60)
    assert not clock.after(4.5, a=writing(1))


def test_a_first_token_may_take_thirty_seconds() -> None:
    clock = Clock()
    assert 29 <= clock.silent_after(40, a=reading(10)) <= 31


def test_while_a_prompt_is_read_those_who_write_wait_with_it() -> None:
    clock = Clock()
    assert not clock.after(25, a=writing(7), b=reading(10))


def test_a_long_prompt_may_take_three_times_as_long_as_it_should() -> None:
    clock = Clock()
    clock.after(10, a=reading(5000))
    clock.after(LOOK, a=Reader(1, 5000, begun=True))  # it reads 500 tokens a second
    clock.after(LOOK)
    assert 290 <= clock.silent_after(400, b=reading(50_000)) <= 310


def test_what_was_cached_does_not_make_an_engine_fast() -> None:
    clock = Clock()
    clock.after(LOOK, a=reading(100))
    clock.after(LOOK, a=Reader(1, 100, begun=True))
    clock.after(LOOK)
    assert not clock.after(1000, b=reading(100_000))


def test_signs_that_it_reads_are_steps_and_no_first_token() -> None:
    clock = Clock()
    for step in range(50):
        assert not clock.after(20, a=reading(100, step))


def test_it_is_not_silent_any_more_when_it_goes_on_or_answers() -> None:
    clock = Clock()
    clock.silent_after(10, a=writing(1))
    assert clock.after(60)  # all have left it
    assert clock.silence.silent("e")
    clock.silence.spoke("e")
    assert not clock.after(60)
    clock.silent_after(10, a=writing(1))
    assert not clock.after(LOOK, a=writing(2))


@pytest.mark.parametrize("stopped", [6.0, 3600.0])
def test_when_we_were_stopped_ourselves_the_engine_is_not_to_blame(stopped: float) -> None:
    clock = Clock()
    assert not clock.after(3, a=writing(1))
    clock.now += stopped
    assert not clock.after(LOOK, a=writing(1))


@given(st.lists(st.floats(0.01, 4.5), max_size=40))
def test_who_steps_in_time_is_never_silent(pauses: list[float]) -> None:
    clock = Clock()
    for step, pause in enumerate(pauses):
        assert not clock.after(pause, a=writing(step + 1))


# -- a real (scripted) engine under load ----------------------------------------------------------


def ask(name: str, tokens: int) -> Work:
    text = f"{name} " + "word " * (tokens * 4 // 5)
    chat = Chat(items=(Message(role="user", content=text),))
    return Work(id=name, model="m", prompt=chat, tally=Tally())


async def watched(engine: ScriptedEngine, works: list[Work], silence: Silence) -> list[float]:
    """When the engine was found to be silent while these were answered."""
    loop = asyncio.get_running_loop()

    async def answer(work: Work) -> None:
        async for _ in engine.generate(work):
            pass
        works.remove(work)

    tasks = [asyncio.create_task(answer(work)) for work in works]
    found = []
    while works:
        readers = {
            each.id: Reader(
                each.tally.steps, each.tally.input - each.tally.cached, each.tally.output > 0
            )
            for each in works
        }
        if silence.look("e", readers, loop.time()):
            found.append(loop.time())
            break
        await virtual_time.elapse(LOOK)
    for task in tasks:
        task.cancel()
    return found


def slow(rate: float, words: int) -> ScriptedEngine:
    """An engine that reads this many tokens a second, and writes ten."""
    script = Script((Reply(then=(Say(" word", times=words),)),))
    capacity = Capacity(rate=10, growth=0.1, prefill_rate=rate, prefill_chunk=8192)
    return ScriptedEngine("e", [Card("m", 10**6)], script, capacity)


@pytest.mark.parametrize("rate", [60, 500, 5000])
@pytest.mark.parametrize("others", [0, 1, 16])
def test_a_hundred_thousand_tokens_under_load_are_no_silence(rate: float, others: int) -> None:
    works = [ask("long", 100_000), *(ask(f"other{number}", 300) for number in range(others))]
    found = virtual_time.run(watched(slow(rate, 50), works, Silence({"e": 5})))
    assert found == []


def test_four_such_prompts_at_once_are_none_either() -> None:
    silence = Silence({"e": 5})
    engine = slow(500, 20)

    async def first_one_then_four() -> list[float]:
        found = await watched(engine, [ask("before", 2000)], silence)  # it has shown its pace
        return found + await watched(
            engine, [ask(f"long{number}", 100_000) for number in range(4)], silence
        )

    assert virtual_time.run(first_one_then_four()) == []


def test_and_yet_it_is_found_out_when_it_stops() -> None:
    async def stopped() -> list[float]:
        engine = slow(5000, 10**6)
        loop = asyncio.get_running_loop()
        loop.call_later(60, engine.freeze)
        return await watched(engine, [ask(f"one{number}", 300) for number in range(8)], silence)

    silence = Silence({"e": 5})
    [found] = virtual_time.run(stopped())
    assert 65 <= found <= 66
