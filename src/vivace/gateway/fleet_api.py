"""Gateways and engine nodes: how each of them stands, and which is to take no more work.

Whoever may use the server may look; to drain something takes an admin key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response as HttpResponse
from starlette.routing import Route

from vivace.errors import CannotDrain, InvalidRequest, NotFound, StoreError
from vivace.gateway.auth import Keys
from vivace.gateway.catalogue import Catalogue
from vivace.gateway.dispatch import Dispatch
from vivace.gateway.draining import Draining
from vivace.gateway.fleet import Fleet
from vivace.gateway.http import json_response, read_body, speaks_errors
from vivace.gateway.large import RequestReader
from vivace.gateway.shown import GatewayShown, NodeShown, Shown, told_by
from vivace.store.base import REMEMBERED_S, Colleague, GatewayTable

__all__ = ["DrainAsked", "Drained", "FleetApi"]

_LARGEST = 10_000
_DRAINS = 2
"""The version of the link from which on nodes can be drained."""


class DrainAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    seconds: Annotated[float, Meta(ge=0, le=86_400)] | None = None
    """For which turns may stay; without, as is set up there."""
    undo: bool = False


class Drained(Struct, frozen=True):
    """Who was told."""

    name: str
    kind: Literal["node", "gateway"]


_asked: msgspec.json.Decoder[DrainAsked] = msgspec.json.Decoder(DrainAsked)


def _decode_drain(text: str, held: object) -> DrainAsked:
    try:
        return _asked.decode(text)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{error}.") from None
    except msgspec.DecodeError:
        raise InvalidRequest("The body is not JSON.") from None


class FleetApi:
    def __init__(
        self,
        keys: Keys,
        catalogue: Catalogue,
        dispatch: Dispatch,
        fleet: Fleet,
        draining: Draining,
        reader: RequestReader,
        holder: str,
        table: GatewayTable | None,
        *,
        dead_after: float,
        drain_seconds: float,
    ) -> None:
        """``table``: the gateways that share the store, where there may be some."""
        self._keys = keys
        self._catalogue = catalogue
        self._dispatch = dispatch
        self._fleet = fleet
        self._draining = draining
        self._reader = reader
        self._holder = holder
        self._table = table
        self._dead_after = dead_after
        self._drain_seconds = drain_seconds

    def routes(self) -> list[Route]:
        return [
            Route("/fleet", speaks_errors(self._show)),
            Route("/fleet/drain", speaks_errors(self._drain), methods=["POST"]),
        ]

    # -- how they stand ---------------------------------------------------------------------------

    async def _show(self, request: Request) -> HttpResponse:
        try:
            colleagues = await self._colleagues()
        except StoreError:  # /readyz tells of it; what is known here is shown all the same
            colleagues = [self._this()]
        gateways = tuple(map(self._gateway, colleagues))
        shown = Shown(gateways=gateways, nodes=self._fleet.shown())
        return json_response(msgspec.to_builtins(shown))

    async def _colleagues(self) -> list[Colleague]:
        """This gateway alone, where nobody shares its store."""
        if self._table is not None:
            return await self._table.all(REMEMBERED_S)
        return [self._this()]

    def _this(self) -> Colleague:
        name = self._draining.name
        return Colleague(id=self._holder, name=name, about=b"", drain=None, silent=0.0)

    def _gateway(self, each: Colleague) -> GatewayShown:
        here = each.id == self._holder
        about = self._draining.about() if here else told_by(each.about)
        gone = not each.lives(self._dead_after) and not here
        state = "draining" if about.state == "ready" and each.drain is not None else about.state
        return GatewayShown(
            name=each.name,
            id=each.id,
            state="gone" if gone else state,
            version=about.version,
            here=here,
            running=0 if gone else about.running,
            passing=0 if gone else about.passing,
            last_heard_seconds=round(each.silent, 1),
        )

    # -- what is wanted of them -------------------------------------------------------------------

    async def _drain(self, request: Request) -> HttpResponse:
        self._keys.check_admin(request.state.owner)
        asked = await read_body(request, _decode_drain, limit=_LARGEST, reader=self._reader)
        nodes = [each for each in self._fleet.shown() if asked.name in (each.name, each.address)]
        gateways = await self._called(asked.name, needed=not nodes)
        if len(nodes) + len(gateways) > 1:
            raise CannotDrain(
                f"More than one is called {asked.name!r}. Name a node by its address and a gateway "
                "by its id; 'vivace drain' without a name lists them."
            )
        for node in nodes:
            self._drain_node(node, asked)
        for gateway in gateways:
            await self._drain_gateway(gateway, asked)
        if not nodes and not gateways:
            raise NotFound(_unknown(asked.name, self._names(await self._colleagues())))
        return json_response(
            msgspec.to_builtins(Drained(asked.name, "node" if nodes else "gateway"))
        )

    async def _called(self, name: str, *, needed: bool) -> list[Colleague]:
        """Gateways of this name. Unless they are ``needed`` none are known while the store is
        away: a node can be drained without it."""
        try:
            colleagues = await self._colleagues()
        except StoreError:
            if needed:
                raise
            return []
        return [
            each
            for each in colleagues
            if name in (each.name, each.id)
            and (each.lives(self._dead_after) or each.id == self._holder)
        ]

    def _names(self, colleagues: Sequence[Colleague]) -> Iterator[str]:
        yield from (node.name for node in self._fleet.shown())
        yield from (each.name for each in colleagues if each.lives(self._dead_after))

    def _drain_node(self, node: NodeShown, asked: DrainAsked) -> None:
        if node.trouble is not None:
            raise CannotDrain(
                f"This gateway does not reach engine node {asked.name}: {node.trouble}."
            )
        if node.link < _DRAINS:
            raise CannotDrain(
                f"Engine node {asked.name} is of a version that cannot be drained. Stop it with "
                "SIGTERM: it lets answers finish within its limits.drain_seconds."
            )
        left = [] if asked.undo else [*self._left_alone(node)]
        if left:
            raise CannotDrain(
                f"No other node that works offers {', '.join(left)}, so what runs on {asked.name} "
                "could go nowhere. Start another node first; or stop this one with SIGTERM: it "
                "lets answers finish within its limits.drain_seconds, and until it is back "
                "requests are refused."
            )
        self._fleet.drain(node.address, on=not asked.undo, seconds=asked.seconds)

    def _left_alone(self, node: NodeShown) -> Iterator[str]:
        """Tiers that have no engine without this node."""
        ours = {engine.name for engine in node.engines}
        for tier in self._catalogue.tiers:
            engines = set(tier.engines)
            if engines & ours and not any(map(self._dispatch.works, engines - ours)):
                yield tier.name

    async def _drain_gateway(self, gateway: Colleague, asked: DrainAsked) -> None:
        others = [
            each
            for each in await self._colleagues()
            if each.id != gateway.id and each.drain is None and each.lives(self._dead_after)
        ]
        if self._table is None or not (others or asked.undo):
            raise CannotDrain(
                f"{asked.name} is the only gateway that takes turns, so its clients could go "
                "nowhere. Start another on the same store (store.url) first; or stop this one "
                "with SIGTERM: it lets turns finish within limits.drain_seconds."
            )
        seconds = self._drain_seconds if asked.seconds is None else asked.seconds
        await self._table.drain(gateway.id, None if asked.undo else seconds)
        if gateway.id == self._holder:
            await self._draining.look()


def _unknown(name: str, known: Iterator[str]) -> str:
    return (
        f"No gateway and no engine node is called {name!r}. Known here: "
        f"{', '.join(known) or 'none'}."
    )
