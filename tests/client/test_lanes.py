"""Gaps of many documents on one connection to a real gateway, and to servers that go away."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection, serve

from tests.support.examples import examples
from tests.support.http import key, keys
from tests.support.ports import free_port
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually
from tests.support.waiting import eventually_async as until
from vivace.client.gap import Gap
from vivace.client.lanes import ClientError, Lanes
from vivace.config import LimitsConfig
from vivace.engines.scripted import Fail, Reply, Say, Stall

T = TypeVar("T")
FOREVER = Stall(3600)
ENDLESS = Reply(when="endless", then=(Say("on and on ", times=100_000),))
SILENT = Reply(when="silent", then=(FOREVER,))
SHORT = Reply(then=(Say("return 1"),))


def gap(prefix: str, **options: Any) -> Gap:
    return Gap(fill={"prefix": prefix, "suffix": "\n"}, **options)


def asked(lanes: Lanes, lane: str, prefix: str = "x") -> AsyncGenerator[str, None]:
    """For as long as anybody listens."""
    return lanes.fill(lane, gap(prefix, max_tokens=1_000_000))


async def whole(texts: AsyncGenerator[str, None]) -> str:
    return "".join([text async for text in texts])


async def beginning(texts: AsyncGenerator[str, None]) -> str:
    """The first of it; the rest is not wanted."""
    async with aclosing(texts):
        return await anext(texts)


def use(url: str, work: Callable[[Lanes], Awaitable[T]], key: str | None = None) -> T:
    """Some work with lanes; nothing of it is left when they are closed."""

    async def run() -> T:
        lanes = Lanes(url, key)
        try:
            return await asyncio.wait_for(work(lanes), PATIENCE_S)
        finally:
            await lanes.close()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(run())


def refusal(url: str, key: str | None = None, **options: Any) -> ClientError:
    with pytest.raises(ClientError) as caught:
        use(url, lambda lanes: whole(lanes.fill("a.py", gap("x", **options))), key)
    return caught.value


@pytest.fixture
def editor(gateway: RunningGateway) -> RunningGateway:
    gateway.engine.play([ENDLESS, SILENT, SHORT])
    return gateway


def connections(gateway: RunningGateway) -> int:
    return len(gateway.gateway.door._sockets)


# -- many lanes -----------------------------------------------------------------------------------


def test_many_documents_are_answered_at_once_on_one_connection() -> None:
    at_once = LimitsConfig().turns_in_flight
    replies = [Reply(when=f"^{n}$", then=(FOREVER, Say(f"text {n}"))) for n in range(40)]

    def stalled() -> list[Any]:
        return [each for each in gateway.engine._requests if each.stalled_until]

    def let_go() -> bool:
        for each in stalled():
            each.stalled_until = 0.0
        return True

    async def all_of_them(lanes: Lanes) -> list[str]:
        asked = [whole(lanes.fill(f"file:///a b/{n}.py", gap(str(n)))) for n in range(40)]
        answering = asyncio.gather(*asked)
        await until(lambda: len(stalled()) == at_once)
        await until(lambda: let_go() and answering.done())
        assert connections(gateway) == 1
        return await answering

    with RunningGateway(replies) as gateway:
        assert use(gateway.url, all_of_them) == [f"text {n}" for n in range(40)]


def test_what_is_typed_and_all_that_is_asked_arrives(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="def f.*ret$", then=(Say("urn 1, and no more"),))])

    async def ask(lanes: Lanes) -> str:
        files = [{"path": "b.py", "text": "x"}]
        fill = {"prefix": "def f", "suffix": "\n", "typed": "(): ret", "path": "a.py"}
        typed = Gap(fill=fill | {"files": files}, model="local-model", stop=(",",))
        answer = await whole(lanes.fill("a.py", typed))
        assert lanes.has_tiers
        return answer

    assert use(gateway.url, ask) == "urn 1"


def test_an_answer_that_is_cut_for_its_length_is_no_error(editor: RunningGateway) -> None:
    said = use(editor.url, lambda lanes: whole(lanes.fill("a", gap("endless", max_tokens=3))))
    assert said == "on and on"


def test_what_is_warmed_is_read_by_the_engine_and_nothing_is_said(
    gateway: RunningGateway,
) -> None:
    warming = gap("def f():\n    ", generate=False)
    use(gateway.url, lambda lanes: whole(lanes.fill("a.py", warming)))
    assert "response.completed" in gateway.witness.events
    assert "response.output_text.delta" not in gateway.witness.events
    with Socket(gateway.url) as socket:
        usage = socket.turn(fill={**warming.fill, "typed": "x"})["response"]["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] > 0


# -- leaving --------------------------------------------------------------------------------------


def test_closing_stops_the_engine_and_no_other_lane(editor: RunningGateway) -> None:
    async def left(lanes: Lanes) -> str:
        staying = asked(lanes, "b.py", "endless")
        await anext(staying)
        assert await beginning(asked(lanes, "a.py", "endless"))
        await until(lambda: editor.engine.running() == 1)
        said = [await anext(staying) for _ in range(50)]
        await staying.aclose()
        await until(lambda: editor.engine.running() == 0)
        assert connections(editor) == 1
        return "".join(said)

    assert "on and on" in use(editor.url, left)


def test_cancelling_whoever_waits_stops_the_engine(editor: RunningGateway) -> None:
    async def cancelled(lanes: Lanes) -> None:
        waiting = asyncio.create_task(whole(asked(lanes, "a.py", "silent")))
        warming = asyncio.create_task(whole(lanes.fill("b.py", gap("silent", generate=False))))
        await until(lambda: editor.engine.running() > 0)
        for task in (waiting, warming):
            task.cancel()
        await asyncio.wait([waiting, warming])
        await until(lambda: editor.engine.running() == 0)

    use(editor.url, cancelled)


def test_the_next_key_waits_for_nothing_but_the_cancel_of_the_last(editor: RunningGateway) -> None:
    async def typed(lanes: Lanes) -> None:
        await whole(asked(lanes, "a.py"))  # it is connected
        for number in range(10):
            key = asyncio.create_task(whole(asked(lanes, "a.py", f"silent {number}")))
            await asyncio.sleep(0.01 * (number % 3))
            key.cancel()
            await asyncio.wait([key])
        assert await whole(asked(lanes, "a.py")) == "return 1"
        assert editor.engine.running() == 0

    use(editor.url, typed)


def test_what_is_thrown_away_unread_is_stopped_too(editor: RunningGateway) -> None:
    async def forgotten(lanes: Lanes) -> None:
        async for _ in asked(lanes, "a.py", "endless"):
            break
        await until(lambda: editor.engine.running() == 0)

    use(editor.url, forgotten)


def test_closing_ends_what_is_under_way_and_leaves_no_connection(editor: RunningGateway) -> None:
    async def closed(lanes: Lanes) -> None:
        texts = asked(lanes, "a.py", "endless")
        await anext(texts)
        await lanes.close()
        with pytest.raises(ClientError, match="closed"):
            await whole(texts)
        with pytest.raises(ClientError, match="closed"):
            await whole(asked(lanes, "a.py"))

    use(editor.url, closed)
    eventually(lambda: connections(editor) == 0 and editor.engine.running() == 0)


def test_closing_what_was_never_used_does_nothing() -> None:
    async def unused(lanes: Lanes) -> None:
        asked(lanes, "a.py")

    use("http://127.0.0.1:9/v1", unused)


# -- what is refused ------------------------------------------------------------------------------


def test_a_limit_says_its_code_and_the_seconds_to_wait() -> None:
    limited = {"name": "fast", "engines": ["scripted"], "limits": {"requests_per_minute": 1}}
    config = configuration(keys=keys("alice"), tiers=[limited])

    async def twice(lanes: Lanes) -> ClientError:
        await whole(asked(lanes, "a.py"))
        with pytest.raises(ClientError) as caught:
            await whole(asked(lanes, "b.py"))
        return caught.value

    with RunningGateway(config=config) as gateway:
        error = use(gateway.url, twice, key("alice"))
    assert (error.code, error.status) == ("rate_limit_exceeded", 429)
    assert error.retry_after is not None
    assert 0 < error.retry_after <= 60


def test_a_busy_engine_says_so_too(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Fail("Too much.", status=429, retry_after=5),))])
    error = refusal(gateway.url)
    assert (error.code, error.retry_after) == ("rate_limit_exceeded", 5)


def test_a_refusal_harms_no_other_lane(editor: RunningGateway) -> None:
    async def both(lanes: Lanes) -> str:
        with pytest.raises(ClientError) as caught:
            await whole(lanes.fill("a.py", gap("x", model="none")))
        assert caught.value.code == "model_not_found"
        return await whole(asked(lanes, "a.py"))

    assert use(editor.url, both) == "return 1"


def test_a_wrong_key_is_said() -> None:
    with RunningGateway(config=configuration(keys=keys("alice"))) as gateway:
        error = refusal(gateway.url, "wrong")
        assert error.status == 401
        assert "key" in str(error)


@pytest.mark.parametrize("url", ["127.0.0.1:8765/v1", "ftp://127.0.0.1/v1", "http://a..b/v1", ""])
def test_what_is_no_address_is_a_client_error(url: str) -> None:
    assert str(refusal(url))


def test_half_a_character_is_refused_and_not_sent(editor: RunningGateway) -> None:
    async def ask(lanes: Lanes) -> str:
        with pytest.raises(ClientError, match="surrogate"):
            await whole(lanes.fill("a.py", gap("x = '\ud800'")))
        return await whole(asked(lanes, "a.py"))

    assert use(editor.url, ask) == "return 1"


# -- servers that go away and come back -----------------------------------------------------------


def test_without_a_server_it_says_how_to_start_one() -> None:
    error = refusal(f"http://127.0.0.1:{free_port()}/v1")
    assert error.code == "no_server"
    assert "vivace up" in str(error)


def test_a_server_that_was_restarted_is_asked_again() -> None:
    async def restarted(lanes: Lanes) -> str:
        running = asked(lanes, "a.py", "endless")
        await anext(running)
        await asyncio.to_thread(first.stop)
        with pytest.raises(ClientError):
            await whole(running)
        with pytest.raises(ClientError) as caught:
            await whole(asked(lanes, "a.py"))
        assert caught.value.code == "no_server"
        with RunningGateway([SHORT], port=port):
            return await whole(asked(lanes, "a.py"))

    port = free_port()
    config = configuration(limits={"drain_seconds": 0.1})
    first = RunningGateway([ENDLESS], config=config, port=port).start()
    assert use(f"http://127.0.0.1:{port}/v1", restarted) == "return 1"


def test_a_connection_that_breaks_while_nobody_asks_is_made_again(editor: RunningGateway) -> None:
    async def dropped(lanes: Lanes) -> None:
        await whole(asked(lanes, "a.py"))
        before = set(editor.gateway.door._sockets)
        await asyncio.to_thread(lambda: editor.run(editor.gateway.door.close()))
        await until(lambda: connections(editor) == 1 and not before & editor.gateway.door._sockets)

    use(editor.url, dropped)


def test_a_connection_that_is_too_old_is_replaced_without_a_word(editor: RunningGateway) -> None:
    async def aged(lanes: Lanes) -> str:
        await whole(asked(lanes, "a.py"))
        for socket in editor.gateway.door._sockets:
            socket.opened -= 3601
        return await whole(asked(lanes, "a.py"))

    assert use(editor.url, aged) == "return 1"


Behaviour = Callable[[ServerConnection], Awaitable[None]]


@asynccontextmanager
async def pretender(behaviour: Behaviour) -> AsyncIterator[str]:
    async with serve(behaviour, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"http://127.0.0.1:{port}/v1"


async def asking(behaviour: Behaviour, work: Callable[[Lanes], Coroutine[Any, Any, T]]) -> T:
    async with pretender(behaviour) as url:
        lanes = Lanes(url)
        try:
            return await asyncio.wait_for(work(lanes), PATIENCE_S)
        finally:
            await lanes.close()


CREATED = '{"type": "response.created", "stream_id": "0", "response": {"id": "r", "fill": true}}'
DELTA = '{"type": "response.output_text.delta", "stream_id": "0", "delta": "hm"}'
COMPLETED = '{"type": "response.completed", "stream_id": "0", "response": {"id": "r"}}'


def test_a_connection_that_had_died_unnoticed_is_made_again_without_a_word() -> None:
    served = 0

    async def forgets_the_first(socket: ServerConnection) -> None:
        nonlocal served
        served += 1
        await socket.recv()
        for said in (CREATED, DELTA, COMPLETED):
            await socket.send(said)
        if served == 1:
            await socket.recv()
            socket.transport.abort()
        await socket.wait_closed()

    async def twice(lanes: Lanes) -> list[str]:
        return [await whole(asked(lanes, "a.py")) for _ in range(2)]

    assert asyncio.run(asking(forgets_the_first, twice)) == ["hm", "hm"]
    assert served == 2


def test_a_server_that_hears_nobody_is_asked_twice_at_most() -> None:
    served = 0

    async def goes(socket: ServerConnection) -> None:
        nonlocal served
        served += 1
        await socket.recv()
        await socket.close(1013, "Not now.")

    async def ask(lanes: Lanes) -> str:
        return await whole(asked(lanes, "a.py"))

    with pytest.raises(ClientError, match="Not now"):
        asyncio.run(asking(goes, ask))
    assert served <= 2


@pytest.mark.parametrize("said", ["hello", "[1]", '{"type": 5}', "[" * 100_000, b"\xff"])
def test_what_is_no_event_is_a_client_error(said: str | bytes) -> None:
    async def babbles(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(CREATED)
        await socket.send(said)
        await socket.wait_closed()

    async def ask(lanes: Lanes) -> str:
        return await whole(asked(lanes, "a.py"))

    with pytest.raises(ClientError, match="no event"):
        asyncio.run(asking(babbles, ask))


# -- in any order ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def busy() -> Iterator[RunningGateway]:
    with RunningGateway([ENDLESS, SILENT, SHORT]) as running:
        yield running


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("fill"), st.sampled_from("abc"), st.sampled_from(["x", "endless"])),
        st.tuples(st.just("fill"), st.sampled_from("abc"), st.just("silent")),
        st.tuples(st.just("leave"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("wait"), st.sampled_from([0, 1, 10, 30]), st.just("")),
        st.tuples(st.just("drop"), st.just(0), st.just("")),
    ),
    max_size=12,
)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_whatever_is_asked_left_and_broken_nothing_goes_on(
    busy: RunningGateway, steps: list[tuple[str, Any, str]]
) -> None:
    async def play(lanes: Lanes) -> None:
        tasks: list[tuple[str, asyncio.Task[str]]] = []
        dropped = False
        for step, what, prefix in steps:
            if step == "fill":
                task = asyncio.create_task(whole(asked(lanes, what, prefix)))
                tasks.append((prefix, task))
            elif step == "leave" and tasks:
                tasks[what % len(tasks)][1].cancel()
            elif step == "wait":
                await asyncio.sleep(what / 1000)
            elif step == "drop":
                dropped = True
                await asyncio.to_thread(lambda: busy.run(busy.gateway.door.close()))
        for prefix, task in tasks:
            if prefix != "x":
                task.cancel()
        for prefix, task in tasks:
            (answer,) = await asyncio.gather(task, return_exceptions=True)
            broken = isinstance(answer, asyncio.CancelledError)
            broken = broken or (dropped and isinstance(answer, ClientError))
            assert broken or (prefix, answer) == ("x", "return 1")
        await until(lambda: busy.engine.running() == 0)

    use(busy.url, play)


# -- what it brings along -------------------------------------------------------------------------


def test_an_editor_does_not_bring_the_gateway_along() -> None:
    program = "import sys, vivace.client.lanes; print('\\n'.join(sys.modules))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = ran.stdout.split()
    ours = {name.split(".")[1] for name in loaded if name.startswith("vivace.")}
    assert ours == {"addresses", "client", "completion", "errors", "protocol", "retry_after"}
    assert not {"starlette", "uvicorn", "rich", "click"} & set(loaded)
