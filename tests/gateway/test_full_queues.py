"""A queue that is full, and one that is too long: at a gateway's own engine and at a node it is the
same to a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from tests.support.fleets import KEY, RunningNode
from tests.support.http import bearer, keys
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say

REPLIES = [
    Reply(when="hold", then=(Say("word ", times=10_000),)),
    Reply(when="slow", then=(Say("word ", times=10),)),
    Reply(then=(Say("word"),)),
]
WHERE = pytest.mark.parametrize("where", ["own", "node"])
RATE = 20
"""Words in a second: one that holds its engine does so for minutes, and is not silent."""
PATIENCE = 60


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)


def node_of(stack: ExitStack, name: str = "a") -> RunningNode:
    return stack.enter_context(RunningNode(name, REPLIES, rate=RATE, slots=1))


def gateway_of(
    stack: ExitStack, nodes: list[RunningNode], tables: dict[str, Any], **tier: Any
) -> RunningGateway:
    engine = {"name": "coder", "kind": "scripted", "model": "coder", "rate": RATE, "slots": 1}
    given: dict[str, Any] = {
        "tiers": [{"name": "fast", "engines": ["coder"], **tier}],
        "engines": [engine],
    }
    if nodes:
        given |= {"engines": [], "fleet": {"engines": [each.url for each in nodes]}}
    config = configuration(**given, **tables)
    gateway = stack.enter_context(RunningGateway(REPLIES, config=config))
    eventually(lambda: gateway.http.get("/readyz").text.startswith("ready"), PATIENCE)
    return gateway


@contextmanager
def serving(
    where: str, tables: dict[str, Any] | None = None, **tier: Any
) -> Iterator[RunningGateway]:
    with ExitStack() as stack:
        nodes = [node_of(stack)] if where == "node" else []
        yield gateway_of(stack, nodes, tables or {}, **tier)


@contextmanager
def full(gateway: RunningGateway, headers: dict[str, str] | None = None) -> Iterator[Socket]:
    """One runs on the one slot, and one waits."""
    with Socket(gateway.url, headers) as socket:
        hold(socket, "runs")
        wait(socket, "waits")
        yield socket
        socket.vanish()


def hold(socket: Socket, lane: str) -> str:
    socket.create("hold", stream_id=lane)
    running: str = socket.until("response.created", PATIENCE)["response"]["id"]
    socket.until("response.output_text.delta", PATIENCE)
    return running


def wait(socket: Socket, lane: str, words: str = "hold") -> None:
    socket.create(words, stream_id=lane)
    socket.until("response.queued", PATIENCE)


def post(
    gateway: RunningGateway, headers: dict[str, str] | None = None, **body: Any
) -> httpx.Response:
    return gateway.http.post(
        "/v1/responses", json={"input": "hi", **body}, headers=headers, timeout=PATIENCE
    )


# -- the same for a client ------------------------------------------------------------------------


@WHERE
def test_a_full_queue_is_refused_before_anything_is_said(where: str) -> None:
    with serving(where, queue=1) as gateway, full(gateway) as socket:
        for how in ({}, {"store": False}, {"stream": True}, {"background": True}):
            body: dict[str, Any] = {"input": "hi", **how}
            refused = gateway.http.post("/v1/responses", json=body, timeout=PATIENCE)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            error = refused.json()["error"]
            assert error["code"] == "queue_full"
            assert error["message"] == "1 turns wait for 'fast' already; try again later."
        socket.create("hi", stream_id="third")
        while (refusal := socket.read(PATIENCE)).get("stream_id") != "third":
            pass
        assert (refusal["type"], refusal["status"]) == ("error", 429)
        assert refusal["error"]["code"] == "queue_full"


@WHERE
def test_what_would_begin_too_late_is_refused_at_once(where: str) -> None:
    with serving(where, first_token_seconds=0.1) as gateway:
        for _ in range(2):
            assert post(gateway, input="slow").json()["status"] == "completed"
        with Socket(gateway.url) as socket:
            hold(socket, "runs")
            refused = post(gateway)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
            error = refused.json()["error"]
            assert error["code"] == "would_wait_too_long"
            assert error["message"].startswith("'fast' would begin after about ")
            assert error["message"].endswith(" s, and its target is 0.1 s; try again later.")
            socket.vanish()


@WHERE
def test_one_that_was_refused_leaves_no_trace(where: str) -> None:
    once = {"Idempotency-Key": "the one"}
    with serving(where, queue=1) as gateway, Socket(gateway.url) as socket:
        running = hold(socket, "runs")
        wait(socket, "waits", "slow")
        assert post(gateway, once).status_code == 429
        assert len(gateway.gateway.keeper.open) == 2
        socket.send(type="response.interrupt", response_id=running)
        socket.until("response.in_progress", PATIENCE)  # the one that waited
        assert post(gateway, once).json()["status"] == "completed"


@WHERE
def test_a_key_that_filled_the_queue_leaves_another_its_share(where: str) -> None:
    with (
        serving(where, {"keys": keys("ada", "bob")}, queue=2) as gateway,
        full(gateway, bearer("ada")) as greedy,
        Socket(gateway.url, bearer("bob")) as modest,
    ):
        wait(greedy, "waits-too")
        assert post(gateway, bearer("ada")).status_code == 429
        wait(modest, "its-share")
        assert post(gateway, bearer("bob")).status_code == 429
        modest.vanish()


# -- several --------------------------------------------------------------------------------------


def test_two_nodes_share_the_queue_of_their_tier() -> None:
    with ExitStack() as stack:
        nodes = [node_of(stack, "a"), node_of(stack, "b")]
        gateway = gateway_of(stack, nodes, {}, queue=2)
        socket = stack.enter_context(Socket(gateway.url))
        for lane in "ab":
            hold(socket, lane)
        for lane in "cd":  # wherever they are at home
            wait(socket, lane)
        assert [each.node._works.waiting("coder") for each in nodes] == [1, 1]
        refused = post(gateway)
        assert refused.status_code == 429
        assert refused.json()["error"]["message"].startswith("2 turns wait for 'fast' already")
        socket.vanish()


def test_the_node_knows_what_came_by_other_gateways() -> None:
    """However late these hear of it: here they never do."""
    with ExitStack() as stack:
        node = node_of(stack)
        node.node._tell = lambda: None  # type: ignore[method-assign]
        one, other = (gateway_of(stack, [node], {}, queue=1) for _ in range(2))
        socket = stack.enter_context(full(one))
        refused = post(other, store=False)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "queue_full"
        # On its way to the record, because there seemed to be room, it is refused no more.
        late = stack.enter_context(Socket(other.url))
        wait(late, "kept")
        assert post(other).status_code == 429
        assert node.node._works.waiting("coder") == 2
        late.vanish()
        socket.vanish()
