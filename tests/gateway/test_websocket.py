"""The WebSocket as a client meets it."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.http import RESPONSES, bearer, keys, said, user
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Act, Call, Fail, Reply, Say, Stall, Think

FOREVER = Stall(60)
"""Longer than any test waits; what follows it is never said."""

BEGIN = ["response.created", "response.in_progress"]
ADDED = "response.output_item.added"
DONE = "response.output_item.done"
COMPLETED = "response.completed"


def kinds(events: list[Event]) -> list[str]:
    return [event["type"] for event in events]


def texts(events: list[Event]) -> list[str]:
    return [said(event["response"]) for event in events if event["type"] == COMPLETED]


def problem(event: Event) -> tuple[int, str]:
    assert event["type"] == "error"
    return event["status"], event["error"]["code"]


# -- the order of events --------------------------------------------------------------------------


def test_text_arrives_in_the_order_of_the_wire(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("Hello world"),))])
    with Socket(gateway.url) as socket:
        socket.create("Hi")
        events = socket.until_end()
    assert kinds(events) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


PART_ADDED, PART_DONE = "response.content_part.added", "response.content_part.done"


def of_item(kind: str, deltas: int, *, in_part: bool) -> list[str]:
    around = ([PART_ADDED], [PART_DONE]) if in_part else ([], [])
    stream = [f"response.{kind}.delta"] * deltas + [f"response.{kind}.done"]
    return [ADDED, *around[0], *stream, *around[1], DONE]


@pytest.mark.parametrize(
    ("acts", "items"),
    [
        ((Call("f", "{}"),), of_item("function_call_arguments", 2, in_part=False)),
        ((Call("f", ""),), of_item("function_call_arguments", 0, in_part=False)),
        ((Call("p", "a b", custom=True),), of_item("custom_tool_call_input", 2, in_part=False)),
        (
            (Think("Hm well"), Say("Yes")),
            of_item("reasoning_text", 2, in_part=True) + of_item("output_text", 1, in_part=True),
        ),
        (
            (Say("Look"), Call("f", "{}"), Call("g", "{}")),
            of_item("output_text", 1, in_part=True)
            + of_item("function_call_arguments", 2, in_part=False) * 2,
        ),
        ((), []),
    ],
    ids=["function", "function without arguments", "custom", "reasoning", "many items", "nothing"],
)
def test_every_kind_of_item_is_added_streamed_and_done(
    gateway: RunningGateway, acts: tuple[Act, ...], items: list[str]
) -> None:
    gateway.engine.play([Reply(then=acts)])
    with Socket(gateway.url) as socket:
        socket.create("Hi")
        events = socket.until_end()
    assert kinds(events) == [*BEGIN, *items, COMPLETED]
    finished = [event["item"] for event in events if event["type"] == DONE]
    assert finished == events[-1]["response"]["output"]
    assert all(item["status"] == "completed" for item in finished)


@pytest.mark.parametrize("how", [{"generate": False}, {"prompt_cache_options": {"prewarm": True}}])
def test_a_warm_up_says_nothing_and_can_be_continued(
    gateway: RunningGateway, how: dict[str, Any]
) -> None:
    gateway.engine.play([Reply(when="word", then=(Say("Cobalt"),))])
    with Socket(gateway.url) as socket:
        socket.create([user("The word is cobalt. " * 20)], store=False, **how)
        events = socket.until_end()
        assert kinds(events) == [*BEGIN, COMPLETED]
        warm = events[-1]["response"]
        assert warm["output"] == []
        last = socket.turn("Which word?", store=False, previous_response_id=warm["id"])
    assert said(last["response"]) == "Cobalt"
    assert last["response"]["usage"]["input_tokens_details"]["cached_tokens"] > 100


def test_a_tool_call_is_answered_in_the_next_turn(gateway: RunningGateway) -> None:
    gateway.engine.play(
        [Reply(after="tool", then=(Say("Sunny."),)), Reply(then=(Call("weather", "{}"),))]
    )
    with Socket(gateway.url) as socket:
        first = socket.turn("Weather?", store=False)["response"]
        output = {
            "type": "function_call_output",
            "call_id": first["output"][0]["call_id"],
            "output": "sun",
        }
        second = socket.turn([output], store=False, previous_response_id=first["id"])
    assert said(second["response"]) == "Sunny."


# -- lanes ----------------------------------------------------------------------------------------


def test_lanes_run_beside_each_other_and_their_events_carry_their_name(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play([Reply(when="slow", then=(FOREVER,)), Reply(then=(Say("Quick."),))])
    with Socket(gateway.url) as socket:
        socket.create("slow", stream_id="a")
        socket.until("response.in_progress")
        socket.create("quick", stream_id="b.1_-")
        named = socket.until_end()
        socket.create("quick")
        unnamed = socket.until_end()
        assert gateway.engine.running() == 1
    assert {event["stream_id"] for event in named} == {"b.1_-"}
    assert texts(named) == texts(unnamed) == ["Quick."]
    assert not any("stream_id" in event for event in unnamed)
    eventually(lambda: gateway.engine.running() == 0)


@pytest.mark.parametrize("lane", [{}, {"stream_id": "a"}])
def test_a_lane_runs_its_turns_in_the_order_they_came(
    gateway: RunningGateway, lane: dict[str, str]
) -> None:
    numbers = ["one", "two", "three", "four"]
    gateway.engine.play(Reply(when=number, then=(Say(number),)) for number in numbers)
    with Socket(gateway.url) as socket:
        for number in numbers:
            socket.create(number, **lane)
        events = socket.until_ends(len(numbers))
    assert texts(events) == numbers
    owners = [event["response"]["id"] for event in events if "response" in event]
    assert len(list(itertools.groupby(owners))) == len(numbers)


@pytest.mark.parametrize("name", ["", "two words", "x" * 257, "ä"])
def test_an_invalid_lane_name_is_refused(gateway: RunningGateway, name: str) -> None:
    with Socket(gateway.url) as socket:
        assert problem(socket.turn("x", stream_id=name)) == (400, "invalid_stream_id")
        assert socket.turn("x")["type"] == COMPLETED


def test_a_connection_has_32_named_lanes(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket:
        for number in range(32):
            assert socket.turn("x", stream_id=f"lane-{number}")["type"] == COMPLETED
        refused = socket.turn("x", stream_id="lane-32")
        assert problem(refused) == (400, "websocket_stream_limit_reached")
        assert socket.turn("x", stream_id="lane-31")["type"] == COMPLETED
        assert socket.turn("x")["type"] == COMPLETED


def test_the_17th_turn_waits_until_one_has_ended(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(FOREVER,))])
    with Socket(gateway.url) as socket:
        for number in range(17):
            socket.create("x", stream_id=f"lane-{number}")
        begun = [socket.until("response.created") for _ in range(16)]
        ids = {event["stream_id"]: event["response"]["id"] for event in begun}
        assert set(ids) == {f"lane-{n}" for n in range(16)}
        eventually(lambda: gateway.engine.running() == 16)
        socket.send(type="response.interrupt", response_id=ids["lane-3"])
        ended = socket.until("response.incomplete")
        assert ended["stream_id"] == "lane-3"
        assert socket.until("response.created")["stream_id"] == "lane-16"
        eventually(lambda: gateway.engine.running() == 16)
    eventually(lambda: gateway.engine.running() == 0)


def test_too_many_waiting_turns_are_refused() -> None:
    config = configuration(limits={"turns_waiting": 2})
    with (
        RunningGateway([Reply(then=(FOREVER,))], config=config) as gateway,
        Socket(gateway.url) as socket,
    ):
        for _ in range(4):
            socket.create("x", stream_id="a")
        refused = socket.until("error")
        assert problem(refused) == (429, "too_many_waiting_turns")
        assert refused["stream_id"] == "a"


@pytest.mark.parametrize(
    "body",
    [
        {"model": "unknown"},
        {"temperature": "hot"},
        {"input": [{}]},
        {"previous_response_id": "resp_unknown"},
    ],
    ids=["unknown model", "wrong type", "wrong item", "unknown parent"],
)
def test_an_error_names_the_lane_it_happened_in(
    gateway: RunningGateway, body: dict[str, Any]
) -> None:
    with Socket(gateway.url) as socket:
        refused = socket.turn(**({"input": "x"} | body), stream_id="a")
    assert refused["type"] == "error"
    assert refused.get("stream_id") == "a"


# -- conversations --------------------------------------------------------------------------------


def test_a_turn_continues_an_unstored_one_of_its_connection_only(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket, Socket(gateway.url) as other:
        first = socket.turn("x", store=False)["response"]
        missing = other.turn("y", store=False, previous_response_id=first["id"])
        assert problem(missing) == (400, "previous_response_not_found")
        last = socket.turn("y", store=False, previous_response_id=first["id"])
        assert last["response"]["previous_response_id"] == first["id"]


def test_a_stored_turn_is_continued_on_another_connection_and_over_http(
    gateway: RunningGateway,
) -> None:
    with Socket(gateway.url) as socket:
        first = socket.turn("The word is cobalt.")["response"]
    with Socket(gateway.url) as socket:
        second = socket.turn("Go on.", previous_response_id=first["id"])["response"]
    body = {"input": "Go on.", "previous_response_id": second["id"]}
    third = gateway.http.post(RESPONSES, json=body).json()
    lengths = [turn["usage"]["input_tokens"] for turn in (first, second, third)]
    assert lengths == sorted(set(lengths))


def test_a_conversation_forks_into_lanes_that_go_their_own_way(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when=name, then=(Say(name),)) for name in ("left", "right")])
    with Socket(gateway.url) as socket:
        root = socket.turn("root", store=False)["response"]
        for name in ("left", "right"):
            socket.create(name, store=False, stream_id=name, previous_response_id=root["id"])
        events = socket.until_ends(2)
        ends = {
            event["stream_id"]: event["response"]
            for event in events
            if "stream_id" in event and event["type"] == COMPLETED
        }
        assert {name: said(end) for name, end in ends.items()} == {"left": "left", "right": "right"}
        for name, end in ends.items():
            deeper = socket.turn(name, store=False, stream_id=name, previous_response_id=end["id"])
            assert deeper["type"] == COMPLETED


def test_a_deleted_turn_is_not_continued_from_a_lanes_memory(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket:
        first = socket.turn("The word is cobalt.")["response"]
        child = socket.turn("Go on.", stream_id="a", previous_response_id=first["id"])["response"]
        assert gateway.http.delete(f"{RESPONSES}/{first['id']}").status_code == 200
        for parent, lane in ((first, {}), (child, {"stream_id": "a"})):
            again = socket.turn("Which word?", previous_response_id=parent["id"], **lane)
            assert problem(again) == (400, "previous_response_not_found")


UNKNOWN_OUTPUT = [{"type": "function_call_output", "call_id": "call_unknown", "output": ""}]


@pytest.mark.parametrize("wrong", [UNKNOWN_OUTPUT, "fail"], ids=["refused", "failed"])
def test_a_failed_continuation_evicts_the_parent_from_its_lane(
    gateway: RunningGateway, wrong: Any
) -> None:
    gateway.engine.play([Reply(when="fail", then=(Fail(),))])
    with Socket(gateway.url) as socket:
        first = socket.turn("x", store=False)["response"]
        chained = {"store": False, "previous_response_id": first["id"]}
        assert socket.turn(wrong, **chained)["type"] in ("error", "response.failed")
        assert problem(socket.turn("y", **chained)) == (400, "previous_response_not_found")


@pytest.mark.parametrize("wrong", [UNKNOWN_OUTPUT, "fail"], ids=["refused", "failed"])
def test_a_failed_fork_leaves_the_parent_in_its_own_lane(
    gateway: RunningGateway, wrong: Any
) -> None:
    gateway.engine.play([Reply(when="fail", then=(Fail(),))])
    with Socket(gateway.url) as socket:
        first = socket.turn("x", store=False)["response"]
        chained = {"store": False, "previous_response_id": first["id"]}
        forked = socket.turn(wrong, **chained, stream_id="fork")
        assert forked["type"] in ("error", "response.failed")
        assert socket.turn("y", **chained)["type"] == COMPLETED


# -- completions ----------------------------------------------------------------------------------

GAP = {"prefix": "def f():\n    " * 20, "suffix": "\n\nf()\n", "path": "m.py"}


def test_a_gap_is_filled_with_text_and_nothing_of_it_is_kept(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="retu$", then=(Say("rn 1"),))])
    with Socket(gateway.url) as socket:
        chat = socket.turn("Hi", store=False)["response"]
        last = socket.turn(fill=GAP | {"typed": "retu"})["response"]
        assert (said(last), last["store"]) == ("rn 1", False)
        again = socket.turn("And?", store=False, previous_response_id=chat["id"])
        assert again["type"] == COMPLETED, "a completion takes no conversation's place"
        late = socket.turn("And?", previous_response_id=last["id"])
        assert problem(late) == (400, "previous_response_not_found")


def test_a_gap_that_was_warmed_is_read_already_when_somebody_types_in_it(
    gateway: RunningGateway,
) -> None:
    with Socket(gateway.url) as socket:
        socket.create(fill=GAP, generate=False)
        assert kinds(socket.until_end()) == [*BEGIN, COMPLETED]
        usage = socket.turn(fill=GAP | {"typed": "return x"})["response"]["usage"]
        assert 0 < usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"] < 4


def test_an_interrupted_fill_makes_room_for_the_next_of_its_lane(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="re$", then=(Say("x"), FOREVER)), Reply(then=(Say("turn"),))])
    with Socket(gateway.url) as socket:
        socket.create(fill=GAP | {"typed": "re"}, stream_id="m.py")
        begun = socket.read()["response"]["id"]
        socket.create(fill=GAP | {"typed": "ret"}, stream_id="m.py")
        socket.send(type="response.interrupt", response_id=begun)
        assert socket.until_end()[-1]["type"] == "response.incomplete"
        assert texts(socket.until_end()) == ["turn"]


# -- interrupting ---------------------------------------------------------------------------------


def test_an_interrupt_drops_the_item_in_the_making_and_the_lane_goes_on(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play(
        [
            Reply(when="go on", then=(Say("Again."),)),
            Reply(then=(Call("f", "{}"), Say("Well"), FOREVER)),
        ]
    )
    with Socket(gateway.url) as socket:
        socket.create("x", store=False)
        begun = socket.read()["response"]
        item = socket.until("response.output_text.delta")["item_id"]
        mode = "discard_partial_items"
        socket.send(type="response.interrupt", response_id=begun["id"], mode=mode)
        events = socket.until_end()
        assert kinds(events) == [
            "response.interrupt.accepted",
            "response.output_item.interrupted",
            "response.incomplete",
        ]
        assert events[0]["response_id"] == begun["id"]
        assert events[1]["item_id"] == item
        ended = events[2]["response"]
        assert ended["incomplete_details"] == {"reason": "interrupted"}
        assert [item["type"] for item in ended["output"]] == ["function_call"]
        assert gateway.engine.running() == 0
        last = socket.turn("go on", store=False, previous_response_id=begun["id"])
        assert texts([last]) == ["Again."]


def test_only_what_runs_here_can_be_interrupted(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(FOREVER,))])
    with Socket(gateway.url) as socket, Socket(gateway.url) as other:
        socket.create("x")
        running = socket.read()["response"]["id"]
        for response_id in (running, "resp_unknown"):
            other.send(type="response.interrupt", response_id=response_id)
            assert problem(other.read()) == (404, "response_not_found")
        assert gateway.engine.running() == 1


# -- frames ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "code", "param"),
    [
        ("", "invalid_json", None),
        ("garbage", "invalid_json", None),
        ("[1]", "invalid_type", None),
        ("{}", "invalid_value", "type"),
        ('{"type": "response.dance"}', "invalid_value", "type"),
        ('{"type": "response.create"}', "missing_required_parameter", "input"),
        ('{"type": "response.create", "input": 5}', "invalid_type", "input"),
        ('{"type": "response.interrupt"}', "missing_required_parameter", "response_id"),
        ('{"type": "response.steer"}', "missing_required_parameter", "previous_response_id"),
        (b"\xff\xfe", "invalid_json", None),
        ('{"type": "response.create", "input": ' + "[" * 100_000, "invalid_json", None),
    ],
)
def test_a_bad_frame_is_answered_and_the_connection_lives_on(
    gateway: RunningGateway, frame: str | bytes, code: str, param: str | None
) -> None:
    with Socket(gateway.url) as socket:
        socket.raw.send(frame)
        refused = socket.read()
        assert problem(refused) == (400, code)
        assert refused["error"]["param"] == param
        assert socket.turn("x")["type"] == COMPLETED


def test_a_request_may_come_in_a_binary_frame(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket:
        socket.raw.send(json.dumps({"type": "response.create", "input": "x"}).encode())
        assert socket.until_end()[-1]["type"] == COMPLETED


def test_a_request_may_come_in_fragments(gateway: RunningGateway) -> None:
    with Socket(gateway.url) as socket:
        socket.raw.send(iter(['{"type": "response.', 'create", "input"', ': "x"}']))
        assert socket.until_end()[-1]["type"] == COMPLETED


# -- connections ----------------------------------------------------------------------------------


def test_an_old_connection_takes_no_new_turns_but_finishes_the_running_one() -> None:
    replies = [Reply(then=(FOREVER, Say("Done.")))]
    with RunningGateway(replies) as gateway, Socket(gateway.url) as socket:
        socket.create("x", stream_id="a")
        socket.until("response.created")
        for each in gateway.gateway.door._sockets:
            each.opened -= 24 * 3600
        gateway.go_on()
        assert texts(socket.until_end()) == ["Done."]
        late = socket.turn("x", stream_id="b")
        assert problem(late) == (400, "websocket_connection_limit_reached")


def test_an_upgrade_needs_a_known_key_an_allowed_origin_and_the_right_path() -> None:
    config = configuration(keys=keys("ada"))
    with RunningGateway(config=config) as gateway:
        for url, headers, status in (
            (gateway.url, {}, 401),
            (gateway.url, {"Authorization": "Bearer wrong"}, 401),
            (gateway.url, {**bearer("ada"), "Origin": "https://stranger.example"}, 403),
            (gateway.url + "/elsewhere", bearer("ada"), 404),
        ):
            with pytest.raises(InvalidStatus) as refused:
                Socket(url, headers)
            answer = refused.value.response
            assert answer.status_code == status
            assert json.loads(answer.body or b"")["error"]["message"]
        with Socket(gateway.url, {**bearer("ada"), "x-client-request-id": "mine"}) as socket:
            assert socket.turn("x")["type"] == COMPLETED
            assert socket.raw.response is not None
            assert socket.raw.response.headers["x-request-id"] == "mine"


def test_one_connection_too_many_is_told_to_try_later() -> None:
    with RunningGateway(config=configuration(limits={"connections": 1})) as gateway:
        with Socket(gateway.url) as first:
            with pytest.raises(InvalidStatus) as refused:
                Socket(gateway.url)
            assert refused.value.response.status_code == 503
            assert refused.value.response.headers["retry-after"] == "5"
            assert first.turn("x")["type"] == COMPLETED
        eventually(lambda: not gateway.gateway.connections._open)
        with Socket(gateway.url) as third:
            assert third.turn("x")["type"] == COMPLETED


@pytest.mark.parametrize("abruptly", [False, True])
def test_a_client_that_leaves_frees_its_places_in_the_engine(
    gateway: RunningGateway, abruptly: bool
) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), FOREVER))])
    socket = Socket(gateway.url)
    for lane in ("a", "b", "c"):
        socket.create("x", stream_id=lane)
    eventually(lambda: gateway.engine.running() == 3)
    if abruptly:
        socket.vanish()
    else:
        socket.raw.close()
    eventually(lambda: gateway.engine.running() == 0)


@pytest.mark.parametrize("chained", [False, True])
def test_a_client_that_leaves_in_the_same_breath_leaves_no_turn_behind(
    gateway: RunningGateway, chained: bool
) -> None:
    """The turn has been asked for but not begun, or its parent is still being looked for."""
    gateway.engine.play([Reply(when="long", then=(Say("x"), FOREVER))])
    parent = gateway.http.post(RESPONSES, json={"input": "x"}).json()["id"]
    for _ in range(5):
        socket = Socket(gateway.url)
        socket.create("long", **({"previous_response_id": parent} if chained else {}))
        socket.raw.close()
    eventually(lambda: gateway.engine.running() == 0 and not gateway.gateway.door._sockets)


# -- readers slower than the engine ---------------------------------------------------------------

LUMP = " " * 180_000
"""One token of the scripted engine; forty of them fill every buffer on the way."""
FLOOD = Say(LUMP, times=40)
_STUCK = 30
"""Looks, one after the other, at which a client has taken nothing."""


@pytest.fixture
def fast() -> Iterator[RunningGateway]:
    with RunningGateway(config=configuration(engine={"rate": 20_000})) as running:
        yield running


def stuck(gateway: RunningGateway) -> None:
    """Wait until the server has had to stop sending to somebody."""
    eventually(lambda: gateway.engine.running() > 0)

    looks = Counter[tuple[int, float]]()

    def one_waits() -> bool:
        waiting = list(gateway.gateway.connections._unread.values())
        looks.update((id(unread), unread.since) for unread in waiting)
        return any(count >= _STUCK for count in looks.values())

    eventually(one_waits)


def test_a_reader_that_was_away_gets_everything_in_fewer_pieces(fast: RunningGateway) -> None:
    fast.engine.play([Reply(then=(FLOOD, Say("a ", times=2000), Say("end")))])
    with Socket(fast.url, receive_buffer=4096) as socket:
        socket.create("x")
        stuck(fast)
        eventually(lambda: fast.engine.running() == 0)
        events = socket.until_end()
    deltas = [event["delta"] for event in events if "delta" in event]
    whole = LUMP * 40 + "a " * 2000 + "end"
    assert "".join(deltas) == said(events[-1]["response"]) == whole
    assert len(deltas) < 300


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(Say("a " * 2000), id="text"),
        pytest.param(Think("a " * 2000), id="reasoning", marks=pytest.mark.release),
        pytest.param(Call("f", "a " * 2000), id="call", marks=pytest.mark.release),
    ],
)
def test_what_waits_for_an_absent_reader_is_joined_not_queued(
    fast: RunningGateway, act: Act
) -> None:
    fast.engine.play([Reply(then=(FLOOD, act, FOREVER))])
    with Socket(fast.url, receive_buffer=4096) as socket:
        socket.create("x")
        stuck(fast)
        [request] = fast.engine._requests
        eventually(lambda: request.stalled_until > 0)
        assert len(request._ready) < 300
        socket.vanish()


def test_an_absent_reader_is_closed_and_nobody_else_is_disturbed() -> None:
    config = configuration(limits={"slow_reader_seconds": 0.5})
    replies = [
        Reply(when="flood", then=(FLOOD, FOREVER)),
        Reply(then=(Say("steady ", times=100),)),
    ]
    with (
        RunningGateway(replies, config=config) as gateway,
        Socket(gateway.url, receive_buffer=4096) as absent,
        Socket(gateway.url) as present,
    ):
        absent.create("flood")
        eventually(lambda: gateway.engine.running() > 0)
        while len(gateway.gateway.door._sockets) == 2:
            assert texts([present.turn("x")]) == ["steady " * 100]
        eventually(lambda: gateway.engine.running() == 0)
        # The connection itself must go too, with all that waits in its buffer.
        eventually(lambda: len(gateway._server.server_state.connections) == 1)
        assert texts([present.turn("x")]) == ["steady " * 100]
        with pytest.raises(ConnectionClosed):
            absent.until_end()


def test_an_interrupt_while_the_reader_is_away_leaves_no_gap(fast: RunningGateway) -> None:
    fast.engine.play([Reply(then=(FLOOD, FOREVER))])
    with Socket(fast.url, receive_buffer=4096) as socket:
        socket.create("x")
        running = socket.read()
        stuck(fast)
        socket.send(type="response.interrupt", response_id=running["response"]["id"])
        events = [running, *socket.until_end()]
    numbers = [event["sequence_number"] for event in events if "sequence_number" in event]
    assert events[-1]["type"] == "response.incomplete"
    assert numbers == list(range(len(numbers)))
