"""What any stream of the Messages API must be, and the message that a client makes of it."""

from __future__ import annotations

import json
from typing import Any

Event = dict[str, Any]

DELTAS = {
    "text": {"text_delta"},
    "thinking": {"thinking_delta", "signature_delta"},
    "tool_use": {"input_json_delta"},
}


def events_of(stream: str) -> list[Event]:
    """Each by its name, which its data says again."""
    events = []
    for each in stream.split("\n\n"):
        if each:
            name, data = each.split("\n")
            event = json.loads(data.removeprefix("data: "))
            assert name == f"event: {event['type']}"
            events.append(event)
    return events


def gather(events: list[Event]) -> dict[str, Any]:
    """The message of a stream that must be well-formed and must have come to its end."""
    events = [event for event in events if event["type"] != "ping"]
    start, *middle, delta, stop = events
    assert start["type"] == "message_start"
    assert (start["message"]["content"], start["message"]["stop_reason"]) == ([], None)
    assert (delta["type"], stop) == ("message_delta", {"type": "message_stop"})
    blocks: list[dict[str, Any]] = []
    opened = False
    for event in middle:
        kind = event["type"]
        if kind == "content_block_start":
            assert (opened, event["index"]) == (False, len(blocks))
            blocks.append({**event["content_block"], "json": ""})
        else:
            assert (opened, event["index"]) == (True, len(blocks) - 1)
        opened = kind != "content_block_stop"
        if kind == "content_block_delta":
            _grow(blocks[-1], event["delta"])
        elif kind == "content_block_stop":
            _close(blocks[-1])
    assert not opened
    usage = start["message"]["usage"] | delta["usage"]
    return {**start["message"], **delta["delta"], "content": blocks, "usage": usage}


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    assert delta["type"] in DELTAS[block["type"]]
    for name, value in delta.items():
        if name == "partial_json":
            block["json"] += value
        elif name != "type":
            block[name] += value


def _close(block: dict[str, Any]) -> None:
    text = block.pop("json")
    if block["type"] == "tool_use":
        assert block["input"] == {}
        block["input"] = json.loads(text or "{}")
