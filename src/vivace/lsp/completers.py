"""Who completes each document: all of them over one connection."""

from __future__ import annotations

import asyncio
import hashlib
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vivace.completion.pace import Pace
from vivace.completion.room import Room
from vivace.desk.completing import Completing
from vivace.desk.power import Battery
from vivace.desk.usage import Usage
from vivace.lsp.address import Address
from vivace.lsp.documents import Document
from vivace.lsp.session import Session

if TYPE_CHECKING:
    from vivace.client.lanes import Lanes

__all__ = ["Completers"]


class Completers:
    def __init__(self, session: Session, address: Address, usage: Usage) -> None:
        self._session = session
        self._address = address
        self._usage = usage
        self._battery = Battery()
        self._room = Room()
        self._lanes: Lanes | None = None

    async def load(self) -> None:
        """Bring in what speaks to servers, when the editor has its first answer: that is a sixth of
        what it would have waited for."""
        await asyncio.to_thread(import_module, "vivace.client.lanes")

    def make(self, document: Document) -> Completing:
        files = self._session.files
        file = files.find(document.uri)
        # Which document, for servers that keep what they have read; but not whose.
        cell = urlsplit(document.uri).fragment  # of a notebook
        name = f"{file.workspace.root}\0{file.path}{cell}".encode()
        lane = hashlib.sha256(name).hexdigest()[:16]
        path = files.path_for(document)
        settings = self._session.settings
        given = settings.completion.characters
        return Completing(
            self._connection(),
            lane,
            path,
            settings.model,
            room=self._room if given is None else Room(given),
            counts=self._usage.counts,
            pace=Pace(settings.completion.timing, lambda: self._battery.in_use),
            unasked=lambda: self._session.completes and files.known_to_be_readable(document),
        )

    async def close(self) -> None:
        if self._lanes is not None:
            await self._lanes.close()

    def _connection(self) -> Lanes:
        from vivace.client.lanes import Lanes

        self._lanes = self._lanes or Lanes(self._address.url, self._address.key)
        return self._lanes
