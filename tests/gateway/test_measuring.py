"""Conversations that may be too long, asked of engines here and of the same on a node."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fleets import KEY as FLEETS_KEY
from tests.support.fleets import Fleet
from tests.support.http import RESPONSES
from tests.support.nodes import FLEET_KEY as KEY
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import PATIENCE_S, eventually
from vivace.config import check
from vivace.engines.base import Card
from vivace.engines.messages import estimate_tokens, most_tokens
from vivace.engines.scripted import Reply, Say
from vivace.errors import Unavailable
from vivace.gateway.catalogue import Catalogue, Offer
from vivace.gateway.dispatch import Dispatch
from vivace.gateway.measuring import Measuring
from vivace.node.app import EngineNode
from vivace.protocol.items import Item, Message
from vivace.scheduling.tiers import Tier

CONTEXT = 1000
TIERS = [{"name": "fast", "engines": ["coder"]}]
post = partial(httpx.post, timeout=PATIENCE_S)
Both = tuple[RunningGateway, RunningGateway]


# -- a gateway with its own engine, and one with the same on a node -------------------------------


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    engine = {"name": "coder", "kind": "scripted", "model": "coder", "context": CONTEXT}
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setenv("VIVACE_FLEET_KEY", KEY)
        port = stack.enter_context(node(engine))
        embedded = configuration(engines=[engine], tiers=TIERS)
        fleet = {"engines": [f"ws://127.0.0.1:{port}"]}
        linked = configuration(engines=[], tiers=TIERS, fleet=fleet)
        here, there = (
            stack.enter_context(RunningGateway(config=each)) for each in (embedded, linked)
        )
        eventually(lambda: there.http.get("/readyz").is_success)
        yield here, there


@contextmanager
def node(engine: dict[str, Any]) -> Iterator[int]:
    """One with this engine, in a thread; gives its port."""
    raw = {"version": 1, "engines": [engine], "node": {"name": "n", "port": 0}}
    serving = EngineNode(check(raw, Path("node.toml")), Path())
    ports: Queue[int] = Queue()
    over = threading.Event()

    async def serve() -> None:
        async with serving.listening() as (_, port):
            ports.put(port)
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield ports.get(timeout=PATIENCE_S)
    finally:
        over.set()
        thread.join()


def words(tokens: int) -> str:
    """As the scripted engine counts."""
    return "abc " * (tokens - 1)


TEXTS = {
    "short": words(10),
    "long by its bytes, and fits": words(900),
    "one less than all": words(CONTEXT - 1),
    "all, and no room for an answer": words(CONTEXT),
    "one more": words(CONTEXT + 1),
    "far too long": words(40_000),
    "few characters of many bytes": "\u8a9e" * 1500,
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("more", [{}, {"instructions": words(150)}, {"stream": True}])
def test_it_is_refused_or_taken_as_by_an_engine_of_its_own(
    both: Both, text: str, more: dict[str, Any]
) -> None:
    answers = [post(f"{each.url}/responses", json={"input": TEXTS[text], **more}) for each in both]
    assert len({each.status_code for each in answers}) == 1
    if answers[0].status_code == 400:  # before any event
        here, there = ({**each.json()["error"], "request_id": None} for each in answers)
        assert here["code"] == "context_length_exceeded"
        assert there == here
    else:
        assert all(each.is_success and "completed" in each.text for each in answers)


def test_a_conversation_that_grows_too_long_is_refused_alike(
    both: Both,
) -> None:
    ends = []
    for server in both:
        last, sizes = None, []
        for tokens in (250, 250, 250, 90, 300):
            body = {"input": words(tokens), "previous_response_id": last}
            answer = post(f"{server.url}/responses", json=body)
            sizes.append(answer.status_code)
            last = answer.json().get("id", last)
        ends.append((sizes, answer.json()["error"]["code"]))
    assert ends[0] == ends[1]
    assert ends[0] == ([200, 200, 200, 200, 400], "context_length_exceeded")


def test_what_is_dropped_makes_room_also_there(both: Both) -> None:
    past = [{"role": "user", "content": words(400)} for _ in range(5)]
    for server in both:
        answer = post(f"{server.url}/responses", json={"input": past, "truncation": "auto"})
        assert answer.status_code == 400  # all of it is this turn's
        first = post(f"{server.url}/responses", json={"input": past[:2]})
        body = {
            "input": past[:1],
            "previous_response_id": first.json()["id"],
            "truncation": "auto",
        }
        assert post(f"{server.url}/responses", json=body).status_code == 200


def test_tokens_are_counted_by_the_node(both: Both) -> None:
    body = {
        "model": "fast",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": words(700)}],
    }
    counts = [
        post(f"{each.url}/messages/count_tokens", json=body).json()["input_tokens"] for each in both
    ]
    assert counts[0] == counts[1]


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("VIVACE_FLEET_KEY", FLEETS_KEY)
    with ExitStack() as stack:
        yield Fleet(stack, "", [Reply(then=(Say("Yes."),))])


LONG = {"input": words(90_000)}
"""Long by its bytes, and fits the nodes of a fleet."""


def questions(gateway: RunningGateway) -> int:
    """How many conversations nodes are asked about."""
    return sum(len(each._questions._asked) for each in gateway.gateway.fleet.nodes)


def test_where_no_node_answers_nobody_is_refused_for_being_too_long(nodes: Fleet) -> None:
    node = nodes.node()
    gateway = nodes.gateway(store={"path": ":memory:"})
    nodes.freeze(node)
    with ThreadPoolExecutor(1) as aside:
        asked = aside.submit(gateway.http.post, RESPONSES, json=LONG)
        eventually(lambda: questions(gateway) == 1)
        nodes.miss(node)
        answer = asked.result()
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "engine_unavailable"


def test_another_node_is_asked_when_one_does_not_answer(
    nodes: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.engines.remote_lengths._IN_TIME", PATIENCE_S)
    one, _ = nodes.node(), nodes.node()
    gateway = nodes.gateway(store={"path": ":memory:"})
    eventually(lambda: all(each.linked.is_set() for each in gateway.gateway.fleet.nodes))
    nodes.freeze(one)
    with ThreadPoolExecutor(8) as aside:
        # Each is a conversation of its own, and asks in its own order.
        asked = [aside.submit(gateway.http.post, RESPONSES, json=LONG) for _ in range(8)]
        eventually(lambda: questions(gateway) > 0)
        eventually(lambda: sum(each.done() for each in asked) + questions(gateway) == 8)
        nodes.miss(one)
        assert {each.result().status_code for each in asked} == {200}


# -- whom it asks ---------------------------------------------------------------------------------


class Witness:
    """An engine on a node, as far as this is about it."""

    def __init__(self, name: str, says: int | None, *, counts: bool = True) -> None:
        self.name, self.counts, self._says = name, counts, says
        self.cards = [Card("coder", CONTEXT)]
        self.asked = 0

    def healthy(self) -> bool:
        return True

    async def lengths(self, parts: Sequence[Sequence[Item]], model: str) -> Sequence[int] | None:
        self.asked += 1
        return None if self._says is None else [self._says] * len(parts)


def measured(text: str, *nodes: Witness, known: int = 0) -> Sequence[int]:
    catalogue = SimpleNamespace(by_name={each.name: each for each in nodes})
    measuring = Measuring(
        cast("Catalogue", catalogue), cast("Dispatch", SimpleNamespace(queueing=lambda each: each))
    )
    tier = Tier(name="fast", engines=tuple(catalogue.by_name))
    offer = Offer(tier, nodes[0].cards[0], cast("Any", nodes[0]))
    parts = [[Message(role="user", content=text)]]
    return asyncio.run(measuring.lengths(offer, "me/1", parts, known, refuses=True))


def test_what_surely_fits_is_asked_of_nobody() -> None:
    node = Witness("n", 7)
    assert measured(words(100), node)[0] > 100
    assert node.asked == 0


def test_what_may_not_fit_beside_what_is_known_is_asked() -> None:
    node = Witness("n", 7)
    assert measured(words(100), node, known=900) == [7]
    assert node.asked == 1


def test_engines_that_know_no_better_are_not_asked() -> None:
    node = Witness("n", 7, counts=False)
    assert measured(words(900), node)[0] > CONTEXT
    assert node.asked == 0


def test_two_are_asked_at_most_and_none_is_taken_for_a_refusal() -> None:
    nodes = [Witness(name, None) for name in "abc"]
    with pytest.raises(Unavailable, match="could say whether this conversation fits"):
        measured(words(900), *nodes)
    assert sum(each.asked for each in nodes) == 2


@given(st.text())
def test_no_text_has_more_tokens_than_it_is_said_to_have_at_most(text: str) -> None:
    items = [Message(role="user", content=text)]
    assert most_tokens(estimate_tokens(items)) >= len(text.encode()) + 16
