"""``vivace keys``: who may use this server."""

from __future__ import annotations

from pathlib import Path

import click

from vivace.cli import options
from vivace.cli.output import say
from vivace.config import keys_in
from vivace.errors import ConfigError
from vivace.gateway.keyring import Keyring

__all__ = ["keys"]


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of this server.

    Only their hashes are kept, in keys.json beside the configuration file. A running server takes
    up a change by itself. Keys that are written in the configuration file are not touched.
    """


def _keyring(path: Path) -> Keyring:
    # Not loaded: a server that others can reach is wrong until it has its first key.
    if not path.is_file():
        raise ConfigError(
            f"There is no {path}, and keys are kept beside it. Name another with --config."
        )
    return Keyring(path.resolve().parent)


def _is_configured(name: str, path: Path) -> bool:
    return any(key.name == name for key in keys_in(path))


@keys.command()
@click.argument("name")
@options.config
def create(name: str, path: Path) -> None:
    """Make a key and show it, this once.

    NAME says whose it is. The key alone goes to standard output.
    """
    keyring = _keyring(path)
    if _is_configured(name, path):
        raise ConfigError(f"There is a key {name!r} already, in {path}. Take another name.")
    say(keyring.create(name))
    say(
        f"\nThis is the key of {name!r}. It is not shown again: only its hash is kept, in "
        f"{keyring.path}.\n"
        "* Put it where it is used into an environment variable: export VIVACE_KEY=...\n"
        "* To connect an editor or agent there: vivace connect CLIENT --key-env VIVACE_KEY\n"
        "* Anything else sends it in the header 'Authorization: Bearer KEY'.\n"
        f"* To take it back: vivace keys revoke {name}",
        err=True,
    )


@keys.command("list")
@options.config
def list_keys(path: Path) -> None:
    """Say which keys there are, and since when."""
    entries = _keyring(path).entries()
    if not entries:
        say("There are no keys yet. To make one: vivace keys create NAME", err=True)
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        say(f"{entry.name:{width}}  {entry.created_at}")


@keys.command()
@click.argument("name")
@options.config
def revoke(name: str, path: Path) -> None:
    """Take a key back.

    Within a second a running server refuses it, and ends its answers and connections.
    """
    keyring = _keyring(path)
    made = any(entry.name == name for entry in keyring.entries())
    if not made and _is_configured(name, path):
        raise ConfigError(
            f"The key {name!r} stands in {path}. Take it out there, and restart the server."
        )
    keyring.revoke(name)
    say(f"The key of {name!r} is revoked.")
