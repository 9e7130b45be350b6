"""``vivace keys``: who may use this server, or all gateways that share its store."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import click

from vivace.cli import options
from vivace.cli.output import say
from vivace.config import keys_in
from vivace.errors import ConfigError
from vivace.gateway.key_file import KeyFile
from vivace.gateway.key_table import SharedKeys
from vivace.gateway.keyring import KeyEntry, name_taken, no_such_key

__all__ = ["keys"]

T = TypeVar("T")

_UNTIL_KNOWN = 1.0
"""Seconds by which every gateway has seen a change: what it knows from there may go from here."""


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of this server.

    Only their hashes are kept: in keys.json beside the configuration file, or where that names a
    database (store.url) in it, for all gateways that share it. A running server takes up a change
    by itself. Keys that are written in the configuration file are not touched.
    """


class _Keys:
    """All that a configuration file leads to."""

    def __init__(self, path: Path) -> None:
        # Not loaded: a server that others can reach is wrong until it has its first key.
        if not path.is_file():
            raise ConfigError(
                f"There is no {path}, and keys are kept beside it. Name another with --config."
            )
        self.path = path
        self.configured, self._store = keys_in(path)
        self.file = KeyFile(path.resolve().parent)
        self.shared: SharedKeys | None = None
        """Those of the database, if there is one: new keys go there."""
        if self._store.url is not None:
            from vivace.gateway.app import build_shared_keys  # not for a Tab key or --help

            self.shared = build_shared_keys(self._store)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def whole() -> T:
            try:
                return await work
            finally:
                if self.shared is not None:
                    await self.shared.close()

        return asyncio.run(whole())

    def is_configured(self, name: str) -> bool:
        return any(key.name == name for key in self.configured)


@keys.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="It may also drain gateways and engine nodes.")
@options.config
def create(name: str, admin: bool, path: Path) -> None:
    """Make a key and show it, this once.

    NAME says whose it is. The key alone goes to standard output.
    """
    ours = _Keys(path)
    if ours.is_configured(name):
        raise ConfigError(f"There is a key {name!r} already, in {path}. Take another name.")
    say(ours.run(_create(ours, name, admin=admin)))
    where = ours.file.path if ours.shared is None else ours.shared.place
    say(
        f"\nThis is the key of {name!r}. It is not shown again: only its hash is kept, in "
        f"{where}.\n"
        "* Put it where it is used into an environment variable: export VIVACE_KEY=...\n"
        "* To connect an editor or agent there: vivace connect CLIENT --key-env VIVACE_KEY\n"
        "* Anything else sends it in the header 'Authorization: Bearer KEY'.\n"
        f"* To take it back: vivace keys revoke {name}",
        err=True,
    )


async def _create(ours: _Keys, name: str, *, admin: bool) -> str:
    if ours.shared is None:
        return await ours.file.create(name, admin=admin)
    if any(entry.name == name for entry in await ours.file.entries()):
        raise name_taken(name)
    return await ours.shared.create(name, admin=admin)


@keys.command("list")
@options.config
def list_keys(path: Path) -> None:
    """Say which keys there are, and since when."""
    ours = _Keys(path)
    entries, here = ours.run(_listed(ours))
    if not entries and not here:
        say("There are no keys yet. To make one: vivace keys create NAME", err=True)
    width = max((len(entry.name) for entry in (*entries, *here)), default=0)
    for entry in entries:
        say(f"{entry.name:{width}}  {entry.created_at}{_admin(entry)}")
    for entry in here:
        where = f"in {ours.file.place}, on this machine only"
        say(f"{entry.name:{width}}  {entry.created_at}{_admin(entry)}  {where}")
    if here:
        say("To let these in at every gateway: vivace keys import", err=True)


def _admin(entry: KeyEntry) -> str:
    return "  admin" if entry.admin else ""


async def _listed(ours: _Keys) -> tuple[list[KeyEntry], list[KeyEntry]]:
    here = await ours.file.entries()
    return (here, []) if ours.shared is None else (await ours.shared.entries(), here)


@keys.command()
@click.argument("name")
@options.config
def revoke(name: str, path: Path) -> None:
    """Take a key back.

    Within a second every running server that had it refuses it, and ends its answers and
    connections.
    """
    ours = _Keys(path)
    ours.run(_revoke(ours, name))
    say(f"The key of {name!r} is revoked.")


async def _revoke(ours: _Keys, name: str) -> None:
    """Wherever it is. Here first: what is here cannot fail to answer."""
    here = any(entry.name == name for entry in await ours.file.entries())
    if here:
        await ours.file.revoke(name)
        if ours.shared is not None:
            say(f"The key of {name!r} in {ours.file.path} is revoked on this machine.")
    shared = [] if ours.shared is None else await ours.shared.entries()
    if ours.shared is not None and any(entry.name == name for entry in shared):
        await ours.shared.revoke(name)
    elif here:
        return
    elif ours.is_configured(name):
        raise ConfigError(
            f"The key {name!r} stands in {ours.path}. Take it out there, and restart the server."
        )
    else:
        place = str(ours.file.path) if ours.shared is None else ours.shared.place
        raise no_such_key(name, place, [*shared, *await ours.file.entries()])


@keys.command("import")
@options.config
def import_keys(path: Path) -> None:
    """Move the keys of keys.json to the database of store.url.

    They stay the same keys, with all their turns, and are let in at every gateway then. What they
    began goes on.
    """
    ours = _Keys(path)
    if ours.shared is None:
        raise ConfigError(
            f"{path} names no database: there is no url in its table [store]. The keys stay where "
            f"they are, in {ours.file.path}."
        )
    moved, left = ours.run(_import(ours, ours.shared))
    count = f"{len(moved)} key{'' if len(moved) == 1 else 's'}"
    say(f"{count} moved from {ours.file.path} to {ours.shared.place}.")
    if left:
        names = ", ".join(entry.name for entry in left)
        raise ConfigError(
            f"These stay in {ours.file.path}, because another key in {ours.shared.place} has their "
            f"name or id: {names}. Make each a new key of another name, then revoke it: that takes "
            "both keys of this name back."
        )


async def _import(ours: _Keys, shared: SharedKeys) -> tuple[list[KeyEntry], list[KeyEntry]]:
    moved: list[KeyEntry] = []
    left: list[KeyEntry] = []
    for entry in await ours.file.entries():
        (moved if await shared.add(entry) else left).append(entry)
    if moved:
        await asyncio.sleep(_UNTIL_KNOWN)
        await ours.file.drop(moved)
    return moved, left
