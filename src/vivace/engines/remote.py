"""An engine on another machine, or in another process: behind a link to an engine node.

``Node`` keeps the link to one node and has an engine for each that the node offers. When the link
breaks, it dials again at once: the node goes on meanwhile, and answers are read on from where they
were. They fail, and go on at another engine, when the node is not the one that it was, when its
address refuses the link, or when it does not answer for a moment: a node that was silent is waited
for no second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from http import HTTPStatus

from msgspec import Struct
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus, WebSocketException

from vivace.conversation.deltas import Delta
from vivace.engines.base import Bounds, Card, Continues, Generates, OnRecord, Tell, Work
from vivace.engines.link_socket import LinkSocket
from vivace.engines.messages import estimate_tokens
from vivace.engines.remote_lengths import Questions
from vivace.engines.remote_stream import Reading
from vivace.engines.remote_work import decode_cards, encode_work
from vivace.errors import (
    EngineAbsent,
    EngineBusy,
    EngineRefused,
    LinkError,
)
from vivace.link.frames import (
    MAX_FRAME,
    SUBPROTOCOL,
    WINDOW,
    Drain,
    Hello,
    Measured,
    Offer,
    Run,
    Stage,
    ToGateway,
    ToNode,
    Welcome,
    decode_to_gateway,
)
from vivace.link.gateway_end import GatewayEnd, Stream
from vivace.link.pieces import MAX_JOINED_TO_GATEWAY, Joiner
from vivace.logs import place_of
from vivace.protocol.items import Item
from vivace.scheduling.queue import KINDS

__all__ = ["Address", "Node", "RemoteEngine", "Slot"]

log = logging.getLogger("vivace.link")

_DIAL_AGAIN = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Seconds between tries to reach a node that is away; the last of them from then on."""
_REACHED_WITHIN = 2.0
_LINK_BROKEN = 0.6
"""Seconds for which answers wait for a link that broke, and again once its node has answered."""
_NODE_SILENT = 0.4
"""The same after silence: it was waited for already, and one that lives answers at once."""
_LASTED = 1.5
"""Seconds after which a link that breaks is dialled again at once, as if it were the first time."""
_TELL_WITHIN = 0.005
"""Seconds after which the node is told what came."""
_PATIENCE = 2.0
"""Seconds for which the node goes on at least while the link is broken."""


_UNTRIED = "not reached yet"


