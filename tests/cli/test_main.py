"""The command line as a person meets it: in a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.support.keyring import Keyring
from vivace import __version__
from vivace.cli.main import commands
from vivace.store.files import Claim

RIGHT = """version = 1
[server]
port = 0
[store]
path = ":memory:"
[[engines]]
name = "demo"
kind = "scripted"
model = "local-model"
"""


CONTEXT = click.Context(commands, **commands.context_settings)
NAMES = commands.list_commands(CONTEXT)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "vivace.toml"
    path.write_text(RIGHT)
    return path


def vivace(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    program = "from vivace.cli.main import main; main()"
    inherited = {name: value for name, value in os.environ.items() if "VIVACE" not in name}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=inherited | environment,
        timeout=60,  # a busy machine takes many seconds to start Python
        check=False,
    )


def complaint(ran: subprocess.CompletedProcess[str]) -> str:
    """The one line a person sees when something is wrong."""
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    (line,) = [line for line in ran.stderr.splitlines() if line.startswith("vivace: ")]
    return line


# -- help -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["serve", "-h"], ["config", "-h"]])
def test_help_is_there(arguments: list[str]) -> None:
    shown = CliRunner().invoke(commands, arguments)
    assert shown.exit_code == 0
    assert "Usage:" in shown.output


def test_help_names_every_command() -> None:
    shown = CliRunner().invoke(commands, ["--help"]).output
    assert all(f"\n  {name} " in shown for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_explains_itself(name: str) -> None:
    waiting = [(name, commands.get_command(CONTEXT, name))]
    for name, command in waiting:
        assert command is not None
        assert command.help, name
        if isinstance(command, click.Group):
            waiting += [(f"{name} {each}", inner) for each, inner in command.commands.items()]
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.name}"


def test_the_version_is_told() -> None:
    assert __version__ in CliRunner().invoke(commands, ["--version"]).output


def test_an_unknown_command_is_an_error_of_use() -> None:
    assert CliRunner().invoke(commands, ["sreve"]).exit_code == 2


# -- config check ---------------------------------------------------------------------------------


def test_a_right_file_is_said_to_be_right_with_what_it_means(path: Path) -> None:
    shown = CliRunner(env={"VIVACE_PORT": "4321"}).invoke(
        commands, ["config", "check", "-c", str(path)]
    )
    assert shown.exit_code == 0
    assert f"{path} is right." in shown.output
    for part in ("http://127.0.0.1:4321/v1", "local-model", "demo", ":memory:", "this machine"):
        assert part in shown.output


def test_a_model_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "vivace.toml"
    engine = '[[engines]]\nname = "local"\nkind = "llamacpp"\nmodel = "m"\npath = "m.gguf"\n'
    path.write_text(f"version = 1\n{engine}")
    check = ["config", "check", "-c", str(path)]
    shown = CliRunner().invoke(commands, check)
    assert shown.exit_code == 0
    assert f"missing     {tmp_path / 'm.gguf'}" in shown.output
    (tmp_path / "m.gguf").touch()
    assert "missing" not in CliRunner().invoke(commands, check).output


def test_where_engine_nodes_are_is_told(tmp_path: Path) -> None:
    path = tmp_path / "vivace.toml"
    path.write_text('version = 1\n[fleet]\nengines = ["ws://127.0.0.1:8770", "ws://[::1]:8771"]\n')
    shown = CliRunner().invoke(commands, ["config", "check", "-c", str(path)])
    assert shown.exit_code == 0
    for address in ("ws://127.0.0.1:8770", "ws://[::1]:8771"):
        assert f"nodes       {address}" in shown.output


def test_the_keys_are_counted_wherever_they_are_kept(path: Path) -> None:
    def keys() -> str:
        shown = CliRunner().invoke(commands, ["config", "check", "-c", str(path)])
        assert shown.exit_code == 0, shown.output
        (line,) = (line for line in shown.output.splitlines() if line.startswith("  keys "))
        return line.removeprefix("  keys").strip()

    assert keys() == "none (this machine only)"
    path.write_text(RIGHT.replace("port = 0", 'host = "0.0.0.0"'))
    keyring = Keyring(path.parent)
    keyring.create("anna")
    assert keys() == "1"
    path.write_text(path.read_text() + f'[[keys]]\nname = "root"\nsha256 = "{"0" * 64}"\n')
    assert keys() == "2"
    path.write_text(RIGHT)
    keyring.revoke("anna")
    assert keys() == "none, so nobody may come in; to make one: vivace keys create NAME"
    url = 'url = "postgresql://ada@127.0.0.1:1/turns"'  # nobody asks there
    path.write_text(RIGHT.replace('path = ":memory:"', url).replace("port = 0", 'host = "0.0.0.0"'))
    assert keys() == "those in PostgreSQL turns on 127.0.0.1"
    keyring.create("anna")
    assert keys() == "1 here, and those in PostgreSQL turns on 127.0.0.1"


def test_two_keys_that_could_be_taken_for_each_other_are_named(path: Path) -> None:
    Keyring(path.parent).create("root")
    path.write_text(RIGHT + f'[[keys]]\nname = "root"\nsha256 = "{"0" * 64}"\n')
    said = complaint(vivace("config", "check", cwd=path.parent))
    assert "'root' of keys.json is not let in" in said
    assert "vivace keys revoke root" in said


def test_the_file_is_found_here_or_by_the_environment(path: Path, tmp_path: Path) -> None:
    assert vivace("config", "check", cwd=tmp_path).returncode == 0
    other = path.rename(tmp_path / "other.toml")
    assert vivace("config", "check", cwd=tmp_path, VIVACE_CONFIG=str(other)).returncode == 0


def test_a_missing_file_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    said = complaint(vivace("config", "check", cwd=tmp_path))
    assert "vivace.toml" in said
    assert "--config" in said


@pytest.mark.parametrize("command", [["config", "check"], ["serve"]])
def test_an_unknown_key_is_answered_with_the_nearest_right_one(
    path: Path, tmp_path: Path, command: list[str]
) -> None:
    path.write_text(RIGHT.replace("port", "prot"))
    assert "unknown key 'prot'; did you mean 'port'?" in complaint(vivace(*command, cwd=tmp_path))


def test_a_wrong_type_is_answered_with_its_place(path: Path, tmp_path: Path) -> None:
    path.write_text(RIGHT.replace("port = 0", 'port = "eighty"'))
    said = complaint(vivace("config", "check", cwd=tmp_path))
    assert "server.port: expected `int`, got `str`" in said


# -- serve ----------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_one_line_that_says_what_to_do(path: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = complaint(vivace("serve", cwd=tmp_path, VIVACE_PORT=port))
    assert f"Cannot listen on 127.0.0.1:{port}: Address already in use. Stop" in said
    assert "VIVACE_PORT" in said


def test_a_script_that_is_not_there_is_named(path: Path, tmp_path: Path) -> None:
    path.write_text(RIGHT + 'script = "none.toml"\n')
    assert "none.toml" in complaint(vivace("serve", cwd=tmp_path))


def test_a_store_that_cannot_be_opened_is_named(path: Path, tmp_path: Path) -> None:
    path.write_text(RIGHT.replace(":memory:", "missing/vivace.db"))
    assert "missing/vivace.db" in complaint(vivace("serve", cwd=tmp_path))


def test_a_second_server_on_a_store_is_refused_before_it_takes_a_port(
    path: Path, tmp_path: Path
) -> None:
    path.write_text(RIGHT.replace(":memory:", "vivace.db"))
    first = Claim(tmp_path / "vivace.db")
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            said = complaint(vivace("serve", cwd=tmp_path, VIVACE_PORT=port))
    finally:
        first.release()
    assert "in use by another gateway" in said


def test_what_needs_no_server_does_not_wait_for_one(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from vivace.cli.main import commands\n"
        "commands.main(['--version'], standalone_mode=False)\n"
        "heavy = ('vivace.gateway', 'vivace.engines', 'starlette', 'uvicorn', 'tree_sitter', "
        "'httpx2', 'rich', 'asyncio')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ran.stdout.splitlines() == [f"vivace, version {__version__}", "[]"]


@pytest.mark.parametrize("command", ["ask", "connect", "demo", "edit", "undo"])
def test_a_clients_command_runs_where_nothing_of_the_server_is_installed(
    command: str, tmp_path: Path
) -> None:
    program = (
        "import sys\n"
        "for name in ('httptools', 'prometheus_client', 'starlette', 'uvicorn', 'uvloop'):\n"
        "    sys.modules[name] = None\n"
        "from vivace.cli.main import commands\n"
        f"commands.main(['{command}', '--help'], standalone_mode=False)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    assert "Usage:" in ran.stdout
