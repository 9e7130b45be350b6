"""``vivace doctor``: against the real gateway, and where something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.http import key, keys
from tests.support.ports import free_port
from tests.support.server import MODEL, RunningGateway, configuration
from vivace import __version__
from vivace.cli import doctor as module
from vivace.cli.completion import completion
from vivace.cli.doctor import doctor
from vivace.cli.service_unit import Unit
from vivace.client.checkup import Cancel
from vivace.engines.scripted import Fail, Reply, Say

WORDS = [Reply(then=(Say("one ", times=2000),))]


class Desk:
    """A person without settings, and with no editor but those that a test puts there."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.programs = home / "bin"
        self.programs.mkdir()
        unset = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "VIVACE_URL", "VIVACE_KEY", "SHELL")
        self.environment = dict.fromkeys(unset) | {
            "PATH": str(self.programs),
            "HOME": str(home),
        }

    def put_unit(self, version: str = __version__) -> None:
        program = self.home / "vivace"
        program.touch()
        path = self.home / ".config/systemd/user/vivace.service"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Unit((str(program),), ("up",), self.home, "", version).text())

    def put_editor(self, name: str) -> None:
        program = self.programs / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)

    def run(self, *arguments: str) -> Result:
        return CliRunner(env=self.environment).invoke(doctor, arguments)

    def findings(self, *arguments: str) -> dict[str, dict[str, Any]]:
        """By what was looked at; the last of each."""
        told = json.loads(self.run(*arguments, "--json").stdout)
        return {each["check"]: each for each in told["checks"]}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """On a machine of any speed: what is too slow is judged by tests that say so."""
    for limit, least in {"_SLOW_READING": 0.0, "_SLOW_WRITING": 0.0, "_LATE_S": 1e9}.items():
        monkeypatch.setattr(module, limit, least)
    return Desk(tmp_path)


def test_all_is_well_with_a_server_that_answers(desk: Desk) -> None:
    with RunningGateway(WORDS) as gateway:
        done = desk.run("--url", gateway.url)
    assert done.exit_code == 0, done.output
    for told in ("answers at http", MODEL, "tokens/s", "after a cancel", "vivace lsp"):
        assert told in done.output
    assert "wrong" not in done.output


def test_json_says_whether_all_is_well_and_why(desk: Desk) -> None:
    with RunningGateway(WORDS) as gateway:
        told = json.loads(desk.run("--url", gateway.url, "--json").stdout)
    assert told["well"] is True
    checks = [each["check"] for each in told["checks"]]
    assert checks == [
        *("versions", "lsp", "server", "key", "models", "fill", "speed", "cancel", "editors")
    ]


def test_where_nobody_answers_it_says_how_to_start_a_server(desk: Desk) -> None:
    done = desk.run("--url", f"http://127.0.0.1:{free_port()}/v1")
    assert done.exit_code == 1
    assert "nobody answers" in done.output
    assert "vivace up" in done.output
    assert "ssh -R" in done.output


def test_a_key_that_is_missing_or_unknown_is_told_apart(desk: Desk) -> None:
    with RunningGateway(WORDS, config=configuration(keys=keys("alice"))) as gateway:
        missing = desk.findings("--url", gateway.url)["key"]
        unknown = desk.findings("--url", gateway.url, "--key", "wrong")["key"]
        known = desk.findings("--url", gateway.url, "--key", key("alice"))["key"]
    assert (missing["state"], missing["found"]) == ("wrong", "the server asks for a key")
    assert (unknown["state"], unknown["found"]) == ("wrong", "the server does not know this key")
    assert known["state"] == "ok"


def test_an_engine_that_fails_is_named_with_its_words(desk: Desk) -> None:
    with RunningGateway([Reply(then=(Fail("Out of memory."),))]) as gateway:
        found = desk.findings("--url", gateway.url)
    assert found["speed"]["state"] == found["cancel"]["state"] == "wrong"
    assert "Out of memory." in found["speed"]["found"]


