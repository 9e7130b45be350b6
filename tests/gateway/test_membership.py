"""Engines that join a gateway, leave it and come back, under turns: nothing is lost by it."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.support.http import RESPONSES, said
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.config import Config
from vivace.engines.base import Card, Engine
from vivace.engines.scripted import Act, Capacity, Reply, Say, Script, ScriptedEngine
from vivace.errors import ConfigError
from vivace.gateway import dispatch, listening
from vivace.scheduling.scheduler import Room

WORDS = 40
ANSWER = " word" * WORDS


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVACE_FLEET_KEY", "k" * 32)


def fleet(*tiers: str, **more: Any) -> Config:
    """A gateway without an engine of its own; each tier is served by an engine named ``coder``, or
    named like it."""
    named = [{"name": name, "engines": ["coder" if name == "fast" else name]} for name in tiers]
    nowhere = {"engines": ["ws://127.0.0.1:9"]}
    return configuration(**{"engines": [], "tiers": named, "fleet": nowhere, **more})


def engine(
    name: str,
    *acts: Act,
    model: str = "coder-7b",
    context: int = 8192,
    rate: float = 400,
    efforts: tuple[str, ...] = (),
) -> ScriptedEngine:
    card = Card(model, context, fills=True, efforts=efforts, ends_thinking=True)
    script = Script((Reply(then=acts or (Say(" word", times=WORDS),)),))
    return ScriptedEngine(name, [card], script, Capacity(rate=rate))


class Members:
    """Has engines join and leave, on the gateway's own loop."""

    def __init__(self, gateway: RunningGateway) -> None:
        self.gateway = gateway

    def join(self, each: Engine, slots: int = 8, silence: float | None = None) -> None:
        async def join() -> None:
            self.gateway.gateway.membership.join(each, Room(slots), silence)

        self.gateway.run(join())

    def leave(self, each: Engine) -> None:
        async def leave() -> None:
            self.gateway.gateway.membership.leave(each)

        self.gateway.run(leave())

    def kill(self, each: ScriptedEngine, *, leaves: bool = True) -> None:
        """As the loss of a node does: its turns fail, and it is no member any more."""

        async def kill() -> None:
            each.die("The node is gone.")
            if leaves:
                self.gateway.gateway.membership.leave(each)

        self.gateway.run(kill())

    @property
    def waiting(self) -> int:
        """How many turns wait for an engine."""
        places = [*self.gateway.gateway.dispatch._places.values()]
        return sum(not each.started.done() for each in places)

    def get(self, path: str) -> httpx.Response:
        with self.gateway.http as http:
            return http.get(path)

    def ask(self, **body: Any) -> httpx.Response:
        with self.gateway.http as http:
            return http.post(RESPONSES, json={"input": "Go", **body})

    def gauges(self, name: str) -> list[str]:
        lines = self.get("/metrics").text.splitlines()
        return [line for line in lines if f'engine="{name}"' in line]


def running(config: Config) -> Iterator[Members]:
    with RunningGateway(config=config) as gateway:
        yield Members(gateway)


@pytest.fixture
def members() -> Iterator[Members]:
    """With a tier ``fast`` that nobody serves yet."""
    yield from running(fleet("fast"))


@pytest.fixture
def open_members() -> Iterator[Members]:
    """Without any tier: nodes say what there is."""
    yield from running(fleet())


# -- before the first one -------------------------------------------------------------------------


def test_before_an_engine_joins_it_is_said_what_is_missing(members: Members) -> None:
    assert members.get("/readyz").status_code == 503
    assert members.get("/readyz").text == "no engine node is connected\n"
    for model in ({"model": "fast"}, {}, {"model": "auto"}):
        refused = members.ask(**model)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")
        assert "No engine node that offers" in refused.json()["error"]["message"]
        assert "retry-after" in refused.headers
    assert members.get("/v1/models").json()["data"] == []
    assert members.get("/v1/models/fast").status_code == 503
    assert members.get("/v1/models/auto").status_code == 503


def test_the_default_and_auto_work_when_engines_come_later(members: Members) -> None:
    members.join(engine("coder@a"))
    assert members.get("/readyz").text == "ready\n"
    for model in ({"model": "fast"}, {}, {"model": "auto"}):
        answer = members.ask(**model)
        assert answer.status_code == 200
        assert (answer.json()["model"], said(answer.json())) == ("fast", ANSWER)
    assert [each["id"] for each in members.get("/v1/models").json()["data"]] == ["fast", "auto"]


