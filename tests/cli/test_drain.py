"""``vivace drain`` and what ``vivace top`` shows, of a real gateway and its nodes."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from tests.gateway.test_draining import SCRIPT, gateway_of
from tests.gateway.test_engine_nodes import until
from tests.support.http import key
from tests.support.nodes import EngineProcess
from tests.support.ports import free_port
from tests.support.process import Serve
from vivace.cli.main import commands


def vivace(server: Serve, *arguments: str, owner: str = "ops") -> Result:
    given = {"VIVACE_URL": server.url, "VIVACE_KEY": key(owner)}
    return CliRunner(env=given).invoke(commands, arguments)


def test_a_node_is_drained_shown_and_brought_back(tmp_path: Path) -> None:
    with (
        EngineProcess(tmp_path, "a", SCRIPT, rate=100) as one,
        EngineProcess(tmp_path, "b", SCRIPT, rate=100) as other,
        gateway_of(tmp_path, one, other) as server,
        server.socket("ada") as socket,
    ):
        socket.create("mark")
        until(socket, bool)
        for name in ("a", "b"):
            done = vivace(server, "drain", name, "--seconds", "0")
            assert done.exit_code == 0, done.output
            assert "is drained: nothing is left there" in done.output
            listed = vivace(server, "drain").output
            assert f"node     {name}  drained" in listed
            shown = vivace(server, "top", "--once", "--every", "0.1").output
            assert any(line.split()[:2] == [name, "drained"] for line in shown.splitlines()), shown
            back = vivace(server, "drain", name, "--undo")
            assert back.output == f"{name} takes work again.\n"
        assert socket.until_end(30)[-1]["type"] == "response.completed"


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    with (
        EngineProcess(tmp_path, "a", SCRIPT) as node,
        gateway_of(tmp_path, node) as server,
    ):
        for owner, name, why in (
            ("ops", "a", "Start another node first"),
            ("ops", "nobody", "Known here: a"),
            ("ada", "a", "vivace keys create NAME --admin"),
            ("stranger", "a", "wants a key"),
        ):
            refused = vivace(server, "drain", name, owner=owner)
            assert refused.exit_code != 0
            assert why in str(refused.exception)


def test_nobody_there_is_said() -> None:
    url = f"http://127.0.0.1:{free_port()}/v1"
    refused = CliRunner(env={"VIVACE_URL": url}).invoke(commands, ["drain", "a"])
    assert "No server answers" in str(refused.exception)
