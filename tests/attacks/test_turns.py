"""Conversations that outgrow the model, engines that refuse their work, and crowds that wait."""

from __future__ import annotations

import cProfile
import types
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.attacks.conftest import Serving
from tests.engines.endpoint import Endpoint
from tests.support.http import RESPONSES, bearer, keys
from tests.support.server import RunningGateway, configuration
from vivace.engines.scripted import Reply, Say, Stall
from vivace.gateway.app import Gateway
from vivace.gateway.dispatch import Place
from vivace.scheduling.queue import Job

STALL = Reply(when="stall", then=(Say("begin"), Stall(3600)))


def test_a_truncated_conversation_never_outgrows_the_model_again() -> None:
    last: dict[str, str] = {}
    config = configuration(engine={"context": 200})
    with RunningGateway(config=config) as gateway, gateway.http as client:
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


class Counted:
    """Counts the functions that a gateway calls in steps of its requests and in its decisions about
    its queue: none that a timer calls, however many of these there are meanwhile."""

    def __init__(self, gateway: Gateway) -> None:
        self.profile = cProfile.Profile()
        self._app = gateway.app
        self._enter = gateway.dispatch.enter
        self._depth = 0
        gateway.dispatch.enter = self.enter  # type: ignore[method-assign]

    def enter(self, job: Job) -> Place:
        with self._counting():
            return self._enter(job)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._steps(self._app(scope, receive, send).__await__())

    @types.coroutine
    def _steps(self, work: Generator[Any, Any, None]) -> Generator[Any, Any, None]:
        while True:
            with self._counting():
                try:
                    awaited = work.send(None)
                except StopIteration:
                    return
            yield awaited

    @contextmanager
    def _counting(self) -> Iterator[None]:
        self._depth += 1
        self.profile.enable()
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self.profile.disable()


def calls_of_refusals(waiting: int, count: int) -> int:
    """Return how many functions so many refusals call, when that many turns of as many owners wait
    and fill the queue."""
    owners = [f"owner{number}" for number in range(waiting + 1)]  # the first one runs
    config = configuration(
        engine={"slots": 1},
        tiers=[{"name": "fast", "engines": ["scripted"], "queue": waiting}],
        keys=keys(*owners, "stranger"),
    )
    body: dict[str, Any] = {"model": "fast", "input": "stall", "background": True}
    gateway = RunningGateway([STALL], config=config)
    counted = Counted(gateway.gateway)
    gateway._server.config.app = counted
    with gateway, gateway.http as client:
        for owner in owners:
            answer = client.post(RESPONSES, json=body, headers=bearer(owner))
            assert answer.status_code == 200
        counted.profile.clear()
        for _ in range(count):
            refused = client.post(RESPONSES, json=body, headers=bearer("stranger"))
            assert refused.json()["error"]["code"] == "queue_full"
        return sum(entry.callcount for entry in counted.profile.getstats())


def test_a_crowd_of_keys_makes_a_refusal_no_dearer() -> None:
    few, many = calls_of_refusals(10, 20), calls_of_refusals(200, 20)
    assert many <= 1.1 * few
