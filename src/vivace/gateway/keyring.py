"""The keys that ``vivace keys`` makes: what one is, where they are kept, and which are let in.

A keyring is a file of one machine (``key_file.py``) or a table that all gateways share
(``key_table.py``). It holds the hash of each key and never the key itself.

A key has an id of its own, and its name is a label: whoever gets a revoked name again is somebody
else, to whom nothing of the old key's belongs.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Protocol

import msgspec
from msgspec import Struct

from vivace.config import LOCAL, KeyConfig
from vivace.errors import ConfigError
from vivace.units import Name

__all__ = [
    "REVOKED",
    "EntryWithoutId",
    "KeyEntry",
    "Keyring",
    "Made",
    "admitted",
    "name_taken",
    "new_key",
    "no_such_key",
]


REVOKED = "This key was revoked; ask whoever runs this server."


class EntryWithoutId(KeyConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    created_at: date


class KeyEntry(EntryWithoutId, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Name

    @property
    def owner(self) -> str:
        return self.id


class Made(Struct, frozen=True):
    """The keys of a keyring, as they were at one moment."""

    entries: tuple[KeyEntry, ...] = ()
    ever: bool = False
    """Whether there was one at any time: then nobody comes in without a key."""


class Keyring(Protocol):
    """Where keys are kept that come and go. What cannot be read or written is a ``ConfigError`` of
    a file, and a ``StoreError`` of a table."""

    place: str
    """For people."""

    def known(self) -> Made | None:
        """What can be told without waiting; None where it has to be looked for."""

    async def look(self) -> Made | None:
        """All keys, if they may be others than those told last; None if they are the same."""

    async def entries(self) -> list[KeyEntry]:
        """All keys, whatever was told before."""

    async def create(self, name: str, *, admin: bool = False) -> str:
        """A new key, which is told here and nowhere else."""

    async def revoke(self, name: str) -> None:
        """When this returns, all who look know of it."""

    async def close(self) -> None: ...


def new_key(name: str, *, admin: bool = False) -> tuple[str, KeyEntry]:
    key = f"viv_{secrets.token_urlsafe(32)}"
    fields = {
        "id": f"key_{secrets.token_hex(12)}",
        "name": name,
        "sha256": hashlib.sha256(key.encode()).hexdigest(),
        "created_at": datetime.now(UTC).date(),
        "admin": admin,
    }
    try:
        return key, msgspec.convert(fields, type=KeyEntry)
    except msgspec.ValidationError:
        raise ConfigError(
            f"{name!r} cannot be the name of a key; use letters, digits and any of _ . : / -"
        ) from None


def name_taken(name: str) -> ConfigError:
    return ConfigError(
        f"There is a key {name!r} already. Take another name, or revoke that one first: "
        f"vivace keys revoke {name}"
    )


def no_such_key(name: str, place: str, entries: Iterable[KeyEntry]) -> ConfigError:
    known = ", ".join(entry.name for entry in entries) or "none"
    return ConfigError(f"There is no key {name!r} in {place}. Known: {known}.")


def admitted(
    configured: Iterable[KeyConfig], *made: tuple[str, Iterable[KeyEntry]]
) -> tuple[list[KeyConfig], list[str]]:
    """The keys that may come in, and what is to be said of those that may not; ``made`` are those
    of each keyring, with its place.

    No key takes the place of one that stands before it, by its name, its id or its hash; nor that
    of whoever used the server while it had none. One that is in two keyrings is one key.
    """
    keys = list(configured)
    problems: list[str] = []
    names, owners, hashes = set[str](), {LOCAL}, set[str]()
    for key in keys:
        names.add(key.name)
        owners.add(key.owner)
        hashes.add(key.sha256)
    there = set[KeyEntry]()
    for place, entries in made:
        for entry in entries:
            if entry in there:
                continue
            if entry.name in names or entry.owner in owners or entry.sha256 in hashes:
                problems.append(
                    f"The key {entry.name!r} of {place} is not let in: its name, id or hash is "
                    "that of another key. Revoke it, and make one of another name: vivace keys "
                    f"revoke {entry.name}"
                )
                continue
            keys.append(entry)
            there.add(entry)
            names.add(entry.name)
            owners.add(entry.owner)
            hashes.add(entry.sha256)
    return keys, problems