class _Dial(connect):
    """Dials a node without following a redirect, which would take the key along."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


class Address(Struct, frozen=True):
    url: str
    key: str
    """Which gateways and nodes share."""
    tls: ssl.SSLContext | None = None
    name: str | None = None
    """Whom its certificate must be of, if the url has only a number."""


class Node:
    """One engine node, as a gateway knows it."""

    def __init__(
        self,
        address: Address,
        gateway: str,
        changed: Callable[[Node], None] = lambda _: None,
        window: int = WINDOW,
        patience: float = _PATIENCE,
    ) -> None:
        """``gateway``: this run of this gateway. ``changed`` is called when there is a link, and
        perhaps other engines than before. ``window``: how much a reader may be behind.
        ``patience``: seconds for which the node goes on with a turn that is on record when this
        gateway is gone, for another to take it."""
        self.name = ""
        self.incarnation = ""
        self.version = 0
        """Of the link, which both speak."""
        self.engines: tuple[RemoteEngine, ...] = ()
        self.trouble: str | None = _UNTRIED
        """Why there is no link."""
        self.linked = asyncio.Event()
        self._address = address
        self._gateway = gateway
        self._changed = changed
        self._patience = max(_PATIENCE, patience)
        self._end = GatewayEnd(window=window)
        self._questions = Questions()
        self._socket: LinkSocket[ToNode, ToGateway] | None = None
        self._wakes: dict[Stream, asyncio.Event] = {}
        self._telling: asyncio.TimerHandle | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._closing = False
        self.let_go: frozenset[str] = frozenset()
        """Turns that another gateway is about to go on with."""
        self.heard_at: float | None = None
        """When it said something last, by the monotonic clock."""

    # -- the link ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps the link, until cancelled."""
        tries, loop = 0, asyncio.get_running_loop()
        while not self._closing:
            trouble, refused, dialled = "", True, loop.time()
            try:
                async with self._dialled() as connection:
                    trouble = await self._talk(connection)
            except Exception as error:  # noqa: BLE001 - whatever a node says ends its link alone
                trouble, refused = _trouble_of(error)
            finally:
                self._unlinked()
            if trouble:
                self._in_trouble(trouble)
                if refused:
                    self._give_up()
            elif loop.time() - dialled > _LASTED:
                tries = 0
            await asyncio.sleep(_DIAL_AGAIN[min(tries, len(_DIAL_AGAIN) - 1)])
            tries += 1

    def _dialled(self) -> connect:
        return _Dial(
            f"{self._address.url}/link",
            additional_headers={"Authorization": f"Bearer {self._address.key}"},
            subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
            ssl=self._address.tls,
            server_hostname=self._address.name if self._address.tls is not None else None,
            compression=None,
            open_timeout=_REACHED_WITHIN,
            close_timeout=0.2,
            ping_interval=None,  # beats tell more
            max_size=MAX_FRAME,
            proxy=None,
        )

    def _in_trouble(self, why: str) -> None:
        if why != self.trouble:  # said once, however often it is tried
            log.error("engine node %s: %s", self._address.url, why)
        self.trouble = why

    def _give_up(self) -> None:
        """The link is away for good, or for too long to wait for it."""
        self._give_up_in(None)
        self._wake(self._end.lost())

    def _give_up_in(self, seconds: float | None) -> None:
        """None: not any more."""
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if seconds is not None:
            self._giving_up = asyncio.get_running_loop().call_later(seconds, self._give_up)

    async def _talk(self, connection: ClientConnection) -> str:
        """From the first word on this link to its last. Why it came to nothing, if it did."""
        if self._giving_up is not None:  # it lives
            self._give_up_in(_LINK_BROKEN)
        joiner = Joiner(MAX_JOINED_TO_GATEWAY)
        socket = LinkSocket[ToNode, ToGateway](connection, decode_to_gateway, joiner=joiner)
        socket.say([Hello(self._gateway)])
        sending = asyncio.create_task(socket.send())
        try:
            async for messages in socket.received():
                self._received(socket, messages)
                if sending.done():
                    break
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        if self._socket is socket:
            return ""
        return f"the node ended the link: {connection.close_reason or 'it said nothing'}"

    def _received(
        self, socket: LinkSocket[ToNode, ToGateway], messages: Sequence[ToGateway]
    ) -> None:
        self.heard_at = time.monotonic()
        for message in messages:
            if isinstance(message, Welcome):
                self._welcomed(socket, message)
            elif self._socket is not socket:
                raise LinkError("The node must say welcome first.")
            elif isinstance(message, Measured):
                self._questions.told(message)
            else:
                streams, answers = self._end.received(message)
                self._wake(streams)
                for answer in answers:
                    socket.say_large(answer)
        if self._telling is None:  # after beats, too: more may have been told since the last word
            self._telling = asyncio.get_running_loop().call_later(_TELL_WITHIN, self._tell)

    def _welcomed(self, socket: LinkSocket[ToNode, ToGateway], welcome: Welcome) -> None:
        if self._socket is socket:
            raise LinkError("The node said welcome twice.")
        self.name = welcome.node or self._address.url.partition("://")[2]
        engines = self._offered(welcome.offers)
        self.incarnation, self.version = welcome.incarnation, welcome.version
        self.trouble = None
        self._give_up_in(None)
        lost, messages = self._end.welcomed(welcome)
        self._wake(lost)
        self._socket = socket
        for message in messages:
            socket.say_large(message)
        self.engines = engines
        log.info("linked to engine node %s", self.name)
        self.linked.set()
        self._changed(self)

    def _offered(self, offers: Sequence[Offer]) -> tuple[RemoteEngine, ...]:
        """Return the engines that the node offers; engines with an unchanged offer are kept."""
        if len({offer.name for offer in offers}) < len(offers):
            raise LinkError("The node offers two engines of one name.")
        before = {engine.offer: engine for engine in self.engines}
        return tuple(before.get(offer) or RemoteEngine(self, offer) for offer in offers)

    def _unlinked(self) -> None:
        if self._socket is None:
            return
        silent, self._socket = self._socket.silent, None
        why = "silent" if silent else "broken"
        log.warning("the link to engine node %s is %s", self.name, why)
        self.linked.clear()
        self._questions.lost()
        self._give_up_in(_NODE_SILENT if silent else _LINK_BROKEN)

    def _tell(self) -> None:
        self._telling = None
        heard = self._end.heard()
        if heard is not None and self._socket is not None:
            self._socket.say([heard])

    def _wake(self, streams: Sequence[Stream]) -> None:
        for stream in streams:
            wake = self._wakes.get(stream)
            if wake is not None:
                wake.set()

    def close(self) -> None:
        """Nothing more is asked of it, and what was is lost."""
        self._closing = True
        self._give_up()

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def stage(self) -> Stage:
        """How far it is drained, as it said last."""
        return self._end.stage

    def drain(self, *, on: bool, seconds: float | None = None) -> None:
        """Have it take no more work from anyone, or take it again. It must be linked, and speak
        version 2."""
        assert self._socket is not None
        self._socket.say([Drain(on, seconds)])

    # -- engines ----------------------------------------------------------------------------------

    @property
    def may_answer(self) -> bool:
        """Whether there is a link, or it is likely that there is one in a moment."""
        return self.linked.is_set() or self.trouble == _UNTRIED or self._giving_up is not None

    def healthy(self, engine: str) -> bool:
        """Whether it takes work."""
        load = self._end.loads.get(engine)
        return self._socket is not None and not self.stage and (load is None or load.healthy)

    def running(self, engine: str) -> int:
        return self._end.running(engine) if self._socket is not None else 0

    def taken(self, engine: str) -> int:
        """Running and waiting there."""
        return self.running(engine) + self.waiting(engine)

    def waiting(self, engine: str) -> int:
        load = self._end.loads.get(engine)
        return load.waiting if load is not None and self._socket is not None else 0

    async def lengths(
        self, engine: str, parts: Sequence[Sequence[Item]], model: str
    ) -> Sequence[int] | None:
        if self._socket is None:
            return None
        return await self._questions.ask(self._socket.say_large, engine, model, parts)

    def leave(self, engine: str) -> None:
        """End what was asked of it."""
        stops, streams = self._end.leave(engine)
        self._wake(streams)
        if self._socket is not None:
            self._socket.say(stops)

    def open(self, engine: str, work: Work) -> Reading:
        """Have the node work on this."""
        if self._socket is None or self._closing:
            raise EngineAbsent(f"Engine node {self.name}: {self.trouble or 'not linked'}.")
        try:
            stream, sent = self._end.run(self._run_of(engine, work), work.parent_id)
        except OverflowError:
            raise EngineRefused(
                "A number in the request has more than 64 bits, and engine nodes take none such. "
                "Look at the schemas of its tools."
            ) from None
        reading = self._read(stream)
        reading.tells(work)
        try:
            self._socket.say_large(sent)
        except LinkError as error:
            reading.close()
            raise EngineBusy(f"Engine node {self.name}: {error}", retry_after=1.0) from None
        except BaseException:
            reading.close()
            raise
        return reading

    def attach(self, turn: str, epoch: int, *, holds: bool = True) -> Reading:
        """Hold what the node has of a turn that another gateway began, or only read it."""
        if self._socket is None or self._closing:
            raise EngineAbsent(f"Engine node {self.name}: {self.trouble or 'not linked'}.")
        stream, sent = self._end.attach(turn, epoch, holds=holds)
        self._socket.say([sent])
        return self._read(stream)

    def _read(self, stream: Stream) -> Reading:
        wake = self._wakes[stream] = asyncio.Event()
        return Reading(self, stream, wake)

    def _run_of(self, engine: str, work: Work) -> Run:
        raw, items = encode_work(work, self.incarnation)
        known = work.on_record or OnRecord(epoch=1)
        bounds = work.bounds or Bounds(0)
        return Run(
            stream=0,
            run=secrets.token_hex(8),
            turn=work.id,
            epoch=known.epoch,
            attempt=work.attempt,
            engine=engine,
            owner=work.owner,
            patience=self._patience if work.on_record is not None else _PATIENCE,
            work=raw,
            items=items,
            kind=KINDS[work.priority],
            conversation=work.conversation,
            cost=work.cost,
            begun=work.bounds is None,
            summary=known.summary,
            created=known.created,
            before=known.before,
            spent=known.tokens,
            tier=work.tier,
            queue=bounds.queue,
            first_token=bounds.first_token,
        )

    def took(self, stream: Stream) -> None:
        """Its reader has taken something."""
        if self._end.taken(stream):
            self._tell()

    def closed(self, stream: Stream) -> None:
        """Nobody reads it any more."""
        self._wakes.pop(stream, None)
        stream.last_told = None
        if stream.run.turn in self.let_go and not self._closing:
            asyncio.get_running_loop().call_later(_PATIENCE, self._stop, stream)
        else:
            self._stop(stream)

    def _stop(self, stream: Stream) -> None:
        stop = self._end.stop(stream)
        if stop is not None and self._socket is not None:
            self._socket.say([stop])


