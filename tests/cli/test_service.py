"""``vivace service``: the unit it writes, and what systemd is told; systemctl is a stand-in."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vivace import __version__
from vivace.cli import service as module
from vivace.cli.main import commands
from vivace.cli.service_unit import Unit
from vivace.errors import ConfigError

CONFIG = 'version = 1\n[[engines]]\nname = "demo"\nkind = "scripted"\nmodel = "local-model"\n'
STAND_IN = """#!/bin/sh
echo "$*" >>{log}
case "$2" in
  {refused}) echo "Failed to do it" >&2; exit 1 ;;
  is-active) echo {state} ;;
  is-enabled) echo enabled ;;
esac
"""


class Desk:
    """A person at a Linux machine whose systemctl writes down what it is told."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.log = home / "systemctl.log"
        self.unit = home / "config/systemd/user/vivace.service"
        self.environment = {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PATH": f"{home}/bin:/usr/bin:/bin",
        }
        (home / "bin").mkdir()
        self.has_systemd()

    def has_systemd(self, *, refused: str = "nothing", state: str = "active") -> None:
        program = self.home / "bin/systemctl"
        told = {"log": shlex.quote(str(self.log)), "refused": refused, "state": state}
        program.write_text(STAND_IN.format(**told))
        program.chmod(0o755)

    def run(self, *arguments: str, answer: str = "") -> Result:
        runner = CliRunner(env=self.environment)
        return runner.invoke(commands, ["service", *arguments], input=answer)

    def does(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.exit_code == 0, (done.exception, done.output)
        return done.output

    def complaint(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert isinstance(done.exception, ConfigError), done.output
        return str(done.exception)

    def told(self) -> list[str]:
        """What changes something; questions are left out."""
        said = self.log.read_text().splitlines() if self.log.exists() else []
        questions = ("show", "is-active", "is-enabled")
        return [line.removeprefix("--user ") for line in said if line.split()[1] not in questions]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.chdir(tmp_path)
    return Desk(tmp_path)


def settings(desk: Desk) -> dict[str, str]:
    lines = [line for line in desk.unit.read_text().splitlines() if "=" in line]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def test_without_words_it_runs_vivace_up_here_and_is_started(desk: Desk) -> None:
    said = desk.does("install", "--yes")
    written = settings(desk)
    assert written["ExecStart"].endswith(' "up"')
    assert written["WorkingDirectory"] == str(desk.home)
    assert written["Restart"] == "on-failure"
    assert desk.told() == ["daemon-reload", "enable vivace.service", "restart vivace.service"]
    for told in (str(desk.unit), "journalctl --user", "vivace service remove"):
        assert told in said


def test_it_starts_the_program_of_this_environment(desk: Desk) -> None:
    desk.does("install", "--yes")
    program, *rest = shlex.split(settings(desk)["ExecStart"])
    ran = subprocess.run([program, *rest[:-1], "--version"], capture_output=True, check=False)
    assert ran.stdout.decode().strip() == f"vivace, version {__version__}"


def test_options_of_the_command_reach_it(desk: Desk) -> None:
    desk.does("install", "up", "--model", "qwen2.5-coder-0.5b", "--port", "9000", "--yes")
    words = shlex.split(settings(desk)["ExecStart"])
    assert words[-5:] == ["up", "--model", "qwen2.5-coder-0.5b", "--port", "9000"]


def test_a_wrong_option_is_told_now_and_nothing_is_written(desk: Desk) -> None:
    done = desk.run("install", "up", "--port", "many", "--yes")
    assert done.exit_code == 2
    assert "many" in done.output
    assert not desk.unit.exists()
    assert desk.told() == []


def test_another_command_is_no_service(desk: Desk) -> None:
    done = desk.run("install", "ask", "why?")
    assert done.exit_code == 2
    assert "vivace up or vivace serve" in done.output


def test_a_configuration_that_is_wrong_is_told_now(desk: Desk) -> None:
    assert "vivace.toml" in desk.complaint("install", "serve", "--yes")
    (desk.home / "vivace.toml").write_text(CONFIG.replace("model", "modle"))
    assert "modle" in desk.complaint("install", "serve", "--yes")
    assert not desk.unit.exists()
    (desk.home / "vivace.toml").write_text(CONFIG)
    desk.does("install", "serve", "--yes")
    assert settings(desk)["ExecStart"].endswith(' "serve"')


def test_nothing_is_written_unless_the_person_agrees(desk: Desk) -> None:
    assert "Nothing was changed" in desk.run("install", answer="n\n").output
    assert not desk.unit.exists()
    assert desk.told() == []


def test_a_unit_of_their_own_is_kept_aside_and_not_removed(desk: Desk) -> None:
    desk.unit.parent.mkdir(parents=True)
    desk.unit.write_text("[Service]\nExecStart=/bin/true\n")
    assert "by hand" in desk.complaint("remove", "--yes")
    desk.does("install", "--yes")
    assert (desk.unit.parent / "vivace.service.vivace-backup").exists()
    desk.does("remove", "--yes")
    assert desk.unit.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_removed_it_is_stopped_and_gone(desk: Desk) -> None:
    desk.does("install", "--yes")
    desk.log.unlink()
    desk.does("remove", "--yes")
    assert not desk.unit.exists()
    assert desk.told() == ["disable --now vivace.service", "daemon-reload"]
    assert "nothing to take away" in desk.does("remove", "--yes")


def test_status_says_how_it_is(desk: Desk) -> None:
    assert desk.run("status").exit_code == 1
    desk.does("install", "up", "--port", "9000", "--yes")
    said = desk.does("status")
    assert "vivace up --port 9000" in said
    assert "active, enabled" in said
    assert "wrong" not in said
    desk.has_systemd(state="failed")
    done = desk.run("status")
    assert done.exit_code == 1
    assert "failed" in done.output


def test_what_systemd_refuses_is_told_with_its_words(desk: Desk) -> None:
    desk.has_systemd(refused="restart")
    said = desk.complaint("install", "--yes")
    assert "Failed to do it" in said
    assert "journalctl" in said


def test_without_a_systemd_of_ones_own_it_says_why(desk: Desk) -> None:
    desk.has_systemd(refused="show")
    for command in (["install", "--yes"], ["status"], ["remove", "--yes"]):
        assert "log in as yourself" in desk.complaint(*command)
    assert not desk.unit.exists()


def test_without_systemctl_it_says_what_to_do(desk: Desk) -> None:
    desk.environment["PATH"] = str(desk.home)
    assert "vivace up" in desk.complaint("install", "--yes")


def test_on_macos_it_says_that_it_cannot_yet(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "not supported yet" in desk.complaint("install", "--yes")


# -- the unit -------------------------------------------------------------------------------------

ODD = Unit(
    program=("/opt/100% $HOME/bin/vivace",),
    words=("up", "--model", 'a "b" $c %d \\e'),
    folder=Path("/srv/50% off"),
    path="/usr/bin:/opt/a b",
    version="0.1.0",
)


def test_what_systemd_would_expand_is_written_so_that_it_does_not() -> None:
    text = ODD.text()
    assert 'ExecStart="/opt/100%% $$HOME/bin/vivace" "up" "--model"' in text
    assert '"a \\"b\\" $$c %%d \\\\e"' in text
    assert "WorkingDirectory=/srv/50%% off\n" in text
    assert 'Environment="PATH=/usr/bin:/opt/a b"' in text


def test_a_unit_tells_what_it_was_made_of() -> None:
    read = Unit.read(ODD.text())
    assert read is not None
    assert (read.program, read.words, read.folder) == (ODD.program, ODD.words, ODD.folder)
    assert Unit.read("[Service]\nExecStart=/bin/true\n") is None


def test_a_line_of_its_own_cannot_be_put_into_a_unit() -> None:
    with pytest.raises(ConfigError, match="control characters"):
        Unit(("vivace",), ("up\nExecStartPre=/bin/false",), Path("/"), "", "1").text()


def test_a_unit_whose_program_or_folder_is_gone_or_that_is_old_says_so(tmp_path: Path) -> None:
    program = tmp_path / "vivace"
    program.write_text("")
    well = Unit((str(program),), ("up",), tmp_path, "", __version__)
    assert list(well.problems(__version__)) == []
    [(old, advice)] = well.problems("9.9.9")
    assert "9.9.9" in old
    assert "vivace service install up" in advice
    program.unlink()
    [(gone, _)] = well.problems(__version__)
    assert "is gone" in gone


def test_systemd_takes_the_unit(desk: Desk) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    desk.does("install", "up", "--model", "50% of $it", "--yes")
    ran = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(desk.unit)],
        capture_output=True,
        text=True,
        env={"HOME": str(desk.home), "XDG_RUNTIME_DIR": str(desk.home), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_platform_that_is_refused_is_told_what_to_do() -> None:
    assert all("systemd" in told for told in module._ELSEWHERE.values())
