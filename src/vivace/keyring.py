"""The keys that ``vivace keys`` makes: ``keys.json``, beside the configuration file.

It holds the hash of each key and never the key itself. It is replaced as a whole, so a server that
reads it meanwhile sees the old one or the new one.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from vivace.config import KeyConfig
from vivace.errors import ConfigError

__all__ = ["KeyEntry", "Keyring"]


class KeyEntry(KeyConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    created_at: date


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1]
    keys: tuple[KeyEntry, ...]


class Keyring:
    """The file in this folder; without one there are no keys."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"
        self._seen: tuple[int, ...] | None = None

    def changed(self) -> bool:
        """Whether the file is another than :meth:`entries` last read, right or wrong."""
        try:
            return _stamp(self.path.stat()) != self._seen
        except FileNotFoundError:
            return self._seen is not None
        except OSError as error:
            raise self._unreadable(error) from error

    def entries(self) -> list[KeyEntry]:
        try:
            with self.path.open("rb") as file:
                self._seen = _stamp(os.fstat(file.fileno()))
                return list(msgspec.json.decode(file.read(), type=_File).keys)
        except FileNotFoundError:
            self._seen = None
            return []
        except OSError as error:
            raise self._unreadable(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path} is not a file of keys: {error}.") from error

    def create(self, name: str) -> str:
        """A new key, which is told here and nowhere else."""
        entries = self.entries()
        if any(entry.name == name for entry in entries):
            raise ConfigError(
                f"There is a key {name!r} already. Take another name, or revoke that one first: "
                f"vivace keys revoke {name}"
            )
        key = f"viv_{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(key.encode()).hexdigest()
        today = datetime.now(UTC).date()
        try:
            entry = msgspec.convert(
                {"name": name, "sha256": digest, "created_at": today}, type=KeyEntry
            )
        except msgspec.ValidationError:
            raise ConfigError(
                f"{name!r} cannot be the name of a key; use letters, digits and any of _ . : / -"
            ) from None
        self._write([*entries, entry])
        return key

    def revoke(self, name: str) -> None:
        entries = self.entries()
        kept = [entry for entry in entries if entry.name != name]
        if len(kept) == len(entries):
            known = ", ".join(entry.name for entry in entries) or "none"
            raise ConfigError(f"There is no key {name!r} in {self.path}. Known: {known}.")
        self._write(kept)

    def _write(self, entries: Iterable[KeyEntry]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_File(version=1, keys=tuple(entries))))
        real = self.path.resolve()  # a link stays a link
        temporary: Path | None = None
        try:
            # For its owner only, as mkstemp makes it.
            handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
            temporary = Path(name)
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                file.write(data + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(real)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be written: {error.strerror}.") from error
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)

    def _unreadable(self, error: OSError) -> ConfigError:
        return ConfigError(f"{self.path} cannot be read: {error.strerror}.")


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    # Within one tick of the clock, a change still shows in the others.
    return (status.st_mtime_ns, status.st_ino, status.st_size)
