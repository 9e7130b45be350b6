"""What a gateway does with the turns that another left: each crash is a copy of its folder, made at
the worst moment."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import RESPONSES
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Event, Socket
from vivace.engines.scripted import Reply, Say, Stall

HERE = configuration(store={"path": "turns.db"})
STORY = Reply(when="story", then=(Say("word ", times=5), Stall(60)))
ANSWER = Reply(then=(Say("Certainly."),))


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The folder of the gateway that dies."""
    folder = tmp_path / "before"
    folder.mkdir()
    return folder


@pytest.fixture
def crash(before: Path, tmp_path: Path) -> Callable[[], Path]:
    """Leaves the folder behind as ``kill -9`` does now."""

    def copy() -> Path:
        shutil.copytree(before, tmp_path / "after", dirs_exist_ok=True)
        return tmp_path / "after"

    return copy


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
