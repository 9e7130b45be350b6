"""One response, from ``created`` to its one terminal event.

A turn takes what an engine says and returns the events a client must see, in the order the wire
has them. It never waits and never fails: what comes after the end is dropped, because an engine
that was told to stop may still have a token in flight.
"""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from vivace.conversation import compaction
from vivace.conversation.deltas import (
    CallOpened,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.open_items import (
    Numbering,
    OpenCustomCall,
    OpenFunctionCall,
    OpenItem,
    OpenMessage,
    OpenReasoning,
)
from vivace.conversation.states import MOVES, OPENS, TAKES, TERMINAL_EVENT, Status
from vivace.protocol.events import (
    IncompleteDetails,
    InputTokensDetails,
    OutputItemAdded,
    OutputItemDone,
    OutputItemInterrupted,
    OutputTokensDetails,
    QueuePlace,
    Response,
    ResponseCreated,
    ResponseEvent,
    ResponseInProgress,
    ResponseProblem,
    ResponseQueued,
    Routing,
    Usage,
)
from vivace.protocol.items import Item, ItemStatus, NewId, ToolCall
from vivace.protocol.requests import CreateResponse, TextConfig

__all__ = ["Summary", "Turn", "open_response", "stillborn", "usage_of"]


def open_response(
    request: CreateResponse,
    response_id: str,
    model: str,
    now: int,
    routing: Routing | UnsetType = UNSET,
) -> Response:
    """The response object before anything happened: what was asked, echoed with the defaults."""
    body = request.body
    return Response(
        id=response_id,
        created_at=now,
        status="queued",
        model=model,
        previous_response_id=body.previous_response_id,
        instructions=body.instructions,
        tools=request.toolbox.echo,
        tool_choice=request.tool_choice,
        truncation=body.truncation or "disabled",
        parallel_tool_calls=body.parallel_tool_calls is not False,
        text=body.text or TextConfig(),
        top_p=1.0 if body.top_p is None else body.top_p,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        top_logprobs=body.top_logprobs or 0,
        temperature=1.0 if body.temperature is None else body.temperature,
        reasoning=body.reasoning,
        max_output_tokens=body.max_output_tokens,
        max_tool_calls=body.max_tool_calls,
        store=request.stored,
        background=bool(body.background),
        metadata=body.metadata or {},
        safety_identifier=body.safety_identifier,
        prompt_cache_key=body.prompt_cache_key,
        routing=routing,
        fill=UNSET if request.fill is None else True,
    )


def stillborn(
    request: CreateResponse,
    response_id: str,
    lane: str | None,
    problem: ResponseProblem,
    now: int,
) -> list[ResponseEvent]:
    """A response that fails as it is created: it was refused, and nothing is kept of it."""
    response = open_response(request, response_id, request.body.model or "", now)
    turn = Turn(replace(response, store=False), lambda prefix: prefix, lane)
    return turn.fail(problem.code, problem.message, now)


def usage_of(tokens: Tokens) -> Usage:
    return Usage(
        tokens.input,
        tokens.output,
        tokens.input + tokens.output,
        InputTokensDetails(tokens.cached),
        OutputTokensDetails(tokens.reasoning, tokens.accepted, tokens.rejected),
    )


class Turn:
    def __init__(self, response: Response, new_id: NewId, stream_id: str | None = None) -> None:
        """``response`` is the object as it stands before anything happened (status queued)."""
        self.response = response
        self._status: Status = "queued"
        self._new_id = new_id
        self._numbering = Numbering(stream_id or UNSET)
        self._output: list[Item] = []
        self._open: OpenItem | None = None
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

    # -- what happens to it -----------------------------------------------------------------------

    def wait(self, position: int, seconds: float) -> list[ResponseEvent]:
        """It has to wait; the client learns where it stands."""
        if self._status != "queued":
            return []
        place = QueuePlace(position, round(seconds, 1))
        return [
            *self._announce(),
            ResponseQueued(**self._numbering.stamp(), response=self.response, queue=place),
        ]

    def begin(self) -> list[ResponseEvent]:
        if not self._move("in_progress"):
            return []
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
        if self._status != "in_progress":
            return []
        if isinstance(delta, Finished):
            return self._finish(delta, now)
        events: list[ResponseEvent] = []
        if self._open is None or TAKES[self._open.kind] is not type(delta):
            if type(delta) not in OPENS:
                return []  # text for a call that was never opened
            events = self._close("completed")
            if self._ends_with_item:
                return events + self._end("incomplete", now, incomplete="steered")
            if isinstance(delta, CallOpened) and not self._may_call():
                return events  # and its text, when it comes, is for no call that was opened
            self._open = self._new_item(delta)
            events += self._open.opened()
        if not isinstance(delta, CallOpened):
            events.append(self._open.grow(delta.text))
        return events

    def _finish(self, finished: Finished, now: int) -> list[ResponseEvent]:
        usage = usage_of(finished.tokens)
        if finished.reason == "length":
            return self._close("incomplete") + self._end(
                "incomplete", now, usage=usage, incomplete="max_output_tokens"
            )
        return self._close("completed") + self._end("completed", now, usage=usage)

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
        if self._open is not None:
            self._ends_with_item = True
        return self._open is not None

    @property
    def thoughts(self) -> str:
        """What is being thought before the answer; nothing once it has begun."""
        thinking = self._open is not None and self._open.kind == "reasoning" and not self._output
        return "".join(self._open.pieces) if self._open is not None and thinking else ""

    def end_thinking(self) -> list[ResponseEvent]:
        """The thoughts are whole as they are; the answer follows."""
        return self._close("completed")

    def _drop_open(self) -> list[ResponseEvent]:
        dropped, self._open = self._open, None
        if self._status != "in_progress" or dropped is None:
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

    def fail(self, code: str, message: str, now: int) -> list[ResponseEvent]:
        self._open = None
        return self._end("failed", now, error=ResponseProblem(code, message))

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
            return form(self._numbering, self._new_id, index, delta)
        if isinstance(delta, ReasoningDelta):
            return OpenReasoning(self._numbering, self._new_id, index)
        return OpenMessage(self._numbering, self._new_id, index)

    def _close(self, status: ItemStatus) -> list[ResponseEvent]:
        if self._open is None:
            return []
        item, events = self._open.closed(status)
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


class Summary(Turn):
    """A turn whose answer is the conversation in short: one item, which comes whole."""

    def __init__(self, response: Response, new_id: NewId, stream_id: str | None = None) -> None:
        super().__init__(response, new_id, stream_id)
        self._text: list[str] = []

    def feed(self, delta: Delta, now: int) -> list[ResponseEvent]:
        if isinstance(delta, TextDelta):
            self._text.append(delta.text)
        if self._status != "in_progress" or not isinstance(delta, Finished):
            return []
        packed: list[ResponseEvent] = []
        if delta.reason == "stop":
            item = compaction.pack("".join(self._text), self._new_id)
            self._output.append(item)
            packed = [
                OutputItemAdded(**self._numbering.stamp(), output_index=0, item=item),
                OutputItemDone(**self._numbering.stamp(), output_index=0, item=item),
            ]
        return [*packed, *self._finish(delta, now)]
