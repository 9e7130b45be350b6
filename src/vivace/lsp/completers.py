"""Who completes each document: all of them over one connection."""

from __future__ import annotations

import hashlib

from vivace.client.lanes import Lanes
from vivace.desk.completing import Completing
from vivace.lsp.address import Address
from vivace.lsp.documents import Document
from vivace.lsp.session import Session

__all__ = ["Completers"]


class Completers:
    def __init__(self, session: Session, address: Address) -> None:
        self._session = session
        self._lanes = Lanes(address.url, address.key)

    def make(self, document: Document) -> Completing:
        files = self._session.files
        file = files.find(document.uri)
        # Which document, for servers that keep what they have read; but not whose.
        name = f"{file.workspace.root}\0{file.path}".encode()
        lane = hashlib.sha256(name).hexdigest()[:16]
        path = files.path_for(document)
        return Completing(self._lanes, lane, path, self._session.settings.model)

    async def close(self) -> None:
        await self._lanes.close()
