"""What a store did not take is written when it works again, and meanwhile survives a crash."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import RESPONSES
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.conversation.log import Said, decode
from vivace.errors import StoreError
from vivace.store.base import Fenced, TurnEnd
from vivace.store.journal import FileJournal


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[RunningGateway]:
    config = configuration(store={"path": "turns.db"})
    with RunningGateway(base=tmp_path, config=config) as running:
        yield running


OTHER = "0" * 32


class Lost:
    """A store's method that does nothing, or does it and tells nobody."""

    def __init__(self, gateway: RunningGateway, name: str, *, done: bool) -> None:
        self._store: Any = gateway.gateway.keeper.store
        self._name, self._done = name, done
        self._call = getattr(self._store, name)

    async def _lost(self, *given: Any) -> Any:
        if self._done:
            await self._call(*given)
        raise StoreError("The store is away.", uncertain=self._done)

    def __enter__(self) -> None:
        setattr(self._store, self._name, self._lost)

    def __exit__(self, *_: object) -> None:
        setattr(self._store, self._name, self._call)


@pytest.mark.parametrize("done", [False, True], ids=["not written", "answer lost"])
def test_an_end_that_the_store_did_not_take_is_on_record_when_it_works_again(
    gateway: RunningGateway, *, done: bool
) -> None:
    keeper = gateway.gateway.keeper
    with gateway.http as http:
        with Lost(gateway, "end", done=done):
            told = http.post(RESPONSES, json={"input": "x"}).json()
            assert (told["status"], told["store"]) == ("completed", False)
            gateway.run(keeper.write_owed())
            assert told["id"] in keeper.owed
        eventually(lambda: told["id"] not in keeper.owed)  # by itself
        record = gateway.run(keeper.store.find(told["id"], "local"))
        assert record is not None
        assert record.status == "completed"
        assert http.get(f"{RESPONSES}/{told['id']}").json()["output"] == told["output"]


def test_until_then_the_journal_has_it(gateway: RunningGateway, tmp_path: Path) -> None:
    with gateway.http as http, Lost(gateway, "end", done=False):
        told = http.post(RESPONSES, json={"input": "x"}).json()
        left = FileJournal(tmp_path / "turns.db-said").left()
    [kept] = [each for each in left if each.id == told["id"]]
    assert kept.whole
    assert isinstance(decode(kept.entries[-1]), Said)


def test_one_that_was_deleted_meanwhile_stays_deleted(gateway: RunningGateway) -> None:
    keeper = gateway.gateway.keeper
    with gateway.http as http:
        with Lost(gateway, "end", done=False):
            told = http.post(RESPONSES, json={"input": "x"}).json()
            assert http.delete(f"{RESPONSES}/{told['id']}").status_code == 200
        gateway.run(keeper.write_owed())
        assert told["id"] not in keeper.owed
        assert gateway.run(keeper.store.find(told["id"], "local")) is None


def test_a_turn_that_was_turned_away_is_not_on_record_for_long(gateway: RunningGateway) -> None:
    keeper = gateway.gateway.keeper
    accepted: list[str] = []
    accept = keeper.store.accept

    async def noted(turn: Any) -> Any:
        accepted.append(turn.id)
        return await accept(turn)

    keeper.store.accept = noted  # type: ignore[method-assign]
    with gateway.http as http, Lost(gateway, "accept", done=True):
        answer = http.post(RESPONSES, json={"input": "x", "background": True})
        assert answer.status_code == 503
    [response_id] = accepted
    gateway.run(keeper.write_owed())
    assert gateway.run(keeper.store.find(response_id, "local")) is None


def test_what_another_gateway_has_ended_meanwhile_is_owed_no_more(
    gateway: RunningGateway,
) -> None:
    keeper = gateway.gateway.keeper
    with gateway.http as http, Lost(gateway, "end", done=False):
        told = http.post(RESPONSES, json={"input": "x"}).json()
    end = TurnEnd(id=told["id"], epoch=1, op=OTHER, status="failed", response=b"{}", cuts=b"")
    assert not isinstance(gateway.run(keeper.store.end(end)), Fenced)
    gateway.run(keeper.write_owed())
    assert told["id"] not in keeper.owed
    record = gateway.run(keeper.store.find(told["id"], "local"))
    assert record is not None
    assert record.status == "failed"
