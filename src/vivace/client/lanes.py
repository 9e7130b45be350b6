"""Gaps in the documents of an editor, filled by whatever server there is.

One WebSocket carries all documents, and an answer that nobody wants any more is interrupted on it
without a new connection. A server that has no WebSocket, or does not know what a gap is, is asked
over HTTP in the first of the forms that it understands, and in that one from then on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial

import msgspec

from vivace.client.dialling import NoWebSocket, api_address
from vivace.client.endpoint import Endpoint
from vivace.client.errors import ClientError, half_a_character
from vivace.client.fill_forms import (
    Completions,
    FillForm,
    Infill,
    Responses,
    knows_fill,
    post,
)
from vivace.client.gap import Gap
from vivace.client.lane_socket import LaneSocket
from vivace.client.lane_table import Unspoken

__all__ = ["ClientError", "Lanes"]

_Way = Callable[[str, Gap], AsyncGenerator[str, None]]


class Lanes:
    """Connects when it is first asked, and again by itself when a connection breaks."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._url = url
        self._key = key
        self._socket = LaneSocket(url, key)
        self._endpoint: Endpoint | None = None
        self._ways: list[_Way] = []
        """To ask; the one that was understood last comes first."""
        self.has_tiers = False
        """Whether who answered last lets work wait that is marked as background."""
        self._ours: Sequence[_Way] = ()
        """Those that only our own server knows."""
        self._closed = False

    async def fill(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        """What belongs into the gap, as it is written. Closing this stops the engine.

        What is asked on one ``lane`` is answered one after the other, lanes beside each other.
        Raises ClientError, with the seconds to wait where the server says them.
        """
        _check_characters(gap)
        refused: ClientError | None = None
        for way in self._in_order():
            try:
                async with aclosing(way(lane, gap)) as texts:
                    async for text in texts:
                        self._understood(way)
                        yield text
            except Unspoken as error:
                refused = error
            else:
                self._understood(way)
                return
        raise ClientError(
            f"The server at {self._url} cannot be asked to fill a gap. {refused}", "cannot_fill"
        )

    async def close(self) -> None:
        """What is under way ends with an error."""
        self._closed = True
        await self._socket.close()
        if self._endpoint is not None:
            await self._endpoint.close()

    # -- ways to ask ------------------------------------------------------------------------------

    def _in_order(self) -> Sequence[_Way]:
        if self._closed:
            raise ClientError("The connection was closed.")
        if not self._ways:
            base = api_address(self._url)
            forms = (Responses(base), Infill(base), Completions(base))
            ours, *theirs = (partial(self._over_http, form) for form in forms)
            self._ours = (self._over_socket, ours)
            self._ways = [*self._ours, *theirs]
        return tuple(self._ways)

    def _understood(self, way: _Way) -> None:
        if self._ways[0] is not way:
            self._ways.remove(way)
            self._ways.insert(0, way)
        self.has_tiers = way in self._ours

    async def _over_socket(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        try:
            async with aclosing(self._socket.answer(lane, gap.body())) as texts:
                async for text in texts:
                    yield text
        except NoWebSocket as error:
            raise Unspoken(str(error)) from None
        except ClientError as refused:
            if knows_fill(refused):
                raise
            raise Unspoken(str(refused)) from None

    def _over_http(self, form: FillForm, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        """Each request has a connection of its own, so lanes make no difference."""
        if self._endpoint is None:
            self._endpoint = Endpoint(self._url, api_address(self._url), self._key)
        return post(self._endpoint, form, gap)


def _check_characters(gap: Gap) -> None:
    try:
        msgspec.json.encode(gap)
    except UnicodeEncodeError:
        raise half_a_character() from None
