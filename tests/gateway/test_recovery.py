"""What a gateway does with the turns that another left: each crash is a copy of its folder, made at
the worst moment."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import RESPONSES, sse
from tests.support.keyring import Keyring
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from tests.support.waiting import PATIENCE_S, eventually
from vivace.conversation.session import Ticket
from vivace.engines.scripted import Reply, Say, Stall, Think
from vivace.errors import StoreError
from vivace.gateway import planning
from vivace.gateway.app import Gateway
from vivace.gateway.resuming import moving
from vivace.scheduling.tiers import deserted
from vivace.store.sqlite import SqliteStore

HERE = configuration(store={"path": "turns.db"})
STORY = Reply(when="story", then=(Say("word ", times=5), Stall(60)))
ANSWER = Reply(then=(Say("Certainly."),))


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The folder of the gateway that dies."""
    folder = tmp_path / "before"
    folder.mkdir()
    return folder


def left_by_crash(before: Path, after: Path) -> Path:
    """Make ``after`` the folder as ``kill -9`` leaves it behind now."""
    after.mkdir()
    # File by file it would be torn, if pages move from one to the other meanwhile.
    with (
        closing(sqlite3.connect(before / "turns.db")) as live,
        closing(sqlite3.connect(after / "turns.db")) as left,
    ):
        live.backup(left)
    database = shutil.ignore_patterns("turns.db", "turns.db-wal", "turns.db-shm")
    shutil.copytree(before, after, dirs_exist_ok=True, ignore=database)
    return after


@pytest.fixture
def crash(before: Path, tmp_path: Path) -> Callable[[], Path]:
    return lambda: left_by_crash(before, tmp_path / "after")


