"""A node, its gateways and their links, with engines that say what they are told to; no I/O.

Links deliver in order, but a large run may come late, and whatever is on its way is lost when a
link breaks. Either side may learn of that first.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

import msgspec
from msgspec import Raw

from vivace.conversation.deltas import Finished, TextDelta, Tokens
from vivace.conversation.log import Entry, Said
from vivace.link.flow import weight
from vivace.link.frames import (
    WINDOW_BYTES,
    Attach,
    Broke,
    Chunk,
    Fenced,
    Load,
    Log,
    Run,
    Stop,
    Tallied,
    ToGateway,
    ToNode,
    Welcome,
    decode_to_gateway,
    decode_to_node,
    encode,
)
from vivace.link.gateway_end import GatewayEnd, Stream
from vivace.link.node_end import Begin, Halt, NodeEnd
from vivace.protocol.items import Message

__all__ = ["PATIENCE", "Gateway", "Reader", "World"]

PATIENCE = 2.0
NOTHING = Raw(msgspec.msgpack.encode(None))


class Link:
    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.to_node: deque[bytes] = deque()
        self.large: deque[bytes] = deque()
        """Runs that others may overtake."""
        self.to_gateway: deque[bytes] = deque()


class Reader:
    """Who asked for a run, or reads one."""

    def __init__(self, gateway: Gateway, stream: Stream, holds: bool, asked: bool) -> None:
        self.gateway, self.stream, self.holds, self.asked = gateway, stream, holds, asked
        self.took: list[Entry] = []
        self.stopped = False
        self.fenced_at: int | None = None
        if holds:  # each entry is an event, told when it was taken
            stream.last_told = lambda: len(self.took) - 1

    @property
    def run(self) -> str:
        return self.stream.run.run

    @property
    def over(self) -> bool:
        return self.stopped or self.stream.gone is not None or self.stream.finished


class Gateway:
    def __init__(self, name: str, window: int, window_bytes: int) -> None:
        self.name, self.window, self.window_bytes = name, window, window_bytes
        self.end = GatewayEnd(window=window, window_bytes=window_bytes)
        self.link: Link | None = None
        self.shown: list[str] = []
        """Turns, the newest last."""

    def say(self, messages: Sequence[ToNode]) -> None:
        for message in messages:
            if self.link is not None:
                queue = self.link.large if isinstance(message, Run) else self.link.to_node
                queue.append(encode([message]))

    def tell(self) -> None:
        heard = self.end.heard()
        if heard is not None:
            self.say([heard])


class Made:
    """A run, as its engine knows it."""

    def __init__(self, turn: str) -> None:
        self.turn = turn
        self.log: list[Entry] = []
        self.over = False
        self.at_work = False


class World:
    def __init__(self, window: int, window_bytes: int = WINDOW_BYTES) -> None:
        self.now = 0.0
        self.incarnation = 0
        self.gateways = [Gateway(name, window, window_bytes) for name in ("a", "b")]
        self.readers: list[Reader] = []
        self.made: dict[str, Made] = {}
        self.begun: Counter[str] = Counter()
        self.shown: dict[str, tuple[str, ...]] = {}
        """What the gateway wants shown, and the engine must see."""
        self.epochs: dict[str, tuple[int, int]] = {}
        """Of each turn: the highest epoch and attempt."""
        self.half_open: list[str] = []
        """Peers whose link is gone, which the node has not noticed."""
        self.fenced: set[tuple[str, int]] = set()
        self.unwanted: set[tuple[str, int]] = set()
        """Streams whose stop has come to the node."""
        self.highest: dict[str, int] = {}
        """The epoch of each turn, as the node has seen it."""
        self.links = self.runs = 0
        self.restart()

    # -- the node ---------------------------------------------------------------------------------

    def restart(self) -> None:
        for gateway in self.gateways:
            gateway.link = None
        self.half_open.clear()
        self.incarnation += 1
        self.highest.clear()
        self.node = NodeEnd()
        for made in self.made.values():
            made.at_work = False

    def act(self, deeds: Sequence[Begin | Halt], peer: str = "") -> None:
        for deed in deeds:
            if isinstance(deed, Begin):
                self._begin(deed, peer)
            else:
                self.made[deed.run].at_work = False
                self.made[deed.run].over = True

    def _begin(self, deed: Begin, peer: str) -> None:
        run = deed.run
        assert self.begun[run.run] == 0, "an engine worked twice on one run"
        assert (peer, run.stream) not in self.unwanted, "an engine works on what was stopped"
        shown = tuple(each.content for each in deed.items)  # type: ignore[union-attr]
        assert shown == self.shown[run.run], "an engine was shown another conversation"
        others = [made for made in self.made.values() if made.turn == run.turn and made.at_work]
        assert not others, "two engines work on one turn"
        self.begun[run.run] += 1
        self.made[run.run].at_work = True

    def flush(self) -> None:
        while waiting := self.node.waiting():
            for peer in waiting:
                link = next((g.link for g in self.gateways if g.link and g.link.peer == peer), None)
                messages = self.node.outgoing(peer)
                self.look_at(peer, messages)
                if link is not None:
                    link.to_gateway.append(encode(messages))

    def look_at(self, peer: str, messages: Sequence[ToGateway]) -> None:
        for message in messages:
            if isinstance(message, Fenced):
                self.fenced.add((peer, message.stream))
            elif isinstance(message, Broke):
                assert (peer, message.stream) not in self.fenced
            elif isinstance(message, Log):
                for chunk in message.chunks:
                    self.look_at_chunk(peer, chunk)

    def look_at_chunk(self, peer: str, chunk: Chunk) -> None:
        assert (peer, chunk.stream) not in self.fenced, "a fenced holder was told something"
        link_of = {g.link.peer: g for g in self.gateways if g.link is not None}
        gateway = link_of.get(peer)
        if gateway is None:
            return
        reader = next(
            r for r in self.readers if r.gateway is gateway and number(r.stream) == chunk.stream
        )
        made = self.made[reader.run]
        if reader.holds or made.over:
            return
        has = max(r.stream.heard for r in self.readers if r.holds and r.run == reader.run)
        assert chunk.first + len(chunk.entries) <= has, "seen before its holder has it"

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.act(list(self.node.tick(self.now)))
        self.node.stands([Load("e", True, sum(m.at_work for m in self.made.values()), 0, 4)])

    # -- links ------------------------------------------------------------------------------------

    def cut(self, gateway: Gateway, node_knows: bool) -> None:
        if gateway.link is None:
            return
        peer, gateway.link = gateway.link.peer, None
        if node_knows:
            self.node.lost(peer, self.now)
        else:
            self.half_open.append(peer)
        for reader in self.readers:  # who only reads asks again
            if reader.gateway is gateway and not reader.holds and not reader.over:
                self.stop(reader)

    def node_notices(self) -> None:
        while self.half_open:
            self.node.lost(self.half_open.pop(), self.now)

    def connect(self, gateway: Gateway) -> None:
        if gateway.link is not None:
            return
        self.links += 1
        gateway.link = Link(f"p{self.links}")
        self.node.joined(gateway.link.peer)
        welcome = Welcome("n", str(self.incarnation), 1, ())
        _, messages = gateway.end.welcomed(welcome)
        gateway.say(messages)

    def deliver(self, gateway: Gateway, large: bool) -> None:
        """One frame to the node."""
        link = gateway.link
        if link is None:
            return
        queue = link.large if large else link.to_node
        if queue:
            for message in decode_to_node(queue.popleft()):
                self._received(link.peer, message)

    def _received(self, peer: str, message: ToNode) -> None:
        if isinstance(message, Stop):
            self.unwanted.add((peer, message.stream))
        self.act(list(self.node.received(peer, message, self.now)), peer)  # type: ignore[arg-type]
        if isinstance(message, Run | Attach) and message.stream in self.node._peers[peer].reading:
            if isinstance(message, Attach) and not message.holds:
                return
            assert message.epoch >= self.highest.get(message.turn, 0), "a ghost holds a turn"
            self.highest[message.turn] = message.epoch

    def hear(self, gateway: Gateway) -> None:
        """One frame to the gateway."""
        if gateway.link is None or not gateway.link.to_gateway:
            return
        for message in decode_to_gateway(gateway.link.to_gateway.popleft()):
            _, answers = gateway.end.received(message)
            gateway.say(answers)
        for reader in self.readers:
            gone = reader.stream.gone
            if gone is not None and gone.fenced:
                reader.fenced_at = reader.fenced_at or reader.stream.heard
                assert reader.stream.heard == reader.fenced_at

    # -- who asks ---------------------------------------------------------------------------------

    def ask(self, gateway: Gateway, turn: str, epoch: int, attempt: int, follows: bool) -> None:
        if gateway.link is None:
            return
        self.runs += 1
        name = f"r{self.runs}"
        parent = gateway.shown[-1] if follows and gateway.shown else None
        before = self.shown.get(f"turn {parent}", ()) if parent else ()
        words = (*before, f"{turn} {attempt}")
        self.shown[name] = self.shown[f"turn {turn}"] = words
        self.made[name] = Made(turn)
        items = tuple(Message(role="user", content=word) for word in words)
        whole = Run(0, name, turn, epoch, attempt, "e", "o", PATIENCE, NOTHING, items)
        stream, sent = gateway.end.run(whole, parent)
        gateway.say([sent])
        gateway.shown.append(turn)
        self.readers.append(Reader(gateway, stream, holds=True, asked=True))

    def attach(self, gateway: Gateway, run: Run, epoch: int, holds: bool) -> None:
        if gateway.link is None:
            return
        end = gateway.end
        end._last += 1
        run = msgspec.structs.replace(run, stream=end._last, epoch=epoch, credit=gateway.window)
        window, room = gateway.window, gateway.window_bytes
        stream = end._streams[end._last] = Stream(
            run, run, holds=holds, window=window, window_bytes=room
        )
        stream.begun = True
        wanted = Attach(end._last, run.turn, epoch, 0, holds, run.run, window, room)
        gateway.say([wanted])
        self.readers.append(Reader(gateway, stream, holds, asked=False))

    def take(self, reader: Reader) -> None:
        if reader.stream.entries and not reader.stopped:
            reader.took.append(reader.stream.take())
            if reader.gateway.end.taken(reader.stream):
                reader.gateway.tell()

    def stop(self, reader: Reader) -> None:
        if not reader.stopped:
            reader.stopped = True
            stop = reader.gateway.end.stop(reader.stream)
            if stop is not None:
                reader.gateway.say([stop])

    # -- engines ----------------------------------------------------------------------------------

    def speak(self, name: str) -> bool:
        made, log = self.made[name], self.node._logs.get(name)
        if not made.at_work or not self.node.may_go_on(name):
            return False
        if log is not None and log.holder is not None:
            took = max(r.stream.taken for r in self.readers if r.holds and r.run == name)
            assert len(made.log) < took + self.gateways[0].window, "its holder is too far behind"
            untaken = sum(map(weight, made.log[took:]))
            assert untaken < self.gateways[0].window_bytes, "its holder is too many bytes behind"
        number = len(made.log)
        self._said(name, Said(0, TextDelta(f"{name}.{number}".ljust(37 * number % 101))))
        return True

    def finish(self, name: str) -> None:
        made = self.made[name]
        if made.at_work:
            made.at_work = False
            self._said(name, Said(0, Finished("stop", Tokens())))
            made.over = True

    def fail(self, name: str) -> None:
        made = self.made[name]
        if made.at_work:
            made.at_work, made.over = False, True
            self.node.broke(name, Broke(0, "EngineError", "it fails", None, "always"), self.now)

    def _said(self, name: str, entry: Entry) -> None:
        self.made[name].log.append(entry)
        self.node.said(name, (entry,), Tallied(output=len(self.made[name].log)), self.now)

    # -- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        for reader in self.readers:
            log = self.made[reader.run].log
            assert reader.took == log[: len(reader.took)]
            waiting = list(reader.stream.entries)
            assert waiting == log[len(reader.took) : len(reader.took) + len(waiting)]
            assert len(waiting) <= reader.gateway.window
            assert sum(map(weight, waiting[:-1])) < reader.gateway.window_bytes
            holders = [each for each in self.readers if each.holds and each.run == reader.run]
            told = max((len(each.took) for each in holders), default=0)
            assert reader.stream.told < max(told, 1), "others hear what its holder has not told"

    def quiet(self) -> None:
        """All is well again, everybody reads, and every engine finishes."""
        for gateway in self.gateways:
            self.cut(gateway, node_knows=True)
        self.node_notices()
        for gateway in self.gateways:
            self.connect(gateway)
        for _ in range(300):
            self.settle()
            held = {name: made for name, made in self.made.items() if self._is_held(name)}
            moved = [self.speak(name) for name, made in held.items() if len(made.log) < 12]
            for name, made in held.items():
                if made.at_work and len(made.log) >= 12 and self.node.may_go_on(name):
                    self.finish(name)
                    moved.append(True)
            self.check()
            if not any(moved) and not any(m.at_work for m in self.made.values()):
                break
            if not any(moved):
                self.pass_time(PATIENCE / 2)
        assert not any(made.at_work for made in self.made.values()), "an engine waits forever"
        self.settle()

    def _is_held(self, name: str) -> bool:
        """Else it is never finished: it must be halted."""
        return any(each.run == name and each.holds and not each.over for each in self.readers)

    def settle(self) -> None:
        before = None
        while before != (before := self._queued()) or before:
            self.carry()
            for reader in self.readers:
                while reader.stream.entries and not reader.stopped:
                    self.take(reader)
            for gateway in self.gateways:
                gateway.tell()

    def carry(self) -> None:
        """Everything that is on its way arrives, and what is to be said to gateways too."""
        for gateway in self.gateways:
            while gateway.link and (gateway.link.large or gateway.link.to_node):
                self.deliver(gateway, large=True)
                self.deliver(gateway, large=False)
        self.flush()
        for gateway in self.gateways:
            while gateway.link and gateway.link.to_gateway:
                self.hear(gateway)

    def _queued(self) -> int:
        return sum(
            len(g.link.large) + len(g.link.to_node) + len(g.link.to_gateway)
            for g in self.gateways
            if g.link is not None
        ) + len(self.node.waiting())


def number(stream: Stream) -> int:
    return stream.run.stream
