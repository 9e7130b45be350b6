"""``vivace connect vscode``: our extension is put into editors by their own programs, if at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vivace.cli import vscode
from vivace.cli.connect import connect
from vivace.cli.doctor import doctor

URL = "http://127.0.0.1:8765/v1"


class Desk:
    """A person with the editors that a test puts there; each writes down what it is told."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._programs = home / "bin"
        self._programs.mkdir()
        self.package = home / "vivace.vsix"
        self.package.write_bytes(b"a package")

    def put_editor(self, name: str, then: str = "") -> None:
        folder = self.home / vscode.PROGRAMS[name][0] / "extensions/vivace.vivace-0.1.0"
        self.put_program(
            name,
            f'echo {name} "$@" >>{self.home}/calls\n{then}\n'
            f"case $1 in\n--install-extension) /bin/mkdir -p {folder};;\n"
            f"*) /bin/rmdir {folder};;\nesac\n",
        )

    def put_program(self, name: str, script: str) -> None:
        program = self._programs / name
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        path = self.home / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def run(self, *arguments: str, typed: str = "") -> Result:
        environment = {"PATH": str(self._programs), "HOME": str(self.home)}
        command = ["vscode", *arguments]
        return CliRunner(env=environment).invoke(connect, command, input=typed)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk(tmp_path)
    monkeypatch.setattr(vscode, "PACKAGE", desk.package)
    return desk


@pytest.mark.parametrize("program", vscode.PROGRAMS)
def test_an_editor_installs_the_package_and_takes_it_away(desk: Desk, program: str) -> None:
    desk.put_editor(program)

    done = desk.run("--write", "--yes")
    assert done.exit_code == 0, done.output
    assert desk.calls == [f"{program} --install-extension {desk.package}"]
    assert vscode.has_extension(program, desk.home)

    desk.run("--undo", "--yes")
    assert desk.calls[1:] == [f"{program} --uninstall-extension vivace.vivace"]
    assert "nothing to undo" in desk.run("--undo", "--yes").output


def test_nothing_is_run_before_the_person_has_seen_and_agreed_to_it(desk: Desk) -> None:
    desk.put_editor("code")
    shown = desk.run("--write", typed="n\n").output
    assert f"code --install-extension {desk.package}" in shown
    assert "Nothing was changed" in shown
    desk.run()
    assert desk.calls == []


@pytest.mark.parametrize(
    ("answer", "called"), [("cursor", ["cursor"]), ("all", ["code", "cursor"])]
)
def test_of_several_editors_the_person_chooses(desk: Desk, answer: str, called: list[str]) -> None:
    desk.put_editor("code")
    desk.put_editor("cursor")
    done = desk.run("--write", typed=f"{answer}\ny\n")
    assert done.exit_code == 0, done.output
    assert [call.partition(" ")[0] for call in desk.calls] == called


def test_of_several_editors_none_is_chosen_where_nobody_can_be_asked(desk: Desk) -> None:
    desk.put_editor("code")
    desk.put_editor("codium")
    done = desk.run("--write", "--yes")
    assert "code and codium" in str(done.exception)
    assert desk.calls == []


def test_without_an_editor_the_person_is_told_what_to_do(desk: Desk) -> None:
    done = desk.run("--write", "--yes")
    assert "Install from VSIX" in str(done.exception)
    assert str(desk.package) in str(done.exception)


def test_without_the_package_the_person_is_told_how_it_is_built(desk: Desk) -> None:
    desk.put_editor("code")
    desk.package.unlink()
    assert "scripts/extension" in str(desk.run("--write", "--yes").exception)
    assert "scripts/extension" in desk.run().output
    assert desk.calls == []


def test_what_the_editor_refuses_is_told_with_its_words(desk: Desk) -> None:
    desk.put_editor("code", then="echo it is too old >&2; exit 3")
    done = desk.run("--write", "--yes")
    assert "it is too old" in str(done.exception)
    assert "Install from VSIX" in str(done.exception)
    assert not vscode.has_extension("code", desk.home)


def test_only_settings_that_are_needed_are_asked_for(desk: Desk) -> None:
    desk.put_editor("code")
    assert '"vivace.command": "/' in desk.run("--url", URL).output
    desk.put_program("vivace", "")
    assert "user settings" not in desk.run("--url", URL).output
    assert '"vivace.address": "http://elsewhere/v1"' in desk.run("--url", "http://elsewhere").output


def test_the_doctor_knows_which_of_the_editors_has_it(desk: Desk) -> None:
    desk.put_editor("code")
    desk.run("--write", "--yes")
    desk.put_editor("cursor")
    environment = {"PATH": str(desk.home / "bin"), "HOME": str(desk.home)}
    told = CliRunner(env=environment).invoke(doctor, ["--url", "http://127.0.0.1:9/v1"]).output
    assert "code is set up" in told
    assert "cursor is not set up" in told
