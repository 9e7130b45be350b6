"""Between bytes and values: whatever comes in, the answer is a value or a ``RequestError``."""

from __future__ import annotations

import copy
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from tests.support.examples import examples
from vivace.errors import InvalidRequest, RequestError, TooManyRequests, Unavailable
from vivace.protocol.bounds import footprint
from vivace.protocol.chat import decode_chat, decode_completion
from vivace.protocol.codec import (
    decode_client_event,
    decode_compact,
    decode_create,
    decode_input,
    decode_steer_input,
    encode,
    error_frame,
    error_payload,
)
from vivace.protocol.items import (
    AdditionalTools,
    Compaction,
    CustomTool,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Grammar,
    InputFile,
    InputImage,
    InputText,
    Item,
    ItemReference,
    Message,
    NamespaceTool,
    OutputText,
    PlainText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)
from vivace.protocol.requests import AllowedTools, Fill, Interrupt, NamedTool, Steer
from vivace.protocol.sse import SSE_DONE, sse

many = settings(deadline=None, max_examples=examples(100))

# -- what clients send ----------------------------------------------------------------------------

WHOLE: dict[str, Any] = {
    "type": "response.create",
    "model": "m",
    "input": [
        {"type": "message", "role": "user", "content": "hello"},
        {"role": "user", "content": [{"type": "input_text", "text": "typeless"}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "thought"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "x"},
        {
            "type": "custom_tool_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "x"}],
        },
        {"type": "compaction", "encrypted_content": "opaque"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "additional_tools", "tools": [{"type": "function", "name": "g"}]},
    ],
    "instructions": "be brief",
    "previous_response_id": "resp_1",
    "tools": [
        {"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": True},
        {
            "type": "custom",
            "name": "p",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"},
        },
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "inner"}]},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": [{"type": "function", "name": "f"}],
    },
    "parallel_tool_calls": True,
    "max_tool_calls": 3,
    "text": {"format": {"type": "json_schema", "name": "s", "strict": True}, "verbosity": "low"},
    "reasoning": {"effort": "high", "summary": "auto"},
    "temperature": 0.5,
    "top_p": 0.9,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "max_output_tokens": 100,
    "truncation": "auto",
    "store": False,
    "stream": True,
    "stream_options": {"include_obfuscation": False},
    "background": False,
    "include": ["reasoning.encrypted_content"],
    "metadata": {"key": "value"},
    "service_tier": "auto",
    "prompt_cache_key": "k",
    "prompt_cache_options": {"prewarm": False},
    "safety_identifier": "s",
    "stream_id": "lane",
    "generate": True,
    "prediction": {
        "type": "content",
        "content": [{"type": "text", "text": "likely"}],
        "leniency": 4,
    },
    "stop": ["END"],
    "seed": 7,
}
GAP: dict[str, Any] = {
    "type": "response.create",
    "fill": {
        "prefix": "def f():\n    ",
        "suffix": "\n",
        "typed": "re",
        "starts_with": "return",
        "repo": "r",
        "path": "m.py",
        "files": [{"path": "n.py", "text": "x"}],
    },
}
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "ok"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
}
Decode = Callable[[bytes], object]
DOORS: list[tuple[Decode, dict[str, Any]]] = [
    (decode_create, WHOLE),
    (decode_client_event, WHOLE),
    (decode_client_event, GAP),
    (decode_client_event, {"type": "response.interrupt", "response_id": "r"}),
    (decode_client_event, {"type": "response.steer", "previous_response_id": "r", "input": "x"}),
    (decode_compact, {"model": "m", "input": WHOLE["input"]}),
    (decode_chat, CHAT),
    (decode_completion, {"model": "m", "prompt": "def ", "suffix": "return"}),
]
doors = st.sampled_from(DOORS)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def answers(decode: Decode, data: bytes) -> RequestError | None:
    """The refusal, if it is one. Anything else that is raised fails the test."""
    try:
        decode(data)
    except RequestError as error:
        json.loads(encode(error_frame(error)))
        return error
    return None


