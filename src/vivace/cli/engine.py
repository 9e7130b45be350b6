"""``vivace engine``: the engines of a configuration file, for gateways elsewhere."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from vivace.cli import options
from vivace.config import load
from vivace.logs import log_to_stderr

__all__ = ["engine"]


@click.command()
@options.config
def engine(path: Path) -> None:
    """Serve the [[engines]] of the configuration file to gateways.

    Gateways name this node in their own file: [fleet] engines = ["wss://HOST:8770"]. Both have the
    same key in the environment, VIVACE_FLEET_KEY. SIGTERM and Ctrl-C let running answers finish.
    """
    from vivace.node.app import run_node  # not for a Tab key or --help

    log_to_stderr(logging.INFO, "%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("websockets").setLevel(logging.WARNING)
    run_node(load(path), path.resolve().parent)
