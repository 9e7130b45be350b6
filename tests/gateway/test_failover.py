"""A turn whose engine dies in the middle of its answer goes on at another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.http import RESPONSES, said
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually
from tests.support.witness import TERMINAL
from vivace.config import Config
from vivace.conversation.deltas import Delta, Finished
from vivace.engines.base import Chat, Work
from vivace.engines.scripted import Act, Call, Fail, Reply, Say, ScriptedEngine, Stall, Think
from vivace.errors import CannotContinue, EngineDied, EngineError
from vivace.gateway import listening
from vivace.scheduling.placement import Breaker

ANSWER: tuple[Act, ...] = (
    Think("Let me see."),
    Say("The answer is 42, of course."),
    Call("look", '{"at": "it"}'),
    Call("patch", "as it is", custom=True),
    Say("Done."),
)
LENGTH = 28
"""Deltas of it, without the last."""


def pool(count: int = 2, **more: Any) -> Config:
    engine = {"kind": "scripted", "model": "m", "rate": 2000, **more}
    names = [f"replica{number}" for number in range(count)]
    return configuration(
        engines=[{"name": name, **engine} for name in names],
        tiers=[{"name": "fast", "engines": names}],
    )


class Pool:
    """Engines with one script, which can be told when to die."""

    def __init__(self, gateway: RunningGateway, *acts: Act) -> None:
        self.gateway = gateway
        self.engines: list[ScriptedEngine] = []
        self.given: list[Work] = []
        """What engines were asked for, in order."""
        self.told: list[list[Delta]] = []
        """What each of these said."""
        self._ends: Callable[[int, int], EngineError | None] = lambda _attempt, _said: None
        for each in gateway.gateway.catalogue.engines:
            assert isinstance(each, ScriptedEngine)
            each.play([Reply(then=acts)])
            self._watch(each)
            self.engines.append(each)
        for known in gateway.gateway.dispatch._scheduler._engines.values():
            known.breaker = Breaker(failures=1000)  # so many deaths would shut them out

    def kill(self, *after: int, error: type[EngineError] = EngineDied) -> None:
        """The n-th engine of a turn dies when it has said so many deltas."""

        def ends(attempt: int, said: int) -> EngineError | None:
            dies = attempt < len(after) and said == after[attempt]
            return error("killed") if dies else None

        self._ends = ends

    def _watch(self, engine: ScriptedEngine) -> None:
        generate = engine.generate

        async def watched(work: Work) -> AsyncGenerator[Delta, None]:
            attempt = len(self.given)
            heard: list[Delta] = []
            self.given.append(work)
            self.told.append(heard)
            async for delta in generate(work):
                if error := self._ends(attempt, len(heard)):
                    raise error
                heard.append(delta)
                yield delta

        engine.generate = watched  # type: ignore[method-assign]

    def where(self) -> ScriptedEngine:
        """Which engine has work."""
        eventually(lambda: any(each.running() for each in self.engines))
        return next(each for each in self.engines if each.running())

    def ask(self, **body: Any) -> list[Event]:
        self.given.clear()
        self.told.clear()
        with Socket(self.gateway.url) as socket:
            socket.create("Go", model="fast", **body)
            return socket.until_end()

    def failovers(self, reason: str) -> float:
        lines = self.gateway.http.get("/metrics").text.splitlines()
        name = f'vivace_failovers_total{{reason="{reason}"}} '
        return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def output(events: list[Event]) -> list[dict[str, Any]]:
    """What a response is made of, without what is new each time."""
    items: list[dict[str, Any]] = events[-1]["response"]["output"]
    return [{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in items]


def deltas(events: list[Event]) -> str:
    return "".join(event["delta"] for event in events if event["type"].endswith(".delta"))


# -- a death at any point -------------------------------------------------------------------------


@pytest.mark.parametrize("store", [False, True], ids=["passing", "kept"])
def test_a_death_after_any_delta_costs_the_client_nothing(store: bool) -> None:
    with RunningGateway(config=pool()) as gateway:
        engines = Pool(gateway, *ANSWER)
        whole = engines.ask(store=store)
        first = engines.given[0]
        assert len(engines.told[0]) == LENGTH + 1
        for cut in range(LENGTH + 1):
            engines.kill(cut)
            events = engines.ask(store=store)
            assert deltas(events) == deltas(whole)
            assert output(events) == output(whole)
            assert [each["type"] for each in events if each["type"] in TERMINAL] == [
                "response.completed"
            ]
            assert [each["sequence_number"] for each in events] == list(range(len(events)))
            usage, expected = (each[-1]["response"]["usage"] for each in (events, whole))
            for count in ("input_tokens", "output_tokens", "total_tokens"):
                assert usage[count] == expected[count]
            assert usage["output_tokens_details"] == expected["output_tokens_details"]
            again, other = engines.given
            assert isinstance(again.prompt, Chat)
            assert isinstance(first.prompt, Chat)
            assert other.prompt == again.prompt
            shown = other.said.deltas if other.said is not None else ()
            assert list(shown) == engines.told[0]
        assert engines.failovers("died") == LENGTH + 1


def test_a_stored_turn_reads_as_it_was_streamed() -> None:
    with RunningGateway(config=pool()) as gateway:
        engines = Pool(gateway, *ANSWER)
        engines.kill(12)
        response = engines.ask()[-1]["response"]
        found = gateway.http.get(f"{RESPONSES}/{response['id']}").json()
        assert found["output"] == response["output"]


def test_a_limit_holds_for_all_engines_together() -> None:
    with RunningGateway(config=pool()) as gateway:
        engines = Pool(gateway, Say("a b c d e f g h"))
        for cut in range(6):
            engines.kill(cut)
            response = engines.ask(max_output_tokens=5)[-1]["response"]
            assert said(response) == "a b c d e"
            assert response["incomplete_details"] == {"reason": "max_output_tokens"}
            assert response["usage"]["output_tokens"] == 5
        assert len(engines.given) == 1  # at the last cut nothing was left to ask for


def test_two_engines_may_die_and_the_third_finishes() -> None:
    with RunningGateway(config=pool(3)) as gateway:
        engines = Pool(gateway, *ANSWER)
        whole = engines.ask()
        engines.kill(5, 7)
        events = engines.ask()
        assert output(events) == output(whole)
        assert events[-1]["response"]["usage"] == whole[-1]["response"]["usage"] | {
            "input_tokens_details": events[-1]["response"]["usage"]["input_tokens_details"]
        }
        assert [len(each) for each in engines.told] == [5, 7, LENGTH + 1 - 12]


def test_what_kills_three_engines_is_given_to_no_fourth() -> None:
    with RunningGateway(config=pool(5)) as gateway:
        engines = Pool(gateway, *ANSWER)
        engines.kill(3, 0, 4, 1, 1)
        events = engines.ask()
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == "gave_up"
        assert len(engines.given) == 3
        assert deltas(events) == "Let me see.The answer is"


def test_an_engine_that_is_back_may_have_it_again() -> None:
    with RunningGateway(config=pool()) as gateway:
        engines = Pool(gateway, *ANSWER)
        whole = engines.ask()
        engines.kill(4, 4)  # the scripted ones are back at once
        assert output(engines.ask()) == output(whole)


def test_a_real_death_is_a_death() -> None:
    with RunningGateway(config=pool(rate=100)) as gateway, Socket(gateway.url) as socket:
        engines = Pool(gateway, Say(" word", times=60))
        socket.create("Go", model="fast")
        socket.until("response.output_text.delta")

        async def kill() -> None:
            engines.where().die("killed")

        gateway.run(kill())
        response = socket.until_end()[-1]["response"]
        assert (response["status"], said(response)) == ("completed", " word" * 60)
        assert sum(each.healthy() for each in engines.engines) == 1


def test_chat_goes_on_too() -> None:
    with RunningGateway(config=pool()) as gateway:
        engines = Pool(gateway, Say("a b c d e f"))
        engines.kill(3)
        body = {"model": "fast", "messages": [{"role": "user", "content": "Go"}]}
        answer = gateway.http.post("/v1/chat/completions", json=body).json()
        assert answer["choices"][0]["message"]["content"] == "a b c d e f"
        assert answer["usage"]["completion_tokens"] == 6


# -- what cannot go on ----------------------------------------------------------------------------


def test_where_no_other_engine_is_left_the_turn_fails_with_all_that_was_said() -> None:
    with RunningGateway(config=pool(1)) as gateway:
        engines = Pool(gateway, *ANSWER)
        engines.kill(6)
        events = engines.ask()
        assert events[-1]["response"]["error"]["code"] == "engine_died"
        assert deltas(events) == "Let me see.The answer"


def test_an_answer_held_to_a_form_cannot_go_on_once_it_began() -> None:
    form = {"format": {"type": "json_object"}}
    with RunningGateway(config=pool()) as gateway:
        engines = Pool(gateway, Say('{"a": 1}'))
        engines.kill(0)
        assert engines.ask(text=form)[-1]["type"] == "response.completed"
        engines.kill(1)
        failed = engines.ask(text=form)[-1]["response"]
        assert failed["error"]["code"] == "engine_died"
        assert len(engines.given) == 1


def test_a_failure_that_may_be_the_turns_own_is_told_once_it_has_spoken() -> None:
    with RunningGateway(config=pool()) as gateway:
        engines = Pool(gateway, Say("so far"), Fail("no", status=500))
        failed = engines.ask()
        assert failed[-1]["response"]["error"] == {"code": "server_error", "message": "no"}
        assert len(engines.given) == 1


def test_an_engine_that_cannot_continue_is_passed_over_and_not_blamed() -> None:
    with RunningGateway(config=pool(3)) as gateway:
        engines = Pool(gateway, *ANSWER)
        whole = engines.ask()

        def ends(attempt: int, said: int) -> EngineError | None:
            if attempt == 0 and said == 5:
                return EngineDied("killed")
            return CannotContinue("another tokenizer") if attempt == 1 else None

        engines._ends = ends
        for _ in range(4):  # so often that a circuit would open
            assert output(engines.ask()) == output(whole)
            assert len(engines.given) == 3


# -- beside other things that happen --------------------------------------------------------------


@pytest.mark.parametrize("how", ["steer", "interrupt"])
def test_a_turn_that_waits_for_its_next_engine_can_be_redirected(how: str) -> None:
    with RunningGateway(config=pool(slots=1)) as gateway:
        engines = Pool(gateway, Say("one two"), Stall(60), Say(" three"))
        for each in engines.engines:
            each.play([Reply(when="hold", then=(Stall(60),))])
            each.play([Reply(when="turn round", then=(Say("steered"),))])
        with Socket(gateway.url) as socket, Socket(gateway.url) as other:
            other.create("hold", model="fast")
            held = other.until("response.in_progress")["response"]["id"]
            holding = engines.where()
            socket.create("Go", model="fast", store=False)
            target = socket.until("response.in_progress")["response"]["id"]
            for _ in range(2):
                socket.until("response.output_text.delta")

            async def kill() -> None:
                next(each for each in engines.engines if each is not holding).die("killed")

            gateway.run(kill())
            waits = 'vivace_queue_length{kind="agent",tier="fast"} 1.0'
            eventually(lambda: waits in metrics(gateway))
            if how == "steer":
                socket.send(type="response.steer", previous_response_id=target, input="turn round")
            else:
                socket.send(type="response.interrupt", response_id=target)
            ended = socket.until_end()[-1]["response"]
            other.send(type="response.interrupt", response_id=held)
            reason = {"steer": "steered", "interrupt": "interrupted"}[how]
            assert (ended["status"], ended["incomplete_details"]["reason"]) == (
                "incomplete",
                reason,
            )
            if how == "steer":
                assert said(ended) == "one two"
                assert said(socket.until_end()[-1]["response"]) == "steered"


def test_thoughts_that_were_ended_stay_ended_when_the_engine_dies() -> None:
    with RunningGateway(config=pool(rate=200)) as gateway:
        engines = Pool(gateway, Think("hm " * 200), Say("The answer is 42."))
        engines.kill(-1, 2)  # the second asking is for the answer, on the same engine
        with Socket(gateway.url) as socket:
            socket.create("Go", model="fast", max_output_tokens=300)
            target = socket.until("response.in_progress")["response"]["id"]
            socket.until("response.reasoning_text.delta")
            socket.send(type="response.steer", previous_response_id=target, when="end_thinking")
            response = socket.until_end()[-1]["response"]
        assert said(response) == "The answer is 42."
        assert len(engines.given) == 3
        assert engines.given[2].thoughts is not None
        thought = len(engines.told[0])
        answered = sum(not isinstance(each, Finished) for told in engines.told[1:] for each in told)
        assert response["usage"]["output_tokens"] == thought + answered


# -- silence --------------------------------------------------------------------------------------


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When engines were looked at, by a clock that goes on at each look only.

    An engine that works does some of it between two looks, however slow the machine is.
    """
    times: list[float] = []

    def look() -> float:
        times.append(len(times) * listening._LOOK)
        return times[-1]

    monkeypatch.setattr(listening, "time", SimpleNamespace(monotonic=look))
    return times


