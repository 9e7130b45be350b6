"""Where a turn's events go when its client may come back from elsewhere."""

from __future__ import annotations

import asyncio

from vivace.gateway.meter import Outlet
from vivace.gateway.ports import Reader, Record
from vivace.protocol.events import Event, ResponseEvent

__all__ = ["Resumed", "Seat"]


class Seat:
    """The outlet of a turn whose client may change. What is handed to it counts as said."""

    def __init__(self, outlet: Outlet, record: Record) -> None:
        self._outlet = outlet
        self._record = record
        self._sending: asyncio.Task[object] | None = None

    def move(self, outlet: Outlet) -> None:
        """Who sat here is not waited for, though it may have taken nothing for long."""
        self._outlet = outlet
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    async def send(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, ResponseEvent):
                self._record.said(event.sequence_number)
        task = asyncio.current_task()
        while True:
            outlet, self._sending = self._outlet, task
            try:
                await outlet.send(events)
                return
            except asyncio.CancelledError:
                if outlet is self._outlet or task is None or task.uncancel():
                    raise  # else another took the seat meanwhile, who gets the rest
            finally:
                self._sending = None


class Resumed:
    """The outlet of who took a seat: gets what it has not seen, on a lane of its own."""

    def __init__(self, outlet: Outlet, reader: Reader) -> None:
        self._outlet = outlet
        self._reader = reader
        self._sending = asyncio.Lock()
        self._rest: list[Event] = []
        """What is being sent, as far as it was not."""

    async def catch_up(self) -> None:
        async with self._sending:
            await self._tell()

    async def send(self, events: list[Event]) -> None:
        async with self._sending:
            while events:
                if isinstance(events[0], ResponseEvent):
                    await self._tell()
                    del events[0]
                else:
                    await self._outlet.send(events[:1])
                    del events[0]

    async def _tell(self) -> None:
        """The reader has what was said already, and what is being said now."""
        while True:
            await self._outlet.send(self._rest)
            self._rest.clear()  # what is left nobody takes any more
            more = self._reader.ready()
            if more is None:
                return
            self._rest += more
            await asyncio.sleep(0)  # a long log is not read in the others' time
