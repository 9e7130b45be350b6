"""Anthropic's own Python SDK as the client: what it sends is taken, what it parses is right."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace

import anthropic
import pytest
from anthropic import Anthropic
from anthropic.types import MessageParam, ToolParam

from tests.support.http import key, keys
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.socket import Socket
from vivace.engines.scripted import Call, Fail, Recite, Reply, Say, Stall, Think

HELLO: list[MessageParam] = [{"role": "user", "content": "Hi"}]
WEATHER: ToolParam = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}


def connected(gateway: RunningGateway, retries: int = 0, api_key: str = "unused") -> Anthropic:
    url = gateway.url.removesuffix("/v1")
    return Anthropic(base_url=url, api_key=api_key, max_retries=retries)


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[Anthropic]:
    with connected(gateway) as made:
        yield made


def test_a_message_is_created(gateway: RunningGateway, client: Anthropic) -> None:
    gateway.engine.play([Reply(then=(Think("Hm."), Say("Good day.")))])
    made = client.messages.create(
        model="claude-sonnet-5", max_tokens=100, messages=HELLO, system="Be brief."
    )
    thought, text = made.content
    assert thought.type == "thinking"
    assert thought.thinking == "Hm."
    assert text.type == "text"
    assert text.text == "Good day."
    assert (made.model, made.stop_reason) == (MODEL, "end_turn")
    assert made.usage.input_tokens > 0
    assert made._request_id


def test_the_stream_helper_builds_the_message_from_its_events(
    gateway: RunningGateway, client: Anthropic
) -> None:
    gateway.engine.play(
        [Reply(then=(Think("Hm."), Say("Good day."), Call("weather", '{"city": "Oslo"}')))]
    )
    with client.messages.stream(
        model=MODEL, max_tokens=100, messages=HELLO, tools=[WEATHER]
    ) as stream:
        inputs = [e.snapshot for e in stream if e.type == "input_json"]
        final = stream.get_final_message()
        assert stream.get_final_text() == "Good day."
    assert inputs[-1] == {"city": "Oslo"}
    assert [block.type for block in final.content] == ["thinking", "text", "tool_use"]
    assert final.stop_reason == "tool_use"
    assert final.usage.output_tokens > 3


def test_a_tools_round_trip(gateway: RunningGateway, client: Anthropic) -> None:
    gateway.engine.play(
        [
            Reply(when="^sun$", after="tool", then=(Recite(),)),
            Reply(then=(Say("Let me see."), Call("weather", '{"city": "Oslo"}'))),
        ]
    )
    with client.messages.stream(
        model=MODEL, max_tokens=100, messages=HELLO, tools=[WEATHER]
    ) as stream:
        first = stream.get_final_message()
    call = first.content[1]
    assert call.type == "tool_use"
    messages: list[MessageParam] = [
        *HELLO,
        {"role": "assistant", "content": first.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sun"}],
        },
    ]
    last = client.messages.create(model=MODEL, max_tokens=100, messages=messages, tools=[WEATHER])
    [text] = last.content
    assert text.type == "text"
    assert text.text == Recite.text(
        [
            ("user", "Hi"),
            ("assistant", "Let me see."),
            ("function_call", json.dumps({"city": "Oslo"})),
            ("function_call_output", "sun"),
        ]
    )


def test_tokens_are_counted(client: Anthropic) -> None:
    short = client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens
    with_tool = client.messages.count_tokens(model=MODEL, messages=HELLO, tools=[WEATHER])
    assert 0 < short < with_tool.input_tokens


# -- errors ---------------------------------------------------------------------------------------


def test_a_request_over_the_limit_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tier = {"name": MODEL, "engines": ["scripted"], "limits": {"concurrency": 1}}
    config = configuration(tiers=[tier], engine={"model": "other"})
    busy = Reply(when="^busy$", then=(Say("word"), Stall(3600)))
    replies = [busy, Reply(then=(Say("Hello."),))]
    with RunningGateway(replies, config=config) as gateway, Socket(gateway.url) as socket:
        socket.create("busy")
        socket.until("response.output_text.delta")
        with connected(gateway) as impatient, pytest.raises(anthropic.RateLimitError) as caught:
            impatient.messages.create(model=MODEL, max_tokens=10, messages=HELLO)
        assert int(caught.value.response.headers["retry-after"]) >= 1
        assert caught.value.type == "rate_limit_error"

        def pause(seconds: float) -> None:
            if gateway.engine.running():
                gateway.go_on()
                socket.until("response.completed")
            else:  # its end is known to the client before its place is free
                time.sleep(seconds)

        clock = SimpleNamespace(**{**vars(time), "sleep": pause})
        monkeypatch.setattr("anthropic._base_client.time", clock)
        with connected(gateway, retries=5) as patient:
            made = patient.messages.create(model=MODEL, max_tokens=10, messages=HELLO)
        assert made.stop_reason == "end_turn"


def test_a_prompt_that_is_too_long_is_a_bad_request() -> None:
    config = configuration(engine={"context": 100})
    long: list[MessageParam] = [{"role": "user", "content": "word " * 200}]
    with (
        RunningGateway(config=config) as gateway,
        connected(gateway, retries=2) as client,
        pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 99"),
    ):
        client.messages.create(model=MODEL, max_tokens=10, messages=long)


def test_keys_are_known_or_not() -> None:
    with RunningGateway(config=configuration(keys=keys("ada"))) as gateway:
        with connected(gateway, api_key="wrong") as unknown:
            with pytest.raises(anthropic.AuthenticationError) as caught:
                unknown.messages.create(model=MODEL, max_tokens=10, messages=HELLO)
            assert caught.value.type == "authentication_error"
        with connected(gateway, api_key=key("ada")) as known:
            assert known.messages.create(model=MODEL, max_tokens=10, messages=HELLO).content
        url = gateway.url.removesuffix("/v1")
        with Anthropic(base_url=url, auth_token=key("ada"), max_retries=0) as by_token:
            assert by_token.messages.create(model=MODEL, max_tokens=10, messages=HELLO).content


def test_an_unknown_model_is_not_found(client: Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="gpt-9", max_tokens=10, messages=HELLO)


def test_a_failure_in_mid_stream_is_raised(gateway: RunningGateway, client: Anthropic) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), Fail("Out of luck.")))])
    with (
        client.messages.stream(model=MODEL, max_tokens=10, messages=HELLO) as stream,
        pytest.raises(anthropic.APIStatusError, match=r"Out of luck\."),
    ):
        stream.get_final_message()
