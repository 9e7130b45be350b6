"""One response, from ``created`` to its one terminal event.

A turn takes the entries of its log and returns the events a client must see, in the order the wire
has them: always the same for the same log (``apply``). It never waits and never fails: what comes
after the end is dropped, because an engine that was told to stop may still have a token in flight.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from vivace.conversation import compaction, log
from vivace.conversation.cuts import Cuts, encode_cuts
from vivace.conversation.deltas import (
    CallOpened,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
)
from vivace.conversation.open_items import (
    Numbering,
    OpenCustomCall,
    OpenFunctionCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
)
from vivace.conversation.response import usage_of
from vivace.conversation.states import MOVES, OPENS, TAKES, TERMINAL_EVENT, Status
from vivace.protocol.events import (
    IncompleteDetails,
    OutputItemAdded,
    OutputItemDone,
    OutputItemInterrupted,
    QueuePlace,
    Response,
    ResponseCreated,
    ResponseEvent,
    ResponseInProgress,
    ResponseProblem,
    ResponseQueued,
    Usage,
)
from vivace.protocol.items import Item, ItemStatus, ToolCall

__all__ = ["Turn"]


class Turn:
    def __init__(self, response: Response, stream_id: str | None = None) -> None:
        """``response`` is the object as it stands before anything happened (status queued)."""
        self.response = response
        self._status: Status = "queued"
        self._numbering = Numbering(response.id, stream_id or UNSET)
        self._output: list[Item] = []
        self._open: OpenItem | None = None
        self._summary: list[str] | None = None
        self._cuts = Cuts()
        self._ends_with_item = False
        self._announced = False

    # -- what others ask --------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.response.id

    @property
    def status(self) -> Status:
        return self._status

    @property
    def ended(self) -> bool:
        return not MOVES[self._status]

    @property
    def in_item(self) -> bool:
        """Whether an item is in the making."""
        return self._open is not None

    @property
    def next_number(self) -> int:
        return self._numbering.next

    @property
    def cuts(self) -> bytes:
        """What its events need beside the final response (``replay.events_of``), once it ended."""
        return encode_cuts(self._cuts)

    # -- what happens to it -----------------------------------------------------------------------

    def apply(self, entry: log.Entry) -> list[ResponseEvent]:
        """What a client must see of the next entry of the log."""
        match entry:
            case log.Said():
                return self.feed(entry.delta, entry.at)
            case log.Placed():
                return self.wait(entry.position, entry.seconds)
            case log.Begun():
                return self.begin(summary=entry.summary)
            case log.ThinkingEnded():
                return self.end_thinking()
            case log.SteerAtItemEnd():
                self.steer_with_item()
            case log.Jumped():
                self.jump()
            case log.Stopped():
                stops = {"interrupt": self.interrupt, "steer": self.steer, "away": self.abandon}
                return stops.get(entry.how, self.cancel)(entry.at)
            case log.Failed():
                return self.fail(entry.code, entry.message, entry.at)
        return []

    def wait(self, position: int, seconds: float) -> list[ResponseEvent]:
        """It has to wait; the client learns where it stands."""
        if self._status != "queued":
            return []
        place = QueuePlace(position, round(seconds, 1))
        self._cuts.places.append((place.position, place.estimated_seconds))
        return [
            *self._announce(),
            ResponseQueued(**self._numbering.stamp(), response=self.response, queue=place),
        ]

    def begin(self, *, summary: bool = False) -> list[ResponseEvent]:
        """``summary``: its answer is the conversation in short: one item, which comes whole."""
        if not self._move("in_progress"):
            return []
        self._cuts.begun, self._cuts.summary = True, summary
        self._summary = [] if summary else None
        return [
            *self._announce(),
            ResponseInProgress(**self._numbering.stamp(), response=self.response),
        ]

    def _announce(self) -> list[ResponseEvent]:
        """A client must learn of the response before it learns anything of it."""
        if self._announced:
            return []
        self._announced = True
        return [ResponseCreated(**self._numbering.stamp(), response=self.response)]

    def feed(self, delta: Delta, now: int) -> list[ResponseEvent]:
        item = self._open
        if item is not None and TAKES[item.kind] is type(delta):
            return [item.grow(delta.text)]  # type: ignore[union-attr]
        if self._status != "in_progress":
            return []
        if isinstance(delta, Finished):
            return self._finish(delta, now)
        if self._summary is not None:
            self._summary += [delta.text] if isinstance(delta, TextDelta) else []
            return []
        if type(delta) not in OPENS:
            return []  # text for a call that was never opened
        events = self._close("completed")
        if self._ends_with_item:
            return events + self._end("incomplete", now, incomplete="steered")
        if isinstance(delta, CallOpened) and not self._may_call():
            return events  # and its text, when it comes, is for no call that was opened
        self._open = item = self._new_item(delta)
        events += item.opened()
        return events if isinstance(delta, CallOpened) else [*events, item.grow(delta.text)]

    def _finish(self, finished: Finished, now: int) -> list[ResponseEvent]:
        usage = usage_of(finished.tokens)
        if finished.reason == "length":
            return self._close("incomplete") + self._end(
                "incomplete", now, usage=usage, incomplete="max_output_tokens"
            )
        whole = self._close("completed") if self._summary is None else self._sum_up(self._summary)
        return whole + self._end("completed", now, usage=usage)

    def _sum_up(self, texts: list[str]) -> list[ResponseEvent]:
        item = compaction.pack("".join(texts), self._numbering.new_id)
        self._output.append(item)
        self._cuts.lengths.append([])
        return [
            OutputItemAdded(**self._numbering.stamp(), output_index=0, item=item),
            OutputItemDone(**self._numbering.stamp(), output_index=0, item=item),
        ]

    def interrupt(self, now: int) -> list[ResponseEvent]:
        """End it now and drop the item in the making."""
        return self._drop_open() + self._end("incomplete", now, incomplete="interrupted")

    def steer(self, now: int) -> list[ResponseEvent]:
        """End it now; text in the making stays as far as it came, for the model to go on from.

        Half a call means nothing to anyone and is dropped.
        """
        call = self._open is not None and self._open.kind == "call"
        events = self._drop_open() if call else self._close("incomplete")
        return events + self._end("incomplete", now, incomplete="steered")

    def steer_with_item(self) -> bool:
        """End it when the open item is done; False when none is open."""
        self._ends_with_item |= self.in_item
        return self.in_item

    @property
    def thoughts(self) -> str:
        """What is being thought before the answer; nothing once it has begun."""
        thinking = self._open is not None and self._open.kind == "reasoning" and not self._output
        return "".join(self._open.pieces) if self._open is not None and thinking else ""

    def end_thinking(self) -> list[ResponseEvent]:
        """The thoughts are whole as they are; the answer follows."""
        return self._close("completed")

    def _drop(self) -> OpenItem | None:
        dropped, self._open = self._open, None
        if dropped is not None:
            self._cuts.dropped = dropped.item("incomplete", "".join(dropped.pieces))
            self._cuts.lengths.append([len(piece) for piece in dropped.pieces])
        return dropped

    def _drop_open(self) -> list[ResponseEvent]:
        dropped = self._drop()
        if dropped is None:
            return []
        return [
            OutputItemInterrupted(
                **self._numbering.stamp(),
                response_id=self.id,
                item_id=dropped.id,
                output_index=dropped.index,
            )
        ]

    def cancel(self, now: int) -> list[ResponseEvent]:
        events = self._close("incomplete") if self._status == "in_progress" else []
        return events + self._end("cancelled", now, incomplete="cancelled")

    def abandon(self, now: int) -> list[ResponseEvent]:
        """End it as it is: nobody waits for it any more."""
        events = self._close("incomplete") if self._status == "in_progress" else []
        return events + self._end("incomplete", now, incomplete="disconnected")

    def fail(self, code: str, message: str, now: int) -> list[ResponseEvent]:
        self._drop()
        return self._end("failed", now, error=ResponseProblem(code, message))

    def jump(self) -> None:
        """What followed was lost: no number of it may mean something else."""
        if not self.ended:
            self._cuts.jumps.append(self._numbering.next)
            self._numbering.jump()

    # -- inside -----------------------------------------------------------------------------------

    def _move(self, status: Status) -> bool:
        if status not in MOVES[self._status]:
            return False
        self._status = status
        self.response = replace(self.response, status=status)
        return True

    def _may_call(self) -> bool:
        most = self.response.max_tool_calls
        return most is None or sum(isinstance(item, ToolCall) for item in self._output) < most

    def _new_item(self, delta: Delta) -> OpenItem:
        index = len(self._output)
        if isinstance(delta, CallOpened):
            form = OpenCustomCall if delta.custom else OpenFunctionCall
            return form(self._numbering, index, delta)
        if isinstance(delta, ReasoningDelta):
            return OpenReasoning(self._numbering, index)
        return OpenMessage(self._numbering, index)

    def _close(self, status: ItemStatus) -> list[ResponseEvent]:
        if self._open is None:
            return []
        item, events = self._open.closed(status)
        self._cuts.lengths.append([len(piece) for piece in self._open.pieces])
        self._output.append(item)
        self._open = None
        return events

    def _end(
        self,
        status: Status,
        now: int,
        *,
        usage: Usage | None = None,
        incomplete: str | None = None,
        error: ResponseProblem | None = None,
    ) -> list[ResponseEvent]:
        if not self._move(status):
            return []
        self.response = replace(
            self.response,
            output=self._output,
            usage=usage,
            error=error,
            completed_at=now if status == "completed" else None,
            incomplete_details=IncompleteDetails(incomplete) if incomplete else None,
        )
        return [
            *self._announce(),
            TERMINAL_EVENT[status](**self._numbering.stamp(), response=self.response),
        ]
