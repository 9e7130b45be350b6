"""What a node knows of its links: who holds which turn, and what was said of it.

The log of a run is here, where the engine is. Its entries are numbered as they come, and a number
means the same for everyone who reads it. Whoever holds the turn has each of them first; others read
what the holder has, and how far it has told that. A holder with a lower epoch than another has
shown is fenced: it hears nothing more.

Told what happened, this answers with what is to be done. What is to be said waits in ``outgoing``,
so that everything of one step of an engine goes in one frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from vivace.conversation.log import Entry, Said, is_last
from vivace.errors import LinkError
from vivace.link.frames import (
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
from vivace.link.histories import Histories, size_of
from vivace.protocol.items import Item

__all__ = ["Begin", "Halt", "NodeEnd"]

_AT_ONCE = 512
"""Entries of one log in one frame."""
_KEPT = 60.0
"""Seconds for which a log is kept when it has ended."""
_GONE = 1_000
"""Streams of a link that were stopped last: the run of an older one is not on its way any more."""
_OF_AN_ENTRY = 64
"""Bytes that an entry takes beside its text."""


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
    credit: int
    told: int = -1
    """What it knows of how far the holder has told."""


class _RunLog:
    """What was said in one run of a turn."""

    def __init__(self, run: Run, holder: _Reader) -> None:
        self.id = run.run
        self.turn = run.turn
        self.epoch = run.epoch
        self.attempt = run.attempt
        self.patience = run.patience
        self.engine = run.engine
        self.created, self.before, self.spent = run.created, run.before, run.spent
        self.entries: list[Entry] = []
        self.bytes = len(run.created) + len(run.before)
        self.tally = Tallied()
        self.holder: _Reader | None = holder
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

    def all_readers(self) -> list[_Reader]:
        return self.readers if self.holder is None else [self.holder, *self.readers]

    def found(self, stream: int) -> Found:
        return Found(
            stream,
            self.id,
            self.engine,
            self.attempt,
            len(self.entries),
            self.created,
            self.before,
            self.spent,
        )

    def limit(self, reader: _Reader) -> int:
        """How far it may read."""
        whole = reader is self.holder or self.ended is not None
        known = len(self.entries) if whole else self.heard
        return min(reader.credit, known)


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
    def __init__(self, *, max_bytes: int = 256_000_000) -> None:
        """``max_bytes``: of all logs; beyond, the oldest that have ended are forgotten first."""
        self._max_bytes = max_bytes
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
        match message:
            case Run():
                yield from self._run(peer, message, now)
            case Attach():
                self._attach(peer, message)
            case Heard():
                self._heard(peer, message)
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
            again = Attach(run.stream, run.turn, run.epoch, 0, run=run.run, credit=run.credit)
            self._attach(peer, again)
            return
        if (run.epoch, run.attempt) < self._newest(run.turn):
            known.says.append(Fenced(run.stream))
            return
        items = self._items(run)
        if items is None:
            known.says.append(NeedHistory(run.stream))
            return
        yield from self._supersede(run, now)
        reader = _Reader(peer, run.stream, 0, run.credit)
        log = self._logs[run.run] = _RunLog(run, reader)
        self._bytes += log.bytes
        self._of_turn.setdefault(run.turn, []).append(log)
        known.reading[run.stream] = log, reader
        known.says.append(Taken(run.stream))
        yield Begin(run, items)

    def _items(self, run: Run) -> tuple[Item, ...] | None:
        """All that is to be shown; None if its beginning is not known here."""
        items, base = run.items, None
        if run.keep:
            base = self._histories.find(run.owner, run.base)
            if base is None or len(base.items) < run.keep:
                return None
            items = (*islice(base.items, run.keep), *items)
        if items:
            size = (base.bytes if base is not None else 0) + size_of(run.items)
            self._histories.keep(run.owner, run.run, items, run.run, size)
        return items

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

    def _attach(self, peer: str, wanted: Attach) -> None:
        known = self._peers[peer]
        self._is_new(known, wanted.stream)
        log = self._find(wanted)
        if log is None or wanted.start > len(log.entries):
            known.says.append(Refused(wanted.stream, "The node has no log of this turn."))
            return
        credit = wanted.start + wanted.credit
        reader = _Reader(peer, wanted.stream, wanted.start, credit)
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
        self._notify(log)

    def _is_new(self, peer: _Peer, stream: int) -> None:
        if stream in peer.reading:
            raise LinkError("A gateway gave two of its streams one number.")

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

    def _heard(self, peer: str, message: Heard) -> None:
        reading = self._peers[peer].reading
        for reach in message.streams:
            found = reading.get(reach.stream)
            if found is None:
                continue
            log, reader = found
            reader.credit = max(reader.credit, reach.credit)
            if reader is log.holder:
                log.heard = max(log.heard, min(reach.entries, len(log.entries)))
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

    def said(self, run: str, entries: Iterable[Entry], tally: Tallied, now: float) -> None:
        """What an engine said, in its order; nothing follows what is ``Finished``."""
        log = self._logs.get(run)
        if log is None or log.ended is not None:
            return
        size = 0
        for entry in entries:
            log.entries.append(entry)
            size += _OF_AN_ENTRY + _text(entry)
            if is_last(entry):
                log.ended = now
                self._ended[log.id] = log
        log.bytes += size
        self._bytes += size
        log.tally = tally
        self._notify(log)

    def broke(self, run: str, how: Broke, now: float) -> None:
        """An engine did not finish; ``how`` is for each who reads it, whatever stream it names."""
        log = self._logs.get(run)
        if log is not None and not log.over:
            log.broke, log.tally, log.ended = how, how.tally, now
            self._ended[log.id] = log
            self._notify(log)

    def may_go_on(self, run: str) -> bool:
        """Whether there is room for more of it: its holder keeps up, or nobody holds it."""
        log = self._logs.get(run)
        if log is None or log.over or log.holder is None:
            return True
        return len(log.entries) < log.holder.credit

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
        """What is to be said to it now."""
        known = self._peers.get(peer)
        if known is None:
            return []
        messages, known.says = known.says, []
        behind, known.behind = known.behind, {}
        chunks: list[Chunk] = []
        ends: list[ToGateway] = []
        for log in behind.values():
            for reader in [each for each in log.all_readers() if each.peer == peer]:
                if self._chunk(log, reader, chunks):
                    known.behind[log.id] = log
                elif log.over and reader.at == len(log.entries):
                    self._end(known, log, reader, ends)
        if chunks:
            messages.append(Log(tuple(chunks)))
        return [*messages, *ends]

    def _chunk(self, log: _RunLog, reader: _Reader, chunks: list[Chunk]) -> bool:
        """Whether there is more than goes at once."""
        start, limit = reader.at, log.limit(reader)
        end = min(limit, start + _AT_ONCE)
        told = log.told if reader is not log.holder else -1
        if end > start or told > reader.told:
            entries = tuple(log.entries[start:end])
            chunks.append(Chunk(reader.stream, start, entries, log.tally, told))
            reader.at, reader.told = end, told
        return end < limit

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
            if now - ended < _KEPT:
                break
            del self._forgotten[run]
        drop = []
        size = self._bytes
        for log in self._ended.values():
            assert log.ended is not None
            old = now - log.ended >= _KEPT
            if not old and size <= self._max_bytes:
                break
            if not log.all_readers():
                drop.append(log)
                size -= log.bytes
                if not old:
                    self._forgotten[log.id] = log.ended
        for log in drop:
            self._drop(log)

    def _drop(self, log: _RunLog) -> None:
        del self._logs[log.id], self._ended[log.id]
        runs = self._of_turn[log.turn]
        runs.remove(log)
        if not runs:
            del self._of_turn[log.turn]
        self._bytes -= log.bytes


def _text(entry: Entry) -> int:
    delta = entry.delta if isinstance(entry, Said) else None
    return len(getattr(delta, "text", ""))
