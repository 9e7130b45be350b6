"""What a node knows of its links: who holds which turn, and what was said of it.

The log of a run is here, where the engine is. Its entries are numbered as they come, and a number
means the same for everyone who reads it. Whoever holds the turn has each of them first; others read
what the holder has, and how far it has told that. A holder with a lower epoch than another has
shown is fenced: it hears nothing more.

Told what happened, this answers with what is to be done. What is to be said waits in ``outgoing``,
so that everything of one step of an engine goes in one frame, and so that what a gateway does not
take stays here, where it is counted.

A gateway has the key of the fleet, and is not trusted with the node's memory all the same: others
use the node, too. What runs hold is bounded in bytes for all of them together, and streams in
number for each link.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.log import Entry, is_last
from vivace.errors import LinkError
from vivace.link.flow import EntryLog, Limit
from vivace.link.frames import (
    MAX_AT_ONCE,
    MAX_CHUNKS,
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
    Refused,
    Run,
    Stage,
    Stop,
    Taken,
    Tallied,
    ToGateway,
)
from vivace.link.histories import Histories, Shown, size_of
from vivace.protocol.items import Item

__all__ = ["Begin", "Halt", "NodeEnd"]

_LOG_BYTES = 32_000
"""Weight of the entries in one message, which then fits a frame and holds up no other stream. An
entry that is larger goes by itself."""
_OUTGOING_BYTES = 1_000_000
"""Weight of the entries that are handed to the socket at once."""
_MAX_STREAMS = 10_000
"""Streams of one link: one for each turn of a gateway, and for each that it reads along."""
_MAX_OPEN_RUNS = 20_000
"""Runs that wait or are worked on, of all gateways."""
_MAX_RUNS_OF_TURN = 100
"""Attempts at one turn that are remembered; each is looked at when another comes."""
_MAX_FORGOTTEN = 100_000
_RUN_BYTES = 2_000
"""Memory of a run beside its entries."""
_MAX_READERS = 256
"""Readers of one log beside its holder; every new entry is offered to each of them."""
_MAX_UNTAKEN = 20_000
"""Messages that wait for a gateway which does not take them, beside its streams."""
_MAX_FOUND = 32_000_000
"""Bytes of what a gateway needs to take a turn over; one that has more is not taken over."""
_KEPT = 60.0
"""Seconds for which a log is kept when it has ended."""
_GONE = 1_000
"""Streams of a link that were stopped last: the run of an older one is not on its way any more."""


class Begin(Struct, frozen=True):
    """Have an engine work on this."""

    run: Run
    items: tuple[Item, ...]


class Halt(Struct, frozen=True):
    """Nobody wants this run any more."""

    run: str


class _Reader(Struct, eq=False):
    """One who reads a log, over a stream of a link."""

    peer: str
    stream: int
    at: int
    """The next entry to send."""
    limit: Limit
    since: float
    """When it was granted more last."""
    told: int = -1
    """What it knows of how far the holder has told."""


class _RunLog:
    """What was said in one run of a turn."""

    def __init__(self, run: Run, prompt_bytes: int) -> None:
        self.id = run.run
        self.turn = run.turn
        self.epoch = run.epoch
        self.attempt = run.attempt
        self.patience = run.patience
        self.engine = run.engine
        self.created, self.before, self.spent = run.created, run.before, run.spent
        self.said = EntryLog()
        self.prompt_bytes = prompt_bytes
        """Size of the prompt, which is kept until the run ends."""
        self.tally = Tallied()
        self.holder: _Reader | None = None
        self.readers: list[_Reader] = []
        self.heard = 0
        """How many entries a holder has."""
        self.told = -1
        """The last event of the turn that a holder has told."""
        self.broke: Broke | None = None
        self.ended: float | None = None
        self.alone_since: float | None = None

    @property
    def over(self) -> bool:
        return self.ended is not None

    @property
    def bytes(self) -> int:
        return _RUN_BYTES + len(self.created) + len(self.before) + self.said.bytes

    def all_readers(self) -> list[_Reader]:
        return self.readers if self.holder is None else [self.holder, *self.readers]

    def is_stuck(self, now: float) -> bool:
        """Return whether none of its readers has taken anything for long."""
        return all(now - each.since >= _KEPT for each in self.all_readers())

    def found(self, stream: int) -> Found:
        return Found(
            stream,
            self.id,
            self.engine,
            self.attempt,
            len(self.said),
            self.created,
            self.before,
            self.spent,
        )

    def limit(self, reader: _Reader) -> int:
        """How far it may read."""
        limit = reader.limit.of(self.said)
        if reader is self.holder or self.ended is not None or limit <= self.heard:
            return limit
        return self.heard


class _Peer:
    def __init__(self) -> None:
        self.reading: dict[int, tuple[_RunLog, _Reader]] = {}
        self.says: list[ToGateway] = []
        self.behind: dict[str, _RunLog] = {}
        """Logs of which something is to be sent."""
        self.gone: dict[int, None] = {}
        """Streams that were stopped and may have a run on its way still, the oldest first."""
        self.runs = 0
        self.loaded: Loads | None = None


class NodeEnd:
    def __init__(
        self, *, max_bytes: int = 256_000_000, max_open_bytes: int = 1_024_000_000
    ) -> None:
        """``max_bytes``: of all logs; beyond, the oldest that have ended are forgotten first.
        ``max_open_bytes``: of runs that have not ended, with their prompts; beyond, no run begins.
        """
        self._max_bytes = max_bytes
        self._max_open_bytes = max_open_bytes
        self._open_bytes = 0
        self._peers: dict[str, _Peer] = {}
        self._logs: dict[str, _RunLog] = {}
        self._of_turn: dict[str, list[_RunLog]] = {}
        self._histories = Histories()
        self._bytes = 0
        self._ended: dict[str, _RunLog] = {}
        """Those that are over, in the order of their ends."""
        self._alone: dict[str, _RunLog] = {}
        """Those that nobody holds, and some that were taken again or ended since."""
        self._forgotten: dict[str, float] = {}
        """Those that were dropped for want of room, and when they ended: none runs again."""

    # -- gateways ---------------------------------------------------------------------------------

    def joined(self, peer: str) -> None:
        self._peers[peer] = _Peer()

    def lost(self, peer: str, now: float) -> None:
        """Its link broke: what it held goes on for a while."""
        for log, reader in self._peers.pop(peer).reading.values():
            self._leave(log, reader, now)

    def received(
        self, peer: str, message: Run | Attach | Heard | Stop, now: float
    ) -> Iterator[Begin | Halt]:
        """Raise ``LinkError`` where the gateway breaks a rule."""
        if len(self._peers[peer].says) >= _MAX_UNTAKEN:
            raise LinkError("A gateway asks on and takes none of the answers.")
        match message:
            case Run():
                yield from self._run(peer, message, now)
            case Attach():
                self._attach(peer, message, now)
            case Heard():
                self._heard(peer, message, now)
            case Stop():
                yield from self._stop(peer, message.stream, now)

    def _run(self, peer: str, run: Run, now: float) -> Iterator[Begin | Halt]:
        known = self._peers[peer]
        known.runs += 1
        if run.stream in known.gone:
            del known.gone[run.stream]
            return
        self._is_new(known, run.stream)
        if run.run in self._forgotten:
            known.says.append(Refused(run.stream, "The node has forgotten what it said of this."))
            return
        if run.run in self._logs:  # it was sent again, because the link broke
            again = Attach(
                run.stream,
                run.turn,
                run.epoch,
                0,
                run=run.run,
                credit=run.credit,
                free_bytes=run.free_bytes,
            )
            self._attach(peer, again, now)
            return
        if (run.epoch, run.attempt) < self._newest(run.turn):
            known.says.append(Fenced(run.stream))
            return
        shown = self._shown(run)
        if shown is None:
            known.says.append(NeedHistory(run.stream))
            return
        log = _RunLog(run, shown.bytes + memoryview(run.work).nbytes)
        if not self._has_room(log):
            known.says.append(_full(run.stream))
            return
        if shown.items:
            self._histories.keep(run.owner, run.run, shown.items, run.run, shown.bytes)
        yield from self._supersede(run, now)
        limit = Limit(log.said, 0, run.credit, run.free_bytes)
        reader = log.holder = _Reader(peer, run.stream, 0, limit, now)
        self._logs[run.run] = log
        self._bytes += log.bytes
        self._open_bytes += log.prompt_bytes + log.bytes
        self._of_turn.setdefault(run.turn, []).append(log)
        known.reading[run.stream] = log, reader
        known.says.append(Taken(run.stream))
        yield Begin(run, shown.items)

    def _has_room(self, log: _RunLog) -> bool:
        return (
            self._open_bytes + log.prompt_bytes + log.bytes <= self._max_open_bytes
            and len(self._logs) - len(self._ended) < _MAX_OPEN_RUNS
            and len(self._of_turn.get(log.turn, ())) < _MAX_RUNS_OF_TURN
        )

    def _shown(self, run: Run) -> Shown | None:
        """All that is to be shown; None if its beginning is not known here."""
        items, size = run.items, size_of(run.items) if run.items else 0
        if run.keep:
            base = self._histories.find(run.owner, run.base)
            if base is None or len(base.items) < run.keep:
                return None
            items, size = (*islice(base.items, run.keep), *items), base.bytes + size
        return Shown(run.run, items, size)

    def _supersede(self, run: Run, now: float) -> Iterator[Halt]:
        """What was begun of the turn before its last gateway or engine was left is over."""
        for log in self._of_turn.get(run.turn, ()):
            if (log.epoch, log.attempt) < (run.epoch, run.attempt):
                self._fence(log)
                yield from self._halt(log, now)

    def _newest(self, turn: str) -> tuple[int, int]:
        """The latest gateway and engine that have had it; a run that was long on its way may be of
        an earlier one."""
        return max(
            ((log.epoch, log.attempt) for log in self._of_turn.get(turn, ())), default=(0, 0)
        )

    def _attach(self, peer: str, wanted: Attach, now: float) -> None:
        known = self._peers[peer]
        self._is_new(known, wanted.stream)
        log = self._find(wanted)
        if log is None or wanted.start > len(log.said):
            known.says.append(Refused(wanted.stream, "The node has no log of this turn."))
            return
        if len(log.created) + len(log.before) > _MAX_FOUND:
            known.says.append(Refused(wanted.stream, "The log of this turn is too long to read."))
            return
        if not wanted.holds and len(log.readers) >= _MAX_READERS:
            known.says.append(Refused(wanted.stream, "Too many read the log of this turn."))
            return
        limit = Limit(log.said, wanted.start, wanted.credit, wanted.free_bytes)
        reader = _Reader(peer, wanted.stream, wanted.start, limit, now)
        if wanted.holds:
            if wanted.epoch < self._newest(log.turn)[0]:
                known.says.append(Fenced(wanted.stream))
                return
            self._fence(log)
            log.epoch = wanted.epoch
            log.holder, log.alone_since = reader, None
            log.heard = max(log.heard, wanted.start)
        else:
            log.readers.append(reader)
        known.reading[wanted.stream] = log, reader
        known.says.append(Taken(wanted.stream) if wanted.run else log.found(wanted.stream))
        known.behind[log.id] = log

    def _is_new(self, peer: _Peer, stream: int) -> None:
        if stream in peer.reading:
            raise LinkError("A gateway gave two of its streams one number.")
        if len(peer.reading) >= _MAX_STREAMS:
            raise LinkError(f"A gateway has {_MAX_STREAMS:,} streams open on one link.")

    def _find(self, wanted: Attach) -> _RunLog | None:
        if wanted.run:
            return self._logs.get(wanted.run)
        runs = self._of_turn.get(wanted.turn)
        return runs[-1] if runs else None

    def _fence(self, log: _RunLog) -> None:
        """Whoever held it does no more, nor hears of it."""
        holder = log.holder
        if holder is None:
            return
        log.holder = None
        peer = self._peers.get(holder.peer)
        if peer is not None and peer.reading.pop(holder.stream, None) is not None:
            peer.says.append(Fenced(holder.stream))

    def _heard(self, peer: str, message: Heard, now: float) -> None:
        reading = self._peers[peer].reading
        for reach in message.streams:
            found = reading.get(reach.stream)
            if found is None:
                continue
            log, reader = found
            if reader.limit.raise_to(log.said, reach.entries, reach.credit, reach.free_bytes):
                reader.since = now
            if reader is log.holder:
                log.heard = max(log.heard, min(reach.entries, len(log.said)))
                log.told = max(log.told, reach.told)
            if log.readers or reader.at < log.limit(reader):  # else nothing waited for this
                self._notify(log)

    def _stop(self, peer: str, stream: int, now: float) -> Iterator[Halt]:
        known = self._peers[peer]
        found = known.reading.pop(stream, None)
        if found is None:
            known.gone[stream] = None
            while len(known.gone) > _GONE:
                del known.gone[next(iter(known.gone))]
            return
        log, reader = found
        held = reader is log.holder
        self._leave(log, reader, now)
        if held:
            yield from self._halt(log, now)

    def _halt(self, log: _RunLog, now: float) -> Iterator[Halt]:
        if not log.over:
            stopped = Broke(0, "EngineDied", "Nobody held the turn any more.", None, "never")
            self.broke(log.id, replace(stopped, tally=log.tally), now)
            yield Halt(log.id)

    def _leave(self, log: _RunLog, reader: _Reader, now: float) -> None:
        if reader is log.holder:
            log.holder, log.alone_since = None, now
            self._alone[log.id] = log
        elif reader in log.readers:
            log.readers.remove(reader)

    def knows(self, run: str) -> bool:
        """Whether it was begun here: who asks again for it asks for nothing new."""
        return run in self._logs

    def turn_away(self, peer: str, run: Run, why: str) -> None:
        """It is not to be begun here, which is no fault of the engine's."""
        known = self._peers[peer]
        known.runs += 1
        known.says.append(Broke(run.stream, "EngineAbsent", why, None, "never"))

    # -- engines ----------------------------------------------------------------------------------

    def said(self, run: str, entries: Iterable[Entry], tally: Tallied, now: float) -> bool:
        """Note what an engine said, in its order; nothing follows what is ``Finished``.

        Return whether there was room for it: False if it is more than a run may say.
        """
        log = self._logs.get(run)
        if log is None or log.over:
            return True
        before = log.said.bytes
        fits = all(log.said.append(entry) for entry in entries)
        size = log.said.bytes - before
        self._bytes += size
        self._open_bytes += size
        log.tally = tally
        if log.said.entries and is_last(log.said.entries[-1]):
            self._is_over(log, now)
        self._notify(log)
        return fits

    def broke(self, run: str, how: Broke, now: float) -> None:
        """An engine did not finish; ``how`` is for each who reads it, whatever stream it names."""
        log = self._logs.get(run)
        if log is not None and not log.over:
            log.broke, log.tally = how, how.tally
            self._is_over(log, now)
            self._notify(log)

    def _is_over(self, log: _RunLog, now: float) -> None:
        log.ended = now
        self._ended[log.id] = log
        self._open_bytes -= log.prompt_bytes + log.bytes

    def may_go_on(self, run: str) -> bool:
        """Whether there is room for more of it: its holder keeps up, or nobody holds it."""
        log = self._logs.get(run)
        if log is None or log.over or log.holder is None:
            return True
        return log.holder.limit.allows_more(log.said)

    def stands(self, loads: Iterable[Load], stage: Stage = 0) -> None:
        """Tell gateways how things stand with the engines, if they do not know."""
        told = tuple(loads)
        for peer in self._peers.values():
            loaded = Loads(told, peer.runs, stage)
            if loaded != peer.loaded:
                peer.loaded = loaded
                peer.says.append(loaded)

    # -- what is to be sent -----------------------------------------------------------------------

    def _notify(self, log: _RunLog) -> None:
        for reader in log.all_readers():
            peer = self._peers.get(reader.peer)
            if peer is not None:
                peer.behind[log.id] = log

    def waiting(self) -> list[str]:
        """Gateways for which there is something."""
        return [name for name, peer in self._peers.items() if peer.says or peer.behind]

    def outgoing(self, peer: str) -> list[ToGateway]:
        """Return the messages to send to a gateway now; more may be waiting."""
        known = self._peers.get(peer)
        if known is None:
            return []
        messages, known.says = known.says, []
        behind, known.behind = known.behind, {}
        ends: list[ToGateway] = []
        chunks: list[Chunk] = []
        total = size = 0
        for log in behind.values():
            for reader in [each for each in log.all_readers() if each.peer == peer]:
                if total >= _OUTGOING_BYTES:
                    known.behind[log.id] = log
                    continue
                limit = log.limit(reader)
                chunk = self._chunk(log, reader, limit)
                if chunk is not None:
                    more = log.said.before(reader.at) - log.said.before(chunk.first)
                    if chunks and (size + more > _LOG_BYTES or len(chunks) == MAX_CHUNKS):
                        messages.append(Log(tuple(chunks)))
                        chunks, size = [], 0
                    chunks.append(chunk)
                    size, total = size + more, total + more
                if reader.at < limit:
                    known.behind[log.id] = log
                elif log.over and reader.at == len(log.said):
                    self._end(known, log, reader, ends)
        if chunks:
            messages.append(Log(tuple(chunks)))
        return [*messages, *ends]

    def _chunk(self, log: _RunLog, reader: _Reader, limit: int) -> Chunk | None:
        """Return the entries that a reader may have now, as far as they fit one message."""
        start = reader.at
        end = limit
        if limit > start + 1:
            end = min(limit, start + MAX_AT_ONCE, log.said.within(start, _LOG_BYTES))
        told = log.told if reader is not log.holder else -1
        if end <= start and told <= reader.told:
            return None
        reader.at, reader.told = max(start, end), told
        entries = tuple(log.said.entries[start : reader.at])
        return Chunk(reader.stream, start, entries, log.tally, told)

    def _end(self, peer: _Peer, log: _RunLog, reader: _Reader, ends: list[ToGateway]) -> None:
        """It has all of it."""
        peer.reading.pop(reader.stream, None)
        if log.broke is not None:
            ends.append(replace(log.broke, stream=reader.stream))
        if reader is log.holder:
            log.holder = None
        else:
            log.readers.remove(reader)

    # -- time -------------------------------------------------------------------------------------

    def tick(self, now: float) -> Iterator[Halt]:
        """Stop what nobody came back to, and forget what is over."""
        for log in list(self._alone.values()):
            alone = log.alone_since
            if alone is None or log.over:
                del self._alone[log.id]
            elif now - alone >= log.patience:
                del self._alone[log.id]
                yield from self._halt(log, now)
        self._forget(now)

    def _forget(self, now: float) -> None:
        while self._forgotten:
            run, ended = next(iter(self._forgotten.items()))
            if now - ended < _KEPT and len(self._forgotten) <= _MAX_FORGOTTEN:
                break
            del self._forgotten[run]
        drop = []
        size = self._bytes
        for log in self._ended.values():
            assert log.ended is not None
            old = now - log.ended >= _KEPT
            if not old and size <= self._max_bytes:
                break
            if not log.all_readers() or self._is_too_much(size, log, now):
                drop.append(log)
                size -= log.bytes
                if not old:
                    self._forgotten[log.id] = log.ended
        for log in drop:
            for reader in log.all_readers():
                self._give_up(log, reader)
            self._drop(log)

    def _is_too_much(self, size: int, log: _RunLog, now: float) -> bool:
        """Whether a log is forgotten though it has readers: they may be slow, but not for ever."""
        return size > 2 * self._max_bytes or (size > self._max_bytes and log.is_stuck(now))

    def _give_up(self, log: _RunLog, reader: _Reader) -> None:
        """Drop a reader that does not take its entries when there is no room to keep them."""
        peer = self._peers.get(reader.peer)
        if peer is not None and peer.reading.pop(reader.stream, None) is not None:
            peer.behind.pop(log.id, None)
            why = "The node has no room for what its gateway does not take."
            peer.says.append(Broke(reader.stream, "EngineDied", why, None, "never"))

    def _drop(self, log: _RunLog) -> None:
        del self._logs[log.id], self._ended[log.id]
        runs = self._of_turn[log.turn]
        runs.remove(log)
        if not runs:
            del self._of_turn[log.turn]
        self._bytes -= log.bytes


def _full(stream: int) -> Broke:
    why = "The engine node has no memory left for more requests; try again in a moment."
    return Broke(stream, "EngineBusy", why, 1.0, "never")