def test_auto_uses_the_tier_that_has_an_engine() -> None:
    for members in running(fleet("fast", "deep")):
        members.join(engine("deep@a", model="large"))
        assert members.ask(model="auto").json()["model"] == "deep"
        answer = members.get("/readyz")
        assert answer.status_code == 200
        assert answer.text == "ready; no engine node that offers 'fast' is connected\n"
        members.join(engine("coder@b"))
        assert members.ask(model="auto").json()["model"] == "fast"
        assert members.get("/readyz").text == "ready\n"


def test_an_engine_in_no_tier_is_offered_by_its_model(open_members: Members) -> None:
    refused = open_members.ask(model="coder-7b")
    assert refused.status_code == 503
    assert "No engine node is connected" in refused.json()["error"]["message"]
    for node in "ba":
        open_members.join(engine(f"coder@{node}"))
    open_members.join(engine("big@a", model="a-larger-one"))
    models = [each["id"] for each in open_members.get("/v1/models").json()["data"]]
    assert models == ["a-larger-one", "coder-7b"]
    assert said(open_members.ask(model="coder-7b").json()) == ANSWER
    missing = open_members.ask(model="coder-8b")
    assert missing.status_code == 404
    assert "Did you mean 'coder-7b'?" in missing.json()["error"]["message"]


def test_an_engine_of_this_process_and_those_of_nodes_are_one_tier() -> None:
    own = {"name": "coder", "kind": "scripted", "model": "coder-7b", "context": 5000}
    for members in running(fleet("fast", engines=[own])):
        assert members.get("/readyz").text == "ready\n"
        members.join(engine("coder@a", context=4000))
        (tier,) = members.gateway.gateway.catalogue.tiers
        assert tier.engines == ("coder", "coder@a")
        assert members.get("/v1/models/fast").json()["context_window"] == 4000


def test_a_tier_promises_what_each_of_its_engines_can_hold(members: Members) -> None:
    members.join(small := engine("coder@a", context=1000))
    members.join(engine("coder@b", context=2000))
    assert members.get("/v1/models/fast").json()["context_window"] == 1000
    members.leave(small)
    assert members.get("/v1/models/fast").json()["context_window"] == 2000


def test_codex_hears_of_models_that_come_later(members: Members) -> None:
    def models() -> tuple[list[str], str]:
        with members.gateway.http as http:
            answer = http.get(
                "/v1/models", params={"client_version": "1"}, headers={"originator": "codex"}
            )
        return [each["slug"] for each in answer.json()["models"]], answer.headers["etag"]

    names, before = models()
    assert names == []
    members.join(engine("coder@a"))
    names, after = models()
    assert names == ["fast", "auto"]
    assert before != after


# -- what cannot be offered -----------------------------------------------------------------------


def test_two_engines_of_one_name_and_two_models_are_not_mixed(members: Members) -> None:
    members.join(engine("coder@a"))
    with pytest.raises(ConfigError, match=r"coder@b runs the model 'other' and coder@a runs"):
        members.join(engine("coder@b", model="other"))
    assert members.gauges("coder@b") == []
    assert said(members.ask().json()) == ANSWER


def test_a_model_that_is_called_like_a_tier_is_not_taken_for_it(members: Members) -> None:
    for model in ("fast", "auto"):
        with pytest.raises(ConfigError, match=f"'{model}', and that is the name of a tier"):
            members.join(engine("stranger@a", model=model))
    assert members.get("/readyz").status_code == 503


# -- those that leave -----------------------------------------------------------------------------


def test_a_tier_whose_engines_are_gone_is_known_and_refused(members: Members) -> None:
    members.join(only := engine("coder@a"))
    assert members.gauges("coder@a") != []
    members.leave(only)
    assert members.gauges("coder@a") == []
    assert [each["id"] for each in members.get("/v1/models").json()["data"]] == ["fast", "auto"]
    refused = members.ask(model="fast")
    assert refused.status_code == 503
    assert "No engine node that offers 'fast'" in refused.json()["error"]["message"]
    members.join(engine("coder@a"))
    assert members.ask(model="fast").status_code == 200


def test_what_runs_on_an_engine_that_leaves_ends_there(members: Members) -> None:
    members.join(first := engine("coder@a", rate=100))
    with Socket(members.gateway.url) as socket:
        socket.create("Go", model="fast")
        socket.until("response.output_text.delta")
        members.leave(first)
        assert 'vivace_engine_running{engine="coder@a"} 1.0' in members.gauges("coder@a")
        assert 'vivace_engine_up{engine="coder@a"} 0.0' in members.gauges("coder@a")
        members.join(second := engine("coder@b"))
        assert said(members.ask(model="fast").json()) == ANSWER
        assert (first.running(), second.running()) == (1, 0)
        response = socket.until_end()[-1]["response"]
    assert (response["status"], said(response)) == ("completed", ANSWER)
    eventually(lambda: members.gauges("coder@a") == [])


