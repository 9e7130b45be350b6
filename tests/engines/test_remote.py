"""Engines behind a link: all that the others must do, and links that break."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.engines.linked import KEY, LinkedRig, linked, node_config, on_virtual_time
from tests.engines.suite import EngineSuite, Rig, answer, text_in, until
from tests.engines.test_scripted import MODEL, ScriptedRig, ask, engine
from tests.support.loop_turns import CountingLoop
from tests.support.virtual_time import elapse
from tests.support.waiting import PATIENCE_S
from tests.support.wire import Wire
from vivace.conversation.deltas import Delta, Finished, TextDelta, Tokens
from vivace.engines.base import Card, Chat, Engine, Sampling, Work
from vivace.engines.link_socket import LinkSocket
from vivace.engines.remote import Address, Node, RemoteEngine
from vivace.engines.scripted import Capacity, Say, Script, ScriptedEngine
from vivace.errors import EngineAbsent, EngineDied, EngineError, EngineRefused
from vivace.link.frames import Piece
from vivace.link.pieces import PIECE, Joiner
from vivace.node.app import EngineNode
from vivace.protocol.items import FunctionTool, Message, OutputText
from vivace.protocol.requests import Toolbox


class TestScriptedEngineOnANode(EngineSuite):
    @pytest.fixture
    def rig(self, monkeypatch: pytest.MonkeyPatch) -> Rig:
        monkeypatch.setattr(LinkSocket.__init__, "__defaults__", (PATIENCE_S,))  # of silence
        return LinkedRig(ScriptedRig())


class Counted(ScriptedEngine):
    """Says numbers, and knows how often it was asked."""

    asked = 0
    ended = 0

    def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        self.asked += 1
        return self._counted(super().generate(work))

    async def _counted(self, deltas: AsyncGenerator[Delta, None]) -> AsyncGenerator[Delta, None]:
        try:
            async for delta in deltas:
                yield delta
        finally:
            await deltas.aclose()
            self.ended += 1


class Plain(ScriptedEngine):
    """Says a word as it is, and again; reads no prompt."""

    def __init__(self, word: str, times: int = 1, pause: float = 0.01) -> None:
        super().__init__("e", [Card(MODEL, 1000)], Script(()), Capacity())
        self.word, self.times, self.pause = word, times, pause
        self.begun = 0
        self.ended = 0

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        self.begun += 1
        try:
            for _ in range(self.times):
                yield TextDelta(self.word)
                await asyncio.sleep(self.pause)
            yield Finished("stop", Tokens())
        finally:
            self.ended += 1


NUMBERS = "".join(f"{number} " for number in range(300))


def counted(text: str = NUMBERS, rate: float = 200) -> Counted:
    base = engine(Say(text))
    return Counted("e", [Card(MODEL, 1000)], base._script, Capacity(rate=rate))


@asynccontextmanager
async def wired(
    inner: Engine, **node: Any
) -> AsyncIterator[tuple[Wire, Node, RemoteEngine, EngineNode]]:
    """A node with this engine, a wire to it, and a gateway's link over that."""
    serving = EngineNode(node_config(), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: inner)
    async with (
        serving.listening() as (_, port),
        Wire(port) as wire,
        dialled(wire, **node) as remote,
    ):
        await asyncio.wait_for(remote.linked.wait(), PATIENCE_S)
        yield wire, remote, remote.engines[0], serving


@asynccontextmanager
async def dialled(wire: Wire, key: str = KEY, **node: Any) -> AsyncIterator[Node]:
    remote = Node(Address(f"ws://127.0.0.1:{wire.port}", key), "gateway", **node)
    running = asyncio.create_task(remote.run())
    try:
        yield remote
        assert not running.done(), "it has stopped dialling"
        assert not remote._wakes
        assert not remote._end.streams
    finally:
        remote.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def nothing_runs(node: EngineNode) -> None:
    await until(lambda: not node._works.running)


def now() -> float:
    """The seconds of virtual time."""
    return asyncio.get_running_loop().time()


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    on_virtual_time(asyncio.wait_for(check(), 600))