class Gate:
    """Calls of a store's method wait here until it is opened."""

    def __init__(self, gateway: RunningGateway, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self._gateway = gateway
        self._open = asyncio.Event()
        self.waiting = 0
        store = gateway.gateway.keeper.store
        call = getattr(store, name)

        async def late(*given: Any, **more: Any) -> Any:
            self.waiting += 1
            await self._open.wait()
            return await call(*given, **more)

        monkeypatch.setattr(store, name, late)

    def open(self) -> None:
        async def work() -> None:
            self._open.set()

        self._gateway.run(work())


def begun(socket: Socket, text: str = "a story", **body: Any) -> str:
    """The id of a turn that has said something."""
    socket.create(text, **body)
    response_id: str = socket.until("response.created")["response"]["id"]
    socket.until("response.output_text.delta")
    return response_id


def kinds(events: list[Event]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_what_follows_a_steered_turn_goes_on_though_it_had_not_begun(
    before: Path, crash: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningGateway([STORY, ANSWER], config=HERE, base=before) as gateway:
        store = gateway.gateway.keeper.store
        end, left = store.end, list[Path]()

        async def and_die(ending: Any) -> Any:
            outcome = await end(ending)
            if ending.successor is not None:
                left.append(crash())
            return outcome

        monkeypatch.setattr(store, "end", and_die)
        with Socket(gateway.url) as socket:
            first = begun(socket)
            socket.send(type="response.steer", previous_response_id=first, input="shorter")
            successor = socket.until("response.created")["response"]["id"]
            socket.until_end()
    with RunningGateway([ANSWER], config=HERE, base=left[0]) as gateway:
        found = gateway.http.get(f"{RESPONSES}/{successor}").json()
        assert (found["status"], found["previous_response_id"]) == ("queued", first)
        with Socket(gateway.url) as socket:
            socket.send(type="response.resume", response_id=first)
            assert socket.until_end()[-1]["response"]["id"] == first
            events = socket.until_end()
        assert kinds(events)[0] == "created"
        assert {event["response"]["id"] for event in (events[0], events[-1])} == {successor}
        assert kinds(events)[-1] == "completed"
        assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.fixture
def parked(before: Path, crash: Callable[[], Path]) -> tuple[str, Path]:
    """A turn of which a client has seen words, and where it was left."""
    with (
        RunningGateway([STORY], config=HERE, base=before) as gateway,
        Socket(gateway.url) as socket,
    ):
        return begun(socket), crash()


@pytest.fixture
def in_background(before: Path, crash: Callable[[], Path]) -> tuple[str, Path]:
    with RunningGateway([STORY], config=HERE, base=before) as gateway:
        made = gateway.http.post(RESPONSES, json={"input": "a story", "background": True}).json()
        eventually(lambda: gateway.engine.running() == 1)
        return made["id"], crash()


def resume(socket: Socket, response_id: str, **more: Any) -> None:
    socket.send(type="response.resume", response_id=response_id, **more)


def test_a_store_that_is_away_when_a_client_comes_back_costs_neither_turn_nor_connection(
    parked: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = parked
    with RunningGateway([ANSWER], config=HERE, base=folder) as gateway:
        store = gateway.gateway.keeper.store
        park = store.park

        async def away(*_: Any) -> Any:
            raise StoreError("The store is away.")

        monkeypatch.setattr(store, "park", away)
        with Socket(gateway.url) as socket:
            resume(socket, response_id)
            error = socket.until("error")
            assert error["status"] == 503
            monkeypatch.setattr(store, "park", park)
            assert gateway.http.get(f"{RESPONSES}/{response_id}").json()["status"] == "in_progress"
            resume(socket, response_id)
            assert kinds(socket.until_end())[-1] == "completed"


def test_a_client_that_comes_back_twice_at_once_has_one_turn(
    parked: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = parked
    last = (Say("word ", times=9), Stall(600), Say("end"))
    with RunningGateway([Reply(then=last)], config=HERE, base=folder) as gateway:
        gate = Gate(gateway, "park", monkeypatch)
        with (
            Socket(gateway.url) as one,
            Socket(gateway.url) as other,
            ThreadPoolExecutor(2) as pool,
        ):
            resume(one, response_id)
            resume(other, response_id)
            eventually(lambda: gate.waiting == 1 and gateway.witness.received == 2)
            gate.open()
            reading = [pool.submit(each.until_end) for each in (one, other)]
            wait(reading, return_when=FIRST_COMPLETED)
            gateway.go_on()
            ends = [each.result()[-1] for each in reading]
        assert sorted(event["type"] for event in ends) == ["error", "response.completed"]
        told = next(event for event in ends if event["type"] == "error")
        assert told["error"]["code"] == "resumed_elsewhere"


def test_a_turn_in_the_background_is_known_while_engines_are_loading(
    in_background: tuple[str, Path],
) -> None:
    response_id, folder = in_background

    async def main() -> None:
        gateway = Gateway(HERE, folder)
        async with gateway.opened():
            turn = await gateway.runner.runs.find(response_id, "local")
            assert turn is not None
            response = await turn.response()
            assert response is not None
            assert response.status == "in_progress"

    asyncio.run(main())


def test_one_in_the_background_that_is_cancelled_before_it_goes_on_has_ended(
    in_background: tuple[str, Path],
) -> None:
    response_id, folder = in_background

    async def main() -> None:
        gateway = Gateway(HERE, folder)
        async with gateway.opened():
            await gateway.runner.cancel(response_id, "local")
            found = await gateway.archive.stat(response_id, "local")
            assert found is not None
            assert found.status == "cancelled"
            await gateway.start_engines()
            assert await gateway.runner.runs.find(response_id, "local") is None

    asyncio.run(main())


def test_a_turn_in_the_background_waits_until_there_is_an_engine(
    in_background: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = in_background
    with no_engine(folder, monkeypatch) as gateway:
        path = f"{RESPONSES}/{response_id}"
        refused = refusals(gateway, monkeypatch)
        eventually(lambda: len(refused) >= 2)
        assert gateway.http.get(path).json()["status"] == "in_progress"
        monkeypatch.undo()
        eventually(lambda: gateway.http.get(path).json()["status"] == "completed")


def steer(gateway: RunningGateway, response_id: str, **more: Any) -> Event:
    sent = {"json": {"input": "shorter"}} | more
    told: Event = gateway.http.post(f"{RESPONSES}/{response_id}/steer", **sent).json()
    return told


def check_steered(gateway: RunningGateway, response_id: str, told: Event) -> None:
    path, follower = f"{RESPONSES}/{response_id}", f"{RESPONSES}/{told['successor_id']}"
    eventually(lambda: gateway.http.get(path).json()["status"] == "incomplete")
    assert gateway.http.get(path).json()["incomplete_details"] == {"reason": "steered"}
    eventually(lambda: gateway.http.get(follower).json().get("status") == "completed")
    [said] = gateway.http.get(f"{follower}/input_items").json()["data"]
    assert "shorter" in str(said)


def test_a_turn_in_the_background_is_steered_while_it_waits_for_an_engine(
    in_background: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = in_background
    with no_engine(folder, monkeypatch) as gateway:
        told = steer(gateway, response_id)
        assert told["type"] == "response.steer.accepted"
        monkeypatch.undo()
        check_steered(gateway, response_id, told)


def test_such_a_steer_that_is_sent_again_is_applied_once(
    in_background: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = in_background
    with no_engine(folder, monkeypatch) as gateway:
        key = {"headers": {"Idempotency-Key": "once"}}
        told, again = (steer(gateway, response_id, **key) for _ in range(2))
        assert told["steer"] == again["steer"]
        monkeypatch.undo()
        check_steered(gateway, response_id, told)


def test_such_a_steer_outlives_its_gateway(
    in_background: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    response_id, folder = in_background
    with no_engine(folder, monkeypatch) as gateway:
        told = steer(gateway, response_id)
    monkeypatch.undo()
    with RunningGateway([ANSWER], config=HERE, base=folder) as gateway:
        check_steered(gateway, response_id, told)


def test_such_steers_are_refused_as_those_of_any_turn(
    in_background: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = in_background
    with no_engine(folder, monkeypatch) as gateway:
        bad = steer(gateway, response_id, json={"input": 7})
        assert bad["error"]["code"] == "invalid_input"
        told = [steer(gateway, response_id) for _ in range(17)]
        assert [each.get("type") for each in told[:-1]] == 16 * ["response.steer.accepted"]
        assert told[-1]["error"]["code"] == "too_many_pending_steers"
        gateway.http.post(f"{RESPONSES}/{response_id}/cancel")
        late = steer(gateway, response_id)
        assert late["error"]["code"] == "response_already_completed"


@pytest.mark.parametrize("waiting_for", ["parked", "in_background"])
def test_a_turn_that_no_engine_works_on_is_interrupted(
    waiting_for: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = request.getfixturevalue(waiting_for)
    path = f"{RESPONSES}/{response_id}"
    with no_engine(folder, monkeypatch) as gateway:
        told, late = (gateway.http.post(f"{path}/interrupt").json() for _ in range(2))
        assert told == {"type": "response.interrupt.accepted", "response_id": response_id}
        assert late["error"]["code"] == "response_already_completed"
        ended = gateway.http.get(path).json()
        assert ended["incomplete_details"] == {"reason": "interrupted"}
        monkeypatch.undo()
        looks, wanted = list[int](), gateway.gateway.recovery.wanted

        def counted() -> Any:
            found = wanted()
            looks.append(len(found))
            return found

        monkeypatch.setattr(gateway.gateway.recovery, "wanted", counted)
        eventually(lambda: len(looks) >= 2)
        assert set(looks) == {0}
        assert gateway.http.get(path).json() == ended


@pytest.mark.parametrize("times", [3, 10_000], ids=["for a moment", "for good"])
def test_what_a_steer_made_waits_for_an_engine_that_is_away(
    before: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    if times > 3:
        monkeypatch.setattr(planning, "_PATIENCE", 0.5)
    with (
        RunningGateway([STORY, ANSWER], config=HERE, base=before) as gateway,
        Socket(gateway.url) as socket,
    ):
        planner = gateway.gateway.runner.planner
        plan, away = planner._plan, iter(range(times))

        async def absent(ticket: Ticket, *given: Any) -> Any:
            if ticket.line and next(away, None) is not None:
                raise deserted("fast")
            return await plan(ticket, *given)

        monkeypatch.setattr(planner, "_plan", absent)
        first = begun(socket)
        socket.send(type="response.steer", previous_response_id=first, input="shorter")
        assert socket.until_end()[-1]["response"]["id"] == first
        end = socket.until_end()[-1]["response"]
        assert end["previous_response_id"] == first
        if times == 3:
            assert end["status"] == "completed"
        else:
            assert end["error"]["code"] == "engine_unavailable"


@pytest.mark.parametrize("way", ["stream", "resume"])
def test_who_comes_back_before_there_is_an_engine_waits_for_it(
    parked: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    response_id, folder = parked
    with no_engine(folder, monkeypatch) as gateway, ThreadPoolExecutor(1) as pool:
        path = f"{RESPONSES}/{response_id}"
        with Socket(gateway.url) as socket:
            if way == "stream":
                got = pool.submit(gateway.http.get, path, params={"stream": "true"})
            else:
                resume(socket, response_id)
            refused = refusals(gateway, monkeypatch)
            eventually(lambda: len(refused) >= 2)
            assert gateway.http.get(path).json()["status"] == "in_progress"
            monkeypatch.undo()
            if way == "resume":
                assert kinds(socket.until_end())[-1] == "completed"
            else:
                last = list(sse(got.result(PATIENCE_S).text.splitlines()))[-1]
                assert last["type"] == "response.completed"


def test_who_waits_for_an_engine_too_long_is_told_and_the_turn_stays(
    parked: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    response_id, folder = parked
    monkeypatch.setattr(moving, "_PATIENCE", 0.1)
    with no_engine(folder, monkeypatch) as gateway, Socket(gateway.url) as socket:
        resume(socket, response_id)
        assert socket.until("error")["error"]["code"] == "engine_unavailable"
        monkeypatch.undo()
        resume(socket, response_id)
        assert kinds(socket.until_end())[-1] == "completed"


def no_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunningGateway:
    """A gateway whose engine does not answer, until the patch is undone."""
    gateway = RunningGateway([ANSWER], config=HERE, base=folder)
    monkeypatch.setattr(gateway.engine, "healthy", lambda: False)
    return gateway


def refusals(gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of turns that are told from now on that there is no engine for them yet."""
    refused, park_again = list[str](), gateway.gateway.recovery.park_again

    async def noted(waiting: Any) -> None:
        await park_again(waiting)
        refused.append(waiting.id)

    monkeypatch.setattr(gateway.gateway.recovery, "park_again", noted)
    return refused


@pytest.mark.parametrize("way", ["cancel", "resume"])
def test_a_parked_turn_that_another_gateway_took_is_not_ended_here(
    parked: tuple[str, Path], way: str
) -> None:
    response_id, folder = parked
    with (
        RunningGateway([ANSWER], config=HERE, base=folder) as gateway,
        Socket(gateway.url) as socket,
    ):
        store = gateway.gateway.keeper.store
        gateway.run(store.take(response_id, 2, "another"))
        if way == "cancel":
            gateway.http.post(f"{RESPONSES}/{response_id}/cancel")
        else:
            resume(socket, response_id)
            assert socket.until("error")["error"]["code"] == "response_not_found"
        found = gateway.run(store.find(response_id, "local"))
        assert found is not None
        assert (found.status, found.holder) == (None, "another")
        assert gateway.engine.running() == 0


# -- steers on their way --------------------------------------------------------------------------


def steered(gateway: RunningGateway, response_id: str, **more: Any) -> tuple[str, str]:
    """The ids of a steer that was accepted, and of what is to follow."""
    body = {"input": "shorter", **more}
    told = gateway.http.post(f"{RESPONSES}/{response_id}/steer", json=body).json()
    return told["steer"]["id"], told["successor_id"]


def check_carried_out(gateway: RunningGateway, first: str, steer: str, successor: str) -> None:
    with Socket(gateway.url) as socket:
        resume(socket, first)
        ended, follows = socket.until_end()[-1], socket.until_end()[-1]
    assert ended["response"]["incomplete_details"] == {"reason": "steered"}
    assert (follows["type"], follows["response"]["id"]) == ("response.completed", successor)
    items = gateway.http.get(f"{RESPONSES}/{successor}/input_items").json()["data"]
    assert "shorter" in str(items)
    order = gateway.run(gateway.gateway.keeper.store.find_order(steer, "local"))
    assert order is not None
    assert (order.state, order.applied_by) == ("applied", successor)


def test_a_parked_turn_ends_when_its_key_is_revoked(
    before: Path, crash: Callable[[], Path]
) -> None:
    """No client and no engine is there to end the turn."""
    ann, bob = (
        {"Authorization": f"Bearer {Keyring(before).create(name)}"} for name in ("ann", "bob")
    )
    with RunningGateway([STORY], config=HERE, base=before) as gateway, ExitStack() as open_:
        clients = [open_.enter_context(Socket(gateway.url, key)) for key in (ann, bob)]
        hers, his = map(begun, clients)
        after = crash()
    with RunningGateway([STORY], config=HERE, base=after) as gateway, gateway.http as http:
        waiting = gateway.gateway.recovery._waiting
        eventually(lambda: {*waiting} == {hers, his})
        Keyring(after).revoke("ann")
        eventually(lambda: {*waiting} == {his})
        assert http.get(f"{RESPONSES}/{his}", headers=bob).json()["status"] != "failed"
        store = gateway.gateway.keeper.store
        owner = {each.name: each.id for each in Keyring(before).entries()}["ann"]
        ended = gateway.run(store.find(hers, owner))
        assert ended is not None
        assert (ended.status, b"invalid_api_key" in ended.response) == ("failed", True)


def test_a_steer_that_waits_for_the_end_of_an_item_is_carried_out_after_a_crash(
    before: Path, crash: Callable[[], Path]
) -> None:
    with (
        RunningGateway([STORY], config=HERE, base=before) as gateway,
        Socket(gateway.url) as socket,
    ):
        first = begun(socket)
        steer = steered(gateway, first, when="item_end")
        folder = crash()
    thinks = Reply(when="story", then=(Say("word ", times=5), Think("hm"), Say("on")))
    with RunningGateway([thinks, ANSWER], config=HERE, base=folder) as gateway:
        check_carried_out(gateway, first, *steer)


@pytest.mark.parametrize("when", ["now", "item_end"])
def test_a_steer_whose_turn_has_ended_but_not_on_record_is_carried_out_after_a_crash(
    before: Path, crash: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    says = Reply(when="story", then=(Say("word ", times=5), Stall(600), Think("hm"), Stall(600)))
    with RunningGateway([says, ANSWER], config=HERE, base=before) as gateway:
        store = gateway.gateway.keeper.store
        end, left = store.end, list[Path]()

        async def and_die(ending: Any) -> Any:
            if not left:
                left.append(crash())
            return await end(ending)

        monkeypatch.setattr(store, "end", and_die)
        with Socket(gateway.url) as socket:
            first = begun(socket)
            steer = steered(gateway, first, when=when)
            if when == "item_end":
                gateway.go_on()
            socket.until_ends(2)
    with RunningGateway([ANSWER], config=HERE, base=left[0]) as gateway:
        check_carried_out(gateway, first, *steer)


def test_a_steer_is_on_record_when_a_client_without_a_socket_is_told_so(
    before: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningGateway([STORY], config=HERE, base=before) as gateway:
        store = gateway.gateway.keeper.store
        gate = Gate(gateway, "order", monkeypatch)
        with Socket(gateway.url) as socket, ThreadPoolExecutor(1) as pool:
            told = pool.submit(steered, gateway, begun(socket), when="item_end")
            eventually(lambda: gate.waiting == 1)
            for _ in range(5):  # an answer to the other one would not come behind these
                assert gateway.http.get("/healthz").is_success
            assert not told.done()
            gate.open()
            assert gateway.run(store.find_order(told.result()[0], "local")) is not None


def test_what_was_interrupted_is_not_steered_after_a_crash(
    before: Path, crash: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunningGateway([STORY], config=HERE, base=before) as gateway:
        store = gateway.gateway.keeper.store
        end, left = store.end, list[Path]()

        async def and_die(ending: Any) -> Any:
            left.append(crash())
            return await end(ending)

        monkeypatch.setattr(store, "end", and_die)
        with Socket(gateway.url) as socket:
            first = begun(socket)
            steer, _ = steered(gateway, first, when="item_end")
            socket.send(type="response.interrupt", response_id=first)
            socket.until_end()
    with RunningGateway([ANSWER], config=HERE, base=left[0]) as gateway:
        found = gateway.http.get(f"{RESPONSES}/{first}").json()
        assert found["incomplete_details"] == {"reason": "interrupted"}
        order = gateway.run(gateway.gateway.keeper.store.find_order(steer, "local"))
        assert order is not None
        assert order.state == "returned"


@pytest.mark.parametrize("write", ["beat", "orphans", "take", "park"])
@pytest.mark.parametrize("done", [False, True], ids=["not done", "done, and not said so"])
def test_a_store_that_fails_while_turns_are_taken_over_costs_none_of_them(
    parked: tuple[str, Path], monkeypatch: pytest.MonkeyPatch, write: str, done: bool
) -> None:
    real, calls = getattr(SqliteStore, write), list[str]()

    async def failing(self: SqliteStore, *given: Any, **named: Any) -> Any:
        calls.append(write)
        if len(calls) > 1:
            return await real(self, *given, **named)
        if done:
            await real(self, *given, **named)
        raise StoreError("The disk does not answer.")

    monkeypatch.setattr(SqliteStore, write, failing)
    response_id, folder = parked
    with RunningGateway([ANSWER], config=HERE, base=folder) as gateway:
        at = f"{RESPONSES}/{response_id}"
        eventually(lambda: gateway.http.get(at).json().get("status") == "in_progress")
        with Socket(gateway.url) as socket:
            resume(socket, response_id)
            assert kinds(socket.until_end())[-1] == "completed"
    assert calls
