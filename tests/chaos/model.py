"""A fleet that keeps every promise, in a page: what it does to clients is written down as history.

Clients ask, steer, read along and ask again under their keys, each a step at a time and in any
order; meanwhile gateways are killed and engines die. Nothing is lost: a turn is a list of events
that was decided when it was accepted, and whoever comes back is shown the rest of it.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from typing import Any

from chaos.contexts import words_of
from chaos.history import (
    Called,
    Calm,
    Entry,
    Event,
    Joined,
    Left,
    Printed,
    Process,
    Saw,
    Sent,
    Started,
    Struck,
    Table,
    Worked,
)

__all__ = ["Fleet", "Turn", "history_of"]

_OWNERS = ("alice", "bob")
_Socket = tuple[str, int]
"""Its name, and the gateway that it ends with."""


class Turn:
    """An answer, all of it decided at once; ``position`` is how far it has been said."""

    def __init__(self, name: str, owner: str, tag: str, inputs: list[str], before: Turn | None):
        self.id, self.owner, self.tag, self.before = name, owner, tag, before
        self.key: str | None = None
        self.input = [{"type": "message", "role": "user", "content": text} for text in inputs]
        past = before.shown if before else ()
        self.seen = (*past, *words_of(self.input))
        self.shown: tuple[str, ...] = ()
        self.order: Event = {}
        """The steer that it got."""
        self.position = 0
        self.attempts: list[tuple[str, str]] = []
        """By which engine each was made, and what had been said before it."""

    def decide(self, words: int, handed_over: dict[int, str], status: str) -> None:
        engine, attempt = "n1", 1
        self.attempts.append((engine, ""))
        said = ["shown", *(f" {word}" for word in self.seen), "\n"]
        for index in range(words):
            if index in handed_over:
                engine, attempt = handed_over[index], attempt + 1
                self.attempts.append((engine, "".join(said)))
            said.append(f" m{self.tag[1:]}.{index}@{engine}.a{attempt}")
        self.created: Event = {
            "id": self.id,
            "status": "in_progress",
            "metadata": {"tag": self.tag},
            "previous_response_id": self.before.id if self.before else None,
            "store": True,
            "error": None,
            "output": [],
            "usage": None,
        }
        text, item = "".join(said), f"msg_{self.id}"
        message = {"type": "message", "id": item, "role": "assistant"}
        output = [message | {"content": [{"type": "output_text", "text": text}]}]
        self.end = self.created | {"status": status, "output": output, "usage": {"tokens": words}}
        place: Event = {"item_id": item, "output_index": 0}
        events: list[Event] = [{"type": "response.created", "response": self.created}]
        events += [{"type": "response.output_text.delta", **place, "delta": d} for d in said]
        events.append({"type": "response.output_text.done", **place, "text": text})
        events.append({"type": "response.output_item.done", "output_index": 0, "item": output[0]})
        events.append({"type": f"response.{status}", "response": self.end})
        self.events = [{**event, "sequence_number": n} for n, event in enumerate(events)]
        self.shown = (*self.seen, *words_of(output))

    @property
    def ended(self) -> bool:
        return self.position == len(self.events)


class Fleet:
    def __init__(self, dice: random.Random) -> None:
        self.history: list[Entry] = []
        self._dice = dice
        self._now = 0.0
        self._turns: list[Turn] = []
        self._orders: list[Event] = []
        self._gateway = 1
        self._streams = 0
        self._deleted: set[str] = set()

    def note(self, kind: type[Any], *fields: Any) -> None:
        self._now += 0.01
        self.history.append(kind(self._now, *fields))

    def run(self, clients: int, kills: int) -> list[Entry]:
        self.note(Started)
        self.note(Process, "gateway", "g1", True)
        steps = [self._client(_OWNERS[number % 2], number) for number in range(clients)]
        steps += [self._reader(owner) for owner in _OWNERS]
        steps.append(self._nemesis(kills))
        while steps:
            step = self._dice.choice(steps)
            if next(step, "over") == "over":
                steps.remove(step)
        self._settle()
        return self.history

    # -- faults -----------------------------------------------------------------------------------

    def _nemesis(self, kills: int) -> Iterator[None]:
        for _ in range(kills):
            for _ in range(self._dice.randint(1, 12)):
                yield
            begin = self._now + 0.01
            self.note(Process, "gateway", f"g{self._gateway}", False)
            self._gateway += 1
            self.note(Process, "gateway", f"g{self._gateway}", True)
            self._now += 0.01
            self.history.append(Struck(begin, self._now, "kill", "gateway"))

    # -- clients ----------------------------------------------------------------------------------

    def _join(self, owner: str, *replays: Any) -> _Socket:
        self._streams += 1
        client = f"{owner}{self._streams}"
        self.note(Joined, client, owner, *replays)
        return client, self._gateway

    def _accept(
        self, owner: str, tag: str, inputs: list[str], before: Turn | None, *, steered: bool
    ) -> Turn:
        turn = Turn(f"resp_{len(self._turns)}", owner, tag, inputs, before)
        words = self._dice.randint(0, 6)
        handed = {i: f"n{i + 2}" for i in range(1, words) if self._dice.random() < 0.2}
        turn.decide(words, handed, "incomplete" if steered else "completed")
        self._turns.append(turn)
        return turn

    def _client(self, owner: str, number: int) -> Iterator[None]:
        socket = self._join(owner)
        before: Turn | None = None
        for n in range(self._dice.randint(1, 3)):
            tag = f"t{number}x{n}"
            steers = [f"steer {tag}.{i}" for i in range(self._dice.choice([0, 0, 1, 2]))]
            back = bool(steers) and self._dice.random() < 0.3
            heirs = len(steers) - back
            turn = self._accept(owner, tag, [f"ask {tag}"], before, steered=heirs > 0)
            turn.key = f"key-{tag}" if self._dice.random() < 0.5 else None
            socket = yield from self._ask(socket, turn)
            if not turn.position:
                continue
            for left in range(heirs, 0, -1):
                text = steers[heirs - left]
                socket = yield from self._follow(socket, turn, text)
                order = turn.order
                turn = self._accept(owner, tag, [text], turn, steered=left > 1)
                order |= {"state": "applied", "applied_by": turn.id}
                self._see(socket[0], turn, 0)
            socket = yield from self._follow(socket, turn, steers[-1] if back else None, back=back)
            before = turn
        if before is not None and self._dice.random() < 0.3:
            self._delete(before)
        if self._dice.random() < 0.5:
            self.note(Left, socket[0])

    def _ask(self, socket: _Socket, turn: Turn) -> Generator[None, None, _Socket]:
        """Ask, and with a key perhaps once more, on another socket. Who has none and is cut off
        never hears of the turn."""
        body: Event = {"type": "response.create", "model": "m", "metadata": {"tag": turn.tag}}
        body["input"] = turn.input[0]["content"]
        if turn.key is not None:
            body["idempotency_key"] = turn.key
        self.note(Sent, socket[0], body)
        yield
        cut = socket[1] != self._gateway
        if cut or (turn.key is not None and self._dice.random() < 0.5):
            self.note(Left, socket[0], "closed" if cut else "vanished")
            socket = self._join(turn.owner)
            if turn.key is None:
                return socket
            self.note(Sent, socket[0], body)
        self._see(socket[0], turn, 0)
        return socket

    def _see(self, client: str, turn: Turn, number: int) -> None:
        turn.position = max(turn.position, number + 1)
        self.note(Saw, client, dict(turn.events[number]))

    def _follow(
        self, socket: _Socket, turn: Turn, steer: str | None, *, back: bool = False
    ) -> Generator[None, None, _Socket]:
        """Read what is left; after a fault on another socket, which asks for it."""
        for number in range(1, len(turn.events)):
            yield
            if socket[1] != self._gateway:
                self.note(Left, socket[0], "closed")
                socket = self._join(turn.owner)
                resume = {"type": "response.resume", "response_id": turn.id}
                self.note(Sent, socket[0], resume | {"starting_after": number - 1})
            if steer is not None and number == 1:
                self._steer(socket[0], turn, steer, back=back)
            self._see(socket[0], turn, number)
        return socket

    def _steer(self, client: str, turn: Turn, text: str, *, back: bool) -> None:
        name = f"steer_{len(self._orders)}"
        asked = {"type": "response.steer", "previous_response_id": turn.id, "input": text}
        self.note(Sent, client, asked)
        steer = {"previous_response_id": turn.id, "id": name}
        self.note(Saw, client, {"type": "response.steer.accepted", "steer": steer})
        turn.order |= {"id": name, "turn_id": turn.id, "kind": "steer", "state": "accepted"}
        self._orders.append(turn.order)
        if back:
            turn.order |= {"state": "returned", "applied_by": None}
            failed = {"type": "response.steer.failed", "steer": steer | {"input": text}}
            self.note(Saw, client, failed)

    def _delete(self, turn: Turn) -> None:
        self._call("DELETE", turn, 200, {"deleted": True})
        self._deleted.add(turn.id)

    def _reader(self, owner: str) -> Iterator[None]:
        """Looks and reads along, from anywhere."""
        for _ in range(self._dice.randint(0, 6)):
            yield
            own = [t for t in self._turns if t.owner == owner and t.position]
            own = [t for t in own if t.id not in self._deleted]
            if not own:
                continue
            turn = self._dice.choice(own)
            if self._dice.random() < 0.5:
                self._get(turn)
                continue
            after = self._dice.randint(-1, turn.position - 1)
            client, _ = self._join(owner, turn.id, None if after < 0 else after)
            for number in range(after + 1, turn.position):
                self._see(client, turn, number)
            self.note(Left, client)

    def _get(self, turn: Turn) -> None:
        if turn.id in self._deleted:
            self._call("GET", turn, 404, {"error": {}})
        else:
            self._call("GET", turn, 200, turn.end if turn.ended else turn.created)

    def _call(self, method: str, turn: Turn, status: int, answer: Event) -> None:
        begin = self._now + 0.01
        self._now += 0.02
        path = f"/v1/responses/{turn.id}"
        called = Called(begin, self._now, turn.owner, method, path, None, status, answer)
        self.history.append(called)

    # -- the end ----------------------------------------------------------------------------------

    def _settle(self) -> None:
        for turn in self._turns:
            for attempt, (engine, said) in enumerate(turn.attempts, 1):
                told = turn.id, "began", attempt, turn.seen, said
                self.note(Worked, "engine", engine, *told)
                self.note(Worked, "engine", engine, turn.id, "stopped", attempt)
        living = f"g{self._gateway}"
        self.note(Calm, {"vivace_turns_running": 0.0}, (living,))
        for turn in self._turns:
            turn.position = len(turn.events)
            self._get(turn)
        self.note(Printed, "gateway", "INFO turn ended\n")
        rows = [
            {
                "id": turn.id,
                "owner": turn.owner,
                "previous_id": turn.before.id if turn.before else None,
                "status": turn.end["status"],
                "response": turn.end,
                "input": turn.input,
                "holder": None,
            }
            for turn in self._turns
            if turn.id not in self._deleted
        ]
        keys = [t for t in self._turns if t.key is not None]
        self.note(Table, "turns", rows)
        self.note(Table, "orders", self._orders)
        once = [{"owner": t.owner, "key": t.key, "turn_id": t.id} for t in keys]
        self.note(Table, "once", once)


def history_of(seed: int, clients: int = 3, kills: int = 2) -> list[Entry]:
    return Fleet(random.Random(seed)).run(clients, kills)