def test_a_link_that_is_found_broken_late_takes_nobody_else_away(
    members: Members, caplog: pytest.LogCaptureFixture
) -> None:
    members.join(old := engine("coder@a"))
    assert "twice" not in caplog.text
    members.join(engine("coder@a"))
    assert "coder@a is here twice" in caplog.text  # for it may be that two nodes have one name
    members.leave(old)
    members.leave(old)
    assert members.ask(model="fast").status_code == 200


# -- those that wait ------------------------------------------------------------------------------


def test_who_waits_begins_when_another_engine_joins(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_LOOK_AGAIN", 3600)  # it need not look by itself
    members.join(slow := engine("coder@a", rate=1), slots=1)
    with Socket(members.gateway.url) as first, Socket(members.gateway.url) as second:
        first.create("Go", model="fast")
        first.until("response.output_text.delta")
        second.create("Go", model="fast")
        second.until("response.queued")
        members.join(engine("coder@b"))
        assert said(second.until_end()[-1]["response"]) == ANSWER
        assert slow.running() == 1


def test_who_waits_when_the_last_engine_goes_is_answered_by_the_next(members: Members) -> None:
    members.join(first := engine("coder@a", rate=1), slots=1)
    with Socket(members.gateway.url) as running, Socket(members.gateway.url) as waiting:
        running.create("Go", model="fast")
        running.until("response.output_text.delta")
        waiting.create("Go", model="fast")
        waiting.until("response.queued")
        members.kill(first)
        members.join(engine("coder@b"))
        for socket in (running, waiting):
            response = socket.until_end()[-1]["response"]
            assert (response["status"], said(response)) == ("completed", ANSWER)


def test_nobody_waits_for_ever_for_an_engine_to_come(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_PATIENCE", 0.6)
    members.join(only := engine("coder@a", rate=100))
    with Socket(members.gateway.url) as socket:
        socket.create("Go", model="fast")
        socket.until("response.output_text.delta")
        members.kill(only)
        response = socket.until_end()[-1]["response"]
    assert response["status"] == "failed"
    assert response["error"]["code"] == "engine_died"
    assert "no engine node that offers 'fast'" in response["error"]["message"]
    members.join(engine("coder@a"))
    assert said(members.ask(model="fast").json()) == ANSWER
    assert members.gateway.gateway.dispatch._places == {}


# -- those that die -------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "is only down"])
@pytest.mark.parametrize(
    ("node", "joins"),
    [("b", "before"), ("b", "later"), ("a", "later")],
    ids=["another that was there", "another that comes", "itself when it is back"],
)
def test_an_answer_goes_on_at_an_engine_that_joins(
    members: Members, node: str, joins: str, leaves: bool
) -> None:
    members.join(first := engine("coder@a", rate=100))
    second = engine(f"coder@{node}")
    with Socket(members.gateway.url) as socket:
        socket.create("Go", model="fast")
        socket.until("response.output_text.delta")
        if joins == "before":
            members.join(second)
        members.kill(first, leaves=leaves)
        if joins == "later":
            eventually(lambda: members.waiting == 1)
            members.join(second)
        events = socket.until_end()
    assert events[-1]["response"]["status"] == "completed"
    assert said(events[-1]["response"]) == ANSWER
    assert events[-1]["response"]["usage"]["output_tokens"] == WORDS


def test_an_engine_that_comes_back_and_dies_again_is_not_tried_for_ever(members: Members) -> None:
    """Each time it says a word more; the third death is the turn's own fault."""
    for number in range(3):
        dying = engine("coder@a", rate=100)
        members.join(dying)
        if number == 0:
            socket = Socket(members.gateway.url)
            socket.create("Go", model="fast")
        socket.until("response.output_text.delta")
        members.kill(dying)
    response = socket.until_end()[-1]["response"]
    socket.raw.close()
    assert (response["status"], response["error"]["code"]) == ("failed", "gave_up")


@pytest.mark.parametrize("silence", [0.5, None])
@pytest.mark.parametrize("ends", ["is replaced", "leaves"])
def test_an_engine_that_joined_and_falls_silent_is_left(
    members: Members, ends: str, silence: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = count(step=listening._LOOK)  # the clock goes on at each look, however late that is
    monkeypatch.setattr(listening, "time", SimpleNamespace(monotonic=lambda: next(looks)))
    members.join(frozen := engine("coder@a", rate=100), silence=0.5)
    with Socket(members.gateway.url) as socket:
        socket.create("Go", model="fast")
        socket.until("response.output_text.delta")
        members.join(engine("coder@b"), silence=0.5)

        async def freeze() -> None:
            frozen.freeze()

        members.gateway.run(freeze())
        response = socket.until_end()[-1]["response"]
        assert (response["status"], said(response)) == ("completed", ANSWER)
        assert 'vivace_engine_up{engine="coder@a"} 0.0' in members.gauges("coder@a")
        if ends == "leaves":
            members.leave(frozen)
            heard = members.gateway.gateway.listening
            eventually(lambda: not heard.silent("coder@a") and not heard._asking)
        # What the old one was, is not held against the new one.
        members.join(engine("coder@a"), silence=silence)
        assert 'vivace_engine_up{engine="coder@a"} 1.0' in members.gauges("coder@a")


# -- all at once ----------------------------------------------------------------------------------


class Restless:
    """Nodes that leave, die and come back all the time. Of those that turns meet only two die: the
    third death would be held against a turn, however slow the machine is that it runs on."""

    def __init__(self, members: Members, seed: int) -> None:
        self.here: dict[str, ScriptedEngine] = {}
        self._members = members
        self._chance = random.Random(seed)
        self._over = threading.Event()
        for node in "abc":
            self._join(node)

    def _join(self, node: str) -> None:
        self.here[node] = engine(f"coder@{node}", rate=300)
        self._members.join(self.here[node], slots=4)

    def __enter__(self) -> None:
        self._over.clear()
        self._thread = threading.Thread(target=self._come_and_go)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _come_and_go(self) -> None:
        for number in count():
            if self._over.wait(0.05):
                return
            node = self._chance.choice("abc")
            if number in (0, 2):
                self._members.kill(self.here[node])
            else:
                self._members.leave(self.here[node])
            self._over.wait(0.05)
            self._join(node)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.release) for seed in (1, 2))]
)
def test_whoever_comes_and_goes_no_turn_is_lost(members: Members, seed: int) -> None:
    def ask(number: int) -> dict[str, Any]:
        with Socket(members.gateway.url) as socket:
            socket.create(f"Go {number}", model="fast", store=bool(number % 2))
            end: dict[str, Any] = socket.until_end()[-1]
            return end

    restless = Restless(members, seed)
    for _ in range(4):
        with restless, ThreadPoolExecutor(20) as pool:
            ends = list(pool.map(ask, range(20)))
        for end in ends:
            assert end["type"] == "response.completed", end["response"]["error"]
            assert said(end["response"]) == ANSWER
    assert members.gateway.gateway.dispatch._places == {}
    for each in restless.here.values():
        assert each.running() == 0
        idle = f'vivace_engine_running{{engine="{each.name}"}} 0.0'
        assert idle in members.gauges(each.name)


