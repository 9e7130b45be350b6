"""What one key can do to the turns of another: nothing, and it learns nothing."""

from __future__ import annotations

from tests.attacks.conftest import Serving
from tests.support.http import RESPONSES, sse


def test_a_rival_who_knows_the_id_of_a_running_turn_cannot_touch_it(serve: Serving) -> None:
    server = serve(owners=["alice", "mallory"])
    with server.http("alice") as alice, server.http("mallory") as mallory:
        body = {"input": "stall", "background": True}
        path = f"{RESPONSES}/{alice.post(RESPONSES, json=body).json()['id']}"
        for method, tail in (
            ("GET", ""),
            ("GET", "?stream=true"),
            ("GET", "/input_items"),
            ("POST", "/cancel"),
            ("POST", "/interrupt"),
            ("POST", "/steer"),
            ("DELETE", ""),
        ):
            words = {"input": "stop"} if tail == "/steer" else None
            answer = mallory.request(method, path + tail, json=words)
            assert answer.status_code == 404, (method, tail)
        assert alice.get(path).json()["status"] == "in_progress"
        with alice.stream("GET", path, params={"stream": "true"}) as replay:
            assert replay.status_code == 200
            assert next(sse(replay.iter_lines()))["type"] == "response.created"
        assert alice.post(f"{path}/cancel").json()["status"] == "cancelled"