async def meanwhile(
    remote: RemoteEngine, after: int, do: Callable[[], Coroutine[Any, Any, None]]
) -> list[Delta]:
    """An answer, in the middle of which something happens."""
    deltas: list[Delta] = []
    async for delta in remote.generate(ask("hi")):
        deltas.append(delta)
        if len(deltas) == after:
            await do()
    return deltas


class TestALinkThatBreaks:
    def test_an_answer_goes_on_where_it_was_when_the_link_comes_back(self) -> None:
        inner = counted()

        async def check() -> None:
            async with wired(inner) as (wire, _, remote, _):

                async def snap() -> None:
                    await wire.snap()

                deltas = await meanwhile(remote, 5, snap)
                assert text_in(deltas) == NUMBERS
                assert sum(isinstance(each, Finished) for each in deltas) == 1
                assert inner.asked == 1
                assert wire.dialled == 2

        run(check)

    def test_it_may_break_again_and_again(self) -> None:
        inner = counted()

        async def check() -> None:
            async with wired(inner, window=4) as (wire, _, remote, _):

                async def snapping() -> None:
                    for _ in range(8):
                        await elapse(0.12)
                        await wire.snap()

                task = asyncio.create_task(snapping())
                deltas = await answer(remote, ask("hi"))
                await task
                assert text_in(deltas) == NUMBERS
                assert inner.asked == 1
                assert wire.dialled > 4

        run(check)

    @pytest.mark.parametrize("way", ["there", "back"])
    def test_a_link_that_is_silent_one_way_is_made_anew(self, way: str) -> None:
        inner = counted()

        async def check() -> None:
            async with wired(inner) as (wire, _, remote, _):

                async def swallow() -> None:
                    wire.swallows = {way}
                    asyncio.get_running_loop().call_later(0.8, wire.swallows.clear)

                assert text_in(await meanwhile(remote, 5, swallow)) == NUMBERS
                assert inner.asked == 1

        run(check)

    @pytest.mark.parametrize(("swallowed", "most"), [({"back"}, 1.6), ({"there", "back"}, 1.8)])
    def test_an_answer_fails_when_the_node_stays_silent(
        self, swallowed: set[str], most: float
    ) -> None:
        """As one that is frozen, whose kernel still lets others in."""
        inner = counted(rate=50)

        async def check() -> None:
            async with wired(inner) as (wire, _, remote, node):

                async def swallow() -> None:
                    wire.swallows = swallowed

                began = now()
                with pytest.raises(EngineDied):
                    await meanwhile(remote, 5, swallow)
                assert 1.0 < now() - began < most  # silence, and a moment
                assert not remote.healthy()
                await nothing_runs(node)
                assert inner.ended == 1

        run(check)

    def test_a_node_that_answers_over_a_long_way_is_waited_for(self) -> None:
        inner = counted()

        async def check() -> None:
            async with wired(inner) as (wire, _, remote, _):

                async def snap() -> None:
                    wire.delay = 0.15  # there, and as much back: dialling takes two such rounds
                    await wire.snap()

                assert text_in(await meanwhile(remote, 5, snap)) == NUMBERS
                assert inner.asked == 1

        run(check)

    def test_an_answer_fails_at_once_when_nothing_listens_there(self) -> None:
        async def check() -> None:
            async with wired(counted(rate=50)) as (wire, _, remote, _):
                began = now()
                with pytest.raises(EngineDied):
                    await meanwhile(remote, 1, wire.cut)
                assert now() - began < 0.4
                with pytest.raises(EngineAbsent):
                    await answer(remote, ask("hi"))
                await wire.mend()
                await until(remote.healthy)
                assert text_in(await answer(remote, ask("short"))) == NUMBERS

        run(check)

    def test_a_long_way_takes_nothing_from_an_answer(self) -> None:
        async def check() -> None:
            async with wired(counted(rate=2000), window=16) as (wire, _, remote, _):
                wire.delay = 0.1
                assert text_in(await answer(remote, ask("hi"))) == NUMBERS
                assert wire.dialled == 1

        run(check)

    def test_a_gateway_that_dies_leaves_no_engine_at_work(self) -> None:
        inner = counted(rate=20)

        async def check() -> None:
            async with wired(inner) as (wire, _, remote, node):
                reading = asyncio.create_task(answer(remote, ask("hi")))
                await until(lambda: node._works.running == 1)
                await wire.cut()
                cut = now()
                await nothing_runs(node)
                assert now() - cut > 1.0  # it was waited for
                assert inner.ended == 1
                with pytest.raises(EngineDied):
                    await reading

        run(check)

    def test_streams_that_go_on_are_counted_once(self) -> None:
        async def check() -> None:
            async with wired(counted(rate=30)) as (wire, _, remote, _):
                reading = [asyncio.create_task(answer(remote, ask("hi"))) for _ in range(3)]
                await until(lambda: remote.running() == 3)
                await wire.snap()
                await elapse(0.6)
                assert remote.running() == 3
                for each in reading:
                    each.cancel()
                await asyncio.gather(*reading, return_exceptions=True)

        run(check)


