"""The keys of one machine: ``keys.json``, beside the configuration file.

It is replaced as a whole, so a server that reads it meanwhile sees the old one or the new one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from vivace.errors import ConfigError
from vivace.gateway.keyring import (
    EntryWithoutId,
    KeyEntry,
    Made,
    name_taken,
    new_key,
    no_such_key,
)

if sys.platform != "win32":
    import fcntl

__all__ = ["KeyFile"]

_MAX_BYTES = 16_000_000
"""Some sixty thousand keys: more is another file by mistake."""


class _Version1(Struct, frozen=True, forbid_unknown_fields=True, tag_field="version", tag=1):
    keys: tuple[EntryWithoutId, ...]

    def entries(self) -> list[KeyEntry]:
        """What is stored of these keys' turns is stored under their names."""
        return [KeyEntry(id=entry.name, **msgspec.structs.asdict(entry)) for entry in self.keys]


class _Version2(Struct, frozen=True, forbid_unknown_fields=True, tag_field="version", tag=2):
    keys: tuple[KeyEntry, ...]

    def entries(self) -> list[KeyEntry]:
        return list(self.keys)


class KeyFile:
    """The file in this folder; without one there are no keys. Nothing here waits for others but
    for another command that writes."""

    place = "keys.json"

    def __init__(self, folder: Path) -> None:
        self.path = folder / self.place
        self._read = False
        self._seen: tuple[int, ...] | None = None

    def known(self) -> Made:
        entries = self._entries()
        return Made(tuple(entries), ever=self._seen is not None)

    async def look(self) -> Made | None:
        return self.known() if self._changed() else None

    async def entries(self) -> list[KeyEntry]:
        return self._entries()

    async def create(self, name: str, *, admin: bool = False) -> str:
        key, entry = new_key(name, admin=admin)
        with self._alone():
            entries = self._entries()
            if any(each.name == name for each in entries):
                raise name_taken(name)
            self._write([*entries, entry])
        return key

    async def revoke(self, name: str) -> None:
        with self._alone():
            entries = self._entries()
            kept = [entry for entry in entries if entry.name != name]
            if len(kept) == len(entries):
                raise no_such_key(name, str(self.path), entries)
            self._write(kept)

    async def drop(self, gone: Collection[KeyEntry]) -> None:
        """Those that are kept elsewhere now."""
        with self._alone():
            self._write([entry for entry in self._entries() if entry not in gone])

    async def close(self) -> None:
        pass

    # -- the file ---------------------------------------------------------------------------------

    def _changed(self) -> bool:
        """Whether the file is another than was last read, right or wrong."""
        try:
            return not self._read or _stamp(self.path.stat()) != self._seen
        except FileNotFoundError:
            return self._seen is not None
        except OSError as error:
            raise self._unreadable(error) from error

    def _entries(self) -> list[KeyEntry]:
        try:
            return msgspec.json.decode(self._bytes(), type=_Version1 | _Version2).entries()
        except FileNotFoundError:
            self._seen, self._read = None, True
            return []
        except OSError as error:
            raise self._unreadable(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ConfigError(f"{self.path} is not a file of keys: {error}.") from error

    def _bytes(self) -> bytes:
        # Opened without waiting: a pipe in its place would hold up every client of this server.
        handle = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:  # noqa: PTH123 - a handle
            status = os.fstat(handle)
            self._seen, self._read = _stamp(status), True
            data = file.read(_MAX_BYTES + 1) if stat.S_ISREG(status.st_mode) else None
        if data is None:
            raise ConfigError(f"{self.path} is not a file of keys: it is no regular file.")
        if len(data) > _MAX_BYTES:
            raise ConfigError(
                f"{self.path} is not a file of keys: it has more than {_MAX_BYTES:,} bytes."
            )
        return data

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


def _give_to_owner_of(path: Path, handle: int) -> None:
    """What root writes for a server of another user, that user must be able to read: it would go
    by the old keys otherwise."""
    if sys.platform != "win32" and os.geteuid() == 0:
        like = (path if path.exists() else path.parent).stat()
        os.fchown(handle, like.st_uid, like.st_gid)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    # Within one tick of the clock, a change still shows in the others.
    return (status.st_mtime_ns, status.st_ino, status.st_size)
