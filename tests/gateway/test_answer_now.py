"""Thinking that is ended so that the answer begins: in the same response, for what it cost."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http import RESPONSES, said
from tests.support.plain_endpoint import PlainEndpoint, sse
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from tests.support.waiting import PATIENCE_S, eventually
from vivace.conversation.deltas import Tokens
from vivace.engines.scripted import Call, Reply, Say, Stall, Think
from vivace.gateway.planning import Plan, Planner
from vivace.gateway.websocket import _Outlet as EventOutlet
from vivace.protocol.events import ReasoningTextDone
from vivace.scheduling.scheduler import Outcome

PONDERS = Reply(when="riddle", then=(Think("Let me see. " * 20_000), Say("A shadow.")))


def thinking(socket: Socket, asked: str = "A riddle", **body: Any) -> str:
    """A turn that is in the middle of its thoughts."""
    socket.create(asked, **body)
    identifier: str = socket.until("response.created")["response"]["id"]
    socket.until("response.reasoning_text.delta")
    return identifier


def answer_now(socket: Socket, target: str, **more: Any) -> None:
    event = {"type": "response.steer", "previous_response_id": target, "when": "end_thinking"}
    socket.send(**event, **more)


def kinds(events: list[Event]) -> list[str]:
    """Without repetitions of what grows."""
    seen = [event["type"] for event in events if not event["type"].endswith(".delta")]
    return [kind for kind in seen if kind != "response.steer.accepted"]


def test_the_thoughts_end_and_the_answer_begins_in_the_same_response(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([PONDERS])
    with Socket(gateway.url) as socket:
        target = thinking(socket)
        answer_now(socket, target)
        events = socket.until_end()
    [receipt] = [event for event in events if event["type"] == "response.steer.accepted"]
    assert receipt["steer"]["previous_response_id"] == target
    assert receipt["steer"]["when"] == "end_thinking"
    assert kinds(events) == [
        "response.reasoning_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    done = events[-1]["response"]
    assert done["id"] == target
    thoughts, answer = done["output"]
    assert (thoughts["type"], thoughts["status"]) == ("reasoning", "completed")
    assert thoughts["content"][0]["text"].startswith("Let ")
    assert (answer["status"], said(done)) == ("completed", "A shadow.")
    numbers = [event["sequence_number"] for event in events if "steer" not in event]
    assert numbers == [*range(numbers[0], numbers[0] + len(numbers))]
    assert gateway.engine.running() == 0


def test_what_it_cost_is_the_question_once_and_all_that_was_written(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([PONDERS, Reply(when="sample", then=(Say("A shadow."),))])
    with Socket(gateway.url) as socket:
        answer_now(socket, thinking(socket))
        usage = socket.until_end()[-1]["response"]["usage"]
        socket.create("A sample")  # as long as the riddle
        plain = socket.until_end()[-1]["response"]["usage"]
    thought = usage["output_tokens_details"]["reasoning_tokens"]
    assert thought > 0
    assert usage["output_tokens"] == thought + plain["output_tokens"]
    assert usage["input_tokens"] == plain["input_tokens"]


def test_the_limit_is_for_thoughts_and_answer_together(gateway: RunningGateway) -> None:
    long = Reply(when="riddle", then=(Think("Hm. " * 20_000), Say("word " * 20_000)))
    gateway.engine.play([long])
    with Socket(gateway.url) as socket:
        answer_now(socket, thinking(socket, max_output_tokens=2000))
        ended = socket.until_end()[-1]["response"]
    assert ended["incomplete_details"] == {"reason": "max_output_tokens"}
    assert ended["usage"]["output_tokens"] == 2000
    assert len(ended["output"]) == 2


def test_thoughts_that_took_all_that_may_be_written_leave_nothing_for_an_answer(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([PONDERS])
    with Socket(gateway.url) as socket:
        socket.create("A riddle", max_output_tokens=1)
        answer_now(socket, socket.until("response.created")["response"]["id"])
        ended = socket.until_end()[-1]["response"]
    assert ended["incomplete_details"] == {"reason": "max_output_tokens"}
    assert ended["usage"]["output_tokens"] == 1
    assert [item["type"] for item in ended["output"]] == ["reasoning"]


def test_who_is_stopped_between_thoughts_and_answer_pays_for_the_thoughts_once(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, send = Planner.settle, EventOutlet.send
    settled: list[Tokens] = []
    slow = threading.Event()

    async def noted(self: Planner, plan: Plan, tokens: Tokens, outcome: Outcome) -> None:
        settled.append(tokens)
        await settle(self, plan, tokens, outcome)

    async def slowly(self: EventOutlet, events: list[Any]) -> None:
        if events and isinstance(events[0], ReasoningTextDone):
            slow.set()
            await asyncio.Event().wait()
        await send(self, events)

    monkeypatch.setattr(Planner, "settle", noted)
    monkeypatch.setattr(EventOutlet, "send", slowly)
    gateway.engine.play([PONDERS])
    with Socket(gateway.url) as socket:
        target = thinking(socket)
        answer_now(socket, target)
        assert slow.wait(PATIENCE_S)
        monkeypatch.setattr(EventOutlet, "send", send)
        socket.send(type="response.interrupt", response_id=target)
        thoughts = socket.until_end()[-1]["response"]["output"][0]["content"][0]["text"]
    assert settled[0].output == len(re.findall(r"\w+|[.]", thoughts))


def test_an_answer_that_is_a_call_comes_too(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="riddle", then=(Think("Hm. " * 20_000), Call("look", "{}")))])
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    with Socket(gateway.url) as socket:
        answer_now(socket, thinking(socket, tools=tools))
        done = socket.until_end()[-1]["response"]
    assert [item["type"] for item in done["output"]] == ["reasoning", "function_call"]


def test_asked_for_before_the_first_token_it_ends_the_thinking_at_that(
    gateway: RunningGateway,
) -> None:
    slow = (Stall(600), Think("Let me see. " * 20_000), Say("A shadow."))
    gateway.engine.play([Reply(when="riddle", then=slow)])
    with Socket(gateway.url) as socket:
        socket.create("A riddle")
        answer_now(socket, socket.until("response.created")["response"]["id"])
        socket.until("response.steer.accepted")
        gateway.go_on()
        done = socket.until_end()[-1]["response"]
    assert len(done["output"][0]["content"][0]["text"]) < 100
    assert said(done) == "A shadow."


def test_who_does_not_think_goes_on_as_if_nothing_had_been_said(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("Once upon a time. " * 300),))])
    with Socket(gateway.url) as socket:
        socket.create("A story")
        target = socket.until("response.created")["response"]["id"]
        socket.until("response.output_text.delta")
        answer_now(socket, target)
        answer_now(socket, target)
        events = socket.until_end()
    assert [event["type"] for event in events].count("response.steer.accepted") == 2
    assert said(events[-1]["response"]) == "Once upon a time. " * 300


def test_it_is_said_twice_and_does_it_once(gateway: RunningGateway) -> None:
    gateway.engine.play([PONDERS])
    with Socket(gateway.url) as socket:
        target = thinking(socket)
        answer_now(socket, target)
        answer_now(socket, target)
        assert said(socket.until_end()[-1]["response"]) == "A shadow."


def test_the_answer_can_be_steered_and_interrupted_as_any(gateway: RunningGateway) -> None:
    story = (Think("Hm. " * 20_000), Say("Once upon a time " * 20_000))
    gateway.engine.play(
        [Reply(when="left", then=(Say("Left."),)), Reply(when="riddle", then=story)]
    )
    with Socket(gateway.url) as socket:
        target = thinking(socket)
        answer_now(socket, target)
        socket.until("response.output_text.delta")
        socket.send(type="response.steer", previous_response_id=target, input="Go left")
        steered = socket.until_end()[-1]["response"]
        assert steered["incomplete_details"] == {"reason": "steered"}
        assert [item["status"] for item in steered["output"]] == ["completed", "incomplete"]
        assert said(socket.until_end()[-1]["response"]) == "Left."
        target = thinking(socket)
        answer_now(socket, target)
        socket.until("response.output_text.delta")
        socket.send(type="response.interrupt", response_id=target)
        cut = socket.until_end()[-1]["response"]
        assert [item["type"] for item in cut["output"]] == ["reasoning"]
    eventually(lambda: gateway.engine.running() == 0)


def test_the_next_turn_goes_on_from_it(gateway: RunningGateway) -> None:
    gateway.engine.play([PONDERS])
    with Socket(gateway.url) as socket:
        target = thinking(socket)
        answer_now(socket, target)
        socket.until_end()
        socket.create("And now?", previous_response_id=target)
        assert socket.until_end()[-1]["type"] == "response.completed"
    stored = gateway.http.get(f"{RESPONSES}/{target}").json()
    assert [item["type"] for item in stored["output"]] == ["reasoning", "message"]


# -- over HTTP ------------------------------------------------------------------------------------


def test_over_http_too(gateway: RunningGateway) -> None:
    gateway.engine.play([PONDERS])
    made = gateway.http.post(RESPONSES, json={"input": "A riddle", "background": True}).json()
    address = f"{RESPONSES}/{made['id']}"
    eventually(lambda: gateway.engine.running() == 1)
    told = gateway.http.post(f"{address}/steer", json={"when": "end_thinking"})
    assert told.status_code == 200
    assert told.json()["type"] == "response.steer.accepted"
    assert told.json()["successor_id"] is None
    eventually(lambda: gateway.http.get(address).json()["status"] == "completed")
    assert said(gateway.http.get(address).json()) == "A shadow."


def test_a_stream_goes_on_with_the_answer_in_both_apis(gateway: RunningGateway) -> None:
    gateway.engine.play([PONDERS])
    for address, body in (
        (RESPONSES, {"input": "A riddle"}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "A riddle"}]}),
    ):
        with gateway.http.stream("POST", address, json=body | {"stream": True}) as answer:
            pieces = answer.iter_text()
            text = next(pieces)
            [run] = gateway.gateway.runner._running
            told = gateway.http.post(f"{RESPONSES}/{run.id}/steer", json={"when": "end_thinking"})
            assert told.status_code == 200
            text += "".join(pieces)
        assert "shadow" in text


# -- refused --------------------------------------------------------------------------------------


def test_words_do_not_go_with_it(gateway: RunningGateway) -> None:
    gateway.engine.play([PONDERS])
    with Socket(gateway.url) as socket:
        target = thinking(socket)
        answer_now(socket, target, input="Quick!")
        failed = socket.until("response.steer.failed")
        assert failed["error"]["code"] == "invalid_input"
        assert failed["steer"]["input"] == "Quick!"
        socket.send(type="response.interrupt", response_id=target)
        socket.until_end()


def test_a_steer_with_words_still_needs_them(gateway: RunningGateway) -> None:
    gateway.engine.play([PONDERS])
    with Socket(gateway.url) as socket:
        target = thinking(socket)
        socket.send(type="response.steer", previous_response_id=target)
        error = socket.until("error")["error"]
        assert (error["code"], error["param"]) == ("missing_required_parameter", "input")
        socket.send(type="response.interrupt", response_id=target)
        socket.until_end()


def test_what_has_ended_says_so_even_if_calls_are_open(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="riddle", then=(Call("look", "{}"),))])
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    with Socket(gateway.url) as socket:
        socket.create("A riddle", tools=tools)
        answer_now(socket, socket.until_end()[-1]["response"]["id"])
        failed = socket.until("response.steer.failed")
    assert failed["error"]["code"] == "response_already_completed"
    assert failed["steer"]["input"] is None


def test_an_endpoint_of_others_cannot_be_told_and_that_is_said() -> None:
    heard = threading.Event()

    def answer(body: dict[str, Any]) -> Iterator[bytes]:
        yield from sse({"choices": [{"delta": {"reasoning_content": "Hm."}}]})
        heard.wait(PATIENCE_S)
        yield from sse({"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]})
        yield from sse("[DONE]")

    with PlainEndpoint({"/v1/chat/completions": answer}) as endpoint:
        ours = {"name": "ours", "kind": "scripted", "model": "ours"}
        theirs = {"name": "theirs", "kind": "openai", "model": "theirs", "url": endpoint.url}
        config = configuration(engines=[ours, theirs])
        with RunningGateway(config=config) as gateway, Socket(gateway.url) as socket:
            answer_now(socket, thinking(socket, model="theirs"))
            failed = socket.until("response.steer.failed")
            heard.set()
            assert said(socket.until_end()[-1]["response"]) == "Yes."
    assert failed["error"]["code"] == "steering_not_supported"
    assert "effort" in failed["error"]["message"]
    assert endpoint.asked[0][1].get("chat_template_kwargs") is None