def _trouble_of(error: Exception) -> tuple[str, bool]:
    """Why there is no link, and whether that is an answer; else the node may be there next time."""
    match error:
        case InvalidHandshake():
            return _not_let_in(error), True
        case ConnectionRefusedError():
            return "nothing listens there", True
        case ssl.SSLError():
            return f"no encrypted link: {error.reason or error}; look at fleet.ca", True
        case LinkError():
            return str(error), True
        case OSError() | WebSocketException():
            return f"cannot be reached: {type(error).__name__}", False
    return f"this gateway failed to read what the node said: {place_of(error)}", True


def _not_let_in(error: InvalidHandshake) -> str:
    status = error.response.status_code if isinstance(error, InvalidStatus) else 0
    if status == HTTPStatus.UNAUTHORIZED:
        return "the node has another key than this gateway; set the same in both"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        return "the node is not ready: it loads its models, or shuts down"
    return f"what answers there is no engine node: {status or type(error).__name__}"


class RemoteEngine:
    def __init__(self, node: Node, offer: Offer) -> None:
        self.name = f"{offer.name}@{node.name}"
        self.offer = offer
        self.cards: Sequence[Card] = decode_cards(offer.cards)
        self.continues: Continues = offer.continues
        self.counts = offer.counts
        self._node = node

    async def start(self) -> None:
        """It is the node's to start it; this waits until that has."""
        await self._node.linked.wait()

    async def stop(self) -> None:
        """What was asked of it here ends; for other gateways it goes on."""
        self._node.leave(self.offer.name)

    def healthy(self) -> bool:
        return self._node.healthy(self.offer.name)

    def running(self) -> int:
        return self._node.running(self.offer.name)

    def taken(self) -> int:
        return self._node.taken(self.offer.name)

    def count(self, items: Sequence[Item], model: str) -> int:
        return estimate_tokens(items)

    async def lengths(self, parts: Sequence[Sequence[Item]], model: str) -> Sequence[int] | None:
        return await self._node.lengths(self.offer.name, parts, model)

    def metrics(self) -> bytes:
        """The node tells them itself."""
        return b""

    async def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        reading = self._node.open(self.offer.name, work)
        async with contextlib.aclosing(reading.deltas(work.tally)) as deltas:
            async for delta in deltas:
                yield delta

    @contextlib.asynccontextmanager
    async def slot(
        self, work: Work, tell: Tell, leaves: Callable[[], bool]
    ) -> AsyncIterator[Generates]:
        with contextlib.closing(self._node.open(self.offer.name, work)) as reading:
            await reading.begun(tell, leaves)
            yield Slot(self, reading)


class Slot:
    """Of an engine on a node, which has begun with the work that it was asked for."""

    def __init__(self, engine: RemoteEngine, reading: Reading) -> None:
        self._engine = engine
        self._reading: Reading | None = reading

    def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        """At first of that work, then of any that follows it, such as the answer to thoughts."""
        reading, self._reading = self._reading, None
        return reading.deltas(work.tally) if reading is not None else self._engine.generate(work)
