"""``vivace run``: an agent against a running server, with nothing to set up and nothing to undo."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Never

import click

from vivace.cli import options
from vivace.cli.agent_starts import AGENT_STARTS, AgentStart, Asked
from vivace.cli.clients import Endpoint, Served
from vivace.cli.output import say
from vivace.cli.own_server import own_server
from vivace.cli.places import state_root
from vivace.cli.served import KeyRefused, Unreachable, complete_url, models_of, with_first
from vivace.cli.settings_files import WholeFile
from vivace.errors import ConfigError

__all__ = ["run"]

# An agent's own codes pass through, so ours are ones that none of them uses.
_NO_SERVER = 69
"""As in sysexits.h: a service is not there."""
_NOT_INSTALLED = 127
"""As shells say it."""
_SIGNALLED = 128
_KEY = "VIVACE_KEY"


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("client", type=click.Choice(list(AGENT_STARTS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--url",
    envvar="VIVACE_URL",
    default="http://127.0.0.1:8765/v1",
    show_default=True,
    callback=complete_url,
    help="The server.",
)
@options.key
@click.option("--model", "-m", help="One of the server's models; without it, its first.")
@click.option("--up", is_flag=True, help="If no server answers, run one until the client ends.")
def run(
    client: str,
    arguments: tuple[str, ...],
    url: str,
    key: str | None,
    model: str | None,
    up: bool,
) -> None:
    """Start an agent that uses a running server: codex, claude or opencode.

    What stands behind its name goes to the agent as it is:

        vivace run codex exec "Add a test for the parser."

    Options of ours stand before the name. Your own settings, rules and MCP servers work as ever,
    and your files are left alone: the server is named by options and variables of this run only.
    """
    agent = AGENT_STARTS[client]
    program = shutil.which(agent.program)
    if program is None:
        say(
            f"vivace: {agent.program} is not installed, or not on PATH. Install it with: npm "
            f"install -g {agent.package}",
            err=True,
        )
        sys.exit(_NOT_INSTALLED)
    try:
        served = with_first(_served(url, key), model, url)
    except Unreachable:
        if up:
            with own_server(url, model, agent.room.needs):
                status = _wait(*_command(agent, program, arguments, url, key, _served(url, key)))
            sys.exit(status)
        say(
            f"vivace: No server answers at {url}. Start one in another terminal: vivace up "
            f"--context {agent.room.needs}. Or for this run only: vivace run --up {client}",
            err=True,
        )
        sys.exit(_NO_SERVER)
    _become(*_command(agent, program, arguments, url, key, served))


def _served(url: str, key: str | None) -> tuple[Served, ...]:
    try:
        return models_of(url, key)
    except KeyRefused:
        known = "does not know this key" if key else "asks for a key"
        raise ConfigError(
            f"The server at {url} {known}. Put yours into ${_KEY}, or give it by --key."
        ) from None


def _command(
    agent: AgentStart,
    program: str,
    arguments: Sequence[str],
    url: str,
    key: str | None,
    served: tuple[Served, ...],
) -> tuple[list[str], dict[str, str]]:
    """What is started, and in which environment; the advice is said on the way."""
    environment = dict(os.environ) | ({_KEY: key} if key else {})
    endpoint = Endpoint(url, served, _KEY if key else None)
    start = agent.start(endpoint, Asked(arguments, environment, state_root()))
    for file in start.files:
        _keep(file)
    for advice in agent.room.advice(endpoint):
        say(f"vivace: {advice}", err=True)
    return [program, *start.arguments, *arguments], environment | dict(start.environment)


def _keep(file: WholeFile) -> None:
    """Written anew only where it differs: another run may be reading it."""
    try:
        if file.path.exists() and file.path.read_text(encoding="utf-8") == file.text:
            return
        file.path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.path.parent)
        with open(handle, "w", encoding="utf-8") as beside:  # noqa: PTH123 - a handle
            beside.write(file.text)
        Path(name).replace(file.path)
    except OSError as error:
        raise ConfigError(f"{file.path} cannot be written: {error.strerror}.") from error


def _become(command: Sequence[str], environment: Mapping[str, str]) -> Never:
    """The agent takes our place: signals, the terminal and the exit code are its own."""
    if sys.platform == "win32":
        sys.exit(_wait(command, environment))
    sys.stdout.flush()
    sys.stderr.flush()
    # What Python ignores for itself would be ignored by the agent and all that it starts.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    try:
        os.execve(command[0], list(command), dict(environment))  # noqa: S606 - what was asked for
    except OSError as error:
        raise ConfigError(f"{command[0]} cannot be started: {error.strerror}.") from error


def _wait(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """For the exit code of an agent that is started beside us, since we have to clean up."""
    started: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        for process in started:
            process.send_signal(number)

    def leave(number: int, frame: FrameType | None) -> None:
        """A terminal tells the agent itself."""

    handlers = {"SIGINT": leave, "SIGQUIT": leave, "SIGTERM": pass_on, "SIGHUP": pass_on}
    for name, handler in handlers.items():
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, handler)
    try:
        process = subprocess.Popen(list(command), env=dict(environment))  # noqa: S603 - likewise
    except OSError as error:
        raise ConfigError(f"{command[0]} cannot be started: {error.strerror}.") from error
    started.append(process)
    status = process.wait()
    return status if status >= 0 else _SIGNALLED - status
