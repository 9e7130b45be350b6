"""All events of a turn at once: from its log, or from how it ended and its cuts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from vivace.conversation.cuts import decode_cuts, entries_of, unfit
from vivace.conversation.log import Entry, Failed, Jumped
from vivace.conversation.response import open_response
from vivace.conversation.turn import Turn
from vivace.protocol.events import Response, ResponseEvent, ResponseProblem
from vivace.protocol.requests import CreateResponse

__all__ = ["events_of", "log_of", "replay", "stillborn"]


def replay(
    response: Response, entries: Iterable[Entry], stream_id: str | None = None
) -> list[ResponseEvent]:
    """``response`` is the object as it was created. Who goes on from here keeps a ``Turn``."""
    turn = Turn(response, stream_id)
    return [event for entry in entries for event in turn.apply(entry)]


def stillborn(
    request: CreateResponse,
    response_id: str,
    lane: str | None,
    problem: ResponseProblem,
    now: int,
) -> list[ResponseEvent]:
    """A response that fails as it is created: it was refused, and nothing is kept of it."""
    response = open_response(request, response_id, request.body.model or "", now)
    refused = Failed(now, problem.code, problem.message)
    return replay(replace(response, store=False), [refused], lane)


def log_of(created: Response, final: Response, cuts: bytes) -> Iterator[Entry]:
    """Yield a log with the events of an ended turn; ``cuts`` are ``Turn.cuts`` of that time.

    Refuses cuts that do not fit the response, at the latest behind the last entry.
    """
    turn, read = Turn(created), decode_cuts(cuts)
    jumps = iter([*read.jumps, -1])
    jump = next(jumps)
    for entry in entries_of(final, read):
        while turn.next_number == jump:
            yield Jumped(entry.at)
            turn.jump()
            jump = next(jumps)
        yield entry
        turn.apply(entry)
    if jump != -1 or _end(turn.response) != _end(final):
        raise unfit()


def events_of(
    created: Response, final: Response, cuts: bytes, stream_id: str | None = None
) -> list[ResponseEvent]:
    """The stream of a turn that has ended, as it was."""
    events = replay(created, log_of(created, final, cuts), stream_id)
    # Told as it was told: a response that could not be stored says so only at its end.
    return [*events[:-1], replace(events[-1], response=final)]


def _end(response: Response) -> tuple[object, ...]:
    return (
        response.status,
        response.output,
        response.usage,
        response.error,
        response.incomplete_details,
        response.completed_at,
    )
