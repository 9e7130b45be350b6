"""The Open Responses schema, and the one list of where Vivace knowingly leaves it.

Every difference has a reason: a real client that needs it, or a part of the wire the schema has
no word for yet.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema_rs

from tests.support.files import data_file

Schemas = dict[str, Any]
DIFFERENCES: list[tuple[str, Callable[[Schemas], None]]] = []
"""Why, and what is changed in the schema to allow for it."""


def difference(reason: str) -> Callable[[Callable[[Schemas], None]], None]:
    return lambda change: DIFFERENCES.append((reason, change))


def _object(required: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": required, "required": list(required)}


def _const(value: str) -> dict[str, Any]:
    return {"type": "string", "enum": [value]}


STRING = {"type": "string"}
INTEGER = {"type": "integer"}


@difference("Codex CLI edits files through a custom tool (apply_patch); the schema has none")
def _custom_tool_items(schemas: Schemas) -> None:
    call = {"id": STRING, "call_id": STRING, "name": STRING, "input": STRING, "status": STRING}
    output = {"id": STRING, "call_id": STRING, "output": {}, "status": STRING}
    schemas["ItemField"]["oneOf"] += [
        _object({"type": _const("custom_tool_call"), **call}),
        _object({"type": _const("custom_tool_call_output"), **output}),
    ]


@difference("Codex CLI declares custom, namespaced and hosted tools, which are echoed as sent")
def _other_tools(schemas: Schemas) -> None:
    not_function = {"type": "string", "not": {"enum": ["function"]}}
    schemas["Tool"]["oneOf"].append(_object({"type": not_function}))


@difference("the OpenAI SDK sends tool_choice {type: custom, name} for custom tools")
def _custom_choice(schemas: Schemas) -> None:
    choices = schemas["ResponseResource"]["properties"]["tool_choice"]["oneOf"]
    choices.append(_object({"type": _const("custom"), "name": STRING}))


@difference(
    "the OpenAI SDK reads the JSON schema back from text.format; the schema allows null only"
)
def _echoed_format(schemas: Schemas) -> None:
    schemas["JsonSchemaResponseFormat"]["properties"]["schema"] = {"type": ["object", "null"]}
    schemas["JsonSchemaResponseFormat"]["properties"]["strict"] = {"type": ["boolean", "null"]}


@difference("Codex CLI and the OpenAI SDK know reasoning text as response.reasoning_text.*")
def _reasoning_text(schemas: Schemas) -> None:
    for kind in ("delta", "done"):
        old = schemas[f"ResponseReasoning{kind.title()}StreamingEvent"]["properties"]["type"]
        old["enum"] = [f"response.reasoning_text.{kind}"]


@difference("a custom tool's input streams by events the schema lacks; Codex CLI shows them")
def _custom_events(schemas: Schemas) -> None:
    place = {"sequence_number": INTEGER, "item_id": STRING, "output_index": INTEGER}
    for kind, text in (("delta", "delta"), ("done", "input")):
        name = f"response.custom_tool_call_input.{kind}"
        schemas[f"Vivace:{name}"] = _object({"type": _const(name), **place, text: STRING})


@difference("interrupt and steer are answered by receipts the schema lacks; Codex CLI reads them")
def _receipts(schemas: Schemas) -> None:
    accepted = "response.interrupt.accepted"
    interrupted = "response.output_item.interrupted"
    schemas[f"Vivace:{accepted}"] = _object({"type": _const(accepted), "response_id": STRING})
    schemas[f"Vivace:{interrupted}"] = _object(
        {
            "type": _const(interrupted),
            "sequence_number": INTEGER,
            "response_id": STRING,
            "item_id": STRING,
            "output_index": INTEGER,
        }
    )
    steer = {"previous_response_id": STRING}
    for kind, more in {
        "accepted": {"steer": _object({"id": STRING, **steer})},
        "pending": {
            "steer": _object({"id": STRING, **steer}),
            "reason": STRING,
            "required_input": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        },
        "failed": {
            "steer": _object({**steer, "input": {}}),
            "error": {"$ref": _ref("ErrorPayload")},
        },
    }.items():
        name = f"response.steer.{kind}"
        schemas[f"Vivace:{name}"] = _object(
            {"type": _const(name), "sequence_number": INTEGER, **more}
        )


@difference("Codex CLI reads limits, and when the models changed, from events of its own")
def _codex_events(schemas: Schemas) -> None:
    window = _object({"used_percent": {}, "window_minutes": INTEGER, "reset_at": INTEGER})
    limits, metadata = "codex.rate_limits", "codex.response.metadata"
    schemas[f"Vivace:{limits}"] = _object(
        {
            "type": _const(limits),
            "limit_name": STRING,
            "rate_limits": {"type": "object", "additionalProperties": window},
        }
    )
    schemas[f"Vivace:{metadata}"] = _object(
        {"type": _const(metadata), "headers": {"type": "object", "additionalProperties": STRING}}
    )


def _ref(name: str) -> str:
    return f"#/components/schemas/{name}"


class WireSchema:
    """Says what is wrong with something Vivace sent; nothing when it is right."""

    def __init__(self) -> None:
        schemas: Schemas = json.loads(data_file("openresponses").read_text())["components"][
            "schemas"
        ]
        for _, change in DIFFERENCES:
            change(schemas)
        self._schemas = schemas
        self._by_event = {
            name: key
            for key, schema in schemas.items()
            if key.endswith("StreamingEvent") or key.startswith("Vivace:")
            for name in schema["properties"]["type"]["enum"]
        }
        self._validators: dict[str, jsonschema_rs.Validator] = {}

    def problems(self, value: Any, schema: str) -> list[str]:
        validator = self._validators.get(schema)
        if validator is None:
            whole = {"$ref": _ref(schema), "components": {"schemas": self._schemas}}
            validator = jsonschema_rs.validator_for(whole)
            self._validators[schema] = validator
        return [f"{schema}: {error.message}" for error in validator.iter_errors(value)]

    def event_problems(self, event: dict[str, Any], *, websocket: bool) -> list[str]:
        kind = event.get("type", "")
        if kind == "error" and websocket:
            return self.problems(event, "WebSocketErrorEvent")
        schema = self._by_event.get(kind)
        return self.problems(event, schema) if schema else [f"no schema for event {kind!r}"]


@cache
def wire_schema() -> WireSchema:
    return WireSchema()
