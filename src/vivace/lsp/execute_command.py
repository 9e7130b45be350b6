"""``workspace/executeCommand``: each of our commands, with one object as its argument."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from lsprotocol.types import WorkDoneProgressCancelParams
from msgspec import Struct
from pygls.exceptions import JsonRpcInvalidParams

from vivace.lsp.address import Address
from vivace.lsp.diagnostics import Diagnostics
from vivace.lsp.extensions import (
    Accepted,
    CursorMoved,
    EditAsked,
    Paused,
    Redirected,
    RenameAsked,
    ReviewAsked,
    Status,
    Stopped,
    as_json,
)
from vivace.lsp.offers import Offers
from vivace.lsp.rules import Rules
from vivace.lsp.session import Session
from vivace.lsp.suggestions import Suggestions

if TYPE_CHECKING:
    from vivace.lsp.edits import Edits
    from vivace.lsp.renames import Renames
    from vivace.lsp.reviews import Reviews

__all__ = ["ExecuteCommand"]

T = TypeVar("T", bound=Struct)


class ExecuteCommand:
    def __init__(
        self,
        session: Session,
        suggestions: Suggestions,
        offers: Offers,
        diagnostics: Diagnostics,
        rules: Rules,
        address: Address,
        state: Path,
    ) -> None:
        self._session = session
        self._suggestions = suggestions
        self._offers = offers
        self._diagnostics = diagnostics
        self._rules = rules
        self._address = address
        self._state = state
        self._loading: asyncio.Task[Edits] | None = None
        self._in_order = asyncio.Lock()
        self._reviews: Reviews | None = None

    async def edit(self, given: Sequence[Any]) -> Any:
        asked = _read(given, EditAsked)
        document = self._session.documents.get(asked.uri)
        text = document.text if document is not None else ""  # what the range is a part of
        edits = await self._with_edits()
        return as_json(await edits.edit(asked, document, text))

    async def rename(self, given: Sequence[Any]) -> Any:
        asked = _read(given, RenameAsked)
        module = await asyncio.to_thread(import_module, "vivace.lsp.renames")
        renames: Renames = module.Renames(self._session)
        return as_json(await renames.rename(asked, self._session.documents.get(asked.uri)))

    async def review(self, given: Sequence[Any]) -> Any:
        asked = _read(given, ReviewAsked)
        module = await asyncio.to_thread(import_module, "vivace.lsp.reviews")
        if self._reviews is None:
            self._reviews = module.Reviews(self._session, self._diagnostics, self._address)
        return as_json(await self._reviews.review(asked))

    async def redirect(self, given: Sequence[Any]) -> None:
        asked = _read(given, Redirected)
        (await self._with_edits()).redirect(asked.uri, asked.instruction)

    async def stop(self, given: Sequence[Any]) -> None:
        asked = _read(given, Stopped)
        (await self._with_edits()).stop(asked.uri)

    async def pause(self, given: Sequence[Any]) -> None:
        self._session.paused = _read(given, Paused).paused
        paused = self._session.paused
        self._session.editor.show_status(Status(state="paused" if paused else "ready"))

    async def accepted(self, given: Sequence[Any]) -> None:
        self._offers.accepted(_read(given, Accepted).number)

    async def cursor(self, given: Sequence[Any]) -> None:
        asked = _read(given, CursorMoved)
        document = self._session.documents.get(asked.uri)
        if document is not None:
            self._diagnostics.moved(document, document.offset(asked.position))
            await self._suggestions.rests(document, document.offset(asked.position))

    def cancel_progress(self, params: WorkDoneProgressCancelParams) -> None:
        if self._reviews is not None:
            self._reviews.stop_shown(str(params.token))
        if (edits := self._loaded()) is not None:
            edits.stop_shown(str(params.token))

    def closed(self, uri: str) -> None:
        """Whoever closes a document wants no edit of it: what is under way is left."""
        if (edits := self._loaded()) is not None:
            edits.stop(uri)

    def _loaded(self) -> Edits | None:
        loading = self._loading
        return loading.result() if loading is not None and loading.done() else None

    async def _with_edits(self) -> Edits:
        """Load them when they are first needed, so that typing does not wait for it.

        Commands go on in the order in which they came: one that comes just when the module is
        loaded would overtake those that waited for it, and a stop would miss its edit.
        """
        async with self._in_order:
            self._loading = self._loading or asyncio.create_task(self._load())
            return await asyncio.shield(self._loading)

    async def _load(self) -> Edits:
        module = await asyncio.to_thread(import_module, "vivace.lsp.edits")
        found: Edits = module.Edits(self._session, self._rules, self._address, self._state)
        return found


def _read(given: Sequence[Any], kind: type[T]) -> T:
    try:
        return msgspec.convert(given[0] if given else {}, kind)
    except msgspec.ValidationError as error:
        raise JsonRpcInvalidParams(f"The argument of the command is wrong: {error}.") from None
