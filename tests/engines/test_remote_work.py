"""Work as it goes over a link: every kind of it comes out as it went in."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from vivace.conversation.deltas import CallOpened, CallText, ReasoningDelta, TextDelta
from vivace.conversation.so_far import SoFar
from vivace.engines.base import Card, Chat, Fill, Sampling, Tally, Thoughts, Work
from vivace.engines.remote_work import (
    RemoteTrace,
    decode_cards,
    decode_work,
    encode_cards,
    encode_work,
    failure_of,
    how_it_broke,
)
from vivace.errors import (
    CannotContinue,
    EngineAbsent,
    EngineBusy,
    EngineDied,
    EngineError,
    EngineFull,
    EngineOverflow,
    EngineRefused,
    EngineSilent,
    LinkError,
)
from vivace.link.frames import Run, decode_to_node, encode
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
    Message,
    NamespaceTool,
    OutputText,
    Reasoning,
    ReasoningText,
    Refusal,
    SummaryText,
)
from vivace.protocol.requests import (
    AllowedTools,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedTool,
    OtherFile,
    PlainFormat,
    Prediction,
    Toolbox,
)

FUNCTION = FunctionTool("f", "does", {"type": "object", "maximum": 2**63, "x": None}, True)
CUSTOM = CustomTool("c", None, Grammar("grammar", "lark", "start: /x/"))
ITEMS: tuple[Item, ...] = (
    Message(role="user", content="plain"),
    Message(role="user", content=[InputText("t"), InputImage("data:x"), InputFile("f", "data")]),
    Message(id="m", role="assistant", content=[OutputText("t", [{"a": 1}]), Refusal("no")]),
    Message(role="assistant", content="x", phase="commentary"),
    Reasoning(summary=[SummaryText("s")], content=[ReasoningText("r")], encrypted_content=None),
    FunctionCall(call_id="1", name="f", arguments="{}", namespace="n"),
    FunctionCallOutput(call_id="1", output=[InputText("t")]),
    CustomToolCall(call_id="2", name="c", input="x"),
    CustomToolCallOutput(call_id="2", output="y"),
    Compaction(encrypted_content="vivace1.x"),
    AdditionalTools(tools=[FUNCTION, NamespaceTool("n", [FUNCTION, CUSTOM])]),
)
HI = (Message(role="user", content="hi"),)
SAID = SoFar((ReasoningDelta("hm", (1,)), TextDelta("x"), CallOpened("f"), CallText("{")), 4)


def over_a_link(work: Work, incarnation: str = "i") -> Work:
    raw, items = encode_work(work, incarnation)
    sent = Run(1, "r", work.id, 1, work.attempt, "e", work.owner, 1.0, raw, items)
    sent = msgspec.structs.replace(sent, conversation=work.conversation)
    [came] = decode_to_node(encode([sent]))
    assert isinstance(came, Run)
    return decode_work(came, came.items, {"known": "its notes"}.get)


@pytest.mark.parametrize(
    "prompt",
    [
        Chat(items=ITEMS, instructions="be kind", effort="high", parallel_tool_calls=False),
        Chat(items=()),
        *(
            Chat(items=HI, toolbox=Toolbox((FUNCTION, CUSTOM)), tool_choice=choice)
            for choice in (
                *("none", "auto", "required"),
                NamedTool("function", "f"),
                AllowedTools(tools=[NamedTool("custom", "c")], mode="required"),
            )
        ),
        *(
            Chat(items=HI, format=each)
            for each in (
                PlainFormat(),
                JsonObjectFormat(),
                JsonSchemaFormat(name="n", schema={"type": "object"}, strict=True),
            )
        ),
        Chat(items=HI, prediction=Prediction("x", leniency=1.5)),
        Chat(items=HI, prediction=Prediction([InputText("x")])),
        Fill(prefix="a", suffix="b", typed="c", starts_with="d", files=(OtherFile("p", "t"),)),
        Fill(prefix=""),
    ],
)
def test_every_prompt_comes_out_as_it_went_in(prompt: Chat | Fill) -> None:
    work = Work(id="resp_1", model="m", prompt=prompt)
    assert over_a_link(work) == work


def test_all_the_rest_does_too() -> None:
    work = Work(
        id="resp_1",
        model="m",
        prompt=Chat(items=HI),
        sampling=Sampling(
            temperature=0.5,
            top_p=0.9,
            presence_penalty=-1.0,
            frequency_penalty=1.0,
            max_tokens=5,
            stop=("a", "b"),
            seed=2**63,
        ),
        generate=False,
        parent_id="resp_0",
        priority=3,
        thoughts=Thoughts("hm"),
        said=SAID,
        attempt=2,
        owner="o",
        conversation="o/c",
        traceparent="00-1-2-01",
    )
    assert over_a_link(work) == work


def test_an_engines_notes_are_found_by_the_run_and_only_where_it_was() -> None:
    said = msgspec.structs.replace(SAID, trace=RemoteTrace("i", "known"))
    thoughts = Thoughts("hm", RemoteTrace("i", "known"))
    work = Work(id="t", model="m", prompt=Chat(items=HI), said=said, thoughts=thoughts)
    here, elsewhere = over_a_link(work, "i"), over_a_link(work, "another")
    assert here.said is not None
    assert here.thoughts is not None
    assert here.said.trace == here.thoughts.trace == "its notes"
    assert elsewhere.said is not None
    assert elsewhere.said.trace is None


def test_work_with_fields_of_a_newer_version_is_read() -> None:
    work = Work(id="t", model="m", prompt=Chat(items=HI))
    raw, _ = encode_work(work, "i")
    newer = Raw(msgspec.msgpack.encode([*msgspec.msgpack.decode(raw), "new"]))
    run = Run(1, "r", "t", 1, 1, "e", "", 1.0, newer)
    assert decode_work(run, HI, lambda _: None) == work


@pytest.mark.parametrize(
    "raw", [b"\xc0", b"\x90", b"\x91" * 900 + b"\xc0", msgspec.msgpack.encode([None] * 10)]
)
def test_other_work_is_refused(raw: bytes) -> None:
    with pytest.raises((LinkError, msgspec.DecodeError)):
        decode_work(Run(1, "r", "t", 1, 1, "e", "", 1.0, Raw(raw)), HI, lambda _: None)


def test_cards_come_out_as_they_went_in_and_others_are_refused() -> None:
    cards = (Card("m", 10, "me", True, ("low", "high"), "low", True), Card("n", 1))
    assert decode_cards(encode_cards(cards)) == cards
    with pytest.raises(LinkError):
        decode_cards(b"\x91\xc0")


@pytest.mark.parametrize(
    "kind",
    [
        *(EngineError, EngineRefused, EngineOverflow, EngineBusy, EngineDied, EngineAbsent),
        *(EngineSilent, CannotContinue),
    ],
)
def test_a_failure_is_the_same_on_both_sides(kind: type[EngineError]) -> None:
    error = kind("words", retry_after=1.5, blame="always")
    came = failure_of(how_it_broke(error, Tally(input=1)))
    assert type(came) is kind
    assert (str(came), came.retry_after, came.blame) == ("words", 1.5, "always")


def test_a_full_queue_is_the_same_on_both_sides_and_no_news_to_an_older_gateway() -> None:
    broke = how_it_broke(EngineFull("words", code="queue_full", seconds=2.5), Tally())
    came = failure_of(broke)
    assert isinstance(came, EngineFull)
    assert (str(came), came.code, came.seconds, came.blame) == ("words", "queue_full", 2.5, "never")
    assert broke.kind == "EngineBusy"
