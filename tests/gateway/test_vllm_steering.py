"""Steers at random moments on a real engine: none is lost, no slot leaks, no lane is stuck.

``VIVACE_STEERS`` sets how many; run with ``scripts/test-vllm --all``.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.support.http import RESPONSES
from tests.support.process import Serve
from tests.support.socket import Event, Socket
from tests.support.vllm import ARGUMENTS, ENVIRONMENT, MODEL, needs_vllm
from tests.support.waiting import eventually
from tests.support.witness import TERMINAL

STEERS = int(os.environ.get("VIVACE_STEERS", "150"))
LANES = 4
HANGS = 300
"""Seconds after which anything has come to nothing."""
SECRET = "hf_of-this-engine"

pytestmark = [pytest.mark.release, needs_vllm, pytest.mark.timeout(900 + 3 * STEERS)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    folder = tmp_path_factory.mktemp("vllm")
    engine = {
        "name": "vllm",
        "kind": "vllm",
        "model": "qwen2.5-coder-0.5b",
        "path": str(MODEL),
        "context": 4096,
        "arguments": ARGUMENTS,
        "environment": {**ENVIRONMENT, "HF_TOKEN": SECRET},
    }
    with Serve(folder, engine=engine, patience=HANGS) as running:
        yield running
        running.process.terminate()  # not killed: it has an engine to end
        running.process.wait(HANGS)


class Lane(threading.Thread):
    """One client that keeps changing its mind."""

    def __init__(self, number: int, url: str, steers: int) -> None:
        super().__init__()
        self._dice = random.Random(number)
        self._url = url
        self._steers = steers
        self.applied: Counter[str] = Counter()
        self.responses: list[str] = []
        self.number = number
        self.problem: Exception | None = None

    def run(self) -> None:
        try:
            with Socket(self._url) as socket:
                self._talk(socket)
        except Exception as problem:  # noqa: BLE001 - for the test to raise
            self.problem = problem

    def _talk(self, socket: Socket) -> None:
        current = self._begin(socket)
        for number in range(self._steers):
            self._read(socket, self._dice.choice((0, 1, 5, 12)))
            text = f"Lane {self.number}, steer {number}: now count downwards."
            socket.send(type="response.steer", previous_response_id=current, input=text)
            receipt = self._receipt(socket)
            assert receipt["steer"]["previous_response_id"] == current
            if receipt["type"] == "response.steer.failed":  # the model had come to an end
                assert receipt["error"]["code"] == "response_already_completed"
                assert receipt["steer"]["input"] == text
                current = self._begin(socket)
                continue
            follows = self._what_follows(socket)
            if follows["type"] == "response.steer.failed":  # the conversation is full
                assert follows["error"]["code"] == "successor_creation_failed"
                assert follows["steer"]["input"] == text
                current = self._begin(socket)
                continue
            self.applied[text] += 1
            assert follows["response"]["previous_response_id"] == current
            current = follows["response"]["id"]
            self.responses.append(current)
        socket.send(type="response.interrupt", response_id=current)

    def _begin(self, socket: Socket) -> str:
        socket.create("Count upwards from one, without end.", temperature=0)
        identifier: str = socket.until("response.created", HANGS)["response"]["id"]
        return identifier

    def _receipt(self, socket: Socket) -> Event:
        while not (event := socket.read(HANGS))["type"].startswith("response.steer."):
            pass
        return event

    def _what_follows(self, socket: Socket) -> Event:
        kinds = ("response.created", "response.steer.failed")
        while (event := socket.read(HANGS))["type"] not in kinds:
            pass
        return event

    def _read(self, socket: Socket, events: int) -> None:
        """Take so much of what comes, unless it ends."""
        for _ in range(events):
            if socket.read(HANGS)["type"] in TERMINAL:
                return


def test_no_steer_is_lost_no_slot_leaks_and_no_lane_is_stuck(server: Serve) -> None:
    lanes = [Lane(number, server.url, STEERS // LANES + 1) for number in range(LANES)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
        if lane.problem is not None:
            raise lane.problem
    with httpx.Client(base_url=server.url.removesuffix("/v1"), timeout=HANGS) as http:

        def heard(response: str) -> list[str]:
            items = http.get(f"{RESPONSES}/{response}/input_items").json()["data"]
            return [part["text"] for item in items for part in item["content"]]

        for lane in lanes:
            applied = Counter(text for each in lane.responses for text in heard(each))
            assert applied == lane.applied

        def slots() -> list[str]:
            lines = http.get("/metrics").text.splitlines()
            return [
                line.split()[-1] for line in lines if line.startswith("vllm:num_requests_running")
            ]

        eventually(lambda: slots() == ["0.0"])
    # The others came back because the model had ended by itself.
    assert sum(len(lane.responses) for lane in lanes) >= STEERS / 2


def test_no_command_line_shows_the_engines_environment(server: Serve) -> None:
    """Every user of a machine sees everybody's command lines."""
    gateway = psutil.Process(server.process.pid)
    lines = [" ".join(each.cmdline()) for each in (gateway, *gateway.children(recursive=True))]
    assert len(lines) > 1
    assert [line for line in lines if SECRET in line] == []
