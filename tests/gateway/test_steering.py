"""Redirecting an answer while it is being written: over the WebSocket, and over HTTP."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from tests.support.http import RESPONSES, bearer, keys, said, sse, user
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Call, Die, Reply, Say, Stall, Think

FOREVER = Stall(60)
STORY = Reply(when="story", then=(Say("Once upon a time ", times=20_000),))
LEFT = Reply(when="left", then=(Say("Going left."),))
RIGHT = Reply(when="right", then=(Say("Going right."),))


def begun(socket: Socket, asked: str = "A story", **body: Any) -> str:
    """A turn that is in the middle of its text."""
    socket.create(asked, **body)
    identifier: str = socket.until("response.created")["response"]["id"]
    socket.until("response.output_text.delta")
    return identifier


def steer(socket: Socket, target: str, text: Any, **more: Any) -> None:
    socket.send(type="response.steer", previous_response_id=target, input=text, **more)


def until_steered(socket: Socket) -> list[Event]:
    """Events from the receipt to the end of the steered response."""
    events = [socket.until("response.steer.accepted")]
    return events + socket.until_end()


def text_of(item: dict[str, Any]) -> str:
    return "".join(part["text"] for part in item["content"])


# -- over the WebSocket ---------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["Go left", [user("Go left")]], ids=["string", "messages"])
def test_the_answer_stops_at_the_token_and_goes_the_new_way(
    gateway: RunningGateway, words: Any
) -> None:
    gateway.engine.play([LEFT, STORY])
    with Socket(gateway.url) as socket:
        first = begun(socket)
        steer(socket, first, words)
        events = until_steered(socket)
        assert events[0]["steer"]["previous_response_id"] == first
        ended = events[-1]
        assert ended["type"] == "response.incomplete"
        assert ended["response"]["incomplete_details"] == {"reason": "steered"}
        [partial] = ended["response"]["output"]
        assert partial["status"] == "incomplete"
        assert text_of(partial).startswith("Once")
        created = socket.read()
        assert created["type"] == "response.created"
        assert created["response"]["previous_response_id"] == first
        done = socket.until_end()[-1]
        assert said(done["response"]) == "Going left."
    assert gateway.engine.running() == 0


def test_the_model_is_shown_its_partial_answer_and_then_the_steer(gateway: RunningGateway) -> None:
    gateway.engine.play([LEFT, STORY])
    with Socket(gateway.url) as socket:
        steer(socket, begun(socket), "Go left")
        partial = until_steered(socket)[-1]["response"]["output"][0]
        done = socket.until_end()[-1]["response"]
    items = gateway.http.get(f"{RESPONSES}/{done['id']}/input_items").json()["data"]
    assert [text_of(item) for item in items] == ["Go left"]
    stored = gateway.http.get(f"{RESPONSES}/{done['previous_response_id']}").json()
    assert stored["output"] == [partial]
    assert stored["incomplete_details"] == {"reason": "steered"}


def test_settings_are_inherited_by_the_successor(gateway: RunningGateway) -> None:
    gateway.engine.play([LEFT, STORY])
    with Socket(gateway.url) as socket:
        first = begun(socket, instructions="Be brief.", temperature=0.5, stream_id="a")
        steer(socket, first, "Go left")
        until_steered(socket)
        successor = socket.read()
        assert successor["stream_id"] == "a"
        assert successor["response"]["instructions"] == "Be brief."
        assert successor["response"]["temperature"] == 0.5
        socket.until_end()


def test_a_steer_may_wait_for_the_end_of_the_item(gateway: RunningGateway) -> None:
    think = (Think("Let me think "), FOREVER, Think("about that for a while. "))
    gateway.engine.play([LEFT, Reply(when="story", then=(*think, Say("Once", times=20_000)))])
    with Socket(gateway.url) as socket:
        socket.create("A story")
        first = socket.until("response.created")["response"]["id"]
        socket.until("response.reasoning_text.delta")
        steer(socket, first, "Go left", when="item_end")
        socket.until("response.steer.accepted")
        gateway.go_on()
        ended = socket.until_end()[-1]["response"]
        [thought] = ended["output"]
        assert (thought["type"], thought["status"]) == ("reasoning", "completed")
        assert text_of(thought) == "Let me think about that for a while. "
        assert said(socket.until_end()[-1]["response"]) == "Going left."


def test_before_the_first_token_too(gateway: RunningGateway) -> None:
    gateway.engine.play([LEFT, Reply(when="story", then=(FOREVER,))])
    with Socket(gateway.url) as socket:
        socket.create("A story")
        steer(socket, socket.until("response.created")["response"]["id"], "Go left")
        assert until_steered(socket)[-1]["response"]["output"] == []
        assert said(socket.until_end()[-1]["response"]) == "Going left."


def test_steers_sent_in_one_breath_are_all_applied(gateway: RunningGateway) -> None:
    """The second names a response that has ended by the time it arrives, or has not."""
    gateway.engine.play([STORY])
    with Socket(gateway.url) as socket:
        first = begun(socket)
        for number in range(5):
            steer(socket, first, f"another story, number {number}")
        kinds: Counter[str] = Counter()
        successors: list[str] = []
        while True:
            event = socket.read()
            kinds[event["type"]] += 1
            assert event["type"] != "response.steer.failed"
            if event["type"] == "response.created":
                successors.append(event["response"]["id"])
            writing = event["type"] == "response.output_text.delta"
            settled = kinds["response.created"] == kinds["response.incomplete"] > 0
            if kinds["response.steer.accepted"] == 5 and settled and writing:
                break
        socket.send(type="response.interrupt", response_id=successors[-1])
        socket.until("response.incomplete")
    seen: list[str] = []
    for each in successors:
        items = gateway.http.get(f"{RESPONSES}/{each}/input_items?order=asc").json()["data"]
        seen += [text_of(item) for item in items]
    assert seen == [f"another story, number {number}" for number in range(5)]


def test_a_steer_waits_for_the_outputs_of_open_calls(gateway: RunningGateway) -> None:
    gateway.engine.play(
        [
            Reply(when="^Go left$", then=(Say("Going left."),)),
            Reply(when="story", then=(Call("look", "{}"), Say("word ", times=20_000))),
        ]
    )
    with Socket(gateway.url) as socket:
        first = begun(socket)
        steer(socket, first, "Go left")
        ended = until_steered(socket)[-1]["response"]
        call = ended["output"][0]
        pending = socket.read()
        assert pending["type"] == "response.steer.pending"
        stub = {"type": "function_call_output", "call_id": call["call_id"], "name": "look"}
        assert pending["required_input"] == [stub]
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        done = socket.turn([output], previous_response_id=first)["response"]
    path = f"{RESPONSES}/{done['id']}/input_items?order=asc"
    items = gateway.http.get(path).json()["data"]
    assert [item["type"] for item in items] == ["message", "function_call_output"]


def test_what_is_wrong_behind_a_steer_that_waited_is_named_by_its_place_in_what_was_sent(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(when="story", then=(Call("look", "{}"),))])
    tools = [{"type": "function", "name": "look", "parameters": {}}]
    lost = {"type": "function_call_output", "call_id": "lost", "output": ""}
    foreign = {"type": "web_search_call", "id": "ws_1"}
    with Socket(gateway.url) as socket:
        for before in ([], [foreign]):
            socket.create("A story", tools=tools)
            ended = socket.until_end()[-1]["response"]
            steer(socket, ended["id"], "Go left")
            socket.until("response.steer.pending")
            output = {**lost, "call_id": ended["output"][0]["call_id"]}
            socket.create([*before, output, lost], previous_response_id=ended["id"])
            error = socket.until("error")["error"]
            assert error["param"] == f"input[{len(before) + 1}].call_id"


def test_an_engine_that_dies_gives_the_steer_back(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("Once "), FOREVER, Die("gone")))])
    with Socket(gateway.url) as socket:
        first = begun(socket)
        steer(socket, first, "Go left", when="item_end")
        socket.until("response.steer.accepted")
        gateway.go_on()
        socket.until("response.failed")
        failed = socket.read()
        assert failed["type"] == "response.steer.failed"
        assert failed["error"]["code"] == "successor_creation_failed"
        assert failed["steer"]["input"] == "Go left"


def test_a_finished_response_is_not_steered(gateway: RunningGateway) -> None:
    gateway.engine.play([LEFT])
    with Socket(gateway.url) as socket:
        over = socket.turn("left")["response"]["id"]
        for target, code in ((over, "response_already_completed"), ("x", "response_not_found")):
            steer(socket, target, "Go on")
            failed = socket.read()
            assert failed["error"]["code"] == code
            assert failed["steer"] == {"previous_response_id": target, "input": "Go on"}


def test_the_engine_is_told_before_the_client(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="left", then=(FOREVER,)), STORY])
    with Socket(gateway.url) as socket:
        first = begun(socket)
        gateway.engine.play([Reply(when="left", then=(FOREVER,))])
        steer(socket, first, "Go left")
        socket.until("response.steer.accepted")
        later = [socket.read() for _ in range(5)]
        assert "response.output_text.delta" not in {event["type"] for event in later}


def test_a_client_that_leaves_in_the_middle_of_a_steer_leaves_nothing_behind(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([STORY])
    for _ in range(20):
        with Socket(gateway.url) as socket:
            steer(socket, begun(socket, store=False), "Another story")
            socket.vanish()
    eventually(lambda: gateway.engine.running() == 0)


def test_steers_at_random_moments_are_never_lost_and_block_no_lane(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("word ", times=60),))])
    dice = random.Random(7)
    with Socket(gateway.url) as socket:
        for number in range(60):
            lane = {"stream_id": dice.choice("abc")}
            socket.create(f"story {number}", store=False, **lane)
            current = socket.until("response.created")["response"]["id"]
            time.sleep(dice.random() * 0.04)
            steer(socket, current, f"other story {number}")
            receipt = redirected = None
            ends = 0
            while receipt is None or ends < (2 if receipt == "accepted" else 1):
                event = socket.read()
                kind = event["type"]
                if kind.startswith("response.steer."):
                    receipt = kind.removeprefix("response.steer.")
                redirected = redirected or (kind == "response.created")
                ends += kind in ("response.completed", "response.incomplete")
            assert bool(redirected) == (receipt == "accepted")
    assert gateway.engine.running() == 0


# -- over HTTP ------------------------------------------------------------------------------------


def streaming(gateway: RunningGateway, events: list[Event], **body: Any) -> threading.Thread:
    """Read a streamed answer in a thread of its own."""

    def read() -> None:
        with gateway.http.stream("POST", RESPONSES, json={"stream": True, **body}) as answer:
            events.extend(sse(answer.iter_lines()))

    thread = threading.Thread(target=read)
    thread.start()
    eventually(lambda: any(e["type"] == "response.output_text.delta" for e in events))
    return thread


def test_a_stream_is_redirected_from_outside_and_goes_on_with_the_successor(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([LEFT, STORY])
    events: list[Event] = []
    thread = streaming(gateway, events, input="A story")
    first = events[0]["response"]["id"]
    answer = gateway.http.post(f"{RESPONSES}/{first}/steer", json={"input": "Go left"})
    assert answer.status_code == 200
    receipt = answer.json()
    assert receipt["type"] == "response.steer.accepted"
    assert receipt["steer"]["previous_response_id"] == first
    thread.join(10)
    ends = [e for e in events if e["type"] in ("response.incomplete", "response.completed")]
    assert [e["type"] for e in ends] == ["response.incomplete", "response.completed"]
    assert ends[1]["response"]["id"] == receipt["successor_id"]
    assert said(ends[1]["response"]) == "Going left."


def test_a_stream_is_interrupted_from_outside(gateway: RunningGateway) -> None:
    gateway.engine.play([STORY])
    events: list[Event] = []
    thread = streaming(gateway, events, input="A story")
    first = events[0]["response"]["id"]
    answer = gateway.http.post(f"{RESPONSES}/{first}/interrupt")
    assert answer.json() == {"type": "response.interrupt.accepted", "response_id": first}
    thread.join(10)
    assert events[-1]["response"]["incomplete_details"] == {"reason": "interrupted"}


def test_a_background_response_is_redirected_and_both_can_be_read_again(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([LEFT, STORY])
    body = {"input": "A story", "background": True}
    first = gateway.http.post(RESPONSES, json=body).json()["id"]
    receipt = gateway.http.post(f"{RESPONSES}/{first}/steer", json={"input": "Go left"}).json()
    successor = receipt["successor_id"]
    eventually(
        lambda: gateway.http.get(f"{RESPONSES}/{successor}").json().get("status") == "completed"
    )
    assert gateway.http.get(f"{RESPONSES}/{first}").json()["status"] == "incomplete"
    for identifier, last in ((first, "response.incomplete"), (successor, "response.completed")):
        replay = gateway.http.get(f"{RESPONSES}/{identifier}?stream=true").text
        assert f"event: {last}" in replay


def test_a_client_that_waits_for_the_whole_gets_the_redirected_answer(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([LEFT, STORY])
    answers: list[dict[str, Any]] = []
    post = gateway.http.post
    thread = threading.Thread(
        target=lambda: answers.append(post(RESPONSES, json={"input": "A story"}).json())
    )
    thread.start()
    eventually(lambda: gateway.engine.running() == 1)
    [first] = [run.id for run in gateway.gateway.runner._running]
    assert post(f"{RESPONSES}/{first}/steer", json={"input": "Go left"}).status_code == 200
    thread.join(10)
    assert said(answers[0]) == "Going left."
    assert answers[0]["previous_response_id"] == first


def test_what_cannot_be_steered_says_why(gateway: RunningGateway) -> None:
    gateway.engine.play([LEFT])
    over = gateway.http.post(RESPONSES, json={"input": "left"}).json()["id"]
    refused = gateway.http.post(f"{RESPONSES}/{over}/steer", json={"input": "x"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "response_already_completed"
    for action in ("steer", "interrupt"):
        unknown = gateway.http.post(f"{RESPONSES}/resp_x/{action}", json={"input": "x"})
        assert unknown.status_code == 404
        assert unknown.json()["error"]["code"] == "response_not_found"


def test_nobody_steers_the_response_of_another() -> None:
    config = configuration(keys=keys("ann", "bob"))
    with RunningGateway([STORY], config=config) as gateway:
        with Socket(gateway.url, bearer("ann")) as socket:
            first = begun(socket)
            for action in ("steer", "interrupt"):
                path = f"{RESPONSES}/{first}/{action}"
                answer = gateway.http.post(path, json={"input": "x"}, headers=bearer("bob"))
                assert answer.status_code == 404
            assert gateway.engine.running() == 1
        eventually(lambda: gateway.engine.running() == 0)
