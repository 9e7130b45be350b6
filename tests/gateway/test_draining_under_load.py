"""Every node and every gateway is drained in turn while clients are at work: nothing fails, and
nothing is said twice."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.test_draining import KEYS, Admin
from tests.gateway.test_engine_nodes import text_of, words
from tests.support.http import RESPONSES
from tests.support.nodes import KEYED, EngineProcess
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.socket import Event
from tests.support.waiting import eventually
from tests.support.witness import TERMINAL

WORDS = 120
SCRIPT = f"""
[[replies]]
then = [{{ do = "mark", times = {WORDS} }}]
"""
ROUNDS = int(os.environ.get("VIVACE_DRAIN_ROUNDS", "1"))
"""How often each of them is drained."""
CLIENTS = 4


class Client(threading.Thread):
    """Asks for one answer after the other, at any gateway, and comes back for what is elsewhere."""

    def __init__(self, servers: dict[str, Serve], number: int) -> None:
        super().__init__(daemon=True)
        self._https = [server.http("ada", timeout=120) for server in servers.values()]
        self._dice = random.Random(number)
        self._number = number
        self.over = threading.Event()
        self.done = self.moved = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.over.is_set():
            key = f"{self._number}-{self.done}"
            try:
                self._check(self._answer(key))
            except Exception as error:  # noqa: BLE001 - whatever it is, the test tells
                self.wrong.append(f"{key}: {error!r}")
            self.done += 1

    def _answer(self, key: str) -> list[Event]:
        """All events of one, wherever they were to be had."""
        body = {
            "input": f"go on {key}",
            "background": True,
            "stream": True,
            "idempotency_key": key,
        }
        events: list[Event] = []
        for attempt in range(200):
            http = self._dice.choice(self._https)
            response_id = next((e["response"]["id"] for e in events if "response" in e), None)
            if response_id is None:
                asked: dict[str, Any] = {"method": "POST", "url": RESPONSES, "json": body}
            else:
                after = events[-1]["sequence_number"]
                path = f"{RESPONSES}/{response_id}?stream=true&starting_after={after}"
                asked = {"method": "GET", "url": path}
            with http.stream(**asked) as stream:
                events += _told(stream)
            if events and events[-1]["type"] in TERMINAL:
                return events
            self.moved += bool(events)
            time.sleep(0.05 * min(attempt, 10))
        raise AssertionError(f"no end in sight after {len(events)} events")

    def _check(self, events: list[Event]) -> None:
        numbers = [each["sequence_number"] for each in events]
        said = [number for number, _ in words(text_of(events))]
        assert events[-1]["type"] == "response.completed", events[-1]
        assert numbers == list(range(len(numbers))), numbers
        assert said == list(range(WORDS)), said


def _told(stream: httpx.Response) -> Iterator[Event]:
    if stream.status_code == 200:
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                event = json.loads(line[6:])
                if event["type"] == "error":
                    assert event["error"]["code"] == "server_shutting_down", event
                    return
                yield event
        return
    stream.read()
    assert stream.json()["error"]["code"] == "server_shutting_down", stream.text


@pytest.mark.release
def test_each_is_drained_under_load_and_nothing_is_lost_or_said_twice(
    tmp_path: Path, postgres: Postgres, record_property: Callable[[str, object], None]
) -> None:
    url = postgres.database()
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(EngineProcess(tmp_path, name, SCRIPT, rate=60))
            for name in ("a", "b")
        ]
        servers: dict[str, Serve] = {}
        for name in ("one", "other"):
            folder = tmp_path / name
            folder.mkdir()
            tables = {
                "engines": [],
                "tiers": [{"name": "fast", "engines": ["coder"]}],
                "fleet": {
                    "name": name,
                    "engines": [each.url for each in nodes],
                    "heartbeat_seconds": 0.2,
                    "dead_after_seconds": 600,
                },
                "store": {"url": url},
                "keys": KEYS,
            }
            servers[name] = stack.enter_context(Serve(folder, tables=tables, environment=KEYED))
        admins = {name: Admin(server) for name, server in servers.items()}
        for admin in admins.values():
            for name in ("a", "b", "one", "other"):
                admin.until(name, "ready")
        clients = [Client(servers, number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for _ in range(ROUNDS):
            for name in ("a", "one", "b", "other"):
                eventually(lambda: not any(each.wrong for each in clients))
                admin = admins["other" if name == "one" else "one"]
                assert admin.drain(name, seconds=0.3).is_success
                admin.until(name, "drained")
                assert admin.drain(name, undo=True).is_success
                for each in admins.values():
                    each.until(name, "ready")
        for client in clients:
            client.over.set()
        for client in clients:
            client.join(120)
        assert [each for client in clients for each in client.wrong] == []
        assert sum(client.done for client in clients) >= CLIENTS
        assert [each.faults for each in servers.values()] == [[], []]
        record_property("answers", sum(each.done for each in clients))
        record_property("read on elsewhere", sum(each.moved for each in clients))
