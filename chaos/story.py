"""What a history tells of each response and each steer, read once for all invariants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from chaos.history import Called, Calm, Entry, Event, Joined, Left, Saw, Sent, Started

__all__ = ["ENDED", "TERMINAL", "Life", "Observed", "Receipt", "Steered", "Story"]

TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})
ENDED = frozenset({"completed", "incomplete", "cancelled", "failed"})
_Lane = tuple[str, str | None]
"""Of which stream, and its name there."""


class Life:
    """One response, as the stream saw it that asked for it."""

    def __init__(self, owner: str, created: Saw, before: Life | None) -> None:
        response = created.event["response"]
        self.id: str = response["id"]
        self.owner = owner
        self.client = created.client
        self.lane: str | None = created.event.get("stream_id")
        self.at = created.at
        self.tag: str | None = response["metadata"].get("tag")
        """Of the request that it answers; a successor has its ancestor's."""
        self.parent: str | None = response["previous_response_id"]
        self.before = before
        """The one before it on its lane."""
        self.events: list[Event] = []
        self.end: Event | None = None
        """The response object of its terminal event."""
        self.stored: bool = response["store"]

    @property
    def succeeds(self) -> bool:
        """Whether it follows a steered one by itself rather than answers a request."""
        return self.before is not None and self.tag is not None and self.before.tag == self.tag


class Steered:
    """A steer as it was sent, known by its words, which no other has."""

    def __init__(self, text: str, target: str, owner: str, client: str | None) -> None:
        self.text = text
        self.target = target
        self.owner = owner
        self.client = client
        """None for one over HTTP."""
        self.receipt: str | None = None
        """Known from the start only over HTTP."""
        self.refused = 0
        self.returned = 0


class Receipt:
    """A steer as it was accepted: its words are not said again."""

    def __init__(self, name: str, client: str | None, target: str) -> None:
        self.id = name
        self.client = client
        self.target = target
        self.accepted = 0
        self.pending = 0
        self.returned = 0


class Observed:
    """How somebody saw a response to have ended."""

    def __init__(self, at: float, response: Event) -> None:
        self.at = at
        self.response = response


class Story:
    def __init__(self, history: Sequence[Entry]) -> None:
        self.history = history
        self.started = next((e for e in history if isinstance(e, Started)), Started(0))
        self.calm = next((e for e in reversed(history) if isinstance(e, Calm)), None)
        self.joined: dict[str, Joined] = {}
        self.left: dict[str, Left] = {}
        self.replays: dict[str, list[Event]] = {}
        """What each reader of a response saw that it had not asked for itself."""
        self.calls: list[Called] = []
        self.creates: dict[str, tuple[float, Event]] = {}
        """Requests for a turn and when they were made, by their tag."""
        self.lives: dict[str, Life] = {}
        """In the order in which they were created."""
        self.ends: dict[str, list[Observed]] = defaultdict(list)
        self.steers: dict[str, Steered] = {}
        self.receipts: dict[str, Receipt] = {}
        self.disorder: list[tuple[str, str]] = []
        """What no order of things explains, each with the response it is about."""
        self._active: dict[_Lane, Life] = {}
        self._latest: dict[_Lane, Life] = {}
        for entry in history:
            self._read(entry)

    def stayed(self, client: str) -> bool:
        """Whether this stream was open when all was calm."""
        left = self.left.get(client)
        return left is None or (self.calm is not None and left.at > self.calm.at)

    def asked(self, method: str, response_id: str, rest: str = "") -> list[Called]:
        path = f"/v1/responses/{response_id}{rest}"
        return [call for call in self.calls if call.method == method and call.path == path]

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, entry: Entry) -> None:
        match entry:
            case Joined():
                self.joined[entry.client] = entry
                if entry.replays is not None:
                    self.replays[entry.client] = []
            case Left():
                self.left[entry.client] = entry
            case Sent():
                self._sent(entry)
            case Saw():
                self._saw(entry)
            case Called():
                self.calls.append(entry)
                self._called(entry)
            case Started() | Calm():
                pass

    def _sent(self, entry: Sent) -> None:
        event = entry.event
        if isinstance(event, str):
            return
        if event["type"] == "response.create":
            self.creates[event["metadata"]["tag"]] = entry.at, event
        elif event["type"] == "response.steer":
            owner = self.joined[entry.client].owner
            text, target = event["input"], event["previous_response_id"]
            self.steers[text] = Steered(text, target, owner, entry.client)

    def _called(self, call: Called) -> None:
        body, answer = call.body or {}, call.answer if isinstance(call.answer, dict) else {}
        if call.path == "/v1/responses" and call.method == "POST":
            self.creates[body["metadata"]["tag"]] = call.begin, body
        elif call.path.endswith("/steer"):
            target = call.path.split("/")[-2]
            steer = self.steers.get(body["input"])  # it may have come back already
            if steer is None:
                steer = Steered(body["input"], target, call.owner, None)
                self.steers[steer.text] = steer
            if call.status == 200:
                steer.receipt = answer["steer"]["id"]
        elif call.status == 200 and answer.get("status") in ENDED:
            self.ends[answer["id"]].append(Observed(call.at, answer))

    def _saw(self, entry: Saw) -> None:
        event = entry.event
        kind: str = event["type"]
        if kind in TERMINAL:
            self.ends[event["response"]["id"]].append(Observed(entry.at, event["response"]))
        if entry.client in self.replays:
            self.replays[entry.client].append(event)
        elif kind.startswith("response.steer."):
            self._heard(entry.client, kind.rpartition(".")[2], event["steer"])
        elif "sequence_number" in event:
            self._followed(entry, event)

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

    def _followed(self, entry: Saw, event: Event) -> None:
        place = entry.client, event.get("stream_id")
        if event["type"] == "response.created":
            self._begin(entry, place)
        life = self._active.get(place)
        named = (event.get("response") or {}).get("id") or event.get("response_id")
        if life is None or named not in (None, life.id):
            where = f"on lane {place[1]} of {place[0]}, where {life.id if life else 'nothing'} runs"
            self.disorder.append((named or "", f"{event['type']} {where}"))
            return
        life.events.append(event)
        if event["type"] in TERMINAL:
            life.end = event["response"]
            life.stored = event["response"]["store"]
            del self._active[place]

    def _begin(self, entry: Saw, place: _Lane) -> None:
        life = Life(self.joined[entry.client].owner, entry, self._latest.get(place))
        if life.id in self.lives:
            self.disorder.append((life.id, "created twice"))
        if place in self._active:
            ran = self._active[place].id
            self.disorder.append((life.id, f"created on lane {place[1]} while {ran} ran there"))
        self.lives[life.id] = self._active[place] = self._latest[place] = life