@pytest.mark.usefixtures("looks")
def test_a_turn_leaves_an_engine_that_falls_silent_and_comes_back_when_it_speaks() -> None:
    with RunningGateway(config=pool(rate=100, silence_seconds=0.6)) as gateway:
        engines = Pool(gateway, Say(" word", times=60))
        for each in engines.engines:
            each.play([Reply(when="more", then=(Say("Well."),))])
        with Socket(gateway.url) as socket:
            socket.create("Go", model="fast")
            socket.until("response.output_text.delta")
            frozen = engines.where()

            async def freeze() -> None:
                frozen.freeze()

            async def thaw() -> None:
                frozen.thaw()

            gateway.run(freeze())
            response = socket.until_end()[-1]["response"]
            assert (response["status"], said(response)) == ("completed", " word" * 60)
            assert response["usage"]["output_tokens"] == 60
            assert engines.failovers("silent") == 1
            ready = gateway.http.get("/readyz")
            assert (ready.status_code, ready.text) == (
                503,
                f"{frozen.name} has work and does none of it\n",
            )
            engines.given.clear()
            for number in range(6):  # none of them may be given to it
                done = socket.turn(f"more {number}", model="fast")["response"]
                assert done["status"] == "completed"
            assert f'vivace_engine_up{{engine="{frozen.name}"}} 0.0' in metrics(gateway)
            gateway.run(thaw())
            eventually(lambda: gateway.http.get("/readyz").status_code == 200)
            assert f'vivace_engine_up{{engine="{frozen.name}"}} 1.0' in metrics(gateway)


