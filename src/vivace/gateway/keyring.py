"""The keys that ``vivace keys`` makes: ``keys.json``, beside the configuration file.

It holds the hash of each key and never the key itself. It is replaced as a whole, so a server that
reads it meanwhile sees the old one or the new one.

A key has an id of its own, and its name is a label: whoever gets a revoked name again is somebody
else, to whom nothing of the old key's belongs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from vivace.config import LOCAL, KeyConfig
from vivace.errors import ConfigError
from vivace.units import Name

if sys.platform != "win32":
    import fcntl

__all__ = ["KeyEntry", "Keyring", "admitted"]


class _EntryWithoutId(KeyConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    created_at: date


class KeyEntry(_EntryWithoutId, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: Name

    @property
    def owner(self) -> str:
        return self.id


class _Version1(Struct, frozen=True, forbid_unknown_fields=True, tag_field="version", tag=1):
    keys: tuple[_EntryWithoutId, ...]

    def entries(self) -> list[KeyEntry]:
        """What is stored of these keys' turns is stored under their names."""
        return [KeyEntry(id=entry.name, **msgspec.structs.asdict(entry)) for entry in self.keys]


class _Version2(Struct, frozen=True, forbid_unknown_fields=True, tag_field="version", tag=2):
    keys: tuple[KeyEntry, ...]

    def entries(self) -> list[KeyEntry]:
        return list(self.keys)


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
                return msgspec.json.decode(file.read(), type=_Version1 | _Version2).entries()
        except FileNotFoundError:
            self._seen = None
            return []
        except OSError as error:
            raise self._unreadable(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.path} is not a file of keys: {error}.") from error

    def create(self, name: str) -> str:
        """A new key, which is told here and nowhere else."""
        key = f"viv_{secrets.token_urlsafe(32)}"
        entry = _entry(name, key)
        with self._alone():
            entries = self.entries()
            if any(entry.name == name for entry in entries):
                raise ConfigError(
                    f"There is a key {name!r} already. Take another name, or revoke that one "
                    f"first: vivace keys revoke {name}"
                )
            self._write([*entries, entry])
        return key

    def revoke(self, name: str) -> None:
        with self._alone():
            entries = self.entries()
            kept = [entry for entry in entries if entry.name != name]
            if len(kept) == len(entries):
                known = ", ".join(entry.name for entry in entries) or "none"
                raise ConfigError(f"There is no key {name!r} in {self.path}. Known: {known}.")
            self._write(kept)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time, or a command could write back what another has just revoked."""
        if sys.platform == "win32":
            yield
            return
        try:
            folder = os.open(self.path.resolve().parent, os.O_RDONLY)
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            with contextlib.suppress(OSError):  # some network file systems lock no folders
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _write(self, entries: Iterable[KeyEntry]) -> None:
        data = msgspec.json.format(msgspec.json.encode(_Version2(tuple(entries))))
        real = self.path.resolve()  # a link stays a link
        temporary: Path | None = None
        try:
            # For one user only, as mkstemp makes it.
            handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
            temporary = Path(name)
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                _give_to_owner_of(real, file.fileno())
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


def _entry(name: str, key: str) -> KeyEntry:
    fields = {
        "id": f"key_{secrets.token_hex(12)}",
        "name": name,
        "sha256": hashlib.sha256(key.encode()).hexdigest(),
        "created_at": datetime.now(UTC).date(),
    }
    try:
        return msgspec.convert(fields, type=KeyEntry)
    except msgspec.ValidationError:
        raise ConfigError(
            f"{name!r} cannot be the name of a key; use letters, digits and any of _ . : / -"
        ) from None


def _give_to_owner_of(path: Path, handle: int) -> None:
    """What root writes for a server of another user, that user must be able to read: it would go
    by the old keys otherwise."""
    if sys.platform != "win32" and os.geteuid() == 0:
        like = (path if path.exists() else path.parent).stat()
        os.fchown(handle, like.st_uid, like.st_gid)


def admitted(
    configured: Iterable[KeyConfig], made: Iterable[KeyEntry]
) -> tuple[list[KeyConfig], list[str]]:
    """The keys that may come in, and what is to be said of those that may not.

    No key takes the place of one that stands before it, by its name, its id or its hash; nor that
    of whoever used the server while it had none.
    """
    keys: list[KeyConfig] = []
    problems: list[str] = []
    names, owners, hashes = set[str](), {LOCAL}, set[str]()
    for key in (*configured, *made):
        if key.name in names or key.owner in owners or key.sha256 in hashes:
            problems.append(
                f"The key {key.name!r} of keys.json is not let in: its name, id or hash is that of "
                f"another key. Revoke it, and make one of another name: vivace keys revoke "
                f"{key.name}"
            )
            continue
        keys.append(key)
        names.add(key.name)
        owners.add(key.owner)
        hashes.add(key.sha256)
    return keys, problems


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    # Within one tick of the clock, a change still shows in the others.
    return (status.st_mtime_ns, status.st_ino, status.st_size)
