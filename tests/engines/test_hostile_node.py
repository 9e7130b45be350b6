"""A node that keeps no rule of the link: what becomes of the gateway that dials it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from tests.engines.linked import KEY, on_virtual_time
from tests.engines.suite import answer, until
from tests.engines.test_scripted import ask
from tests.support.virtual_time import elapse
from vivace.conversation.deltas import Finished, TextDelta, Tokens
from vivace.conversation.log import Begun, Entry, Placed, Said
from vivace.engines.base import Card, Chat, Work
from vivace.engines.remote import Address, Node
from vivace.engines.remote_work import encode_cards
from vivace.errors import EngineBusy, EngineDied, EngineError, EngineFull
from vivace.link.frames import (
    SUBPROTOCOL,
    WINDOW,
    Beat,
    Broke,
    Chunk,
    Hello,
    Log,
    NeedHistory,
    Offer,
    Run,
    Taken,
    Tallied,
    ToGateway,
    ToNode,
    Welcome,
    decode_to_node,
    encode,
)
from vivace.protocol.items import Message

CARDS = encode_cards([Card("m", 1000)])
WELCOME = Welcome("n", "i", 2, (Offer("e", CARDS, 8, 0, "ids", None),))
WORD = Said(0, TextDelta("x"))

Say = Callable[[list[ToGateway]], Awaitable[None]]
Hears = Callable[[ToNode, Say], Awaitable[None]]


class Hostile:
    """A node that answers what it hears as a test has it."""

    def __init__(self, hears: Hears) -> None:
        self._hears = hears
        self.links = 0
        self.tasks: list[asyncio.Task[Any]] = []

    async def link(self, connection: ServerConnection) -> None:
        self.links += 1
        task = asyncio.current_task()
        assert task is not None

        async def say(messages: list[ToGateway]) -> None:
            await connection.send(encode(messages))

        async def beat() -> None:
            with suppress(ConnectionClosed):
                while True:
                    await elapse(0.2)
                    await say([Beat()])

        beating = asyncio.create_task(beat())
        self.tasks += [task, beating]
        with suppress(ConnectionClosed):
            async for frame in connection:
                assert isinstance(frame, bytes)
                for message in decode_to_node(frame):
                    await self._hears(message, say)


@asynccontextmanager
async def dialled(hears: Hears, **settings: Any) -> Any:
    hostile = Hostile(hears)
    only = [Subprotocol(SUBPROTOCOL)]
    async with serve(
        hostile.link, "127.0.0.1", 0, subprotocols=only, compression=None, **settings
    ) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        node = Node(Address(f"ws://127.0.0.1:{port}", KEY), "g")
        running = asyncio.create_task(node.run())
        try:
            yield node, hostile
            assert not running.done(), "it has stopped dialling"
        finally:
            node.close()
            for task in (running, *hostile.tasks):
                task.cancel()
            await asyncio.gather(running, *hostile.tasks, return_exceptions=True)


def run(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    on_virtual_time(asyncio.wait_for(check(), 600))


def answers(*messages: Callable[[int], ToGateway]) -> Hears:
    """Return a node that welcomes gateways, and says these of each run, by its stream."""

    async def hears(message: ToNode, say: Say) -> None:
        if isinstance(message, Hello):
            await say([WELCOME])
        elif isinstance(message, Run):
            await say([Taken(message.stream), *(each(message.stream) for each in messages)])

    return hears


def says(*entries: Entry, first: int = 0) -> Callable[[int], ToGateway]:
    return lambda stream: Log((Chunk(stream, first, entries, Tallied()),))


BREAKS_A_RULE: dict[str, list[Callable[[int], ToGateway]]] = {
    "more than its credit": [
        says(*[WORD] * 100),
        says(*[WORD] * 100, first=100),
        says(*[WORD] * 57, first=200),
    ],
    "leaves out what it said": [says(WORD, first=1)],
    "asks for what went whole": [NeedHistory],
    "welcome twice": [lambda _: WELCOME],
    "an end, and more": [says(Said(0, Finished("stop", Tokens())), WORD)],
}


@pytest.mark.parametrize("how", BREAKS_A_RULE)
def test_node_that_breaks_a_rule_loses_its_link_and_its_answers(how: str) -> None:
    assert len(BREAKS_A_RULE["more than its credit"]) * 100 > WINDOW

    async def check() -> None:
        async with dialled(answers(*BREAKS_A_RULE[how])) as (node, hostile):
            await node.linked.wait()
            with pytest.raises(EngineDied):
                await answer(node.engines[0], ask("hi"))
            assert node.trouble
            await until(lambda: hostile.links > 1)

    run(check)


def test_node_must_say_welcome_before_anything_else() -> None:
    async def hears(message: ToNode, say: Say) -> None:
        await say([Taken(1)])

    async def check() -> None:
        async with dialled(hears) as (node, hostile):
            await until(lambda: hostile.links > 2)
            assert "welcome first" in node.trouble
            assert not node.linked.is_set()

    run(check)


@pytest.mark.parametrize(
    "offers",
    [
        (Offer("e", encode_cards([]), 8, 0, "ids", None),),
        (Offer("e", encode_cards([Card("m", 0)]), 8, 0, "ids", None),),
        (Offer("e", CARDS, 8, 0, "ids", None), Offer("e", CARDS, 4, 0, "ids", None)),
    ],
)
def test_offer_that_means_nothing_is_a_fault_of_the_node(offers: tuple[Offer, ...]) -> None:
    async def hears(message: ToNode, say: Say) -> None:
        await say([msgspec.structs.replace(WELCOME, offers=offers)])

    async def check() -> None:
        async with dialled(hears) as (node, hostile):
            await until(lambda: hostile.links > 2)
            assert "offers" in node.trouble
            assert node.engines == ()

    run(check)


def test_whatever_goes_wrong_with_what_a_node_says_the_gateway_dials_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the supervisor would start it again by and by, and ``/readyz`` fail until then."""
    monkeypatch.setattr(Node, "_welcomed", lambda *_: 1 / 0)

    async def check() -> None:
        async with dialled(answers()) as (node, hostile):
            await until(lambda: hostile.links > 2)
            assert "ZeroDivisionError" in node.trouble

    run(check)


