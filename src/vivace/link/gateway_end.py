"""What a gateway knows of its link to one node: what it asked for, and how far it has heard.

A link may break and come back. The node goes on meanwhile, and each stream is read on from where it
was, as long as the node is the one that it was.

A node is not trusted to keep the rules. One that exceeds what it was granted, repeats what happens
once, or goes on after an end, ends its link by ``LinkError``; what it says of streams that are not
there any more is ignored, because a stop may have crossed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Raw, Struct
from msgspec.structs import replace

from vivace.conversation.log import is_last
from vivace.errors import LinkError
from vivace.link.flow import Inbox
from vivace.link.frames import (
    WINDOW,
    WINDOW_BYTES,
    Attach,
    Broke,
    Chunk,
    Fenced,
    Found,
    Heard,
    Load,
    Loads,
    Log,
    NeedHistory,
    Reach,
    Refused,
    Run,
    Stage,
    Stop,
    Taken,
    Tallied,
    ToNode,
    Welcome,
)
from vivace.link.histories import Histories, size_of

__all__ = ["GatewayEnd", "Gone", "Stream"]


class Gone(Struct, frozen=True):
    """Why nothing more comes of a stream."""

    why: Broke | None
    """As the engine said; None where the node or the link is gone."""
    fenced: bool = False
    """Another gateway holds the turn."""


class Stream(Inbox):
    """What comes of one run."""

    def __init__(
        self,
        run: Run,
        whole: Run,
        *,
        holds: bool = True,
        window: int = WINDOW,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        """``run`` is as it was sent, ``whole`` with the beginning of its conversation."""
        super().__init__(window, window_bytes)
        self.run = run
        self.holds = holds
        self.ordinal = 0
        """Which of the runs of this link it is."""
        self.tally = Tallied()
        self.gone: Gone | None = None
        self.begun = False
        """Whether the node has it."""
        self.finished = False
        """Whether its end was heard."""
        self.found: Found | None = None
        """Of one that another gateway began, what the node has of it."""
        self.last_told: Callable[[], int] | None = None
        """The last event of the turn that was told here, for others to be told as far. It is asked
        only while the stream is read: what is told later may follow from something else."""
        self.reported = -1
        """What the node knows of that."""
        self.told = -1
        """Of one that is only read: the last event that its holder has told."""
        self._whole = whole
        self._sent_whole = run is whole

    @property
    def whole(self) -> Run:
        return self._whole

    def send_whole(self) -> Run:
        """Have the conversation sent from its beginning on."""
        self.run, self._sent_whole = self._whole, True
        return self.run

    @property
    def may_need_history(self) -> bool:
        """Return whether the node may still ask for the beginning of the conversation."""
        return not (self._sent_whole or self.begun)


class GatewayEnd:
    def __init__(self, *, window: int = WINDOW, window_bytes: int = WINDOW_BYTES) -> None:
        """``window``: entries that a stream may hold untaken; ``window_bytes``: their bytes."""
        self._window = window
        self._window_bytes = window_bytes
        self._streams: dict[int, Stream] = {}
        self._last = 0
        self._runs = 0
        self._seen = 0
        self._reached: set[int] = set()
        self._histories = Histories()
        self._incarnation = ""
        self.loads: dict[str, Load] = {}
        self.stage: Stage = 0

    @property
    def streams(self) -> Sequence[Stream]:
        return tuple(self._streams.values())

    # -- what is asked for ------------------------------------------------------------------------

    def run(self, whole: Run, parent: str | None) -> tuple[Stream, Run]:
        """Begin a stream for this; returns also what is to be sent. ``parent`` is the turn that it
        continues."""
        self._last += 1
        whole = run = replace(
            whole, stream=self._last, credit=self._window, free_bytes=self._window_bytes
        )
        shown, keep = self._histories.common(whole.owner, parent or "", whole.items)
        size = 0
        if shown is not None and keep:
            run = replace(whole, items=whole.items[keep:], base=shown.run, keep=keep)
            size = shown.bytes
        if whole.items:
            size += size_of(run.items)
            self._histories.keep(whole.owner, whole.turn, whole.items, whole.run, size)
        stream = self._streams[self._last] = self._stream(run, whole)
        self._count(stream)
        return stream, run

    def attach(self, turn: str, epoch: int, *, holds: bool = True) -> tuple[Stream, Attach]:
        """Hold what the node has of a turn that another gateway began, or only read it; returns
        also what is to be sent."""
        self._last += 1
        unknown = Run(
            stream=self._last,
            run="",
            turn=turn,
            epoch=epoch,
            attempt=0,
            engine="",
            owner="",
            patience=0,
            work=Raw(b""),
        )
        stream = self._streams[self._last] = self._stream(unknown, unknown, holds=holds)
        return stream, _attach(stream)

    def _stream(self, run: Run, whole: Run, *, holds: bool = True) -> Stream:
        return Stream(run, whole, holds=holds, window=self._window, window_bytes=self._window_bytes)

    def _count(self, stream: Stream) -> None:
        self._runs += 1
        stream.ordinal = self._runs

    def stop(self, stream: Stream) -> Stop | None:
        """Nobody reads it any more."""
        number = stream.run.stream
        over = stream.finished or stream.gone is not None
        if self._streams.pop(number, None) is None or over:
            return None
        return Stop(number)

    def leave(self, engine: str) -> tuple[list[Stop], list[Stream]]:
        """Nobody reads anything of this engine any more; returns what is to be said, and who is
        to be told."""
        left = [each for each in self._streams.values() if each.run.engine == engine]
        stops = [stop for each in left if (stop := self.stop(each)) is not None]
        for stream in left:
            stream.gone = stream.gone or Gone(None)
        told = [each for each in left if each.ordinal <= self._seen]
        load = self.loads.get(engine)
        if load is not None:  # what it will tell
            self.loads[engine] = replace(load, running=max(0, load.running - len(told)))
        return stops, left

    def running(self, engine: str) -> int:
        """How many turns this engine works on, of all gateways, with those that it has not told of
        yet."""
        load = self.loads.get(engine)
        new = sum(
            1
            for each in self._streams.values()
            if each.run.engine == engine
            and (load is None or each.ordinal > self._seen)
            and not (each.gone or each.finished)
        )
        return new + (load.running if load is not None else 0)

    # -- what comes -------------------------------------------------------------------------------

    def received(self, message: object) -> tuple[list[Stream], list[ToNode]]:
        """Return the streams whose readers have something to take, and what is to be answered.

        Raises ``LinkError`` where the node breaks a rule.
        """
        match message:
            case Log():
                return [each for chunk in message.chunks for each in self._chunk(chunk)], []
            case Broke():
                return self._gone(message.stream, Gone(message), message.tally), []
            case Fenced():
                return self._gone(message.stream, Gone(None, fenced=True)), []
            case Refused():
                refused = Broke(message.stream, "EngineDied", message.message, None, "always")
                return self._gone(message.stream, Gone(refused)), []
            case NeedHistory():
                return [], self._send_whole(message.stream)
            case Found():
                return self._found(message), []
            case Taken():
                if (stream := self._streams.get(message.stream)) is not None:
                    stream.begun = True
            case Loads():
                self.loads = {load.engine: load for load in message.loads}
                self._seen, self.stage = message.seen, message.stage
        return [], []

    def _chunk(self, chunk: Chunk) -> list[Stream]:
        stream = self._streams.get(chunk.stream)
        if stream is None or stream.gone is not None:
            return []
        again = stream.heard - chunk.first
        if again < 0:
            raise LinkError("The node left out what it said.")
        new = chunk.entries[again:]
        if new and (stream.finished or any(map(is_last, new[:-1]))):
            raise LinkError("The node went on with an answer after its end.")
        stream.put(new)
        stream.finished = stream.finished or (bool(new) and is_last(new[-1]))
        stream.tally, stream.told = chunk.tally, max(stream.told, chunk.told)
        self._reached.add(chunk.stream)
        return [stream]

    def _found(self, found: Found) -> list[Stream]:
        stream = self._streams.get(found.stream)
        if stream is None:
            return []
        if stream.run.run:
            raise LinkError("The node named a run that it was not asked for, or twice.")
        stream.found, stream.begun = found, True
        stream.run = replace(stream.run, run=found.run, engine=found.engine, attempt=found.attempt)
        return [stream]

    def _gone(self, number: int, how: Gone, tally: Tallied | None = None) -> list[Stream]:
        stream = self._streams.get(number)
        if stream is None:
            return []
        stream.gone = how
        stream.tally = tally or stream.tally
        return [stream]

    def _send_whole(self, number: int) -> list[ToNode]:
        stream = self._streams.get(number)
        if stream is None:
            return []
        if not stream.may_need_history:
            raise LinkError("The node asked again for a conversation that it was sent whole.")
        run = stream.send_whole()
        self._count(stream)
        return [run]

    def taken(self, stream: Stream) -> bool:
        """A reader took something; return whether the node is to be told now that there is room."""
        if not stream.should_grant:
            return False
        self._reached.add(stream.run.stream)
        return True

    def heard(self) -> Heard | None:
        """How far all are, if that has changed."""
        reaches = []
        self._reached.update(self._told_since())
        for number in self._reached:
            stream = self._streams.get(number)
            if stream is not None:
                credit, free_bytes = stream.grant()
                told = -1 if stream.last_told is None else stream.last_told()
                stream.reported = told
                reaches.append(Reach(number, stream.heard, credit, told, free_bytes))
        self._reached.clear()
        return Heard(tuple(reaches)) if reaches else None

    def _told_since(self) -> Iterator[int]:
        """Streams of which more was told than the node knows."""
        for number, stream in self._streams.items():
            if stream.last_told is not None and stream.last_told() > stream.reported:
                yield number

    # -- the link ---------------------------------------------------------------------------------

    def welcomed(self, welcome: Welcome) -> tuple[list[Stream], list[ToNode]]:
        """A link is there again: read on, or learn that the node is another. Returns who is lost,
        and what is to be said."""
        self.loads, self.stage = {}, welcome.stage
        self._runs = self._seen = 0
        if welcome.incarnation != self._incarnation:
            self._incarnation = welcome.incarnation
            self._histories = Histories()
            return self.lost(), []
        messages: list[ToNode] = []
        for stream in self._streams.values():
            if stream.gone is not None or stream.finished:
                continue
            if stream.begun:
                stream.ordinal = 0  # it is among the first that the node tells of
                messages.append(_attach(stream))
            elif not stream.run.run:
                messages.append(_attach(stream))
            else:  # nobody knows whether it came there: by its name it is known again
                self._count(stream)
                messages.append(stream.send_whole())
        return [], messages

    def lost(self) -> list[Stream]:
        """The node is gone, with all that it had."""
        gone = [each for each in self._streams.values() if not (each.gone or each.finished)]
        for stream in gone:
            stream.gone = Gone(None)
        self.loads = {}
        return gone


def _attach(stream: Stream) -> Attach:
    """From where it was heard; the newest run, if it is not known which."""
    run = stream.run
    credit, free_bytes = stream.grant()
    return Attach(
        run.stream,
        run.turn,
        run.epoch,
        stream.heard,
        stream.holds,
        run.run,
        credit - stream.heard,
        free_bytes,
    )
