"""What the Open Responses acceptance suite asks of a server, one test for each of its seventeen.

The witness checks every object and event against the schema, as the suite does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http import RESPONSES, said, sse, user
from tests.support.server import MODEL, RunningGateway
from tests.support.socket import Socket
from tests.support.wire_schema import wire_schema
from vivace.engines.scripted import Call, Reply, Say

COMPACT = f"{RESPONSES}/compact"


@pytest.fixture(scope="module")
def served() -> Iterator[RunningGateway]:
    replies = [
        Reply(when="weather", after="message", then=(Call("get_weather", '{"city": "Oslo"}'),)),
        Reply(then=(Say("Certainly."),)),
    ]
    with RunningGateway(replies) as gateway:
        yield gateway


def answer(gateway: RunningGateway, *items: dict[str, Any], **body: Any) -> dict[str, Any]:
    """The response to these items, which must be complete and say something."""
    got = gateway.http.post(RESPONSES, json={"model": MODEL, "input": items, **body})
    assert got.status_code == 200, got.text
    response: dict[str, Any] = got.json()
    assert response["status"] == "completed"
    assert response["output"]
    return response


def turn(socket: Socket, text: Any, **body: Any) -> dict[str, Any]:
    """The response to one unstored turn, which must be complete."""
    last = socket.turn(text, model=MODEL, store=False, **body)
    assert last["type"] == "response.completed", last
    response: dict[str, Any] = last["response"]
    return response


def refusal(socket: Socket, text: Any, **body: Any) -> str:
    last = socket.turn(text, model=MODEL, store=False, **body)
    assert last["type"] == "error", last
    code: str = last["error"]["code"]
    return code


def assistant(text: str, **more: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, **more}


def test_basic_response(served: RunningGateway) -> None:
    assert said(answer(served, user("Greet me."))) == "Certainly."


def test_assistant_phase(served: RunningGateway) -> None:
    answer(
        served,
        assistant("Let me look it up.", phase="commentary"),
        assistant("It is nine.", phase="final_answer"),
        user("Say it again."),
    )


@pytest.mark.parametrize("phase", ["commentary", "final_answer"])
def test_response_output_phase_schema(served: RunningGateway, phase: str) -> None:
    """The suite checks its own schema here; we check that ours keeps the label."""
    made = answer(served, assistant("Nine.", phase=phase), user("Say it again."))
    items = served.http.get(f"{RESPONSES}/{made['id']}/input_items").json()["data"]
    assert [item["phase"] for item in items if item["role"] == "assistant"] == [phase]
    labelled = {**made, "output": [item for item in items if item["role"] == "assistant"]}
    assert wire_schema().problems(labelled, "ResponseResource") == []


def test_streaming_response(served: RunningGateway) -> None:
    body = {"model": MODEL, "input": [user("Count.")], "stream": True}
    text = served.http.post(RESPONSES, json=body).text
    assert text.endswith("data: [DONE]\n\n")
    assert list(sse(text.splitlines()))[-1]["type"] == "response.completed"


def test_websocket_response(served: RunningGateway) -> None:
    with Socket(served.url) as socket:
        socket.create([user("Count.")], model=MODEL)
        assert socket.until_end()[-1]["type"] == "response.completed"


def test_websocket_sequential_responses(served: RunningGateway) -> None:
    with Socket(served.url) as socket:
        assert turn(socket, "One.")["id"] != turn(socket, "Two.")["id"]


def test_websocket_continuation(served: RunningGateway) -> None:
    with Socket(served.url) as socket:
        first = turn(socket, "The word is basalt.")
        second = turn(socket, "Which word?", previous_response_id=first["id"])
    assert second["usage"]["input_tokens"] > first["usage"]["total_tokens"]


def test_websocket_reconnect_store_false_recovery(served: RunningGateway) -> None:
    with Socket(served.url) as socket:
        first = turn(socket, "The word is basalt.")
    with Socket(served.url) as socket:
        code = refusal(socket, "Which word?", previous_response_id=first["id"])
        assert code == "previous_response_not_found"
        turn(socket, [user("The word is basalt. Which word?")])


def test_websocket_previous_response_not_found(served: RunningGateway) -> None:
    with Socket(served.url) as socket:
        code = refusal(socket, "Go on.", previous_response_id="resp_never_made")
    assert code == "previous_response_not_found"


def test_websocket_failed_continuation_evicts_cache(served: RunningGateway) -> None:
    with Socket(served.url) as socket:
        chained = {"previous_response_id": turn(socket, "The word is basalt.")["id"]}
        stray = {"type": "function_call_output", "call_id": "call_never_made", "output": "?"}
        assert refusal(socket, [stray], **chained) == "tool_call_not_found"
        assert refusal(socket, "Go on.", **chained) == "previous_response_not_found"


def test_websocket_compact_new_chain(served: RunningGateway) -> None:
    past = [user("The word is basalt."), assistant("Noted."), user("Keep it short.")]
    window = served.http.post(COMPACT, json={"model": MODEL, "input": past}).json()["output"]
    with Socket(served.url) as socket:
        fresh = turn(socket, [*window, user("Go on.")], tools=[])
    assert fresh["previous_response_id"] is None


def test_system_prompt(served: RunningGateway) -> None:
    answer(served, {"type": "message", "role": "system", "content": "Be brief."}, user("Hello."))


def test_tool_calling(served: RunningGateway) -> None:
    parameters = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    tool = {"type": "function", "name": "get_weather", "parameters": parameters}
    [call] = answer(served, user("How is the weather in Oslo?"), tools=[tool])["output"]
    assert (call["type"], call["name"]) == ("function_call", "get_weather")
    assert call["arguments"] == '{"city": "Oslo"}'


def test_image_input(served: RunningGateway) -> None:
    """No model here can see, which is said at once and by the name of the part."""
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    parts = [{"type": "input_text", "text": "What is this?"}, picture]
    message = {"type": "message", "role": "user", "content": parts}
    got = served.http.post(RESPONSES, json={"model": MODEL, "input": [message]})
    assert got.status_code == 400
    error = got.json()["error"]
    assert error["code"] == "unsupported_content"
    assert error["param"] == "input[0].content[1]"
    assert "image" in error["message"]


def test_multi_turn(served: RunningGateway) -> None:
    answer(served, user("I am Ada."), assistant("Good day, Ada."), user("Who am I?"))


def test_compact_response(served: RunningGateway) -> None:
    body = {
        "model": MODEL,
        "prompt_cache_key": "acceptance",
        "input": [user("We meet on Friday."), assistant("Friday it is.")],
    }
    got = served.http.post(COMPACT, json=body)
    assert got.status_code == 200
    assert got.json()["object"] == "response.compaction"
    assert [item["type"] for item in got.json()["output"]] == ["compaction"]


def test_compact_missing_model(served: RunningGateway) -> None:
    got = served.http.post(COMPACT, json={"input": [user("Make it short.")]})
    assert got.status_code == 400
    assert got.json()["error"]["param"] == "model"