class TestWhatIsLarge:
    def test_a_word_of_two_megabytes_comes_whole(self) -> None:
        """More than a frame may have, from an engine that answers at once."""
        word = "x" * 2_000_000

        async def check() -> None:
            async with linked(Plain(word)) as (_, node):
                [remote] = node.engines
                assert text_in(await answer(remote, ask("hi"))) == word

        run(check)

    def test_many_streams_that_were_held_up_come_whole(self) -> None:
        words = "".join(f"{'x' * 400}{number} " for number in range(100))

        async def check() -> None:
            async with wired(counted(words, rate=2000)) as (wire, _, remote, _):
                wire.delay = 0.3
                answers = await asyncio.gather(*(answer(remote, ask("hi")) for _ in range(20)))
                assert {text_in(each) for each in answers} == {words}
                assert wire.dialled == 1

        run(check)

    def test_a_stop_is_not_held_up_by_a_prompt_of_two_megabytes(self) -> None:
        items = tuple(Message(role="user", content="y" * 20_000) for _ in range(100))
        large = Work(id="resp_2", model=MODEL, prompt=Chat(items=items))

        pieces: list[Piece] = []
        join = Joiner.take

        def take(joiner: Joiner, piece: Piece) -> bytes | None:
            pieces.append(piece)
            return join(joiner, piece)

        async def check() -> None:
            inner = Plain("x ", times=1000)
            async with linked(inner) as (_, node):
                [remote] = node.engines
                reading = asyncio.create_task(answer(remote, ask("hi")))
                await until(lambda: inner.begun == 1)
                beside = asyncio.create_task(answer(remote, large))
                await asyncio.sleep(0)
                reading.cancel()
                while not inner.ended:
                    await asyncio.sleep(0)
                came = len(pieces)
                await until(lambda: inner.begun == 2)
                beside.cancel()
                await asyncio.gather(reading, beside, return_exceptions=True)
                assert len(pieces) > 2_000_000 / PIECE
                assert came < len(pieces) / 2

        with mock.patch.object(Joiner, "take", take):
            run(check)

    def test_a_number_that_no_frame_can_have_is_refused_with_its_reason(self) -> None:
        chat = Chat(items=[Message(role="user", content="hi")])
        work = Work(id="resp_1", model=MODEL, prompt=chat, sampling=Sampling(seed=2**70))

        async def check() -> None:
            async with wired(counted()) as (wire, _, remote, _):
                with pytest.raises(EngineRefused, match="64 bits"):
                    await answer(remote, work)
                assert wire.dialled == 1

        run(check)


MANY = 2_000


