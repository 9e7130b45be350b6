"""The scripted engine: what every engine does, what its scripts say, and how time passes on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.engines.suite import (
    WORDS,
    EngineSuite,
    Rig,
    answer,
    begun,
    text_in,
    tokens_in,
    until,
    until_failure,
)
from tests.support import virtual_time
from tests.support.examples import examples
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.engines.base import Card, Chat, Fill, Sampling, Work
from vivace.engines.scripted import (
    Act,
    Call,
    Capacity,
    Die,
    Fail,
    Recite,
    Reply,
    Say,
    Script,
    ScriptedEngine,
    Stall,
    Think,
)
from vivace.engines.scripted_prompts import tokens as cut
from vivace.errors import ConfigError, EngineDied, EngineError
from vivace.protocol.items import FunctionCallOutput, Item, Message

T = TypeVar("T")
MODEL = "local-model"
FAST = Capacity(rate=20_000)


def engine(*acts: Act, capacity: Capacity = FAST) -> ScriptedEngine:
    return ScriptedEngine("e", [Card(MODEL, 1000)], Script((Reply(then=acts),)), capacity)


def ask(*items: Item | str, **work: Any) -> Work:
    said = [Message(role="user", content=item) if isinstance(item, str) else item for item in items]
    return Work(id="resp_1", model=MODEL, prompt=Chat(items=said), **work)


def play(*acts: Act, **work: Any) -> list[Delta]:
    return asyncio.run(answer(engine(*acts), ask("hi", **work)))


class ScriptedRig(Rig):
    def __init__(self) -> None:
        replies = (
            Reply(when="short", then=(Say("A few words."),)),
            Reply(when="long", then=(Say("word ", times=1500),)),
            Reply(when="failing", then=(Say("so far"), Fail())),
            Reply(when="refused", then=(Fail(status=400),)),
            Reply(when="too many", then=(Fail(status=429, retry_after=7),)),
            *(Reply(when=f"echo {word}", then=(Say(word),)) for word in WORDS),
            Reply(when="count", then=(Say("1 2 3 4 5 6 7 8 9"),)),
        )
        self.scripted = ScriptedEngine("e", [Card(MODEL, 1000)], Script(replies), FAST)
        self.engine = self.scripted

    def short(self) -> Work:
        return ask("a short one")

    def long(self) -> Work:
        return ask("a long one")

    def echo(self, word: str) -> Work:
        return ask(f"echo {word}")

    def counting(self) -> Work:
        return ask("count")

    def failing(self) -> Work:
        return ask("a failing one")

    def refused(self) -> Work:
        return ask("a refused one")

    def overloaded(self) -> Work:
        return ask("one too many")

    def kill(self) -> None:
        self.scripted.die("gone")


class TestAsAnyEngine(EngineSuite):
    @pytest.fixture
    def rig(self) -> Rig:
        return ScriptedRig()


# -- stop strings ---------------------------------------------------------------------------------

STOP = Sampling(stop=("END",))


def test_what_looked_like_a_stop_string_is_told_when_it_is_none() -> None:
    deltas = play(Say("The EN"), Call("f", "END"), Say("E"), sampling=STOP)
    assert text_in(deltas) == "The ENE"
    # A call's text is not looked at.
    assert deltas[-3:-1] == [CallText("END", (3,)), TextDelta("E", ids=(4,))]


def test_what_led_to_a_stop_string_counts_as_said_and_what_follows_is_not_played() -> None:
    *said, last = play(Say("Go on. END"), Say("more"), Die(), sampling=STOP)
    assert text_in(said) == "Go on. "
    assert last == Finished("stop", Tokens(1, 4))


# -- tokens ---------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=examples(300))
@given(st.text())
def test_nothing_is_lost_when_text_is_cut(text: str) -> None:
    pieces = list(cut(text))
    assert "".join(pieces) == text
    assert all(pieces)


@pytest.mark.parametrize("text", [" " * 10**6, "x" * 10**6, " \n" * 10**6 + "."])
def test_long_white_space_and_long_words_are_cut(text: str) -> None:
    """Were the cost quadratic, a text would take hours and meet the limit for a test."""
    assert sum(len(piece) for piece in cut(text)) == len(text)


# -- scripts --------------------------------------------------------------------------------------


def test_the_first_reply_that_matches_is_played() -> None:
    script = Script(
        (
            Reply(when="^no", then=(Say("never"),)),
            Reply(when="name", then=(Say("first"),)),
            Reply(when="name", then=(Say("second"),)),
        )
    )
    assert script.reply_to(ask("old", "my name is")) == (Say("first"),)


def test_replies_may_wait_for_a_tool() -> None:
    script = Script(
        (
            Reply(after="tool", when="ok", then=(Say("after the tool"),)),
            Reply(after="message", then=(Call("f", "{}"),)),
        )
    )
    assert script.reply_to(ask("ok")) == (Call("f", "{}"),)
    output = FunctionCallOutput(call_id="c", output="ok")
    assert script.reply_to(ask("ok", output)) == (Say("after the tool"),)


def test_there_is_an_answer_when_nothing_matches() -> None:
    assert Script().reply_to(ask("hi")) == Script.FALLBACK


def test_plain_text_to_be_continued_is_matched_too() -> None:
    script = Script((Reply(when="def", then=(Say("x"),)),))
    work = Work(id="r", model=MODEL, prompt=Fill(prefix="def f():"))
    assert script.reply_to(work) == (Say("x"),)


def test_replies_given_later_are_preferred() -> None:
    one = engine(Say("old"))
    one.play([Reply(when="hi", then=(Say("new"),))])
    assert text_in(asyncio.run(answer(one, ask("hi")))) == "new"
    assert text_in(asyncio.run(answer(one, ask("else")))) == "old"


def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script.toml"
    path.write_text(
        '[[replies]]\nwhen = "hi"\nafter = "message"\n'
        'then = [{do="think",text="hm"}, {do="say",text="a",times=2}, {do="stall",seconds=0.1},'
        ' {do="call",name="f",text="{}",custom=true}, {do="fail"}, {do="die",message="x"}]\n'
    )
    (reply,) = Script.load(path).replies
    assert reply.then == (
        Think("hm"),
        Say("a", 2),
        Stall(0.1),
        Call("f", "{}", custom=True),
        Fail(),
        Die("x"),
    )


@pytest.mark.parametrize(
    "content",
    [
        b"replies = 5",
        b"= broken",
        b"\xff",
        b'[[replies]]\nthen = [{do="dance"}]',
        b'[[replies]]\nwhen = "("\nthen = []',
        b'[[replies]]\nwhem = "typing error"\nthen = []',
    ],
)
def test_a_script_that_cannot_be_played_is_refused_when_it_is_read(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "script.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"script\.toml"):
        Script.load(path)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"script\.toml"):
        Script.load(tmp_path / "script.toml")


# -- acts -----------------------------------------------------------------------------------------


def test_acts_are_played_in_order() -> None:
    deltas = play(Think("hm"), Say("so"), Call("f", "{}"), Call("p", "x", custom=True))
    assert deltas[:-1] == [
        ReasoningDelta("hm", ids=(0,)),
        TextDelta("so", ids=(1,)),
        CallOpened("f", ids=(2,)),
        CallText("{", ids=(3,)),
        CallText("}", ids=(4,)),
        CallOpened("p", custom=True, ids=(5,)),
        CallText("x", ids=(6,)),
    ]
    tokens = tokens_in(deltas)
    assert (tokens.output, tokens.reasoning) == (7, 1)


def test_what_was_shown_is_recited_item_by_item() -> None:
    output = FunctionCallOutput(call_id="call_1", output="42")
    one, other = (
        text_in(asyncio.run(answer(engine(Recite()), ask("look", items, output))))
        for items in ("hi", "ho")
    )
    said = [("user", "look"), ("user", "hi"), ("function_call_output", "42")]
    assert one == Recite.text(said)
    assert one != other


def test_a_text_may_be_said_many_times() -> None:
    assert text_in(play(Say("ab ", times=3))) == "ab ab ab "


@settings(deadline=None, max_examples=examples(100))
@given(st.text(max_size=60), st.integers(1, 20))
def test_a_limit_keeps_the_beginning(text: str, limit: int) -> None:
    deltas = play(Say(text), sampling=Sampling(max_tokens=limit))
    assert text_in(deltas) == "".join(list(cut(text))[:limit])


def test_a_failure_carries_the_scripts_words() -> None:
    with pytest.raises(EngineError, match="out of luck"):
        play(Say("so far"), Fail("out of luck"))


def test_what_was_said_before_a_failure_arrives_before_it() -> None:
    said, error = asyncio.run(until_failure(engine(Say("a b c"), Die()), ask("hi")))
    assert text_in(said) == "a b c"
    assert isinstance(error, EngineDied)


def test_death_spares_nobody_not_even_one_about_to_finish() -> None:
    one = ScriptedEngine(
        "e",
        [Card(MODEL, 1000)],
        Script((Reply(when="die", then=(Die(),)), Reply(then=()))),
        Capacity(rate=100),
    )

    async def check() -> list[object]:
        works = (ask("die"), ask("finish"))
        return await asyncio.gather(*(answer(one, work) for work in works), return_exceptions=True)

    assert [type(ended) for ended in asyncio.run(check())] == [EngineDied, EngineDied]


@pytest.mark.parametrize(
    "act",
    [Say("word ", times=1500), Think("word " * 1500), Call("f", "word " * 1500)],
    ids=["text", "reasoning", "call"],
)
def test_a_slow_reader_costs_no_memory_whatever_is_said(act: Act) -> None:
    async def check() -> list[Delta]:
        one = engine(act)
        async with aclosing(one.generate(ask("hi"))) as stream:
            deltas = [await anext(stream)]
            await until(lambda: not one.running())
            return deltas + [delta async for delta in stream]

    deltas = asyncio.run(check())
    said = [each for each in deltas if not isinstance(each, Finished | CallOpened)]
    assert "".join(each.text for each in said) == "word " * 1500
    assert len(deltas) < 200


# -- the prefix cache -----------------------------------------------------------------------------

LONG = "many words to read " * 40


def cached_after(before: list[Work], then: Work, capacity: Capacity = FAST) -> tuple[int, int]:
    """How much of a prompt is cached once others have been read, and how long it is."""

    async def check() -> tuple[int, int]:
        one = engine(Say("reply"), capacity=capacity)
        for work in before:
            await answer(one, work)
        tokens = tokens_in(await answer(one, then))
        return tokens.cached, tokens.input

    return asyncio.run(check())


def test_a_prompt_seen_before_is_wholly_cached() -> None:
    cached, length = cached_after([ask(LONG)], ask(LONG))
    assert cached == length > 100


def test_a_conversation_that_goes_on_finds_what_was_said_cached() -> None:
    reply = Message(role="assistant", content="reply")
    cached, length = cached_after([ask(LONG)], ask(LONG, reply, "and now?"))
    assert length > cached > cached_after([ask(LONG)], ask(LONG))[0]


def test_a_prompt_that_begins_otherwise_is_not_cached() -> None:
    assert cached_after([ask("x", LONG)], ask("y", LONG))[0] == 0


def test_other_instructions_and_other_models_are_not_cached() -> None:
    told = replace(ask(LONG), prompt=Chat(items=[], instructions="be brief"))
    assert cached_after([ask(LONG)], told)[0] == 0
    assert cached_after([ask(LONG)], replace(ask(LONG), model="other"))[0] == 0


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    others = [ask(f"{number} {LONG}") for number in range(5)]
    small = Capacity(rate=20_000, cache_tokens=500)
    assert cached_after([ask(LONG), *others], ask(LONG), small)[0] == 0
    assert cached_after([ask(LONG), *others], others[-1], small)[0] > 0


# -- time -----------------------------------------------------------------------------------------

timers = pytest.mark.parametrize("tick", [0.0, 0.001], ids=["exact", "whole milliseconds"])
"""Resolution of the loop's timers: those of uvloop have whole milliseconds."""