@many
@given(doors, st.binary(max_size=80))
@example(DOORS[0], b'{"input":[{"role":"user","content":"x","\xff":1}]}')
@example(DOORS[0], b'{"input":"\xed\xa0\x80"}')
@example(DOORS[0], b'{"input":"\\ud800"}')
def test_bytes_of_any_kind_are_refused_politely(
    door: tuple[Decode, dict[str, Any]], data: bytes
) -> None:
    answers(door[0], data)


@many
@given(doors, json_values)
def test_json_of_any_kind_is_refused_politely(
    door: tuple[Decode, dict[str, Any]], value: object
) -> None:
    answers(door[0], json.dumps(value).encode())


@many
@given(doors, st.data())
def test_a_damaged_request_is_refused_politely(
    door: tuple[Decode, dict[str, Any]], data: st.DataObject
) -> None:
    decode, request = door
    sent = json.dumps(request).encode()
    start = data.draw(st.integers(0, len(sent)))
    end = data.draw(st.integers(start, min(len(sent), start + 8)))
    answers(decode, sent[:start] + data.draw(st.binary(max_size=4)) + sent[end:])


@many
@given(doors, st.data())
def test_any_value_at_any_place_is_taken_or_refused_politely(
    door: tuple[Decode, dict[str, Any]], data: st.DataObject
) -> None:
    decode, request = door
    path, _ = data.draw(st.sampled_from(list(places(request))))
    answers(decode, json.dumps(with_value(request, path, data.draw(json_values))).encode())


_FUNCTION = '[{"type":"function","name":"f","parameters":%s}]'
_PARTS = '[{"type":"output_text","text":"x","annotations":[%s]}]'
_SCHEMA = '{"name":"n","schema":%s}'
_SHAPELESS: tuple[tuple[Decode, str], ...] = (
    (decode_create, f'{{"tools":{_FUNCTION}}}'),
    (decode_create, f'{{"tools":[{{"type":"namespace","name":"n","tools":{_FUNCTION}}}]}}'),
    (decode_create, '{"tools":[{"type":"web_search","x":%s}]}'),
    (decode_create, f'{{"input":[{{"type":"additional_tools","tools":{_FUNCTION}}}]}}'),
    (decode_create, f'{{"input":[{{"role":"assistant","content":{_PARTS}}}]}}'),
    (decode_create, f'{{"prediction":{{"content":{_PARTS.replace("annotations", "logprobs")}}}}}'),
    (decode_create, f'{{"prediction":{{"content":{_PARTS}}}}}'),
    (decode_create, '{"text":{"format":{"type":"json_schema","name":"n","schema":%s}}}'),
    (decode_compact, f'{{"model":"m","input":[{{"role":"assistant","content":{_PARTS}}}]}}'),
    (decode_client_event, f'{{"type":"response.create","tools":{_FUNCTION}}}'),
    (decode_chat, f'{{"messages":[],"prediction":{{"content":{_PARTS}}}}}'),
    (
        decode_chat,
        '{"messages":[],"tools":[{"type":"function","function":{"name":"f","parameters":%s}}]}',
    ),
    (
        decode_chat,
        f'{{"messages":[],"response_format":{{"type":"json_schema","json_schema":{_SCHEMA}}}}}',
    ),
)
"""Every place where a client's own shape is kept."""

_kept = st.sampled_from(_SHAPELESS)


def nested(levels: int, arrays: bool) -> str:
    """An object of that many levels, of objects or of arrays."""
    opened, closed = ("[", "]") if arrays else ('{"a":', "}")
    return '{"a":' + opened * (levels - 1) + "1" + closed * (levels - 1) + "}"


@many
@given(door=_kept, levels=st.integers(1, 1200), arrays=st.booleans())
@example(door=_SHAPELESS[7], levels=968, arrays=False)
def test_what_is_kept_is_nested_at_most_a_hundred_levels(
    door: tuple[Decode, str], levels: int, arrays: bool
) -> None:
    decode, form = door
    data = (form % nested(levels, arrays)).encode()
    if levels < 100:
        decode(data)
    elif levels > 100:  # where it stands may be a level of its own
        with pytest.raises(InvalidRequest, match="nested") as refused:
            decode(data)
        assert refused.value.param or levels > 900  # where the reader itself runs out of stack