def test_key_is_not_taken_elsewhere_by_a_redirect() -> None:
    asked: list[bytes] = []

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(4096))
        writer.close()

    async def check() -> None:
        target = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
        port = target.sockets[0].getsockname()[1]

        def redirect(connection: ServerConnection, request: Request) -> Response:
            place = Headers({"Location": f"ws://127.0.0.1:{port}/link", "Content-Length": "0"})
            return Response(302, "Found", place)

        async with dialled(answers(), process_request=redirect) as (node, _):
            await until(lambda: node.trouble != "not reached yet")
            assert "302" in node.trouble
        target.close()
        await target.wait_closed()
        assert asked == []

    run(check)


def test_flood_of_an_answer_that_is_not_read_ends_the_link() -> None:
    sent: list[int] = []

    async def hears(message: ToNode, say: Say) -> None:
        if isinstance(message, Hello):
            await say([WELCOME])
        elif isinstance(message, Run):
            for number in range(10_000):
                entry = Said(0, TextDelta("x" * 60_000))
                await say([Log((Chunk(message.stream, number, (entry,), Tallied()),))])
                sent.append(number)

    async def check() -> None:
        async with dialled(hears) as (node, hostile):
            await node.linked.wait()
            reading = node.open("e", ask("hi"))
            await until(lambda: hostile.links > 1)
            assert sum(len(each.delta.text) for each in reading._stream.entries) < 1_100_000
            assert len(sent) < 1000
            reading.close()

    run(check)


@pytest.mark.parametrize(
    ("broke", "kind"),
    [
        (Broke(0, "EngineBusy", "m" * 50_000, float("nan"), "never"), EngineBusy),
        (Broke(0, "EngineBusy", "m", float("inf"), "never", code="c" * 500), EngineFull),
        (Broke(0, "EngineBusy", "m", -5.0, "never", code="c", seconds=float("nan")), EngineFull),
        (Broke(0, "Nothing", "m", 1e300, "always"), EngineError),
    ],
)
def test_failure_that_a_node_tells_is_one_that_a_client_can_be_told(
    broke: Broke, kind: type[EngineError]
) -> None:
    async def check() -> None:
        said = lambda stream: msgspec.structs.replace(broke, stream=stream)  # noqa: E731
        async with dialled(answers(said)) as (node, _):
            await node.linked.wait()
            with pytest.raises(kind) as failed:
                await answer(node.engines[0], ask("hi"))
            assert len(str(failed.value)) <= 2000
            assert failed.value.retry_after is not None
            assert 0 <= failed.value.retry_after <= 86_400
            if isinstance(failed.value, EngineFull):
                assert len(failed.value.code) <= 100
                assert 0 <= failed.value.seconds <= 86_400

    run(check)


def test_places_in_a_queue_are_told_so_many_times_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vivace.engines.remote_stream._MAX_PLACES", 10)
    told: list[int] = []

    async def tell(position: int, seconds: float) -> None:
        told.append(position)

    async def check() -> None:
        places = [Placed(0, number, 0.0) for number in range(100)]
        async with dialled(answers(says(*places, Begun(0)))) as (node, _):
            await node.linked.wait()
            async with node.engines[0].slot(ask("hi"), tell, lambda: False):
                assert told == [*range(10)]

    run(check)


def test_link_on_which_a_node_takes_nothing_is_given_up() -> None:
    """A node that beats and reads nothing would have prompts wait for it in memory."""

    async def hears(message: ToNode, say: Say) -> None:
        if isinstance(message, Hello):
            await say([WELCOME])
            await asyncio.Event().wait()

    async def check() -> None:
        items = tuple(Message(role="user", content="y" * 1_000_000) for _ in range(16))
        large = Work(id="resp_1", model="m", prompt=Chat(items=items))
        async with dialled(hears, max_queue=1) as (node, hostile):
            await node.linked.wait()
            with pytest.raises(EngineDied):
                await answer(node.engines[0], large)
            await until(lambda: hostile.links > 1)

    run(check)


def test_prompts_that_wait_for_a_slow_link_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivace.engines.link_socket._MAX_LARGE", 1_000_000)

    async def check() -> None:
        items = (Message(role="user", content="y" * 600_000),)
        async with dialled(answers()) as (node, _):
            await node.linked.wait()
            first = node.open("e", Work(id="resp_1", model="m", prompt=Chat(items=items)))
            with pytest.raises(EngineBusy, match="too slow"):
                node.open("e", Work(id="resp_2", model="m", prompt=Chat(items=items)))
            first.close()

    run(check)