def timed(work: Coroutine[Any, Any, T], tick: float = 0.0) -> tuple[float, T]:
    """Return after how many seconds of virtual time ``work`` was done, and its result."""

    async def whole() -> tuple[float, T]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        result = await work
        return loop.time() - started, result

    return virtual_time.run(whole(), tick=tick)


def close_to(seconds: float) -> Any:
    return pytest.approx(seconds, abs=0.002)


@timers
@pytest.mark.parametrize("rate", [200, 5000])
def test_tokens_come_at_the_rate(tick: float, rate: int) -> None:
    """A step that was late is made up for, or 5000 a second were 1000 with whole milliseconds."""
    one = engine(Say("word ", times=rate // 10), capacity=Capacity(rate=rate))
    seconds, deltas = timed(answer(one, ask("hi")), tick)
    steps = tokens_in(deltas).output + 1
    assert steps == rate // 5 + 1
    assert seconds == close_to(steps / rate)


@timers
def test_the_first_token_does_not_wait_for_the_last(tick: float) -> None:
    one = engine(Say("word ", times=500), capacity=Capacity(rate=1000))

    async def first() -> None:
        async with aclosing(one.generate(ask("hi"))) as stream:
            await anext(stream)

    assert timed(first(), tick)[0] == close_to(0.001)


@timers
@pytest.mark.parametrize("growth", [0.0, 1.0])
def test_a_larger_batch_takes_longer_by_its_growth(tick: float, growth: float) -> None:
    one = engine(Say("word ", times=20), capacity=Capacity(rate=500, growth=growth))

    async def together() -> None:
        await asyncio.gather(*(answer(one, ask("hi")) for _ in range(8)))

    assert timed(together(), tick)[0] == close_to(41 * (1 + 7 * growth) / 500)


@timers
def test_reading_a_prompt_takes_time_unless_it_is_cached(tick: float) -> None:
    one = engine(Say("x"), capacity=Capacity(rate=10_000, prefill_rate=2000))
    long = ask("x" * 2000)
    first, deltas = timed(answer(one, long), tick)
    assert tokens_in(deltas).input == 501
    assert first == close_to(501 / 2000)
    assert timed(answer(one, long), tick)[0] == close_to(0)


@timers
def test_reading_a_prompt_delays_those_who_are_being_answered(tick: float) -> None:
    one = engine(Say("word ", times=20), capacity=Capacity(rate=200, prefill_rate=2000))

    async def disturbed() -> float:
        loop = asyncio.get_running_loop()
        reading = await begun(one, ask("hi"))
        beside = asyncio.create_task(answer(one, ask("x" * 2000)))
        await reading
        done = loop.time()
        await beside
        return done

    assert timed(disturbed(), tick)[1] == pytest.approx(41 / 200 + 501 / 2000, abs=0.006)


@timers
def test_a_stall_takes_its_time_and_holds_up_nobody_else(tick: float) -> None:
    one = ScriptedEngine(
        "e",
        [Card(MODEL, 1000)],
        Script((Reply(when="stall", then=(Stall(0.3), Say("x"))), Reply(then=(Say("y"),)))),
        FAST,
    )

    async def other() -> float:
        loop = asyncio.get_running_loop()
        task = asyncio.create_task(answer(one, ask("stall")))
        await asyncio.sleep(0)
        started = loop.time()
        await answer(one, ask("hi"))
        taken = loop.time() - started
        await task
        return taken

    stalled, beside = timed(other(), tick)
    assert stalled == close_to(0.3)
    assert beside == close_to(0)


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_an_idle_engine_has_nothing_to_do(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def check() -> None:
        assert text_in(await answer(engine(Say("x")), ask("hi"))) == "x"
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(check())


def test_an_engine_that_drafts_tells_several_tokens_as_one() -> None:
    one = engine(Say("word ", times=10), capacity=Capacity(rate=1000, burst=4))
    told = asyncio.run(answer(one, ask("hi")))
    texts = [delta.text for delta in told if isinstance(delta, TextDelta)]
    assert "".join(texts) == "word " * 10
    assert len(texts) <= 6