def test_a_model_that_fills_gaps_is_named(desk: Desk) -> None:
    with RunningGateway(WORDS) as gateway:
        found = desk.findings("--url", gateway.url)["fill"]
    assert found["state"] == "ok"
    assert MODEL in found["found"]


@pytest.mark.parametrize(
    ("model", "advice"), [(MODEL, "a smaller model"), ("qwen2.5-coder-0.5b", "the smallest")]
)
def test_a_slow_engine_is_wrong(
    desk: Desk, model: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SLOW_WRITING", 1e9)
    with RunningGateway(WORDS, config=configuration(engine={"model": model})) as gateway:
        found = desk.findings("--url", gateway.url)["speed"]
    assert found["state"] == "wrong"
    assert "too late" in found["found"]
    assert advice in found["advice"]


def test_an_engine_that_goes_on_after_a_cancel_is_wrong(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measured(*_: object) -> Cancel:
        return Cancel(usual=0.1, after_cancel=9.0)

    monkeypatch.setattr(module, "_LATE_S", 1.0)
    monkeypatch.setattr(module, "measure_cancel", measured)
    with RunningGateway(WORDS) as gateway:
        found = desk.findings("--url", gateway.url)["cancel"]
    assert found["state"] == "wrong"
    assert "llama-server" in found["advice"]


def test_an_editor_that_is_not_set_up_is_told_how(desk: Desk) -> None:
    desk.put_editor("zed")
    with RunningGateway(WORDS) as gateway:
        done = desk.run("--url", gateway.url)
    assert done.exit_code == 1
    assert "vivace connect zed" in done.output


def test_vs_code_is_set_up_by_its_extension(desk: Desk) -> None:
    desk.put_editor("code")
    with RunningGateway(WORDS) as gateway:
        before = desk.findings("--url", gateway.url)["editors"]
        (desk.home / ".vscode/extensions/vivace.vivace-0.1.0").mkdir(parents=True)
        after = desk.findings("--url", gateway.url)["editors"]
    assert (before["state"], after["state"]) == ("wrong", "ok")


def test_one_editor_that_is_set_up_is_enough(desk: Desk) -> None:
    desk.put_editor("zed")
    desk.put_editor("hx")
    settings = desk.home / ".config/zed/settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        json.dumps({"language_models": {"openai_compatible": {"vivace": {"api_url": "x"}}}})
    )
    with RunningGateway(WORDS) as gateway:
        done = desk.run("--url", gateway.url)
    assert done.exit_code == 0, done.output
    assert "zed is set up" in done.output
    assert "hx is not set up" in done.output


def test_a_server_of_another_version_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunningGateway(WORDS) as gateway:
        assert "the server runs" not in desk.run("--url", gateway.url).output
        monkeypatch.setattr(module, "__version__", "9.9.9")
        done = desk.run("--url", gateway.url)
    assert f"the server runs Vivace {__version__}, and this is 9.9.9" in done.output


def test_a_service_is_well_or_it_says_what_to_do(desk: Desk) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    assert "service" not in desk.findings("--url", nowhere)
    desk.put_unit()
    assert desk.findings("--url", nowhere)["service"]["state"] == "ok"
    desk.put_unit(version="0.0.1")
    old = desk.findings("--url", nowhere)["service"]
    assert old["state"] == "wrong"
    assert "vivace service install up" in old["advice"]


def test_it_says_whether_tab_completes_in_ones_shell(desk: Desk) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}/v1"
    assert "tab" not in desk.findings("--url", nowhere)
    desk.environment["SHELL"] = "/usr/bin/fish"
    before = desk.findings("--url", nowhere)["tab"]
    assert (before["state"], before["advice"]) == (
        "hint",
        "Have it written: vivace completion fish --write",
    )
    CliRunner(env=desk.environment).invoke(completion, ["fish", "--write", "--yes"])
    assert desk.findings("--url", nowhere)["tab"]["state"] == "ok"
    written = desk.home / ".config/fish/completions/vivace.fish"
    written.write_text(written.read_text().replace("function", "function "))
    assert "another version" in desk.findings("--url", nowhere)["tab"]["found"]