def test_models_of_nodes_that_are_gone_are_forgotten_where_there_are_many(
    open_members: Members,
) -> None:
    """A node that offers others each time it comes would fill the memory, and /readyz."""
    members = open_members
    stays = engine("stays@a", model="stays")
    members.join(stays)
    for number in range(120):
        comes = engine(f"e{number}@a", model=f"model-{number}")
        members.join(comes)
        members.leave(comes)
    catalogue = members.gateway.gateway.catalogue
    assert len(catalogue.tiers) <= 60
    assert len(catalogue.cards) <= 60
    assert members.ask(model="stays").status_code == 200
    assert members.ask(model="model-119").json()["error"]["code"] == "engine_unavailable"
    assert members.ask(model="model-0").json()["error"]["code"] == "model_not_found"
    lines = members.get("/metrics").text.splitlines()
    assert sum(line.startswith("vivace_queue_length{") for line in lines) <= 3 * 60


def test_model_that_a_tier_or_the_gateway_itself_has_is_never_forgotten(members: Members) -> None:
    members.join(engine("coder@a"))
    members.leave(members.gateway.gateway.catalogue.by_name["coder@a"])
    for number in range(120):
        comes = engine(f"e{number}@a", model=f"model-{number}")
        members.join(comes)
        members.leave(comes)
    assert members.ask(model="fast").json()["error"]["code"] == "engine_unavailable"
