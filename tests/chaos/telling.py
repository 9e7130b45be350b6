"""Histories written down by hand, as a gateway and its clients would make them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from chaos.contexts import words_of
from chaos.history import Called, Calm, Entry, Event, Joined, Left, Saw, Sent, Started

__all__ = ["Telling", "as_it_should_be", "receipt"]


class Telling:
    """Writes a history down as a gateway and its clients would make it."""

    def __init__(self) -> None:
        self.history: list[Entry] = []
        self._clock = itertools.count()
        self._shown: dict[str, tuple[str, ...]] = {}
        self._ended: dict[str, Event] = {}
        self._inputs: dict[str, list[Event]] = {}
        """As they are on record: behind a turn that is not kept, with all that came before."""
        self._conversation: dict[str, list[Event]] = {}

    def at(self) -> float:
        return next(self._clock) / 100

    def note(self, kind: type[Any], *fields: Any) -> None:
        self.history.append(kind(self.at(), *fields))

    def see(self, client: str, lane: str | None = None, /, **event: Any) -> None:
        self.note(Saw, client, event | ({"stream_id": lane} if lane else {}))

    def create(self, client: str, tag: str, text: str, lane: str | None = None) -> None:
        body = {"type": "response.create", "model": "m", "input": text, "metadata": {"tag": tag}}
        self.note(Sent, client, body | ({"stream_id": lane} if lane else {}))

    def steer(self, client: str, target: str, text: str) -> None:
        event = {"type": "response.steer", "previous_response_id": target, "input": text}
        self.note(Sent, client, event)

    def turn(
        self,
        client: str,
        name: str,
        tag: str,
        *inputs: str,
        lane: str | None = None,
        after: str | None = None,
        output: str = "",
        calls: bool = False,
        steered: Callable[[], None] | None = None,
        passing: bool = False,
        silent: bool = False,
    ) -> None:
        """A whole answer, which begins with what it was shown, unless it is ``silent``: broken off
        before it said anything. One that is ``passing`` is not kept."""
        items = [{"type": "message", "role": "user", "content": text} for text in inputs]
        past = self._shown[after] if after else ()
        shown = (*past, *words_of(items))
        said = "shown " + " ".join(shown) + "\n" + output
        response: Event = {
            "id": name,
            "status": "in_progress",
            "metadata": {"tag": tag},
            "previous_response_id": after,
            "store": not passing,
            "error": None,
            "output": [],
            "usage": None,
        }
        numbers = itertools.count()

        def see(kind: str, **event: Any) -> None:
            self.see(client, lane, type=kind, sequence_number=next(numbers), **event)

        see("response.created", response=response)
        place = {"item_id": f"msg_{name}", "output_index": 0}
        items_out: list[Event] = []
        for delta in () if silent else (said[:12], said[12:]):
            see("response.output_text.delta", **place, delta=delta)
        if steered is not None:
            steered()
        if not silent:
            see("response.output_text.done", **place, text=said)
            message = {"type": "message", "id": f"msg_{name}", "role": "assistant"}
            items_out.append(message | {"content": [{"type": "output_text", "text": said}]})
            see("response.output_item.done", output_index=0, item=items_out[0])
        if calls:
            call = {"type": "function_call", "id": f"fc_{name}", "arguments": "{}"}
            place = {"item_id": call["id"], "output_index": 1}
            see("response.function_call_arguments.done", **place, arguments="")
            call["arguments"] = ""
            see("response.output_item.done", output_index=1, item=call)
            items_out.append(call)
        status = "incomplete" if steered or silent else "completed"
        end = response | {"status": status, "output": items_out, "usage": {"total_tokens": 9}}
        see(f"response.{status}", response=end)
        before = self._conversation.get(after or "", [])
        behind_passing = after is not None and not self._ended[after]["store"]
        self._ended[name] = end
        self._inputs[name] = [*before, *items] if behind_passing else items
        self._conversation[name] = [*before, *items, *items_out]
        self._shown[name] = (*shown, *words_of(items_out))

    def call(self, owner: str, method: str, path: str, status: int, answer: Any) -> None:
        self.history.append(Called(self.at(), self.at(), owner, method, path, None, status, answer))

    def look(self, owner: str, name: str) -> None:
        self.call(owner, "GET", f"/v1/responses/{name}", 200, self._ended[name])
        path = f"/v1/responses/{name}/input_items?limit=100&order=asc"
        self.call(owner, "GET", path, 200, {"data": self._inputs[name]})


def receipt(kind: str, target: str, **more: Any) -> Event:
    steer = {"previous_response_id": target, **more}
    return {"type": f"response.steer.{kind}", "sequence_number": 0, "steer": steer}


def as_it_should_be() -> list[Entry]:
    tell = Telling()
    tell.note(Started, {"narrow": 2})
    tell.note(Joined, "a", "alice")
    tell.note(Joined, "b", "bob")
    tell.create("a", "t1", "First")

    def steered() -> None:
        tell.steer("a", "resp_1", "Rather in French")
        tell.see("a", **receipt("accepted", "resp_1", id="steer_1"))

    tell.turn("a", "resp_1", "t1", "First", steered=steered)
    tell.turn("a", "resp_2", "t1", "Rather in French", after="resp_1", output="Oui.")
    tell.steer("a", "resp_1", "Too late")
    tell.see("a", **receipt("failed", "resp_1", input="Too late"))
    tell.create("a", "t2", "Look", lane="x")
    tell.turn("a", "resp_3", "t2", "Look", lane="x", calls=True)
    tell.steer("a", "resp_3", "And hurry")
    tell.see("a", **receipt("accepted", "resp_3", id="steer_2"))
    tell.see("a", **receipt("pending", "resp_3", id="steer_2"))
    tell.note(Sent, "a", "{")
    tell.see("a", type="error", status=400, error={"code": "invalid_json"})
    tell.create("b", "t3", "Mine")
    tell.turn("b", "resp_4", "t3", "Mine")
    tell.note(Joined, "r", "alice", "resp_3", 0)
    own = [e.event for e in tell.history if isinstance(e, Saw) and e.event.get("stream_id") == "x"]
    for event in own[1:]:
        tell.see("r", **{key: value for key, value in event.items() if key != "stream_id"})
    tell.note(Left, "r")
    tell.call("bob", "GET", "/v1/responses/resp_1", 404, {"error": {}})
    tell.create("b", "t4", "Quick")
    tell.turn("b", "resp_5", "t4", "Quick")
    tell.call("bob", "DELETE", "/v1/responses/resp_5", 200, {"deleted": True})
    tell.note(Calm, {"vivace_turns_running": 0.0})
    for owner, name in (("alice", 1), ("alice", 2), ("alice", 3), ("bob", 4)):
        tell.look(owner, f"resp_{name}")
    tell.call("bob", "GET", "/v1/responses/resp_5", 404, {"error": {}})
    return tell.history
