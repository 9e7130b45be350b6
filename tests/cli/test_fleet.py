"""``vivace fleet check``: whatever is wrong with what a gateway's file leads to."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.fleets import KEY, RunningNode
from tests.support.nodes import FLEET_KEY, EngineProcess, make_certificates
from tests.support.ports import free_port
from tests.support.postgres import Postgres
from tests.support.process import toml
from vivace.cli.main import commands
from vivace.store import connections

TIERS = [{"name": "fast", "engines": ["coder"]}]


def check(folder: Path, *arguments: str, fleet_key: str = KEY, **tables: Any) -> Result:
    config = {"version": 1, "tiers": TIERS} | tables
    path = folder / "gateway.toml"
    path.write_text("".join(f"{name} = {toml(value)}\n" for name, value in config.items()))
    nobody = f"http://127.0.0.1:{free_port()}/v1"
    given = {"VIVACE_FLEET_KEY": fleet_key, "VIVACE_URL": nobody, "VIVACE_KEY": None}
    return CliRunner(env=given).invoke(
        commands, ["fleet", "check", "--config", str(path), *arguments]
    )


def findings(ran: Result) -> dict[str, list[tuple[str, str]]]:
    """By what was looked at: how it is, and all the words."""
    told: dict[str, list[tuple[str, str]]] = {}
    for each in json.loads(ran.stdout)["checks"]:
        words = f"{each['found']} {each['advice']}"
        told.setdefault(each["check"], []).append((each["state"], words))
    return told


def test_a_fleet_that_is_well(tmp_path: Path, postgres: Postgres) -> None:
    with RunningNode("a", [], rate=400, slots=16) as node:
        store = {"url": postgres.emptied()}
        ran = check(tmp_path, "--json", store=store, fleet={"engines": [node.url]})
        told = findings(ran)
        assert json.loads(ran.stdout)["well"] is True
        assert ran.exit_code == 0
        assert told["store"][0][0] == told["clock"][0][0] == "ok"
        assert told["nodes"] == [("ok", f"a at {node.url} offers coder ")]
        assert "each gateway gives out its share" in told["valkey"][0][1]
        plain = check(tmp_path, store=store, fleet={"engines": [node.url]})
        assert plain.exit_code == 0
        assert "ok    nodes" in plain.stdout


def test_a_node_that_is_not_as_it_should_be(tmp_path: Path) -> None:
    node, like = (RunningNode("a", [], rate=400, slots=16) for _ in range(2))
    with node, like:
        dead = f"ws://127.0.0.1:{free_port()}"
        nowhere = "ws://no-such-node.invalid:8770"
        urls = [node.url, like.url, dead, nowhere]
        settings = {"engines": urls, "allow_remote": True, "allow_plain": True}
        ran = check(tmp_path, "--json", fleet=settings)
        assert ran.exit_code == 1
        wrong = [words for state, words in findings(ran)["nodes"] if state == "wrong"]
        assert len(wrong) == 3
        assert any("nothing listens there" in each for each in wrong)
        assert any("no-such-node.invalid has no address" in each for each in wrong)
        assert any("2 nodes call themselves 'a'" in each for each in wrong)
        stranger = check(
            tmp_path, "--json", fleet={"engines": [node.url]}, fleet_key="another key than theirs"
        )
        told = findings(stranger)
        assert "another key" in told["nodes"][0][1]
        assert told["tiers"][0][0] == "wrong"
        plain = check(tmp_path, "--json", fleet={"engines": [node.url.replace("ws:", "wss:")]})
        assert "whether 'wss' is meant" in findings(plain)["nodes"][0][1]


def test_a_certificate_that_is_not_believed(tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    files: dict[str, Any] = {
        "certificate": str(certificates / "node.pem"),
        "private_key": str(certificates / "node.key"),
    }
    with EngineProcess(tmp_path, "a", **files) as node:
        url = node.url.replace("ws:", "wss:")
        ran = check(tmp_path, "--json", fleet={"engines": [url]}, fleet_key=FLEET_KEY)
        state, words = findings(ran)["nodes"][0]
        assert state == "wrong"
        assert "no encrypted link: CERTIFICATE_VERIFY_FAILED" in words
        assert "fleet.ca must have the certificate of the authority" in words
        believed = {"engines": [url], "ca": str(certificates / "ca.pem")}
        assert check(tmp_path, "--json", fleet=believed, fleet_key=FLEET_KEY).exit_code == 0


def test_a_database_that_cannot_be_used(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines = [{"name": "coder", "kind": "scripted", "model": "coder"}]
    away = {"url": f"postgresql://vivace:secret-word@127.0.0.1:{free_port()}/vivace"}
    with monkeypatch.context() as impatient:
        impatient.setattr(connections, "_PATIENCE", 0.3)
        ran = check(tmp_path, "--json", store=away, engines=engines)
    assert ran.exit_code == 1
    assert "does not answer" in findings(ran)["store"][0][1]
    assert "secret-word" not in ran.stdout
    bare = {"url": postgres.database(migrated=False)}
    ran = check(tmp_path, "--json", store=bare, engines=engines)
    assert "vivace store migrate" in findings(ran)["store"][0][1]


def test_a_valkey_that_does_not_answer(tmp_path: Path) -> None:
    engines = [{"name": "coder", "kind": "scripted", "model": "coder"}]
    settings = {"valkey": f"redis://127.0.0.1:{free_port()}/0"}
    ran = check(tmp_path, "--json", engines=engines, fleet=settings)
    assert ran.exit_code == 1
    state, words = findings(ran)["valkey"][0]
    assert state == "wrong"
    assert "its share of every limit" in words


def test_a_file_that_cannot_be_used_is_told_of_and_nothing_else(tmp_path: Path) -> None:
    for settings, word in (
        ({"engines": ["wss://gpu.example:8770"]}, "allow_remote"),
        (
            {
                "engines": ["ws://127.0.0.1:8770"],
                "heartbeat_seconds": 4,
                "dead_after_seconds": 4,
            },
            "two heartbeats",
        ),
    ):
        ran = check(tmp_path, "--json", fleet=settings)
        assert ran.exit_code == 1
        (only,) = json.loads(ran.stdout)["checks"]
        assert word in only["found"]


def test_who_looks_goes_on_logging_afterwards(tmp_path: Path) -> None:
    assert check(tmp_path, fleet={"engines": [f"ws://127.0.0.1:{free_port()}"]}).exit_code == 1
    assert logging.getLogger("vivace.turns").isEnabledFor(logging.ERROR)
