"""What a history tells of each response and each steer, read once for all invariants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

from chaos.history import (
    Called,
    Calm,
    Entry,
    Event,
    Joined,
    Left,
    Saw,
    Sent,
    Stalled,
    Started,
    Struck,
    Table,
    Worked,
)
from chaos.lives import ENDED, MOVED, TERMINAL, Asked, Life, Observed, Reading, Receipt, Steered

__all__ = ["Story"]

_AFTER_STALL = 5.0
"""Seconds in which all have found each other again."""
_Lane = tuple[str, str | None]
"""Of which stream, and its name there."""


class Story:
    def __init__(self, history: Sequence[Entry]) -> None:
        self.history = history
        self.started = next((e for e in history if isinstance(e, Started)), Started(0))
        self.calm = next((e for e in reversed(history) if isinstance(e, Calm)), None)
        self.stalls = [entry for entry in history if isinstance(entry, Stalled)]
        self.faults = [entry for entry in history if isinstance(entry, Struck)]
        self.work = [entry for entry in history if isinstance(entry, Worked)]
        self.tables = {entry.name: entry for entry in history if isinstance(entry, Table)}
        self.rows: dict[str, Event] = {}
        """Turns on record at the end, also those that no client heard of."""
        self.joined: dict[str, Joined] = {}
        self.left: dict[str, Left] = {}
        self.calls: list[Called] = []
        self.creates: dict[str, Asked] = {}
        """Requests for a turn as they were first made, by their tag."""
        self.requests: list[Asked] = []
        """All of them, those that were sent again too."""
        self.lives: dict[str, Life] = {}
        """In the order in which they were created."""
        self.strays: list[Reading] = []
        """Readings of responses that nobody here saw accepted."""
        self.ends: dict[str, list[Observed]] = {}
        """Of those that anybody saw to have ended."""
        self.steers: dict[str, Steered] = {}
        self.receipts: dict[str, Receipt] = {}
        self.disorder: list[tuple[str, str]] = []
        """What no order of things explains, each with the response it is about."""
        self._active: dict[_Lane, Reading] = {}
        self._latest: dict[_Lane, Reading] = {}
        self._early: list[Reading] = []
        self._resuming: dict[_Lane, Sent] = {}
        for entry in history:
            self._read(entry)
        for reading in self._early:
            life = self.lives.get(reading.id)
            (life.readings if life else self.strays).append(reading)

    def stayed(self, client: str) -> bool:
        """Whether this stream was open when all was calm."""
        left = self.left.get(client)
        return left is None or (self.calm is not None and left.at > self.calm.at)

    def replays(self, client: str) -> bool:
        """Whether this stream reads a response that it did not ask for."""
        return self.joined[client].replays is not None

    def disturbed(self, begin: float, end: float | None) -> bool:
        """Whether a fault was in effect at some time in between, or the machine stood still."""
        spans = [(fault.begin, fault.end) for fault in self.faults]
        spans += [(stall.begin, stall.end + _AFTER_STALL) for stall in self.stalls]
        return any(
            (end is None or first <= end) and (last is None or last >= begin)
            for first, last in spans
        )

    @cached_property
    def deletions(self) -> dict[str, Called]:
        """Those that were deleted, or may have been: whoever deletes again what is gone, because
        the first answer was lost, finds nothing."""
        return {
            call.path.rpartition("/")[2]: call
            for call in self.calls
            if call.method == "DELETE" and self._may_have_deleted(call)
        }

    def _may_have_deleted(self, call: Called) -> bool:
        """One that failed may have been done; one that was repeated on its way finds nothing."""
        if call.status == 404:
            return self.disturbed(call.begin, call.end)
        return call.status in (200, None) or call.status >= 500

    def ended_on_record(self, response_id: str) -> float | None:
        """When, by the clock of the history; None if that is not known."""
        at = (self.rows.get(response_id) or {}).get("ended_at")
        if not isinstance(at, float) or not self.started.wall:
            return None
        return at - self.started.wall + self.started.at

    def asked(self, method: str, response_id: str, rest: str = "") -> list[Called]:
        return self._by_path.get((method, f"/v1/responses/{response_id}{rest}"), [])

    @cached_property
    def _by_path(self) -> dict[tuple[str, str], list[Called]]:
        found: dict[tuple[str, str], list[Called]] = defaultdict(list)
        for call in self.calls:
            found[call.method, call.path].append(call)
        return found

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, entry: Entry) -> None:
        match entry:
            case Joined():
                self.joined[entry.client] = entry
                if entry.replays is not None:
                    self._open(entry.client, None, entry.replays, entry.after)
            case Left():
                self.left[entry.client] = entry
            case Sent():
                self._sent(entry)
            case Saw():
                self._saw(entry)
            case Called():
                self.calls.append(entry)
                self._called(entry)
            case Table() if entry.name == "turns":
                self._recorded(entry)
            case _:
                pass

    def _recorded(self, table: Table) -> None:
        for row in table.rows:
            self.rows[row["id"]] = row
            response = row.get("response")
            if response and response["status"] in ENDED:
                self._observe(Observed(table.at, response, "the table"))

    def _sent(self, entry: Sent) -> None:
        event = entry.event
        if isinstance(event, str):
            return
        owner = self.joined[entry.client].owner
        if event["type"] == "response.create":
            self._ask(Asked(entry.at, owner, event))
        elif event["type"] == "response.steer":
            text, target = event["input"], event["previous_response_id"]
            self.steers[text] = Steered(text, target, owner, entry.client)
        elif event["type"] == "response.resume":
            self._resuming[entry.client, event.get("stream_id")] = entry

    def _ask(self, asked: Asked) -> None:
        self.requests.append(asked)
        self.creates.setdefault(asked.tag, asked)

    def _called(self, call: Called) -> None:
        body, answer = call.body or {}, call.answer if isinstance(call.answer, dict) else {}
        if call.path == "/v1/responses" and call.method == "POST":
            self._ask(Asked(call.begin, call.owner, body, _code(answer), call.status))
            if call.status == 200 and "id" in answer:
                self.lives.setdefault(answer["id"], Life(call.owner, answer, call.at))
        elif call.path.endswith("/steer"):
            self._called_steer(call, body["input"], answer)
        if call.status == 200 and answer.get("status") in ENDED:
            self._observe(Observed(call.at, answer, f"{call.method} {call.path}"))

    def _called_steer(self, call: Called, text: str, answer: Event) -> None:
        target = call.path.split("/")[-2]
        steer = self.steers.setdefault(text, Steered(text, target, call.owner, None))
        if call.status == 200:  # it may have come back already
            steer.receipt = answer["steer"]["id"]

    def _saw(self, entry: Saw) -> None:
        event = entry.event
        kind: str = event["type"]
        if kind in TERMINAL:
            self._observe(Observed(entry.at, event["response"], entry.client))
        if kind.startswith("response.steer."):
            self._heard(entry.client, kind.rpartition(".")[2], event["steer"])
        elif kind == "error":
            self._refused(entry.client, event)
        elif "sequence_number" in event:
            self._followed(entry, event)

    def _observe(self, end: Observed) -> None:
        self.ends.setdefault(end.response["id"], []).append(end)

    def _refused(self, client: str, event: Event) -> None:
        if _code(event) == MOVED:
            taken = self._active.pop((client, event.get("stream_id")), None)
            if taken is not None:
                taken.moved = True

    def _heard(self, client: str, kind: str, steer: Event) -> None:
        name = steer.get("id")
        if name is not None:
            target = steer["previous_response_id"]
            receipt = self.receipts.setdefault(name, Receipt(name, client, target))
            receipt.accepted += kind == "accepted"
            receipt.pending += kind == "pending"
            receipt.returned += kind == "failed"
        if kind == "failed":
            text, owner = steer["input"], self.joined[client].owner
            sent = self.steers.setdefault(
                text, Steered(text, steer["previous_response_id"], owner, None)
            )
            sent.returned += name is not None
            sent.refused += name is None

    # -- events of responses ----------------------------------------------------------------------

    def _followed(self, entry: Saw, event: Event) -> None:
        # A replay has one lane, though its events tell of the one that they were said on.
        replays = self.replays(entry.client)
        place = entry.client, None if replays else event.get("stream_id")
        named = (event.get("response") or {}).get("id") or event.get("response_id")
        self._resume(place, named)
        if event["type"] == "response.created" and not self._expected(place, named):
            self._begin(entry, place)
        reading = self._active.get(place)
        if reading is None or named not in (None, reading.id):
            runs = reading.id if reading else "nothing"
            where = f"on lane {place[1]} of {place[0]}, where {runs} runs"
            self.disorder.append((named or "", f"{event['type']} {where}"))
            return
        reading.events.append(event)
        if event["type"] in TERMINAL:
            self._ended(reading, event["response"])
            del self._active[place]

    def _resume(self, place: _Lane, named: str | None) -> None:
        """A lane that is silent, and asked to go on, goes on with what it asked for."""
        sent = self._resuming.get(place)
        if sent is None or place in self._active:
            return
        asked = sent.event
        assert isinstance(asked, dict)
        if named in (None, asked["response_id"]):
            del self._resuming[place]
            self._open(*place, asked["response_id"], asked.get("starting_after"))

    def _expected(self, place: _Lane, named: str | None) -> bool:
        """Whether this lane reads from its first event on what it did not ask for just now."""
        reading = self._active.get(place)
        return reading is not None and not reading.events and reading.id == named

    def _ended(self, reading: Reading, response: Event) -> None:
        life = self.lives.get(reading.id)
        if life is not None and life.end is None:
            life.end, life.stored = response, response["store"]

    def _open(self, client: str, lane: str | None, name: str, after: int | None) -> Reading:
        reading = Reading(name, client, lane, after)
        life = self.lives.get(name)
        (life.readings if life else self._early).append(reading)
        self._active[client, lane] = self._latest[client, lane] = reading
        return reading

    def _begin(self, entry: Saw, place: _Lane) -> None:
        response, before = entry.event["response"], self._latest.get(place)
        if place in self._active:
            ran = self._active[place].id
            what = f"created on lane {place[1]} while {ran} ran there"
            self.disorder.append((response["id"], what))
        life = self.lives.get(response["id"])
        if life is None:
            life = Life(self.joined[entry.client].owner, response, entry.at, entry.client)
            life.lane, life.before = place[1], self.lives.get(before.id) if before else None
            self.lives[life.id] = life
        follows = before is not None and not before.asked and life.parent == before.id
        if not follows and life.asked and not self._has_key(life):
            self.disorder.append((life.id, "created twice"))
        self._open(*place, life.id, None).asked = not follows

    def _has_key(self, life: Life) -> bool:
        """Whether whoever asked for it may ask again and be shown the same."""
        asked = self.creates.get(life.tag or "")
        return asked is not None and asked.key is not None


def _code(answer: Event) -> str | None:
    error = answer.get("error")
    return error.get("code") if isinstance(error, dict) else None
