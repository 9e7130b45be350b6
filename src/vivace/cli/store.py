"""``vivace store``: the database that turns are kept in."""

from __future__ import annotations

from pathlib import Path

import click

from vivace.cli import options
from vivace.cli.output import say
from vivace.config import load

__all__ = ["store"]


@click.group()
def store() -> None:
    """Look after the database that turns are kept in."""


@store.command()
@options.config
def migrate(path: Path) -> None:
    """Make the tables of a PostgreSQL store, or bring them up to date.

    Once before the first server starts, and after each update before its servers are replaced;
    those that run go on meanwhile. A store in a file does this by itself.
    """
    config = load(path).store
    if config.url is None:
        say(f"{config.place} is a file, which the server brings up to date when it starts.")
        return
    from vivace.gateway.app import migrate_store  # not for a Tab key or --help

    applied = migrate_store(config)
    for each in applied:
        say(f"applied {each}")
    say(f"{config.place} is {'ready' if applied else 'up to date'}.")
