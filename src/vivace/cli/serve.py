"""``vivace serve``: the server that a configuration file describes, and ``vivace config check``."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from vivace.cli import options
from vivace.cli.output import say
from vivace.config import Config, LlamaCppConfig, load
from vivace.errors import ConfigError
from vivace.gateway.key_file import KeyFile
from vivace.gateway.keyring import admitted
from vivace.logs import log_to_stderr

__all__ = ["config", "serve"]


@click.command()
@options.config
@click.option("--verbose", "-v", is_flag=True, help="Log every connection too.")
def serve(path: Path, verbose: bool) -> None:
    """Serve the models named in the configuration file.

    The API stands at http://HOST:PORT/v1. Logs go to standard error and never contain prompts,
    code or keys. SIGTERM and Ctrl-C let running answers finish; a second one ends at once.
    """
    from vivace.gateway.app import serve as run_server  # not for a Tab key or --help

    log_to_stderr(logging.INFO, "%(asctime)s %(levelname)s %(name)s %(message)s")
    if not verbose:
        for chatty in ("uvicorn", "httpx2"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
    run_server(load(path), path.resolve().parent)


@click.group()
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
    say(f"  store       {loaded.store.place}, up to {loaded.store.max_megabytes} MB")
    for engine in loaded.engines:
        say(f"  model       {engine.model} by {engine.name}, context {engine.context}")
        if isinstance(engine, LlamaCppConfig):
            file = path.resolve().parent / engine.path
            if not file.exists():  # it may be checked before the file is brought
                say(f"  missing     {file}, which {engine.name} needs before vivace serve")
    for nodes in loaded.fleet.engines:
        say(f"  nodes       {nodes}")


def _keys(config: Config, path: Path) -> str:
    """Those of a database are not asked for: a file may be checked before there is one."""
    keyring = KeyFile(path.resolve().parent)
    made = keyring.known()
    keys, problems = admitted(config.keys, (keyring.place, made.entries))
    if problems:
        raise ConfigError("\n".join(problems))
    if config.store.url is not None:
        beside = f"{len(keys)} here, and " if keys else ""
        return f"{beside}those in {config.store.place}"
    if not keys and made.ever:
        return "none, so nobody may come in; to make one: vivace keys create NAME"
    return str(len(keys) or "none (this machine only)")
