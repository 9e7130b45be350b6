"""Chat Completions and Completions: the older doors, byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.http import bearer, keys, sse
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.engines.scripted import Act, Call, Die, Fail, Recite, Reply, Say, Stall, Think

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
FOREVER = Stall(60)

HELLO = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {CHAT: {"messages": HELLO}, TEXT: {"prompt": "def "}}
both_doors = pytest.mark.parametrize("door", [CHAT, TEXT])


@pytest.fixture
def http(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with gateway.http as client:
        yield client


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    """For tests that leave nothing behind: one gateway serves them all."""
    with RunningGateway() as gateway, gateway.http as client:
        yield client


def ask(http: httpx.Client, door: str = CHAT, **body: Any) -> dict[str, Any]:
    answer = http.post(door, json=BODIES[door] | body)
    assert answer.status_code == 200, answer.text
    [choice] = answer.json()["choices"]
    found: dict[str, Any] = choice
    return found


def stream(http: httpx.Client, door: str = CHAT, **body: Any) -> list[dict[str, Any]]:
    text = http.post(door, json=BODIES[door] | {"stream": True} | body).text
    assert text.endswith("data: [DONE]\n\n")
    return list(sse(text.splitlines()))


def deltas(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]


# -- chat -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("acts", "message", "reason"),
    [
        ((Say("Good day."),), {"content": "Good day."}, "stop"),
        (
            (Think("Hm."), Say("Yes.")),
            {"content": "Yes.", "reasoning_content": "Hm."},
            "stop",
        ),
        ((), {"content": None}, "stop"),
    ],
    ids=["text", "reasoning", "nothing"],
)
def test_an_answer_is_one_message(
    gateway: RunningGateway,
    http: httpx.Client,
    acts: tuple[Act, ...],
    message: dict[str, Any],
    reason: str,
) -> None:
    gateway.engine.play([Reply(then=acts)])
    choice = ask(http)
    assert choice["message"] == {"role": "assistant", "refusal": None} | message
    assert choice["finish_reason"] == reason


def test_a_stream_begins_with_the_role_and_ends_with_the_reason(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play(
        [
            Reply(
                then=(
                    Think("Hm."),
                    Say("Good day."),
                )
            )
        ]
    )
    chunks = stream(http)
    first, *middle, last = deltas(chunks)
    assert first == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in middle) == "Good day."
    assert "".join(delta.get("reasoning_content", "") for delta in middle) == "Hm."
    assert last == {}
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert not any(chunk.get("usage") for chunk in chunks)


@both_doors
def test_usage_comes_last_when_it_is_asked_for(
    gateway: RunningGateway, http: httpx.Client, door: str
) -> None:
    gateway.engine.play([Reply(then=(Say("one two"),))])
    *_, last = stream(http, door, stream_options={"include_usage": True})
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 2
    assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + 2


def test_tool_calls_stream_by_their_index(gateway: RunningGateway, http: httpx.Client) -> None:
    gateway.engine.play([Reply(then=(Call("f", '{"a": 1}'), Call("p", "a b", custom=True)))])
    chunks = stream(http)
    calls: dict[int, dict[str, Any]] = {}
    for delta in deltas(chunks):
        for piece in delta.get("tool_calls", ()):
            call = calls.setdefault(piece["index"], {"text": ""})
            body = piece.get("function") or piece.get("custom")
            call["text"] += body.get("arguments", "") + body.get("input", "")
            call.update({key: piece[key] for key in ("id", "type") if key in piece})
    assert [call["text"] for call in calls.values()] == ['{"a": 1}', "a b"]
    assert [call["type"] for call in calls.values()] == ["function", "custom"]
    assert len({call["id"] for call in calls.values()}) == 2
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_tool_is_called_and_its_output_answered(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play(
        [
            Reply(when="sun", after="tool", then=(Say("Sunny."),)),
            Reply(then=(Call("weather", '{"city": "Oslo"}'),)),
        ]
    )
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    choice = ask(http, tools=[tool])
    assert choice["finish_reason"] == "tool_calls"
    [call] = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "Oslo"}'}
    output = {"role": "tool", "tool_call_id": call["id"], "content": "sun"}
    last = ask(http, messages=[*HELLO, choice["message"], output], tools=[tool])
    assert last["message"]["content"] == "Sunny."


# -- both -----------------------------------------------------------------------------------------


def test_plain_text_is_continued(gateway: RunningGateway, http: httpx.Client) -> None:
    gateway.engine.play([Reply(when="^def $", then=(Say("add(a, b):"),))])
    choice = ask(http, TEXT, suffix="\n    return a + b")
    assert (choice["text"], choice["finish_reason"]) == ("add(a, b):", "stop")
    chunks = stream(http, TEXT, prompt=["def "])
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "add(a, b):"
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_gap_reaches_the_engine_as_it_was_sent(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(when="^def ad$", then=(Recite(),))])
    file = {"path": "n.py", "text": "x = 1"}
    gap = {"suffix": "\n", "typed": "ad", "starts_with": "d"}
    choice = ask(http, TEXT, files=[file], **gap)
    assert choice["text"] == Recite.text([("file", "x = 1"), ("prefix", "def "), *gap.items()])


@both_doors
def test_a_limit_on_output_ends_it_by_length(
    gateway: RunningGateway, http: httpx.Client, door: str
) -> None:
    gateway.engine.play([Reply(then=(Say("one two three"),))])
    assert ask(http, door, max_tokens=2)["finish_reason"] == "length"
    chunks = stream(http, door, max_tokens=2)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


def test_nothing_of_it_is_stored(gateway: RunningGateway, http: httpx.Client) -> None:
    made = http.post(CHAT, json={"messages": HELLO}).json()
    response_id = made["id"].replace("chatcmpl-", "resp_")
    assert http.get(f"/v1/responses/{response_id}").status_code == 404


@pytest.mark.parametrize(
    ("door", "body", "param"),
    [
        (CHAT, {}, "messages"),
        (CHAT, {"messages": "Hi"}, "messages"),
        (CHAT, {"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        (CHAT, {"messages": HELLO, "n": 2}, "n"),
        (CHAT, {"messages": HELLO, "temperature": "hot"}, "temperature"),
        (
            CHAT,
            {"messages": HELLO, "response_format": {"type": "json_schema"}},
            "response_format.json_schema",
        ),
        (CHAT, {"messages": HELLO, "tools": [{"type": "function"}]}, "tools[0].function"),
        (CHAT, {"messages": []}, "messages"),
        (
            CHAT,
            {"messages": [*HELLO, {"role": "tool", "tool_call_id": "c", "content": "x"}]},
            "messages[1].tool_call_id",
        ),
        (TEXT, {}, "prompt"),
        (TEXT, {"prompt": ["a", "b"]}, "prompt"),
        (TEXT, {"prompt": "a", "top_p": 2}, "top_p"),
    ],
)
def test_a_wrong_request_is_refused_by_the_name_of_what_is_wrong(
    plain: httpx.Client, door: str, body: dict[str, Any], param: str
) -> None:
    answer = plain.post(door, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


def test_a_chat_about_nothing_is_refused_in_the_words_of_a_chat(plain: httpx.Client) -> None:
    error = plain.post(CHAT, json={"messages": []}).json()["error"]
    assert error["message"] == "Missing required field 'messages'."


def test_an_image_is_refused_by_the_name_of_its_part(plain: httpx.Client) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": "What is this?"}, picture]
    answer = plain.post(CHAT, json={"messages": [*HELLO, {"role": "user", "content": parts}]})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert (error["code"], error["param"]) == ("unsupported_content", "messages[1].content[1]")


@both_doors
@pytest.mark.parametrize("streaming", [False, True])
def test_an_unknown_model_is_not_found(plain: httpx.Client, door: str, streaming: bool) -> None:
    answer = plain.post(door, json=BODIES[door] | {"model": "unknown", "stream": streaming})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"


@both_doors
def test_a_failed_answer_is_an_error(
    gateway: RunningGateway, http: httpx.Client, door: str
) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), Fail("Out of luck.")))])
    answer = http.post(door, json=BODIES[door])
    assert answer.status_code == 503
    assert answer.json()["error"]["message"] == "Out of luck."
    assert stream(http, door)[-1]["error"]["message"] == "Out of luck."


@both_doors
def test_a_dead_engine_takes_nothing(
    gateway: RunningGateway, http: httpx.Client, door: str
) -> None:
    gateway.engine.play([Reply(then=(Die(),))])
    http.post(door, json=BODIES[door])
    answer = http.post(door, json=BODIES[door])
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_unavailable"


@both_doors
@pytest.mark.parametrize("streaming", [False, True])
def test_a_client_that_leaves_frees_its_place_in_the_engine(
    gateway: RunningGateway, door: str, streaming: bool
) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), FOREVER))])
    impatient = httpx.Timeout(10, read=0.2)
    with gateway.http as http, pytest.raises(httpx.ReadTimeout):
        http.post(door, json=BODIES[door] | {"stream": streaming}, timeout=impatient)
    eventually(lambda: gateway.engine.running() == 0)


@both_doors
def test_a_key_is_needed_where_there_are_keys(door: str) -> None:
    with RunningGateway(config=configuration(keys=keys("ada"))) as gateway:
        assert gateway.http.post(door, json=BODIES[door]).status_code == 401
        known = gateway.http.post(door, json=BODIES[door], headers=bearer("ada"))
        assert known.status_code == 200
