"""Who waits for which answer on one connection with many lanes; waits for nothing itself.

::

    ask ─► waiting ─► asked ─► running ─► over
              │         │         └─ left: interrupted, and over when the server says so
              │         └─ left: interrupted as soon as it has an id
              └─ left: never sent

A lane's next request is sent when the one before it has begun, so a refusal always has one owner,
and what was left while it waited costs nothing. The server runs a lane's requests one by one, so
none would begin any sooner.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Mapping
from heapq import heappop, heappush
from typing import Any

from vivace.client.errors import ClientError
from vivace.client.events import ServerEvent

__all__ = ["LaneTable", "Request", "Unheard", "Unspoken"]

_STREAMS = 16
"""So many responses a server works on at once for one connection, by OpenAI's documentation; it
knows streams only by name, so more documents than that share these."""

_LONGEST_ANSWER = 1_000_000
"""Characters; no completion is so long, so whoever sends it does not mean to end."""


class Unheard(ClientError):
    """The connection broke before the server had begun with it; it may be asked again."""


class Unspoken(ClientError):
    """The server does not know what is asked of it in this way."""


class Request:
    """One answer that somebody waits for."""

    __slots__ = ("_room", "_told", "body", "lane", "left", "response_id")

    def __init__(self, lane: str, body: Mapping[str, Any]) -> None:
        self.lane = lane
        self.body = body
        self.response_id = ""
        self.left = False
        """Nobody waits for it any more."""
        self._room = _LONGEST_ANSWER
        self._told: asyncio.Queue[str | ClientError | None] = asyncio.Queue()

    async def texts(self) -> AsyncGenerator[str, None]:
        while (told := await self._told.get()) is not None:
            if isinstance(told, ClientError):
                raise told
            yield told

    def tell(self, text: str) -> bool:
        """False when that is more than anybody wants to hear."""
        self._room -= len(text)
        if self._room >= 0 and not self.left:
            self._told.put_nowait(text)
        return self._room >= 0

    def end(self, error: ClientError | None = None) -> None:
        self._told.put_nowait(error)


class _Lane:
    __slots__ = ("asked", "running", "stream")

    def __init__(self, stream: int) -> None:
        self.stream = stream
        self.asked: Request | None = None
        self.running: Request | None = None


class LaneTable:
    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._waiting: list[Request] = []
        self._lanes: dict[str, _Lane] = {}
        """Those with something asked or running, by the name that the caller has for them."""
        self._streams = list(range(_STREAMS))
        """Those that are free; the lowest is taken, so a server sees few names."""

    # -- what the caller does ---------------------------------------------------------------------

    def ask(self, lane: str, body: Mapping[str, Any]) -> Request:
        request = Request(lane, body)
        self._waiting.append(request)
        self._advance()
        return request

    def leave(self, request: Request) -> None:
        """Nobody waits for its answer any more; it may be over already."""
        if request.left:
            return
        request.left = True
        lane = self._lanes.get(request.lane)
        if request in self._waiting:
            self._waiting.remove(request)
        elif lane is not None and lane.running is request:
            self._interrupt(request)

    def lost(self, why: ClientError) -> None:
        """The connection is gone, and with it all that was under way."""
        for lane in self._lanes.values():
            if lane.running is not None:
                lane.running.end(ClientError(str(why)))
            if lane.asked is not None:
                lane.asked.end(copy.copy(why))
        for request in self._waiting:
            request.end(copy.copy(why))
        self._lanes.clear()
        self._waiting.clear()

    # -- what the server says ---------------------------------------------------------------------

    def hear(self, event: ServerEvent) -> None:
        """Raises what is no word to one lane but the end of the whole connection."""
        lane = self._named(event.stream_id)
        if event.type == "error":
            self._refused(lane, event)
        elif event.type == "response.created":
            self._begun(lane, event)
        elif lane is not None and lane.running is not None:
            if event.text:
                if not lane.running.tell(event.text):
                    self._break_off(lane.running)
            elif event.ends:
                self._end(lane, lane.running, event.why_broken)

    def _begun(self, lane: _Lane | None, event: ServerEvent) -> None:
        if event.stream_id is None:
            raise Unspoken("It knows of no lanes.")
        if lane is None or lane.asked is None or event.response is None:
            return
        if not event.response.fills:
            raise Unspoken("It answers something else.")
        if lane.running is not None:
            lane.running.end(ClientError("The server never ended its answer."))
        lane.running, lane.asked = lane.asked, None
        lane.running.response_id = event.response.id
        if lane.running.left:
            self._interrupt(lane.running)
        self._advance()

    def _refused(self, lane: _Lane | None, event: ServerEvent) -> None:
        error = event.failure.told(event.status if isinstance(event.status, int) else None)
        if error.code == "websocket_connection_limit_reached":  # and no interrupt is heard any more
            raise Unheard(str(error))
        if lane is not None and (request := lane.asked or lane.running) is not None:
            self._end(lane, request, error)
        elif error.code != "response_not_found":  # else it had ended when we interrupted it
            raise error

    # -- inside -----------------------------------------------------------------------------------

    def _named(self, stream: str | None) -> _Lane | None:
        return next((each for each in self._lanes.values() if str(each.stream) == stream), None)

    def _interrupt(self, request: Request) -> None:
        self._send({"type": "response.interrupt", "response_id": request.response_id})

    def _break_off(self, request: Request) -> None:
        if not request.left:
            request.end(ClientError("The server's answer does not end; it was broken off."))
            self.leave(request)

    def _end(self, lane: _Lane, request: Request, error: ClientError | None) -> None:
        request.end(error)
        if lane.asked is request:
            lane.asked = None
        else:
            lane.running = None
        if lane.asked is None and lane.running is None:
            del self._lanes[request.lane]
            heappush(self._streams, lane.stream)
        self._advance()

    def _advance(self) -> None:
        """Send all that may be sent, oldest first."""
        for request in list(self._waiting):
            lane = self._lanes.get(request.lane)
            if lane is None and self._streams:
                lane = self._lanes[request.lane] = _Lane(heappop(self._streams))
            if lane is not None and lane.asked is None:
                self._waiting.remove(request)
                lane.asked = request
                stream = {"type": "response.create", "stream_id": str(lane.stream)}
                self._send({**stream, **request.body})
