"""A gateway whose engines are at engine nodes, which die, freeze and come back."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fleets import KEY, Fleet
from tests.support.http import RESPONSES, bearer, keys
from tests.support.nodes import KEYED, EngineProcess
from tests.support.ports import free_port
from tests.support.process import Serve
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.conversation.deltas import Delta
from vivace.engines.base import Work
from vivace.engines.scripted import Mark, Reply

WORDS = 300
SCRIPT = f"""
[[replies]]
when = "mark"
then = [{{ do = "mark", times = {WORDS} }}]
[[replies]]
when = "who"
then = [{{ do = "mark", times = 1 }}]
"""
STALLS = """
[[replies]]
when = "mark"
then = [{ do = "mark", times = 20 }, { do = "stall", seconds = 3600 }]
"""
PATIENT = {"silence_seconds": 600}
TIERS = [{"name": "fast", "engines": ["coder"]}]


@contextmanager
def fleet(folder: Path, *urls: str, **more: Any) -> Iterator[Serve]:
    tables = {
        "engines": [],
        "tiers": TIERS,
        "fleet": {"engines": list(urls)},
    }
    with Serve(folder, tables=tables | more, environment=KEYED) as server:
        yield server


def words(text: str) -> list[tuple[int, str]]:
    """Which word each is, and who said it."""
    return [(int(number), who) for number, who in re.findall(r"m\w+\.(\d+)@(\w+)\.a\d", text)]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith("text.delta"))


def until(socket: Socket, enough: Callable[[list[tuple[int, str]]], bool]) -> list[dict[str, Any]]:
    """Events, up to the first whose words are so."""
    events: list[dict[str, Any]] = []
    while not events or not enough(words(text_of(events[-1:]))):
        events.append(socket.read())
    return events


# -- processes ------------------------------------------------------------------------------------


@pytest.mark.release
def test_gateway_answers_with_engines_of_nodes_that_start_later(tmp_path: Path) -> None:
    node = EngineProcess(tmp_path, "a", SCRIPT)
    with fleet(tmp_path, node.url) as server, node:
        answer = httpx.post(f"{server.url}/responses", json={"input": "mark"}).json()
        assert answer["status"] == "completed"
        said = words(answer["output"][0]["content"][0]["text"])
        assert [number for number, _ in said] == list(range(WORDS))
        assert "coder@a" in server.http().get("/metrics").text


@pytest.mark.parametrize("fault", ["kill", pytest.param("freeze", marks=pytest.mark.release)])
def test_an_answer_goes_on_when_its_node_is_lost(tmp_path: Path, fault: str) -> None:
    with ExitStack() as stack:
        home = stack.enter_context(EngineProcess(tmp_path, "a", STALLS, engine=PATIENT))
        port = free_port()
        server = stack.enter_context(fleet(tmp_path, home.url, f"ws://127.0.0.1:{port}"))
        socket = stack.enter_context(Socket(server.url))
        socket.create("mark")
        events = until(socket, lambda said: bool(said) and said[-1][0] == 19)
        stack.enter_context(EngineProcess(tmp_path, "b", SCRIPT, port=port, engine=PATIENT))
        eventually(lambda: "coder@b" in server.http().get("/metrics").text)
        getattr(home, fault)()
        events += socket.until_end()
        said = words(text_of(events))
        assert [number for number, _ in said] == list(range(WORDS))
        assert len({who for _, who in said}) == 2
        assert events[-1]["type"] == "response.completed"


# -- in one process -------------------------------------------------------------------------------


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Engines stop in the middle of an answer until they are let go."""
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    replies = [
        Reply(when="mark", then=(Mark(times=WORDS),)),
        Reply(when="who", then=(Mark(times=1),)),
    ]
    with ExitStack() as stack:
        yield Fleet(stack, "", replies)


def gateway(nodes: Fleet, **tables: Any) -> RunningGateway:
    return nodes.gateway(store={"path": ":memory:"}, keys=keys("ada", "bob"), **tables)


def client(server: RunningGateway, owner: str = "ada") -> httpx.Client:
    http = server.http
    http.headers.update(bearer(owner))
    return http


def test_a_node_that_comes_back_is_used_again(nodes: Fleet) -> None:
    node = nodes.node()
    server = gateway(nodes)
    node.kill()
    http = client(server)
    eventually(lambda: http.get("/readyz").status_code == 503)
    refused = http.post(RESPONSES, json={"input": "who"})
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "engine_unavailable"
    nodes.restart(node)
    eventually(lambda: http.get("/readyz").status_code == 200)
    assert http.post(RESPONSES, json={"input": "who"}).json()["status"] == "completed"


def test_a_key_that_is_not_the_nodes_is_told_to_who_runs_it(
    nodes: Fleet, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = nodes.node(), "another key than the node has"
    monkeypatch.setenv("VIVACE_FLEET_KEY", other)
    config = configuration(engines=[], tiers=TIERS, fleet={"engines": [node.url]})
    with RunningGateway(config=config):
        eventually(lambda: "has another key than this gateway" in caplog.text)
    assert other not in caplog.text


def test_what_finds_no_slot_waits_at_the_node_whichever_gateway_it_came_by(nodes: Fleet) -> None:
    nodes.node(slots=1)
    one, other = gateway(nodes), gateway(nodes)
    with Socket(one.url, bearer("ada")) as first, Socket(other.url, bearer("bob")) as second:
        first.create("mark")
        until(first, lambda said: bool(said))
        second.create("who")
        events = [second.read(), second.read()]
        nodes.go()
        events += second.until_end()
        kinds = [each["type"] for each in events]
        assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
        assert kinds[-1] == "response.completed"
        assert first.until_end()[-1]["type"] == "response.completed"


def test_one_that_waits_goes_where_there_is_room(nodes: Fleet) -> None:
    node, port = nodes.node(slots=1), free_port()
    server = gateway(nodes, fleet={"engines": [node.url, f"ws://127.0.0.1:{port}"]})
    with Socket(server.url, bearer("ada")) as first, Socket(server.url, bearer("ada")) as second:
        first.create("mark")
        until(first, lambda said: bool(said))
        second.create("who")
        assert second.until("response.queued")
        nodes.node(slots=1, port=port)
        assert second.until_end()[-1]["type"] == "response.completed"
        assert node.running == 1
        first.vanish()


def test_a_key_with_much_to_do_leaves_another_its_turn(
    nodes: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = nodes.node(slots=1)
    one, other = gateway(nodes), gateway(nodes)
    generate, begun = node.engine.generate, list[str]()

    def watched(work: Work) -> AsyncGenerator[Delta, None]:
        begun.append(str(work.prompt))
        return generate(work)

    monkeypatch.setattr(node.engine, "generate", watched)
    with Socket(one.url, bearer("ada")) as hog, Socket(other.url, bearer("bob")) as modest:
        for number in range(10):
            hog.create("mark much", stream_id=f"lane{number}")
        until(hog, lambda said: bool(said))
        eventually(lambda: node.node._works.waiting("coder") == 9)
        modest.create("mark little")
        eventually(lambda: node.node._works.waiting("coder") == 10)
        nodes.go()
        assert modest.until_end()[-1]["type"] == "response.completed"
        [place] = [place for place, work in enumerate(begun) if "mark little" in work]
        assert place <= 2
        hog.vanish()


def test_two_nodes_of_one_name_are_told_of_and_one_answers(
    nodes: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        nodes.node(name="a")
    server = gateway(nodes)
    eventually(lambda: "two engine nodes call themselves 'a'" in caplog.text)
    answer = client(server).post(RESPONSES, json={"input": "who"}).json()
    assert answer["status"] == "completed"
