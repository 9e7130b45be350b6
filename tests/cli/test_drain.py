"""``vivace drain`` and what ``vivace top`` shows, of a gateway and its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from click.testing import CliRunner, Result

from tests.support.fleets import KEY, Fleet
from tests.support.http import bearer, key, keys
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.server import RunningGateway
from tests.support.socket import Socket
from vivace.cli.main import commands
from vivace.engines.scripted import Mark, Reply

KEYS = [each | {"admin": each["name"] == "ops"} for each in keys("ops", "ada")]


@pytest.fixture
def fleet(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("VIVACE_FLEET_KEY", KEY)
    with ExitStack() as stack:
        yield Fleet(stack, postgres.emptied(), [Reply(when="mark", then=(Mark(times=100),))])


def vivace(gateway: RunningGateway, *arguments: str, owner: str = "ops") -> Result:
    given = {"VIVACE_URL": gateway.url, "VIVACE_KEY": key(owner)}
    return CliRunner(env=given).invoke(commands, arguments)


def test_a_node_is_drained_shown_and_brought_back(fleet: Fleet) -> None:
    fleet.node()
    fleet.node()
    gateway = fleet.gateway(keys=KEYS)
    with Socket(gateway.url, bearer("ada")) as socket:
        socket.create("mark")
        socket.until("response.output_text.delta")
        for name in ("a", "b"):
            done = vivace(gateway, "drain", name, "--seconds", "0")
            assert done.exit_code == 0, done.output
            assert "is drained: nothing is left there" in done.output
            listed = vivace(gateway, "drain").output
            assert f"node     {name}  drained" in listed
            shown = vivace(gateway, "top", "--once", "--every", "0.1").output
            assert any(line.split()[:2] == [name, "drained"] for line in shown.splitlines()), shown
            back = vivace(gateway, "drain", name, "--undo")
            assert back.output == f"{name} takes work again.\n"
        fleet.go()
        assert socket.until_end()[-1]["type"] == "response.completed"


def test_what_cannot_be_is_said(fleet: Fleet) -> None:
    fleet.node()
    gateway = fleet.gateway(keys=KEYS)
    for owner, name, why in (
        ("ops", "a", "Start another node first"),
        ("ops", "nobody", "Known here: a"),
        ("ada", "a", "vivace keys create NAME --admin"),
        ("stranger", "a", "wants a key"),
    ):
        refused = vivace(gateway, "drain", name, owner=owner)
        assert refused.exit_code != 0
        assert why in str(refused.exception)


def test_a_server_that_does_not_answer_is_said() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    refused = CliRunner(env={"VIVACE_URL": url}).invoke(commands, ["drain", "a"])
    assert "No server answers" in str(refused.exception)
