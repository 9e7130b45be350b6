"""``vivace``: the commands, their help, and how an error reaches the person."""

from __future__ import annotations

import io
import logging
import sys
from pathlib import Path

import click

from vivace import __version__
from vivace.cli import options
from vivace.cli.ask import ask
from vivace.cli.connect import connect
from vivace.cli.demo import demo
from vivace.cli.edit import edit
from vivace.cli.keys import keys
from vivace.cli.output import say
from vivace.cli.top import top
from vivace.cli.undo import undo
from vivace.cli.up import up
from vivace.config import Config, load
from vivace.errors import ConfigError, VivaceError
from vivace.gateway.app import serve as run_server
from vivace.keyring import Keyring, admitted
from vivace.logs import log_to_stderr

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vivace")
def commands() -> None:
    """Open coding models on your own hardware, answering at the speed of typing.

    Any client of OpenAI's Responses API works with a Vivace server: the OpenAI SDK, Codex CLI,
    or curl.
    """


commands.add_command(up)
commands.add_command(ask)
commands.add_command(edit)
commands.add_command(demo)
commands.add_command(connect)
commands.add_command(keys)
commands.add_command(top)
commands.add_command(undo)


@commands.command()
@options.config
@click.option("--verbose", "-v", is_flag=True, help="Log every connection too.")
def serve(path: Path, verbose: bool) -> None:
    """Serve the models named in the configuration file.

    The API stands at http://HOST:PORT/v1. Logs go to standard error and never contain prompts,
    code or keys. SIGTERM and Ctrl-C let running answers finish; a second one ends at once.
    """
    log_to_stderr(logging.INFO, "%(asctime)s %(levelname)s %(name)s %(message)s")
    if not verbose:
        for chatty in ("uvicorn", "httpx2"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
    run_server(load(path), path.resolve().parent)


@commands.group()
def config() -> None:
    """Look after the configuration file."""


@config.command("check")
@options.config
def check_config(path: Path) -> None:
    """Say whether the configuration file is right, and what it means."""
    loaded = load(path)
    server = loaded.server
    admitted_keys = _keys(loaded, path)
    say(f"{path} is right.")
    say(f"  listens on  http://{server.host}:{server.port}/v1")
    say(f"  keys        {admitted_keys}")
    say(f"  store       {loaded.store.path}, up to {loaded.store.max_megabytes} MB")
    for engine in loaded.engines:
        say(f"  model       {engine.model} by {engine.name}, context {engine.context}")


def _keys(config: Config, path: Path) -> str:
    keyring = Keyring(path.resolve().parent)
    keys, problems = admitted(config.keys, keyring.entries())
    if problems:
        raise ConfigError("\n".join(problems))
    if not keys and keyring.path.exists():
        return "none, so nobody may come in; to make one: vivace keys create NAME"
    return str(len(keys) or "none (this machine only)")


def main() -> None:
    try:
        sys.exit(commands.main(standalone_mode=False))
    except VivaceError as error:
        say(f"vivace: {error}", err=True)
        sys.exit(1)
    except click.ClickException as error:
        error.show(words := io.StringIO())  # they quote what was given, which may be anything
        say(words.getvalue(), err=True, nl=False)
        sys.exit(error.exit_code)
    except click.Abort:
        say("Aborted!", err=True)
        sys.exit(1)
