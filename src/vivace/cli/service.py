"""``vivace service``: a server that systemd starts and watches, as a unit of the person's own."""

from __future__ import annotations

import getpass
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from vivace import __version__
from vivace.cli import file_changes
from vivace.cli.main import commands
from vivace.cli.output import say
from vivace.cli.service_unit import NAME, Unit, unit_path
from vivace.cli.settings_files import WholeFile
from vivace.config import load
from vivace.errors import ConfigError
from vivace.interpreter import console_script, python_command

__all__ = ["service"]

_SERVERS = ("up", "serve")
_PATIENCE_S = 120
_LOGS = f"journalctl --user --unit {NAME} --follow"
_ELSEWHERE = {
    "darwin": "On macOS vivace service is not supported yet: it writes units for systemd. Run "
    "vivace up in a terminal that stays open, or have launchd start it: docs/run/install.md says "
    "how.",
    "win32": "vivace service needs systemd; in WSL it works where systemd is switched on.",
}


@click.group()
def service() -> None:
    """Have systemd start a server at login, and again whenever it fails.

    The unit belongs to you alone and needs no root. Linux only.
    """


@service.command(context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[up|serve] [OPTIONS]")
@file_changes.yes
def install(words: tuple[str, ...], yes: bool) -> None:
    """Write the unit and start it; what it runs is said as for the command itself.

    \b
        vivace service install                               vivace up, as it is
        vivace service install up --model qwen2.5-coder-7b
        vivace service install serve --config team.toml

    It runs in the folder in which you type this, with your PATH; other variables, such as HF_TOKEN,
    go into ~/.config/vivace/service.env, a NAME=value in each line. Typed again, it is written anew
    and started again.
    """
    _check_systemd()
    words = words or ("up",)
    _check_words(words)
    unit = Unit(_program(), words, Path.cwd(), os.environ.get("PATH", os.defpath), __version__)
    if not file_changes.write_all([_edit(unit)], yes):
        return
    _systemctl("daemon-reload")
    _systemctl("enable", NAME)
    _systemctl("restart", NAME)
    say(f"\n* It runs: vivace {shlex.join(words)}, in {unit.folder}")
    say("* How it is: vivace service status")
    say(f"* What it says: {_LOGS}")
    if not _lingers():
        say("* It ends when you log out. To have it run without you: loginctl enable-linger")
    say("* To take it away: vivace service remove")


@service.command()
def status() -> None:
    """Say whether it is installed and runs, and where its log is. The exit code is 0 if it runs."""
    _check_systemd()
    text = file_changes.read(unit_path())
    if text is None:
        say("There is no unit. To write one: vivace service install")
        sys.exit(1)
    unit = Unit.read(text)
    say(f"unit     {unit_path()}")
    if unit is None:
        say("         written by somebody else: vivace service install would replace it")
    else:
        say(f"runs     vivace {shlex.join(unit.words)}, in {unit.folder}")
        for wrong, advice in unit.problems(__version__):
            say(f"wrong    {wrong}\n         {advice}")
    state = _state("is-active")
    say(f"state    {state}, {_state('is-enabled')}")
    say(f"log      {_LOGS}")
    sys.exit(0 if state == "active" else 1)


@service.command()
@file_changes.yes
def remove(yes: bool) -> None:
    """Stop it and take the unit away. Models and stored turns stay."""
    _check_systemd()
    path = unit_path()
    text = file_changes.read(path)
    edit = WholeFile(path, "", Unit.MARK)
    if text is not None and edit.holds(text) and (yes or click.confirm(f"Stop {NAME}?")):
        _systemctl("disable", "--now", NAME)
        file_changes.undo_all([edit], yes=True)
        _systemctl("daemon-reload")
    elif text is not None and not edit.holds(text):
        raise ConfigError(f"{path} was not written by vivace service; take it away by hand.")
    elif text is None:
        say("There is nothing to take away.")


def _edit(unit: Unit) -> WholeFile:
    return WholeFile(unit_path(), unit.text(), Unit.MARK)


# -- what it runs ---------------------------------------------------------------------------------


def _check_words(words: Sequence[str]) -> None:
    """What is wrong with them is said here and not in a log."""
    name, *rest = words
    if name not in _SERVERS:
        raise click.UsageError(f"A service runs vivace up or vivace serve, not {name!r}.")
    root = click.get_current_context().find_root()
    command = commands.get_command(root, name)
    assert command is not None
    given = command.make_context(name, list(rest), parent=root)
    if name == "serve":
        load(given.params["path"])


def _program() -> tuple[str, ...]:
    beside = console_script()
    return (str(beside),) if beside else tuple(python_command("-m", "vivace.cli"))


# -- systemd --------------------------------------------------------------------------------------


def _check_systemd() -> None:
    if told := _ELSEWHERE.get(sys.platform):
        raise ConfigError(told)
    if shutil.which("systemctl") is None:
        raise ConfigError(
            "There is no systemctl here, so systemd cannot run it. Have whatever starts programs "
            "on this machine run: vivace up"
        )
    ran = _run("show", "--property=Version")
    if ran.returncode:
        raise ConfigError(
            f"systemd does not answer you here: {ran.stderr.strip()}. In a container, or after su "
            "or sudo, there is none of your own; log in as yourself, by ssh or at the machine."
        )


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemctl") or "systemctl"
    try:
        return subprocess.run(  # noqa: S603 - systemd's own program, with words of ours
            [program, "--user", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"systemctl did not answer: {error}") from None


def _systemctl(*words: str) -> None:
    say(f"  systemctl --user {shlex.join(words)}")
    ran = _run(*words)
    if ran.returncode:
        raise ConfigError(f"systemctl refused: {ran.stderr.strip()}\nWhat was said: {_LOGS}")


def _state(question: str) -> str:
    return _run(question, NAME).stdout.strip() or "unknown"


def _lingers() -> bool:
    return Path("/var/lib/systemd/linger", getpass.getuser()).exists()
