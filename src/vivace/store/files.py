"""A store's files on the disk: for their owner only, and for one gateway at a time.

The mode does not depend on the umask. SQLite gives its WAL and shared memory the mode of the file
they belong to, so those that are made later need no care.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from vivace.errors import StoreError

__all__ = ["Claim", "make", "restrict"]

if sys.platform != "win32":
    import fcntl

log = logging.getLogger("vivace.store")

_OWNER_ONLY = 0o600
_BESIDE = ("-wal", "-shm", "-journal")


def make(path: Path) -> None:
    """Make the file if there is none, so that there is no moment in which others may read it."""
    with contextlib.suppress(FileExistsError):
        os.close(_open(path, os.O_EXCL))


def restrict(path: Path) -> None:
    """Take from others what an older Vivace, or a restored backup, let them read."""
    for each in (path, *(path.with_name(path.name + suffix) for suffix in _BESIDE)):
        try:
            if each.stat().st_mode & 0o077:
                each.chmod(_OWNER_ONLY)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning(
                "%s holds prompts and code, and others on this machine may read it: its mode "
                "cannot be changed (%s). Make it yours with chown, then chmod 600.",
                each,
                error.strerror,
            )


class Claim:
    """One gateway's right to a store; the kernel ends it however the process ends.

    A POSIX lock, because an engine that was forked from the gateway must not inherit it. It lies
    on a file beside the store, because closing the store's own file would free SQLite's locks. That
    file stays: if it were removed, two could each hold a lock on a file of that name.
    """

    _held: set[Path] = set()  # noqa: RUF012 - of the process, to which these locks belong

    def __init__(self, store: Path) -> None:
        self._store = store
        path = store.with_name(f"{store.name}-lock")
        if store in self._held:
            raise self._taken("this very process")
        handle = _open(path)
        try:
            if sys.platform != "win32":
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            since = datetime.now(UTC).isoformat(" ", "seconds")
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()}, since {since}\n".encode(), 0)
        except BlockingIOError:
            holder = os.pread(handle, 200, 0).decode(errors="replace").strip()
            os.close(handle)
            raise self._taken(holder or "another process") from None
        except OSError:
            os.close(handle)
            raise
        self._handle = handle
        self._held.add(store)

    def release(self) -> None:
        if self._store in self._held:
            self._held.discard(self._store)
            os.close(self._handle)

    def _taken(self, holder: str) -> StoreError:
        return StoreError(
            f"The store {self._store} is in use by another gateway ({holder}), and two cannot keep "
            "turns in one file. Stop that one, or give this one a path of its own in [store]."
        )


def _open(path: Path, flags: int = 0) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | flags, _OWNER_ONLY)
    if sys.platform != "win32":
        os.fchmod(handle, _OWNER_ONLY)  # the umask may have taken the owner's rights too
    return handle
