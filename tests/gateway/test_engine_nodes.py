"""A gateway whose engines are in other processes, which die, freeze and come back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.nodes import KEYED, EngineProcess
from tests.support.process import Serve
from tests.support.socket import Socket
from tests.support.waiting import eventually

WORDS = 300
SCRIPT = f"""
[[replies]]
when = "mark"
then = [{{ do = "mark", times = {WORDS} }}]
[[replies]]
when = "who"
then = [{{ do = "mark", times = 1 }}]
"""


@contextmanager
def fleet(folder: Path, *nodes: EngineProcess, **more: Any) -> Iterator[Serve]:
    tables = {
        "engines": [],
        "tiers": [{"name": "fast", "engines": ["coder"]}],
        "fleet": {"engines": [each.url for each in nodes]},
    }
    with Serve(folder, tables=tables | more, environment=KEYED) as server:
        yield server


def words(text: str) -> list[tuple[int, str]]:
    """Which word each is, and who said it."""
    return [(int(number), who) for number, who in re.findall(r"m\w+\.(\d+)@(\w+)\.a\d", text)]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith("text.delta"))


def test_engines_of_nodes_answer(tmp_path: Path) -> None:
    with EngineProcess(tmp_path, "a", SCRIPT) as node, fleet(tmp_path, node) as server:
        answer = httpx.post(f"{server.url}/responses", json={"input": "mark"}).json()
        assert answer["status"] == "completed"
        said = words(answer["output"][0]["content"][0]["text"])
        assert [number for number, _ in said] == list(range(WORDS))
        assert "coder@a" in server.http().get("/metrics").text


def test_a_gateway_may_be_there_before_its_nodes(tmp_path: Path) -> None:
    node = EngineProcess(tmp_path, "a", SCRIPT)
    tables = {
        "engines": [],
        "tiers": [{"name": "fast", "engines": ["coder"]}],
        "fleet": {"engines": [node.url]},
    }
    with Serve(tmp_path, tables=tables, environment=KEYED) as server, node:
        answer = httpx.post(f"{server.url}/responses", json={"input": "who"}).json()
        assert answer["status"] == "completed"


@pytest.mark.parametrize("fault", ["kill", "freeze"])
def test_an_answer_goes_on_when_its_node_is_lost(tmp_path: Path, fault: str) -> None:
    with (
        EngineProcess(tmp_path, "a", SCRIPT, rate=200) as one,
        EngineProcess(tmp_path, "b", SCRIPT, rate=200) as other,
        fleet(tmp_path, one, other) as server,
        Socket(server.url) as socket,
    ):
        socket.create("mark")
        events = until(socket, lambda said: bool(said))
        first = words(text_of(events))[0][1]
        home = one if one.name in _at_work(server) else other
        lost = time.monotonic()
        getattr(home, fault)()
        events += until(socket, lambda said: bool(said) and said[-1][1] != first)
        late = time.monotonic() - lost
        events += socket.until_end()
        said = words(text_of(events))
        assert [number for number, _ in said] == list(range(WORDS))
        assert events[-1]["type"] == "response.completed"
        assert late < (0.8 if fault == "kill" else 1.8)  # of that a second is silence


def until(socket: Socket, enough: Callable[[list[tuple[int, str]]], bool]) -> list[dict[str, Any]]:
    """Events, up to the first whose words are so."""
    events: list[dict[str, Any]] = []
    while not events or not enough(words(text_of(events[-1:]))):
        events.append(socket.read())
    return events


def _at_work(server: Serve) -> list[str]:
    """Nodes with an engine that has a turn."""
    text = server.http().get("/metrics").text
    return re.findall(r'vivace_engine_running\{engine="coder@(\w+)"\} 1\.0', text)


def test_a_node_that_comes_back_is_used_again(tmp_path: Path) -> None:
    with EngineProcess(tmp_path, "a", SCRIPT) as node, fleet(tmp_path, node) as server:
        node.kill()
        eventually(lambda: server.http().get("/readyz").status_code == 503)
        refused = httpx.post(f"{server.url}/responses", json={"input": "who"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "engine_unavailable"
        with EngineProcess(tmp_path, "a", SCRIPT, port=node.port):
            eventually(lambda: server.http().get("/readyz").status_code == 200)
            answer = httpx.post(f"{server.url}/responses", json={"input": "who"}).json()
            assert answer["status"] == "completed"


def test_a_key_that_is_not_the_nodes_is_told_to_who_runs_it(tmp_path: Path) -> None:
    with EngineProcess(tmp_path, "a", SCRIPT) as node:
        tables = {
            "engines": [],
            "tiers": [{"name": "fast", "engines": ["coder"]}],
            "fleet": {"engines": [node.url]},
        }
        environment = {"VIVACE_FLEET_KEY": "another key than the node has"}
        server = Serve(tmp_path, tables=tables, environment=environment)
        try:
            eventually(lambda: "has another key than this gateway" in server.log, 15)
            assert environment["VIVACE_FLEET_KEY"] not in server.log
        finally:
            server.__exit__(None, None, None)


# -- one node, several gateways -------------------------------------------------------------------

LONG = """
[[replies]]
when = "mark"
then = [{ do = "mark", times = 400 }]
[[replies]]
when = "who"
then = [{ do = "mark", times = 1 }]
"""


@contextmanager
def two_gateways(folder: Path, *urls: str) -> Iterator[tuple[Serve, Serve]]:
    tables = {
        "engines": [],
        "tiers": [{"name": "fast", "engines": ["coder"]}],
        "fleet": {"engines": list(urls)},
    }
    folders = [folder / "one", folder / "other"]
    for each in folders:
        each.mkdir()
    with (
        Serve(folders[0], tables=tables, environment=KEYED, owners=("ada", "bob")) as one,
        Serve(folders[1], tables=tables, environment=KEYED, owners=("ada", "bob")) as other,
    ):
        yield one, other


def test_what_finds_no_slot_waits_at_the_node_whichever_gateway_it_came_by(tmp_path: Path) -> None:
    with (
        EngineProcess(tmp_path, "a", LONG, engine={"slots": 1}) as node,
        two_gateways(tmp_path, node.url) as (one, other),
        one.socket("ada") as first,
        other.socket("bob") as second,
    ):
        first.create("mark")
        until(first, lambda said: bool(said))
        second.create("who")
        events = second.until_end()
        kinds = [each["type"] for each in events]
        assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
        assert kinds[-1] == "response.completed"
        assert first.until_end()[-1]["type"] == "response.completed"


def test_one_that_waits_goes_where_there_is_room(tmp_path: Path) -> None:
    late = EngineProcess(tmp_path, "b", LONG, engine={"slots": 1})
    late.kill()
    with (
        EngineProcess(tmp_path, "a", LONG, rate=100, engine={"slots": 1}) as node,
        fleet(tmp_path, node, late) as server,
        server.socket() as first,
        server.socket() as second,
    ):
        first.create("mark")
        until(first, lambda said: bool(said))
        second.create("who")
        assert second.until("response.queued")
        with EngineProcess(tmp_path, "b", LONG, port=late.port, engine={"slots": 1}):
            began = time.monotonic()
            assert second.until_end()[-1]["type"] == "response.completed"
            assert time.monotonic() - began < 3  # the first takes four seconds
        first.vanish()


def test_a_key_with_much_to_do_leaves_another_its_turn(tmp_path: Path) -> None:
    with (
        EngineProcess(tmp_path, "a", SCRIPT, rate=200, engine={"slots": 1}) as node,
        two_gateways(tmp_path, node.url) as (one, other),
        one.socket("ada") as hog,
        other.socket("bob") as modest,
    ):
        for number in range(10):  # a second and a half each
            hog.create("mark", stream_id=f"lane{number}")
        until(hog, lambda said: bool(said))
        began = time.monotonic()
        modest.create("mark")
        assert modest.until_end(15)[-1]["type"] == "response.completed"
        assert time.monotonic() - began < 6
        hog.vanish()


def test_two_nodes_of_one_name_are_told_of_and_one_answers(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with (
        EngineProcess(tmp_path, "a", SCRIPT) as node,
        EngineProcess(tmp_path / "other", "a", SCRIPT) as like,
        fleet(tmp_path, node, like) as server,
    ):
        eventually(lambda: "two engine nodes call themselves 'a'" in server.log)
        answer = httpx.post(f"{server.url}/responses", json={"input": "who"}).json()
        assert answer["status"] == "completed"
