"""A client's trace is found in the log, and by the engine that answers."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.http import RESPONSES, sse
from tests.support.plain_endpoint import PlainEndpoint
from tests.support.plain_endpoint import sse as pieces
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket

TRACE, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "a" * 32
PARENT, ELSE = f"00-{TRACE}-00f067aa0ba902b7-01", f"00-{OTHER}-00f067aa0ba902b7-00"


@pytest.fixture
def endpoint() -> Iterator[PlainEndpoint]:
    end = {"choices": [{"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}]}
    with PlainEndpoint({"/v1/chat/completions": lambda _: pieces(end, "[DONE]")}) as endpoint:
        yield endpoint


@pytest.fixture
def far(endpoint: PlainEndpoint) -> Iterator[RunningGateway]:
    engines = [
        {"name": "scripted", "kind": "scripted", "model": "near"},
        {"name": "far", "kind": "openai", "model": "far", "url": endpoint.url},
    ]
    with RunningGateway(config=configuration(engines=engines)) as gateway:
        yield gateway


def sent_on(endpoint: PlainEndpoint) -> list[str]:
    """The traces that the engine was told, of all its requests."""
    lines = b"".join(endpoint.heard).decode().splitlines()
    return [line.partition(": ")[2] for line in lines if line.lower().startswith("traceparent:")]


def logged(caplog: pytest.LogCaptureFixture, beginning: str) -> list[str]:
    return [text for text in caplog.messages if text.startswith(beginning)]


def test_a_header_goes_into_the_log_and_on_to_the_engine(
    far: RunningGateway, endpoint: PlainEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    headers = {"traceparent": PARENT}
    assert far.http.post(
        RESPONSES, json={"model": "far", "input": "Hi"}, headers=headers
    ).is_success
    assert sent_on(endpoint) == [PARENT]
    (turn,) = logged(caplog, "turn ")
    assert f"trace={TRACE}" in turn.split()


def test_a_request_of_codexs_over_a_websocket_says_its_own(
    far: RunningGateway, endpoint: PlainEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with Socket(far.url, {"traceparent": ELSE}) as socket:
        said = {"ws_request_header_traceparent": PARENT}
        socket.create("Hi", model="far", client_metadata=said)
        socket.until_end()
        socket.create("Hi", model="far")
        socket.until_end()
        socket.create("Hi", model="nobody", client_metadata=said)
        socket.until("error")
    assert sent_on(endpoint) == [PARENT, ELSE]
    first, second = logged(caplog, "turn ")
    assert (f"trace={TRACE}" in first, f"trace={OTHER}" in second) == (True, True)
    (refused,) = logged(caplog, "refused ")
    assert f"trace={TRACE}" in refused


@pytest.mark.parametrize("said", ["00-x", PARENT + "; drop", f"00-{'0' * 32}-{'1' * 16}-01"])
def test_what_is_no_trace_reaches_neither(
    far: RunningGateway, endpoint: PlainEndpoint, caplog: pytest.LogCaptureFixture, said: str
) -> None:
    caplog.set_level(logging.INFO)
    asked = {
        "model": "far",
        "input": "Hi",
        "stream": True,
        "client_metadata": {"ws_request_header_traceparent": said},
    }
    with far.http.stream("POST", RESPONSES, json=asked, headers={"traceparent": said}) as answer:
        assert list(sse(answer.iter_lines()))[-1]["type"] == "response.completed"
    assert sent_on(endpoint) == []
    assert "trace=" not in "".join(logged(caplog, "turn "))
