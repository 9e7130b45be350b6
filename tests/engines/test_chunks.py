"""Chunks of a stream as deltas: recorded from real servers, made up, and cut anywhere."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import patches
from tests.engines.endpoint import Chunk, call, delta, usage
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.engines.chunks import ChunkReader
from vivace.engines.tool_forms import ToolForms
from vivace.errors import EngineError
from vivace.protocol.items import CustomTool, FunctionTool, Tool
from vivace.protocol.requests import Toolbox, ToolChoice
from vivace.protocol.sse import SseLines

RECORDED = sorted((Path(__file__).parent / "recorded").glob("*.sse"))
WHOLE = [path for path in RECORDED if path.stem != "auto-broken"]
READ = FunctionTool("read_file")
PATCH = CustomTool("apply_patch")
FREE = CustomTool("free")


def reader(*tools: Tool, choice: ToolChoice = "auto", **options: Any) -> ChunkReader:
    return ChunkReader(ToolForms(Toolbox(tools), choice), **options)


def read(chunks: Iterable[Chunk], using: ChunkReader | None = None) -> list[Delta]:
    reading = using or reader(READ, PATCH, FREE)
    deltas = [each for chunk in chunks for each in reading.feed(json.dumps(chunk).encode())]
    return [*deltas, *reading.finish()]


def text_in(deltas: Iterable[Delta]) -> str:
    return "".join(each.text for each in deltas if isinstance(each, TextDelta))


def calls_in(deltas: Iterable[Delta]) -> list[tuple[str, str]]:
    """Every call, as its name and all of its text."""
    calls: list[tuple[str, str]] = []
    for each in deltas:
        if isinstance(each, CallOpened):
            calls.append((each.name, ""))
        elif isinstance(each, CallText):
            calls[-1] = (calls[-1][0], calls[-1][1] + each.text)
    return calls


# -- recorded -------------------------------------------------------------------------------------


def events_of(data: bytes, sizes: Sequence[int] = ()) -> list[bytes]:
    """The events of a stream whose bytes come in pieces of these sizes, and then the rest."""
    events: list[bytes] = []
    lines, start = SseLines(), 0
    for size in (*sizes, len(data)):
        events += lines.feed(data[start : start + size])
        start += size
    return events


def replayed(path: Path, using: ChunkReader) -> list[Delta]:
    deltas: list[Delta] = []
    for event in events_of(path.read_bytes()):
        if event != b"[DONE]":
            deltas += using.feed(event)
    assert using.complete
    return [*deltas, *using.finish()]


def recorded(name: str) -> Path:
    return Path(__file__).parent / "recorded" / f"{name}.sse"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: str(path.stem))
def test_every_recording_says_where_it_is_from(path: Path) -> None:
    first = path.read_text().partition("\n")[0]
    assert first.startswith(": recorded from ")
    assert path.stat().st_size < 20_000


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: str(path.stem))
def test_a_recording_ends_as_its_server_said(path: Path) -> None:
    chunks = [json.loads(each) for each in events_of(path.read_bytes()) if each != b"[DONE]"]
    counted = chunks[-1]["usage"]
    last = replayed(path, reader(READ))[-1]
    assert isinstance(last, Finished)
    assert (last.tokens.input, last.tokens.output) == (
        counted["prompt_tokens"],
        counted["completion_tokens"],
    )
    assert last.tokens.cached == counted["prompt_tokens_details"]["cached_tokens"]


def test_a_model_that_may_call_and_does_not_answers_with_text() -> None:
    deltas = replayed(recorded("auto-text"), reader(READ))
    assert text_in(deltas) == "4"
    assert calls_in(deltas) == []


def test_json_that_a_small_model_writes_in_place_of_a_call_is_text() -> None:
    """It was not marked as a call, and to guess would turn an example into an action."""
    deltas = replayed(recorded("auto-fenced"), reader(READ))
    assert text_in(deltas).startswith("```json")
    assert calls_in(deltas) == []


def test_a_call_that_the_model_chose_to_make() -> None:
    deltas = replayed(recorded("auto-call"), reader(READ))
    assert [(name, json.loads(text)) for name, text in calls_in(deltas)] == [
        ("read_file", {"path": "main.py"})
    ]
    assert text_in(deltas).strip() == ""
    opened = next(each for each in deltas if isinstance(each, CallOpened))
    assert opened.call_id


def test_an_answer_that_its_server_cannot_parse_ends_in_the_servers_words() -> None:
    with pytest.raises(EngineError, match="does not match the expected"):
        replayed(recorded("auto-broken"), reader(READ))


def test_a_call_by_schema_is_a_call() -> None:
    deltas = replayed(recorded("forced"), reader(READ, choice="required", forced=True))
    assert [(name, json.loads(text)) for name, text in calls_in(deltas)] == [
        ("read_file", {"path": "main.py"})
    ]
    assert text_in(deltas) == ""


# -- bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: str(path.stem))
def test_a_recording_reads_the_same_byte_by_byte(path: Path) -> None:
    data = path.read_bytes()
    assert events_of(data, [1] * len(data)) == events_of(data)


_payload = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), min_size=1).map(
    str.strip
)
_line = st.one_of(
    _payload.map(lambda text: f"data: {text}"),
    _payload.map(lambda text: f": {text}"),
    st.sampled_from(["", "event: message", "id: 7", "retry: 10", "data:{}"]),
)
_ends = st.sampled_from(["\n", "\r\n"])


@given(st.lists(_line), _ends, st.lists(st.integers(1, 30), max_size=40))
def test_events_are_the_same_however_the_bytes_are_cut(
    lines: list[str], end: str, sizes: list[int]
) -> None:
    data = "".join(line + end for line in lines).encode()
    wanted = [line[5:].strip().encode() for line in lines if line.startswith("data:")]
    assert events_of(data, sizes) == events_of(data) == wanted


# -- chunks ---------------------------------------------------------------------------------------

_said = st.lists(st.text())


@given(_said)
def test_the_text_is_all_that_was_said_in_its_order(texts: list[str]) -> None:
    deltas = read([*(delta(content=text) for text in texts), delta(reason="stop")])
    assert text_in(deltas) == "".join(texts)
    assert all(each.text for each in deltas if isinstance(each, TextDelta))


@given(st.lists(st.tuples(st.sampled_from(["content", "reasoning_content"]), st.text(min_size=1))))
def test_text_and_thoughts_keep_their_order(parts: list[tuple[str, str]]) -> None:
    deltas = read([*(delta(**{kind: text}) for kind, text in parts), delta(reason="stop")])
    kinds = {TextDelta: "content", ReasoningDelta: "reasoning_content"}
    said = [
        (kinds[type(each)], each.text)
        for each in deltas
        if isinstance(each, TextDelta | ReasoningDelta)
    ]
    assert said == parts


@given(st.lists(_said, min_size=1, max_size=4))
def test_arguments_are_all_that_was_said_call_by_call(calls: list[list[str]]) -> None:
    chunks = []
    for index, pieces in enumerate(calls):
        chunks.append(call("read_file", index=index, id=f"c{index}"))
        chunks += [call(None, piece, index=index) for piece in pieces]
    found = calls_in(read([*chunks, delta(reason="tool_calls")]))
    assert found == [("read_file", "".join(pieces)) for pieces in calls]


def test_a_server_that_names_the_call_in_every_piece_makes_one_call() -> None:
    pieces = ['{"path"', ': "a"}']
    chunks = [call("read_file", piece, id="c") for piece in pieces]
    assert calls_in(read([*chunks, delta(reason="tool_calls")])) == [("read_file", '{"path": "a"}')]


def test_a_server_that_numbers_every_call_nought_makes_as_many_calls_as_it_has_ids() -> None:
    """Ollama did."""
    chunks = [call("read_file", '{"path": "a"}', id="c1"), call("read_file", "{}", id="c2")]
    assert calls_in(read([*chunks, delta(reason="tool_calls")])) == [
        ("read_file", '{"path": "a"}'),
        ("read_file", "{}"),
    ]


def test_two_calls_in_one_chunk_are_two_calls() -> None:
    both = [
        {"index": at, "id": f"c{at}", "function": {"name": "read_file", "arguments": "{}"}}
        for at in range(2)
    ]
    assert len(calls_in(read([delta(tool_calls=both), delta(reason="tool_calls")]))) == 2


# -- custom tools ---------------------------------------------------------------------------------


def test_a_custom_call_is_opened_at_once_and_told_when_it_is_whole() -> None:
    using = reader(FREE)
    first = list(using.feed(json.dumps(call("free", '{"inp', id="c")).encode()))
    assert first == [CallOpened("free", custom=True, call_id="c")]
    assert list(using.feed(json.dumps(call(None, 'ut": "x"}')).encode())) == []
    assert next(iter(using.finish())) == CallText("x")


def test_what_follows_a_custom_call_comes_after_it() -> None:
    custom = call("free", '{"input": "x"}', id="c1")
    chunks = [custom, call("read_file", "{}", index=1, id="c2"), delta(reason="tool_calls")]
    assert calls_in(read(chunks)) == [("free", "x"), ("read_file", "{}")]


@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
def test_text_after_a_custom_call_comes_after_it(kind: str) -> None:
    custom = call("free", '{"input": "x"}', id="c1")
    deltas = read([custom, delta(**{kind: "And so on."}), delta(reason="stop")])
    assert [type(each) for each in deltas[:2]] == [CallOpened, CallText]


def test_a_custom_call_that_was_cut_off_is_told_as_far_as_it_went() -> None:
    deltas = read([call("free", '{"input": "x', id="c"), delta(reason="length")])
    assert calls_in(deltas) == [("free", '{"input": "x')]
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].reason == "length"


_words = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)


@given(_words, st.text(), st.text(), st.integers(1, 9))
def test_a_patch_is_well_formed_however_its_arguments_are_cut(
    path: str, old: str, new: str, size: int
) -> None:
    arguments = json.dumps({"path": path, "old": old, "new": new})
    pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    chunks = [call("apply_patch", id="c"), *(call(None, piece) for piece in pieces)]
    [(name, patch)] = calls_in(read([*chunks, delta(reason="tool_calls")]))
    assert name == "apply_patch"
    assert patches.problems(patch) == []


# -- calls by schema ------------------------------------------------------------------------------


def forced(*texts: str, reason: str = "stop", tools: Sequence[Tool] = (READ, FREE)) -> list[Delta]:
    using = reader(*tools, choice="required", forced=True)
    return read([*(delta(content=text) for text in texts), delta(reason=reason)], using)


def test_a_forced_call_of_a_custom_tool_is_told_as_its_text() -> None:
    deltas = forced('{"name": "free", ', '"arguments": {"input": "x"}}')
    assert deltas[:2] == [CallOpened("free", custom=True), CallText("x")]


def test_a_forced_call_that_was_cut_off_is_text() -> None:
    deltas = forced('{"name": "read_file", "argu', reason="length")
    assert deltas[0] == TextDelta('{"name": "read_file", "argu')
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].reason == "length"


def test_a_warm_up_of_a_forced_call_says_nothing() -> None:
    using = reader(READ, choice="required", forced=True, generate=False)
    chunks = [delta(content="{"), delta(reason="length"), usage(9, 1)]
    assert read(chunks, using) == [Finished("stop", Tokens(9, 0))]


# -- ends -----------------------------------------------------------------------------------------


def test_a_stream_is_complete_when_a_reason_was_given() -> None:
    using = reader()
    list(using.feed(json.dumps(delta(content="x")).encode()))
    assert not using.complete
    list(using.feed(json.dumps(delta(reason="stop")).encode()))
    assert using.complete


def test_usage_may_come_with_every_chunk() -> None:
    chunks = [{**delta(content="x"), "usage": usage(7, at)["usage"]} for at in (1, 2)]
    assert read([*chunks, {**delta(reason="stop"), "usage": None}])[-1] == Finished(
        "stop", Tokens(7, 2)
    )


@pytest.mark.parametrize(
    "extra",
    [{"error": None}, {"object": "x", "system_fingerprint": None}, {"usage": None}],
    ids=["error", "object", "usage"],
)
def test_what_a_chunk_has_beside_what_we_know_is_of_no_matter(extra: Chunk) -> None:
    assert read([{**delta(content="x"), **extra}, delta(reason="stop")])[0] == TextDelta("x")


def test_a_chunk_without_choices_says_nothing() -> None:
    assert read([{"choices": []}, {}, delta(reason="stop")])[:-1] == []


@pytest.mark.parametrize("error", [{"message": "no memory"}, "no memory", ["no memory"]])
def test_an_error_is_told_in_its_own_words(error: object) -> None:
    with pytest.raises(EngineError, match="no memory"):
        read([{"error": error}])


@given(st.binary(max_size=60))
def test_no_bytes_at_all_break_more_than_the_answer(data: bytes) -> None:
    with contextlib.suppress(EngineError):
        list(reader().feed(data))


# -- what it took so far --------------------------------------------------------------------------

words = st.lists(st.sampled_from([" a", " the", "return", "():", "  "]), min_size=8, max_size=80)


@given(words, st.lists(st.integers(1, 40), min_size=1), st.sampled_from(["content", "call"]))
def test_tokens_are_told_however_many_come_at_once(
    tokens: list[str], sizes: list[int], kind: str
) -> None:
    """As where they are drafted; and where a call is held back until it is whole."""
    reading, sent = reader(PATCH), 0
    for size in itertools.cycle(sizes):
        text = "".join(tokens[sent : sent + size])
        sent = min(sent + size, len(tokens))
        chunk = delta(content=text) if kind == "content" else call("apply_patch", text)
        list(reading.feed(json.dumps(chunk).encode()))
        assert sent / 2 <= reading.written <= 2 * sent
        if sent == len(tokens):
            return


def test_an_endpoint_that_counts_as_it_goes_is_believed() -> None:
    reading = reader()
    for number in range(1, 4):
        chunk = usage(70, 5 * number) | delta(content="one two three")
        list(reading.feed(json.dumps(chunk).encode()))
    assert (reading.read_so_far, reading.written) == (70, 15)


def test_a_warm_up_writes_nothing() -> None:
    reading = reader(generate=False)
    list(reading.feed(json.dumps(delta(content="x")).encode()))
    assert reading.written == 0
