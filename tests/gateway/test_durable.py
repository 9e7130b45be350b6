"""A turn that was accepted is never lost: what anybody has seen of it is there after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import re
import signal
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.test_recovery import left_by_crash
from tests.support.http import RESPONSES
from tests.support.process import Serve
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually
from vivace.conversation.deltas import Finished
from vivace.engines.scripted import Mark, Reply, Say, Stall

TALE = """
[[replies]]
when = "tale"
then = [{ do = "say", text = " word", times = 300 }]
"""
A_STORY = Reply(when="story", then=(Say(" word", times=1_000_000),))
A_TALE = Reply(when="tale", then=(Say(" word", times=300),))
HERE: dict[str, Any] = {"store": {"path": "turns.db"}}
ENDS = ("response.completed", "response.incomplete", "response.failed")


def words(socket: Socket, count: int) -> tuple[str, str]:
    """The id of a response and its first words, as far as they were read."""
    response_id, text = "", ""
    while count:
        event = socket.read()
        if event["type"] == "response.created":
            response_id = event["response"]["id"]
        if event["type"] == "response.output_text.delta":
            text += event["delta"]
            count -= 1
    return response_id, text


def text_of(response: dict[str, Any]) -> str:
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


def seen_in(http: httpx.Client, path: str, characters: int, **query: Any) -> tuple[str, int]:
    """The first words of a stream, and the number of its last event that was read."""
    seen, number = "", -1
    with http.stream("GET", path, params={"stream": "true", **query}) as stream:
        for line in stream.iter_lines():
            if line.startswith("data: {"):
                event = json.loads(line[6:])
                seen, number = seen + event.get("delta", ""), event["sequence_number"]
                if len(seen) >= characters or event["type"] in ENDS:
                    break
    return seen, number


class Lives:
    """Gateways one after the other, each of which goes on with what the last one left."""

    def __init__(self, folder: Path, replies: Sequence[Reply]) -> None:
        self._folders = [folder / "0"]
        self._folders[0].mkdir()
        self._replies = replies

    @contextlib.contextmanager
    def life(self, rate: float) -> Iterator[tuple[RunningGateway, httpx.Client]]:
        config = configuration(**HERE, engine={"rate": rate})
        with (
            RunningGateway(self._replies, config=config, base=self._folders[-1]) as gateway,
            gateway.http as http,
        ):
            yield gateway, http

    def crash(self) -> Path:
        """Leave the folder to the next one as it is now."""
        after = self._folders[-1].with_name(str(len(self._folders)))
        self._folders.append(left_by_crash(self._folders[-1], after))
        return after


def kept(http: httpx.Client, text: str) -> str:
    """The path of a new turn in the background."""
    made = http.post(RESPONSES, json={"input": text, "background": True}).json()
    return f"{RESPONSES}/{made['id']}"


def test_what_was_seen_of_an_answer_is_there_when_its_client_does_not_come_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lives = Lives(tmp_path, [A_STORY])
    with lives.life(500) as (gateway, _), Socket(gateway.url) as socket:
        socket.create("a story")
        response_id, seen = words(socket, 40)
        lives.crash()
    with lives.life(2000) as (gateway, http):
        path = f"{RESPONSES}/{response_id}"
        assert http.get(path).json()["status"] == "in_progress"
        [waiting] = gateway.gateway.recovery.waiting
        waiting.until = waiting._seconds = -math.inf  # its time is over
        eventually(lambda: http.get(path).json()["status"] != "in_progress")
        found = http.get(path).json()
        assert found["status"] == "incomplete"
        assert found["incomplete_details"] == {"reason": "disconnected"}
        assert text_of(found).startswith(seen)
        goes_on = {"input": "and now?", "previous_response_id": response_id}
        assert http.post(RESPONSES, json=goes_on).json()["status"] == "completed"
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []


def test_an_answer_goes_on_when_its_client_is_back_and_nothing_is_said_twice(
    tmp_path: Path,
) -> None:
    lives = Lives(tmp_path, [A_TALE])
    with lives.life(200) as (gateway, _), Socket(gateway.url) as socket:
        socket.create("a tale")
        response_id, seen = words(socket, 40)
        lives.crash()
    with lives.life(2000) as (_, http):
        path = f"{RESPONSES}/{response_id}"
        number = 2 + 1 + 40  # created, in progress, item, part, and forty words, from 0 on
        rest, _ = seen_in(http, path, 10**6, starting_after=number)
        assert seen + rest == " word" * 300
        found = http.get(path).json()
        assert found["status"] == "completed"
        assert text_of(found) == seen + rest
        assert found["usage"]["output_tokens"] == 300


def test_a_turn_in_the_background_goes_on_by_itself(tmp_path: Path) -> None:
    lives = Lives(tmp_path, [A_TALE])
    with lives.life(200) as (_, http):
        path = kept(http, "a tale")
        seen, number = seen_in(http, path, 100)
        lives.crash()
    with lives.life(200) as (_, http):
        more, number = seen_in(http, path, 100, starting_after=number)
        lives.crash()
    with lives.life(2000) as (_, http):
        rest, _ = seen_in(http, path, 10**6, starting_after=number)
        assert seen + more + rest == " word" * 300
        eventually(lambda: http.get(path).json()["status"] == "completed")
        assert text_of(http.get(path).json()) == seen + more + rest


def test_a_turn_in_the_background_goes_on_after_each_kill_of_its_process(tmp_path: Path) -> None:
    path, number = "", -1
    for _ in range(2):
        with Serve(tmp_path, TALE, rate=100, tables=HERE) as server, server.http() as http:
            path = path or kept(http, "a tale")
            _, number = seen_in(http, path, 100, starting_after=number)
            server.process.send_signal(signal.SIGKILL)
    with Serve(tmp_path, TALE, tables=HERE) as server, server.http() as http:
        eventually(lambda: http.get(path).json()["status"] == "completed")
        assert text_of(http.get(path).json()) == " word" * 300


def test_each_engine_that_works_on_it_has_a_number_of_its_own(tmp_path: Path) -> None:
    lives = Lives(tmp_path, [Reply(when="tale", then=(Mark(times=300),))])
    path, number = "", 0
    for _ in range(3):
        with lives.life(100) as (_, http):
            path = path or kept(http, "a tale")
            _, number = seen_in(http, path, 100, starting_after=number)
            lives.crash()
    with lives.life(2000) as (_, http):
        eventually(lambda: http.get(path).json()["status"] == "completed")
        marks = re.findall(r"\.(\d+)@(\w+)\.a(\d+)", text_of(http.get(path).json()))
    assert [int(index) for index, _, _ in marks] == list(range(300))
    assert list(dict.fromkeys(int(attempt) for _, _, attempt in marks)) == [1, 2, 3, 4]
    assert len({engine for _, engine, _ in marks}) == 4


def lose_journal(folder: Path) -> None:
    for each in (folder / "turns.db-said").iterdir():
        each.unlink()


def test_one_whose_journal_is_lost_says_so(tmp_path: Path) -> None:
    lives = Lives(tmp_path, [A_STORY])
    with lives.life(500) as (gateway, _), Socket(gateway.url) as socket:
        socket.create("a story")
        response_id, _ = words(socket, 5)
        lose_journal(lives.crash())
    with lives.life(2000) as (_, http):
        found = http.get(f"{RESPONSES}/{response_id}").json()
        assert (found["status"], found["error"]["code"]) == ("failed", "lost_midway")


def test_one_that_is_lost_again_and_again_has_numbers_of_its_own_each_time(
    tmp_path: Path,
) -> None:
    lives = Lives(tmp_path, [A_STORY])
    path, firsts = "", []
    for _ in range(3):
        with lives.life(500) as (_, http):
            path = path or kept(http, "a story")
            with http.stream("GET", f"{path}?stream=true") as stream:
                told = next(line for line in stream.iter_lines() if line.startswith("data: {"))
                firsts.append(json.loads(told[6:])["sequence_number"])
            lose_journal(lives.crash())
    assert firsts == [0, 1_000_000, 2_000_000]


def test_a_client_hears_of_a_turn_when_it_is_on_record_and_the_engine_does_not_wait(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, generate = gateway.gateway.keeper.store, gateway.engine.generate
    accept, waiting, finished = store.accept, asyncio.Event(), threading.Event()

    async def slowly(turn: Any) -> Any:
        await waiting.wait()
        return await accept(turn)

    async def noted(work: Any) -> AsyncGenerator[Any, None]:
        async for each in generate(work):
            if isinstance(each, Finished):
                finished.set()
            yield each

    monkeypatch.setattr(store, "accept", slowly)
    monkeypatch.setattr(gateway.engine, "generate", noted)
    with Socket(gateway.url) as socket:
        socket.create("hi")
        assert finished.wait(PATIENCE_S)
        socket.send(type="response.interrupt", response_id="resp_unknown")
        assert socket.read()["type"] == "error"  # the first that it hears
        gateway.run(_set(waiting))
        kinds = [event["type"] for event in socket.until_end()]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


async def _set(event: asyncio.Event) -> None:
    event.set()


def test_a_turn_whose_parent_is_gone_by_then_is_refused_and_never_heard_of(
    gateway: RunningGateway,
) -> None:
    with Socket(gateway.url) as socket:
        parent = socket.turn("first")["response"]["id"]
        store = gateway.gateway.keeper.store
        gateway.run(store.delete(parent, "local"))  # by another gateway, as it were
        socket.create("on", previous_response_id=parent)
        [told] = socket.until_end()
        assert told["error"]["code"] == "previous_response_not_found"
        assert socket.turn("anew")["type"] == "response.completed"
    assert gateway.engine.running() == 0


def test_a_turn_after_one_that_is_not_kept_brings_all_that_came_before(tmp_path: Path) -> None:
    config = configuration(store={"path": "turns.db"})
    with RunningGateway(config=config, base=tmp_path) as gateway, Socket(gateway.url) as socket:
        passing = socket.turn("malachite", store=False)["response"]["id"]
        kept = socket.turn("obsidian", previous_response_id=passing)["response"]["id"]
    with RunningGateway(config=config, base=tmp_path) as gateway:
        items = gateway.http.get(f"{RESPONSES}/{kept}/input_items?order=asc").json()["data"]
        assert "malachite" in json.dumps(items)
        body = {"input": "and?", "previous_response_id": kept}
        assert gateway.http.post(RESPONSES, json=body).json()["status"] == "completed"


def test_a_steer_and_the_turn_that_it_made_are_on_record(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="story", then=(Say("word ", times=5), Stall(60)))])
    store = gateway.gateway.keeper.store
    with Socket(gateway.url) as socket:
        socket.create("a story")
        first, _ = words(socket, 1)
        socket.send(type="response.steer", previous_response_id=first, input="shorter")
        accepted = socket.until("response.steer.accepted")["steer"]["id"]
        order = gateway.run(store.find_order(accepted, "local"))
        assert order is not None
        assert order.turn_id == first
        successor = socket.until("response.created")["response"]["id"]
        order = gateway.run(store.find_order(accepted, "local"))
        assert order is not None
        assert (order.state, order.applied_by) == ("applied", successor)
        socket.until_end()
    record = gateway.run(store.find(successor, "local"))
    assert record is not None
    assert record.previous_id == first
