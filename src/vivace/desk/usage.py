"""Counts of completions that last: a row for each day, on this machine alone, in one small file.

Several language servers write it, so each adds to what is there while it holds the folder's lock,
and the new file takes the place of the old one at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from vivace.desk.counts import Counts
from vivace.errors import ConfigError

if sys.platform != "win32":
    import fcntl

__all__ = ["Usage", "UsageFile", "this_day"]

_MOST_DAYS = 90
_EVERY_S = 30.0

_logger = logging.getLogger(__name__)


class _Kept(Struct):
    days: dict[date, Counts] = msgspec.field(default_factory=dict)


def this_day() -> date:
    """As the person's clock has it."""
    return datetime.now().astimezone().date()


class UsageFile:
    def __init__(self, state: Path) -> None:
        """``state`` is where the program keeps things."""
        self.path = state / "completions.json"

    def days(self) -> Mapping[date, Counts]:
        """What is known of each day, the oldest first."""
        try:
            return self._read().days
        except (OSError, msgspec.MsgspecError):
            raise ConfigError(
                f"{self.path} cannot be read. To begin anew: vivace stats --delete"
            ) from None

    def add(self, counts: Counts, day: date) -> None:
        """What cannot be read any more is begun anew."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone():
            try:
                days = self._read().days
            except msgspec.MsgspecError:
                days = {}
            days.setdefault(day, Counts()).add(counts)
            newest = dict(sorted(days.items())[-_MOST_DAYS:])
            self._write(_Kept(newest))

    def delete(self) -> bool:
        """Whether there was anything."""
        there = self.path.exists()
        self.path.unlink(missing_ok=True)
        return there

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return _Kept()

    def _write(self, kept: _Kept) -> None:
        handle, name = tempfile.mkstemp(prefix=f".{self.path.name}.", dir=self.path.parent)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                file.write(msgspec.json.encode(kept))
            Path(name).replace(self.path)
        except BaseException:
            Path(name).unlink()
            raise

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if sys.platform == "win32":
            yield
            return
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # some network file systems lock no folders
                fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


class Usage:
    """What one process counts: written some time after it was counted, and at the end. While
    nothing happens, nothing is done."""

    def __init__(
        self, file: UsageFile, every: float = _EVERY_S, day: Callable[[], date] = this_day
    ) -> None:
        self.counts = Counts()
        """What is not written yet; whoever counts does so here."""
        self._file = file
        self._every = every
        self._day = day
        self._waiting: asyncio.Task[None] | None = None

    def soon(self) -> None:
        """Something is being counted."""
        if self._waiting is None or self._waiting.done():
            self._waiting = asyncio.create_task(self._later(), name="completions counted")

    async def close(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait([self._waiting])
            await self._write()

    async def _later(self) -> None:
        await asyncio.sleep(self._every)
        await self._write()

    async def _write(self) -> None:
        counts = self.counts.take()
        if counts == Counts():
            return
        try:
            await asyncio.to_thread(self._file.add, counts, self._day())
        except OSError as error:
            _logger.warning("completions are not counted: %s", error.strerror)