@pytest.mark.parametrize(
    "chat",
    [
        Chat(items=[Message(role="assistant", content=[OutputText("x" * 200, [1])])] * MANY),
        Chat(
            items=[Message(role="user", content="x")],
            toolbox=Toolbox((FunctionTool("f", parameters={"a": [{"b": "x" * 200}] * MANY}),)),
        ),
    ],
    ids=["items", "schema"],
)
def test_what_is_large_takes_few_calls_of_the_event_loop_on_its_way_to_a_node(chat: Chat) -> None:
    async def check() -> None:
        async with linked(Plain("hi")) as (_, node):
            engine, loop = node.engines[0], asyncio.get_running_loop()
            assert isinstance(loop, CountingLoop)
            loop.most_calls = 0
            answered = await answer(engine, Work(id="resp_1", model=MODEL, prompt=chat))
            assert text_in(answered) == "hi"
            assert loop.most_calls < MANY

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(check())


class Unfinished(ScriptedEngine):
    """Breaks off without a word about it, as engines should not."""

    how: type[BaseException] | None = None

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        yield TextDelta("so far")
        if self.how is not None:
            raise self.how


class TestEnginesThatDoNotKeepTheirPromise:
    @pytest.mark.parametrize("how", [None, asyncio.CancelledError, RecursionError])
    def test_an_answer_without_an_end_fails(self, how: type[BaseException] | None) -> None:
        base = engine(Say("x"))
        inner = Unfinished("e", [Card(MODEL, 1000)], base._script, Capacity())
        inner.how = how

        async def check() -> None:
            async with wired(inner) as (_, _, remote, node):
                with pytest.raises(EngineError):
                    await answer(remote, ask("hi"))
                await nothing_runs(node)

        run(check)


class TestDialling:
    @pytest.mark.parametrize(
        ("key", "words"), [("another key than the node has", "key"), (KEY, None)]
    )
    def test_a_wrong_key_is_said_once_and_not_tried_in_a_storm(
        self, key: str, words: str | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "vivace")
        serving = EngineNode(
            node_config(), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: counted()
        )

        async def check() -> None:
            async with (
                serving.listening() as (_, port),
                Wire(port) as wire,
                dialled(wire, key) as remote,
            ):
                await elapse(1.5)
                assert wire.dialled <= 6
                assert (words or "None") in str(remote.trouble)
            errors = [each for each in caplog.records if each.levelno >= logging.ERROR]
            assert len(errors) == (1 if words else 0)
            assert key not in caplog.text

        run(check)

    def test_a_node_that_speaks_no_version_of_ours_is_not_tried_in_a_storm(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("vivace.link.frames.VERSIONS", (7,))  # the node's
        serving = EngineNode(
            node_config(), Path(), {"VIVACE_FLEET_KEY": KEY}, build=lambda *_: counted()
        )

        async def check() -> None:
            async with (
                serving.listening() as (_, port),
                Wire(port) as wire,
                dialled(wire) as remote,
            ):
                await elapse(1.5)
                assert wire.dialled <= 6
                assert remote.trouble is not None
                assert "versions" in remote.trouble

        run(check)


class TestSeveralGateways:
    def test_one_that_reads_nothing_does_not_slow_another(self) -> None:
        inner = counted(rate=1000)

        async def check() -> None:
            async with wired(inner, window=8) as (wire, _, slow, _), dialled(wire) as other:
                await other.linked.wait()
                [quick] = other.engines
                stuck = slow.generate(ask("hi"))
                await anext(stuck)
                began = now()
                deltas = await answer(quick, ask("hi"))
                assert text_in(deltas) == NUMBERS
                assert now() - began < 3
                await stuck.aclose()

        run(check)

    def test_many_at_once_each_hear_their_own(self) -> None:
        async def check() -> None:
            async with wired(counted(rate=2000)) as (wire, _, _, node):
                texts = await asyncio.gather(*(self.one(wire, each) for each in range(12)))
                assert texts == [NUMBERS] * 12
                await nothing_runs(node)

        run(check)

    async def one(self, wire: Wire, number: int) -> str:
        async with dialled(wire) as node:
            await node.linked.wait()
            [remote] = node.engines
            return text_in(await answer(remote, ask(f"hi {number}")))
