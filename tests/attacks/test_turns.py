"""Conversations that outgrow the model, engines that refuse their work, and crowds that wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.attacks.conftest import Serving
from tests.engines.endpoint import Endpoint
from tests.support.http import RESPONSES, bearer
from tests.support.process import Serve


def test_a_truncated_conversation_never_outgrows_the_model_again(serve: Serving) -> None:
    server = serve(engine={"context": 200})
    last: dict[str, str] = {}
    with server.http() as client:
        for _ in range(10):
            body = {"input": "x" * 240, "truncation": "auto", **last}
            response = client.post(RESPONSES, json=body).json()
            assert response["usage"]["input_tokens"] < 200
            last = {"previous_response_id": response["id"]}


@pytest.mark.parametrize(("status", "most"), [(503, 3), (429, 1)])
def test_an_endpoint_that_answers_with_errors_is_left_alone_and_fails_nobody(
    serve: Serving, status: int, most: int
) -> None:
    with Endpoint() as bad, Endpoint() as good:
        bad.answers(b"{}", status=status, headers=[(b"retry-after", b"30")])
        engines = [
            {"name": name, "kind": "openai", "model": "m", "url": endpoint.url, "slots": 4}
            for name, endpoint in (("bad", bad), ("good", good))
        ]
        tiers = [{"name": "fast", "engines": ["bad", "good"]}]
        with serve(tables={"engines": engines, "tiers": tiers}).http() as client:
            for number in range(20):
                body = {"model": "fast", "input": f"question {number}", "store": False}
                assert client.post(RESPONSES, json=body).json()["status"] == "completed"
        assert 1 <= len(bad.asked) <= most
        assert len(good.asked) == 20


def busy(server: Serve) -> float:
    """Seconds of a core that it has used; finer than what the system's own count offers."""
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def cost_of_a_refusal(server: Serve, owners: list[str]) -> float:
    """Seconds of work, when the queue is full with one turn of each of these."""
    body: dict[str, Any] = {"model": "fast", "input": "stall", "background": True}
    with server.http("stranger") as client:
        for owner in owners:
            answer = client.post(RESPONSES, json=body, headers=bearer(owner))
            assert answer.status_code == 200
        before = busy(server)
        for _ in range(100):
            refused = client.post(RESPONSES, json=body)
            assert refused.json()["error"]["code"] == "queue_full"
        return (busy(server) - before) / 100


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux counts this")
def test_a_crowd_of_keys_makes_a_refusal_no_dearer(serve: Serving) -> None:
    costs = []
    for count in (10, 200):
        owners = [f"owner{number}" for number in range(count + 1)]  # the first one runs
        tiers = [{"name": "fast", "engines": ["scripted"], "queue": count}]
        store = {"path": f"{count}.db"}
        server = serve(
            engine={"slots": 1},
            owners=[*owners, "stranger"],
            tables={"tiers": tiers, "store": store},
        )
        costs.append(cost_of_a_refusal(server, owners))
    assert costs[1] <= 2 * costs[0], costs
