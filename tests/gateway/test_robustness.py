"""Nothing a client sends may harm another client."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from tests.support.examples import examples
from tests.support.server import RunningGateway
from tests.support.socket import Socket

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)
fields = st.sampled_from(
    ["input", "tools", "tool_choice", "text", "stream_id", "previous_response_id", "metadata"]
)
events = st.fixed_dictionaries(
    {"type": st.sampled_from(["response.create", "response.interrupt", "response.steer", "x"])},
    optional={"response_id": values, "model": values},
).flatmap(lambda event: st.dictionaries(fields, values).map(lambda more: {**more, **event}))
frames = st.binary() | st.text() | values.map(json.dumps) | events.map(json.dumps)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(frames=st.lists(frames, min_size=1, max_size=5))
def test_random_frames_never_disturb_another_connection(
    gateway: RunningGateway, frames: list[bytes | str]
) -> None:
    with Socket(gateway.url) as bystander, Socket(gateway.url) as hostile:
        bystander.create("hello")
        try:
            for frame in frames:
                hostile.raw.send(frame)
        except ConnectionClosed:  # the server may close the one who misbehaves, nobody else
            pass
        assert bystander.until_end()[-1]["type"] == "response.completed"


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(body=st.binary() | values.map(lambda value: json.dumps(value).encode()))
def test_random_bodies_get_an_answer_that_is_not_a_server_error(
    gateway: RunningGateway, body: bytes
) -> None:
    for path in ("/v1/responses", "/v1/chat/completions", "/v1/completions"):
        with gateway.http as http:
            assert http.post(path, content=body).status_code < 500