@pytest.mark.parametrize("levels", [10, 900, 985, 990, 995, 1000, 5000, 100_000])
def test_deep_nesting_is_taken_or_refused_but_never_breaks(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    for place in (b'{"tool_choice":%b}', b'{"input":[%b]}', b'{"unknown":%b}'):
        answers(decode_create, place % deep)


def test_a_steer_can_be_handed_back_however_deep_it_is() -> None:
    deep = b'{"type":"response.steer","previous_response_id":"r","input":%b}'
    steer = decode_client_event(deep % nested(900, arrays=False).encode())
    assert isinstance(steer, Steer)
    with pytest.raises(InvalidRequest):
        decode_steer_input(steer.input)
    assert encode(steer)


_SWELLING = ["[],", "{},", '{"a":1},', "1.5,", '"ab",', "123456,", '{"a":{"b":1}},', '"é€😀",']


@pytest.mark.parametrize("small", _SWELLING)
def test_the_memory_of_what_is_read_is_told_before_and_not_too_low(small: str) -> None:
    part = f'{{"type":"output_text","text":"x","annotations":[{small * 3000}1]}}'
    text = f'{{"prediction":{{"content":[{part}]}}}}'
    told = footprint(text)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        read = decode_create(text)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert read.body.prediction is not None
    assert 0.1 * told < after - before < told


def test_what_was_read_does_not_hold_on_to_the_message() -> None:
    sent = json.dumps({**WHOLE, "prompt": None, "instructions": None, "text": None}) + " " * 10**6
    tracemalloc.start()
    try:
        read = decode_create(sent.encode())
        assert tracemalloc.get_traced_memory()[0] < 10**5
    finally:
        tracemalloc.stop()
    assert read.items


@pytest.mark.parametrize(
    ("metadata", "param"),
    [
        ({f"k{n}": "v" for n in range(17)}, "metadata"),
        ({"k" * 65: "v"}, "metadata"),
        ({"k": "v" * 513}, "metadata[...]"),
        ({"k": 1}, "metadata[...]"),
    ],
)
def test_metadata_is_bounded_as_openai_documents_it(metadata: dict[str, Any], param: str) -> None:
    for decode, body in ((decode_create, {}), (decode_chat, {"messages": []})):
        with pytest.raises(InvalidRequest) as refused:
            decode(json.dumps({**body, "metadata": metadata}).encode())
        assert refused.value.param == param


def test_as_much_metadata_as_openai_allows_is_taken() -> None:
    metadata = {f"{n:064}": "v" * 512 for n in range(16)}
    assert decode_create(json.dumps({"metadata": metadata}).encode()).body.metadata == metadata


def test_what_is_echoed_is_valid_json_although_nobody_read_it() -> None:
    sent = b'{"tools":[{"type":"web_search","city":"\xff"}]}'
    try:
        echo = bytes(decode_create(sent).toolbox.echo)
    except InvalidRequest:
        return
    json.loads(echo.decode())


def test_a_steer_comes_back_as_valid_json_although_nobody_read_it() -> None:
    sent = b'{"type":"response.steer","previous_response_id":"r","input":"\xff"}'
    try:
        steer = decode_client_event(sent)
    except InvalidRequest:
        return
    assert isinstance(steer, Steer)
    json.loads(bytes(steer.input).decode())


# -- the field is named ---------------------------------------------------------------------------

Path = tuple[str | int, ...]


def places(value: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every place in a value, with what stands there."""
    inner: Iterator[tuple[str | int, object]] = iter(())
    if isinstance(value, dict):
        inner = iter(value.items())
    elif isinstance(value, list):
        inner = iter(enumerate(value))
    for key, each in inner:
        yield (*path, key), each
        yield from places(each, (*path, key))


def with_value(request: dict[str, Any], path: Path, value: object) -> dict[str, Any]:
    changed: Any = copy.deepcopy(request)
    here = changed
    for key in path[:-1]:
        here = here[key]
    here[path[-1]] = value
    return changed  # type: ignore[no-any-return]


def named(path: Path) -> str:
    if path == ("metadata", "key"):
        return "metadata[...]"
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


FREE = {("input", 2, "content", 0, "annotations")}


@many
@given(
    st.sampled_from(
        [(sent, *place) for sent in (WHOLE, GAP) for place in places(sent) if place[0] not in FREE]
    )
)
def test_a_wrong_type_is_answered_with_the_name_of_its_field(
    place: tuple[dict[str, Any], Path, object],
) -> None:
    sent, path, right = place
    wrong: object = True if isinstance(right, dict) else {"not": "this"}
    error = answers(decode_client_event, json.dumps(with_value(sent, path, wrong)).encode())
    assert error is not None
    assert error.param == named(path)
    assert error.status == 400


@pytest.mark.parametrize(
    ("path", "value", "code"),
    [
        (("temperature",), 2.1, "invalid_type"),
        (("top_p",), -0.1, "invalid_type"),
        (("max_output_tokens",), 0, "invalid_type"),
        (("truncation",), "sometimes", "invalid_type"),
        (("tool_choice",), "sometimes", "invalid_type"),
        (("max_tool_calls",), 0, "invalid_type"),
        (("prediction", "leniency"), 10.1, "invalid_type"),
        (("prediction", "leniency"), -1, "invalid_type"),
        (("stop",), ["."] * 65, "invalid_type"),
        (("stop", 0), "." * 257, "invalid_type"),
        (("top_logprobs",), 21, "invalid_type"),
        (("top_logprobs",), 1, "unsupported_parameter"),
        (("include",), ["message.output_text.logprobs"], "unsupported_parameter"),
        (("conversation",), "conv_1", "unsupported_parameter"),
        (("prompt",), {"id": "pmpt_1"}, "unsupported_parameter"),
        (("input", 0, "role"), "tool", "invalid_type"),
        (("type",), "response.delete", "invalid_value"),
    ],
)
def test_a_value_out_of_range_is_answered_with_the_name_of_its_field(
    path: Path, value: object, code: str
) -> None:
    error = answers(decode_client_event, json.dumps(with_value(WHOLE, path, value)).encode())
    assert error is not None
    assert (error.param, error.code) == (named(path), code)


@pytest.mark.parametrize(
    "path",
    [
        ("input", 0, "content"),
        ("input", 4, "call_id"),
        ("input", 7, "output", 0, "text"),
        ("input", 10, "tools", 0, "name"),
        ("tools", 0, "name"),
        ("tools", 2, "tools", 0, "name"),
        ("tool_choice", "tools", 0, "name"),
        ("text", "format", "name"),
        ("prediction", "content"),
    ],
)
def test_a_missing_field_is_named(path: Path) -> None:
    sent = copy.deepcopy(WHOLE)
    here: Any = sent
    for key in path[:-1]:
        here = here[key]
    del here[path[-1]]
    error = answers(decode_create, json.dumps(sent).encode())
    assert error is not None
    assert (error.param, error.code) == (named(path), "missing_required_parameter")


def test_unknown_fields_are_let_pass() -> None:
    newer = WHOLE | {"client_metadata": {"a": 1}, "id": 5, "role": []}
    assert answers(decode_client_event, json.dumps(newer).encode()) is None


# -- items ----------------------------------------------------------------------------------------

texts = st.text(max_size=20)
maybe_text = st.none() | texts
statuses = st.sampled_from(["in_progress", "completed", "incomplete", None])
parts = st.one_of(
    st.builds(InputText, texts),
    st.builds(OutputText, texts, st.lists(json_values, max_size=2)),
    st.builds(Refusal, texts),
    st.builds(PlainText, texts),
    st.builds(SummaryText, texts),
    st.builds(ReasoningText, texts),
    st.builds(InputImage, maybe_text, texts, maybe_text),
    st.builds(InputFile, maybe_text, maybe_text, maybe_text, maybe_text),
)
contents = texts | st.lists(parts, max_size=3)
grammars = st.just(Grammar()) | st.builds(
    Grammar, st.just("grammar"), st.sampled_from(["lark", "regex"]), texts
)
flat_tools = st.builds(
    FunctionTool,
    texts,
    maybe_text,
    st.none() | st.dictionaries(texts, json_values, max_size=2),
    st.none() | st.booleans(),
) | st.builds(CustomTool, texts, maybe_text, grammars)
tools = flat_tools | st.builds(
    NamespaceTool, texts, st.lists(flat_tools, max_size=2), description=maybe_text
)
roles = st.sampled_from(["user", "assistant", "system", "developer"])
namespaces = st.just(UNSET) | maybe_text
items: st.SearchStrategy[Item] = st.one_of(
    st.builds(
        Message,
        id=maybe_text,
        role=roles,
        content=contents,
        status=statuses,
        phase=st.sampled_from(["commentary", "final_answer", None, UNSET]),
    ),
    st.builds(
        FunctionCall,
        id=maybe_text,
        call_id=texts,
        name=texts,
        arguments=texts,
        status=statuses,
        namespace=namespaces,
    ),
    st.builds(FunctionCallOutput, id=maybe_text, call_id=texts, output=contents, status=statuses),
    st.builds(
        CustomToolCall,
        id=maybe_text,
        call_id=texts,
        name=texts,
        input=texts,
        status=statuses,
        namespace=namespaces,
    ),
    st.builds(CustomToolCallOutput, id=maybe_text, call_id=texts, output=contents, status=statuses),
    st.builds(
        Reasoning,
        id=maybe_text,
        summary=st.lists(parts, max_size=2),
        content=st.just(UNSET) | st.none() | st.lists(parts, max_size=2),
        encrypted_content=namespaces,
        status=st.just(UNSET) | statuses,
    ),
    st.builds(Compaction, id=maybe_text, encrypted_content=texts.map(Compaction.MARK.__add__)),
    st.builds(ItemReference, id=texts),
    st.builds(
        AdditionalTools,
        id=maybe_text,
        role=st.sampled_from(["developer", "system"]),
        tools=st.lists(tools, max_size=2),
    ),
)


@many
@given(items)
def test_an_item_that_is_sent_and_sent_back_is_the_same(item: Item) -> None:
    assert decode_input([Raw(encode(item))]).items == (item,)


@settings(many, max_examples=examples(30))
@given(st.lists(items, max_size=3))
def test_a_whole_input_is_read_in_order(sent: list[Item]) -> None:
    assert decode_create(encode({"input": sent})).items == tuple(sent)


def test_a_plain_string_is_a_message_of_the_user() -> None:
    assert decode_create(b'{"input":"hi"}').items == (Message(role="user", content="hi"),)


def test_an_item_without_type_is_known_by_its_fields() -> None:
    sent = b'{"input":[{"role":"user","content":"hi"},{"id":"msg_1"},{"type":null,"id":"msg_2"}]}'
    message, *references = decode_create(sent).items
    assert message == Message(role="user", content="hi")
    assert references == [ItemReference(id="msg_1"), ItemReference(id="msg_2")]


def test_the_older_name_of_a_compaction_is_understood() -> None:
    sent = b'{"input":[{"type":"compaction_summary","encrypted_content":"vivace1.x"}]}'
    assert decode_create(sent).items == (Compaction(encrypted_content="vivace1.x"),)


# -- tools ----------------------------------------------------------------------------------------


def test_tools_nobody_knows_are_echoed_as_they_came_and_offered_to_no_model() -> None:
    known = {"type": "function", "name": "f"}
    hosted = {"type": "web_search", "filters": {"x": [1, 2.5]}}
    toolbox = decode_create(encode({"tools": [hosted, known, hosted]})).toolbox
    assert toolbox.tools == (FunctionTool("f"),)
    first, echoed, last = json.loads(bytes(toolbox.echo))
    assert first == last == hosted
    assert echoed["name"] == "f"


def test_tools_of_a_namespace_carry_its_name() -> None:
    toolbox = decode_create(encode({"tools": WHOLE["tools"]})).toolbox
    assert [(space, tool.name) for space, tool in toolbox.flat()] == [
        (None, "f"),
        (None, "p"),
        ("n", "inner"),
    ]


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (None, "auto"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, NamedTool("function", "f")),
        ({"type": "custom", "name": "p"}, NamedTool("custom", "p")),
        (
            {"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]},
            AllowedTools(tools=[NamedTool("function", "f")]),
        ),
    ],
)
def test_tool_choice_has_three_forms(sent: object, meant: object) -> None:
    assert decode_create(encode({"tool_choice": sent})).tool_choice == meant


# -- client events --------------------------------------------------------------------------------


def test_warm_up_has_two_spellings() -> None:
    assert decode_create(b"{}").generates
    assert not decode_create(b'{"generate":false}').generates
    assert not decode_create(b'{"prompt_cache_options":{"prewarm":true}}').generates


def test_a_turn_is_stored_unless_the_client_says_no() -> None:
    assert decode_create(b"{}").stored
    assert not decode_create(b'{"store":false}').stored


def test_a_fill_is_read_whole_and_kept_nowhere() -> None:
    asked = decode_create(json.dumps(GAP).encode())
    assert asked.fill == msgspec.convert(GAP["fill"], Fill)
    assert asked.body.fill is None
    assert not asked.stored
    assert not decode_create(json.dumps(GAP | {"generate": False}).encode()).generates


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input", "hi"),
        ("input", []),
        ("instructions", "be brief"),
        ("previous_response_id", "resp_1"),
        ("tools", [{"type": "function", "name": "f"}]),
        ("tool_choice", "auto"),
        ("text", {"format": {"type": "json_object"}}),
        ("reasoning", {"effort": "low"}),
        ("prediction", {"content": "x"}),
        ("store", True),
        ("background", True),
    ],
)
def test_what_makes_a_conversation_is_refused_beside_a_fill(name: str, value: object) -> None:
    error = answers(decode_client_event, json.dumps(GAP | {name: value}).encode())
    assert error is not None
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", name)
    assert "'fill'" in error.message
    nothing = False if value is True else None
    assert answers(decode_client_event, json.dumps(GAP | {name: nothing}).encode()) is None


def test_each_client_event_is_read_by_its_type() -> None:
    interrupt = decode_client_event(b'{"type":"response.interrupt","response_id":"r"}')
    assert interrupt == Interrupt(response_id="r")
    steer = decode_client_event(
        '{"type":"response.steer","previous_response_id":"r","input":"left"}'
    )
    assert isinstance(steer, Steer)
    assert bytes(steer.input) == b'"left"'


@pytest.mark.parametrize("kind", [None, "", "response.cancel", "message"])
def test_an_unknown_client_event_is_answered_with_the_known_ones(kind: str | None) -> None:
    with pytest.raises(InvalidRequest, match=r"response\.create") as caught:
        decode_client_event(encode({"type": kind}))
    assert caught.value.param == "type"


# -- writing --------------------------------------------------------------------------------------


def read_sse(stream: bytes) -> list[tuple[str, str]]:
    """As the HTML standard reads an event stream, for the two fields that are used."""
    events, name, data = [], "", []
    for line in stream.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        field, _, value = line.partition(":")
        if field == "event":
            name = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            events.append((name, "\n".join(data)))
            name, data = "", []
    return events


@many
@given(st.lists(st.tuples(st.from_regex(r"[a-z_.]+", fullmatch=True), json_values), max_size=4))
@example([("response.created", {"text": "\r\n\n\u2028\x85: data: [DONE]\n\n"})])
def test_server_sent_events_are_read_as_they_were_sent(sent: list[tuple[str, Any]]) -> None:
    stream = b"".join(sse(name, encode(value)) for name, value in sent) + SSE_DONE
    *events, done = read_sse(stream)
    assert done == ("", "[DONE]")
    assert [(name, json.loads(data)) for name, data in events] == sent


@many
@given(json_values)
def test_json_is_written_without_loss(value: object) -> None:
    assert json.loads(encode(value)) == value


def test_an_error_frame_carries_what_the_client_needs() -> None:
    error = TooManyRequests("Slow down.", param="input")
    frame = json.loads(encode(error_frame(error, "lane", "req_1")))
    assert frame == {
        "type": "error",
        "status": 429,
        "stream_id": "lane",
        "error": {
            "type": "rate_limit_error",
            "code": "rate_limit_exceeded",
            "message": "Slow down.",
            "param": "input",
            "request_id": "req_1",
        },
    }


def test_an_error_of_the_default_lane_names_no_lane() -> None:
    frame = json.loads(encode(error_frame(Unavailable("Later."))))
    assert "stream_id" not in frame
    assert frame["error"]["param"] is None
    assert error_payload(Unavailable("Later.")).request_id is msgspec.UNSET


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_json_has_no_number_for_is_written_as_null(number: float) -> None:
    assert encode([number]) == b"[null]"