def metrics(gateway: RunningGateway) -> str:
    return gateway.http.get("/metrics").text


@pytest.mark.usefixtures("looks")
def test_where_nobody_else_could_go_on_a_silent_engine_is_waited_for() -> None:
    with RunningGateway(config=pool(1, rate=100, silence_seconds=0.3)) as gateway:
        engines = Pool(gateway, Say(" word", times=20))
        with Socket(gateway.url) as socket:
            socket.create("Go", model="fast")
            socket.until("response.output_text.delta")

            async def freeze() -> None:
                engines.engines[0].freeze()

            async def thaw() -> None:
                engines.engines[0].thaw()

            gateway.run(freeze())
            eventually(lambda: 'vivace_engine_up{engine="replica0"} 0.0' in metrics(gateway))
            assert gateway.http.get("/readyz").status_code == 200  # it takes turns all the same
            gateway.run(thaw())
            response = socket.until_end()[-1]["response"]
            assert (response["status"], said(response)) == ("completed", " word" * 20)
            eventually(lambda: 'vivace_engine_up{engine="replica0"} 1.0' in metrics(gateway))


def test_an_engine_that_serves_others_is_not_silent_for_one_that_waits(
    looks: list[float],
) -> None:
    with RunningGateway(config=pool(rate=100, silence_seconds=0.4)) as gateway:
        engines = Pool(gateway, Say("a "), Stall(3600), Say("b"))
        with Socket(gateway.url) as socket:
            socket.create("Go", model="fast")
            busy = engines.where()
            until_looked(looks)
            [request] = busy._requests
            request.stalled_until = 0.0
            assert said(socket.until_end()[-1]["response"]) == "a b"
        assert len(engines.given) == 1


def until_looked(looks: list[float], count: int = 6) -> None:
    """Wait for so many looks at the engines."""
    before = len(looks)
    eventually(lambda: len(looks) >= before + count)


def test_a_client_that_takes_nothing_makes_no_engine_silent(looks: list[float]) -> None:
    with RunningGateway(config=pool(rate=5000, silence_seconds=0.3)) as gateway:
        engines = Pool(gateway, Say("word " * 40, times=200))
        with Socket(gateway.url, receive_buffer=4096) as socket:
            socket.create("Go", model="fast", store=False)
            eventually(lambda: bool(gateway.gateway.connections._unread))
            until_looked(looks)
            events = socket.until_end()
        assert len(deltas(events)) == 5 * 40 * 200
        assert len(engines.given) == 1
        assert engines.failovers("silent") == 0
