"""The older front doors: what is asked there, and how a turn is told in their words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.response import open_response
from vivace.conversation.turn import Turn
from vivace.errors import InvalidRequest
from vivace.protocol.chat import (
    ChatChunks,
    CompletionChunks,
    chat_completion,
    decode_chat,
    decode_completion,
    text_completion,
)
from vivace.protocol.events import Response, ResponseEvent
from vivace.protocol.items import (
    CustomTool,
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Grammar,
    InputImage,
    InputText,
    Message,
)
from vivace.protocol.requests import (
    CreateBody,
    CreateResponse,
    Fill,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedTool,
    OtherFile,
    PlainFormat,
    TextFormat,
)


def chat(**body: Any) -> CreateResponse:
    messages = [{"role": "user", "content": "hi"}]
    return decode_chat(json.dumps({"messages": messages} | body).encode())[1]


def completion(**body: Any) -> CreateResponse:
    return decode_completion(json.dumps({"prompt": "x"} | body).encode())[1]


# -- requests -------------------------------------------------------------------------------------


def test_messages_become_items_in_their_order() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    custom = {"id": "d", "type": "custom", "custom": {"name": "p", "input": "x"}}
    asked = chat(
        messages=[
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "a"}]},
            {"role": "assistant", "content": "calling", "tool_calls": [call, custom]},
            {"role": "tool", "tool_call_id": "c", "content": "ok"},
        ]
    )
    assert asked.items == (
        Message(role="system", content="be brief"),
        Message(role="user", content="a"),
        Message(role="assistant", content="calling"),
        FunctionCall(call_id="c", name="f", arguments="{}"),
        CustomToolCall(call_id="d", name="p", input="x"),
        FunctionCallOutput(call_id="c", output="ok"),
    )


def test_a_message_of_calls_alone_says_nothing() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    asked = chat(messages=[{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert [type(item) for item in asked.items] == [FunctionCall]


def test_an_image_stays_beside_its_text() -> None:
    image = {"type": "image_url", "image_url": {"url": "http://x"}}
    content = [{"type": "text", "text": "look"}, image]
    (message,) = chat(messages=[{"role": "user", "content": content}]).items
    assert isinstance(message, Message)
    assert message.content == [InputText("look"), InputImage("http://x")]


def test_settings_are_carried_over_and_nothing_is_stored() -> None:
    asked = chat(model="m", temperature=0.5, stop="END", max_tokens=5, seed=1, metadata={"a": "b"})
    body = asked.body
    assert (body.model, body.temperature, body.stop, body.seed) == ("m", 0.5, ["END"], 1)
    assert (body.max_output_tokens, body.metadata) == (5, {"a": "b"})
    assert not asked.stored


def test_the_newer_name_of_the_length_limit_wins() -> None:
    assert chat(max_tokens=5, max_completion_tokens=7).body.max_output_tokens == 7


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (None, PlainFormat()),
        ({"type": "text"}, PlainFormat()),
        ({"type": "json_object"}, JsonObjectFormat()),
        (
            {"type": "json_schema", "json_schema": {"name": "s", "schema": {}, "strict": True}},
            JsonSchemaFormat(name="s", schema={}, strict=True),
        ),
    ],
)
def test_the_format_is_carried_over(sent: object, meant: TextFormat) -> None:
    text = chat(response_format=sent).body.text
    assert text is not None
    assert text.format == meant


def test_tools_lose_their_extra_level() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}}
    asked = chat(
        tools=[
            {"type": "function", "function": {"name": "f", "parameters": {}}},
            {"type": "custom", "custom": {"name": "p", "format": grammar}},
        ],
        tool_choice={"type": "function", "function": {"name": "f"}},
    )
    assert asked.toolbox.tools == (
        FunctionTool("f", None, {}),
        CustomTool("p", None, Grammar("grammar", "lark", "x")),
    )
    assert asked.tool_choice == NamedTool("function", "f")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"stop": ["."] * 65}, "stop"),
        ({"stop": "." * 257}, "stop"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages"),
        ({"messages": [{"role": "owl", "content": "x"}]}, "messages[0].role"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"tool_choice": {"type": "custom"}}, "tool_choice.custom"),
        ({"temperature": 3}, "temperature"),
    ],
)
def test_what_chat_cannot_do_is_refused_by_name(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        chat(**body)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "body",
    [
        {"tools": [{"type": "function"}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "type": "function"}]}]},
    ],
)
def test_a_tool_without_its_body_is_refused_rather_than_forgotten(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        chat(**body)


def test_a_completion_is_text_to_be_continued_or_a_gap_to_be_filled() -> None:
    assert completion(prompt="def f").fill == Fill(prefix="def f")
    assert completion(prompt=["a"], suffix="b").fill == Fill(prefix="a", suffix="b")


def test_a_completion_says_all_that_is_known_of_its_gap() -> None:
    file = {"path": "n.py", "text": "x"}
    known = {"suffix": "b", "typed": "c", "starts_with": "d", "path": "m.py", "repo": "r"}
    asked = completion(prompt="a", files=[file], prompt_cache_key="work/m.py", **known)
    assert asked.fill == Fill(prefix="a", files=(OtherFile(**file),), **known)
    assert asked.body.prompt_cache_key == "work/m.py"


@pytest.mark.parametrize("nothing", [None, 0, False])
def test_asking_for_no_log_probabilities_is_no_question(nothing: object) -> None:
    assert chat(logprobs=nothing) == chat()
    assert completion(prompt="a", logprobs=nothing).fill == Fill(prefix="a")
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt="a", logprobs=5)
    assert caught.value.param == "logprobs"


def test_only_one_prompt_is_completed_at_a_time() -> None:
    with pytest.raises(InvalidRequest) as caught:
        completion(prompt=["a", "b"])
    assert caught.value.param == "prompt"


# -- answers --------------------------------------------------------------------------------------

SOME = Tokens(input=5, output=3, cached=2, reasoning=1)


def play(*deltas: Delta) -> tuple[Response, list[ResponseEvent]]:
    turn = Turn(open_response(CreateResponse(CreateBody()), "resp_1", "m", 9))
    events = turn.begin()
    for delta in deltas:
        events += turn.feed(delta, 10)
    return turn.response, events


def chunks(form: ChatChunks | CompletionChunks, events: list[ResponseEvent]) -> list[Any]:
    stream = b"".join(form(event) for event in events).decode()
    return [json.loads(each.removeprefix("data: ")) for each in stream.split("\n\n") if each]


def gather(told: list[Any]) -> dict[str, Any]:
    """The message a client puts together from the chunks of a stream."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": []}
    for chunk in told:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            message["content"] += delta.get("content") or ""
            message["reasoning_content"] += delta.get("reasoning_content", "")
            for piece in delta.get("tool_calls", ()):
                calls = message["tool_calls"]
                if piece["index"] == len(calls):
                    calls.append({key: value for key, value in piece.items() if key != "index"})
                elif "function" in piece:
                    calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
                else:
                    calls[piece["index"]]["custom"]["input"] += piece["custom"]["input"]
    return message


deltas = st.lists(
    st.one_of(
        st.builds(TextDelta, st.text(max_size=5)),
        st.builds(ReasoningDelta, st.text(max_size=5)),
        st.builds(CallOpened, st.sampled_from("fg"), st.booleans()),
        st.builds(CallText, st.text(max_size=5)),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(deltas, st.sampled_from(["stop", "length"]))
def test_the_stream_and_the_whole_answer_say_the_same(said: list[Delta], reason: Any) -> None:
    response, events = play(*said, Finished(reason, SOME))
    whole = chat_completion(response)["choices"][0]
    told = chunks(ChatChunks(usage=False), events)
    streamed = gather(told)
    assert streamed["content"] == (whole["message"]["content"] or "")
    assert streamed["reasoning_content"] == whole["message"].get("reasoning_content", "")
    assert streamed["tool_calls"] == whole["message"].get("tool_calls", [])
    assert told[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([TextDelta("x"), Finished("stop", SOME)], "stop"),
        ([TextDelta("x"), Finished("length", SOME)], "length"),
        ([CallOpened("f"), CallText("{}"), Finished("stop", SOME)], "tool_calls"),
    ],
)
def test_the_reason_to_finish_is_told(said: list[Delta], reason: str) -> None:
    response, _ = play(*said)
    assert chat_completion(response)["choices"][0]["finish_reason"] == reason


def test_chunks_name_the_stream_they_belong_to() -> None:
    _, events = play(TextDelta("x"), Finished("stop", SOME))
    told = chunks(ChatChunks(usage=False), events)
    assert {(each["id"], each["object"], each["created"], each["model"]) for each in told} == {
        ("chatcmpl-1", "chat.completion.chunk", 9, "m")
    }
    assert told[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_usage_comes_last_and_only_if_it_was_asked_for() -> None:
    response, events = play(TextDelta("x"), Finished("stop", SOME))
    last = chunks(ChatChunks(usage=True), events)[-1]
    assert last["choices"] == []
    assert last["usage"] == chat_completion(response)["usage"]
    assert last["usage"]["total_tokens"] == 8
    assert all("usage" not in each for each in chunks(ChatChunks(usage=False), events))


def test_a_failure_is_told_in_the_stream() -> None:
    turn = Turn(open_response(CreateResponse(CreateBody()), "resp_1", "m", 9))
    events = [*turn.begin(), *turn.fail("server_error", "gone", 10)]
    last = chunks(ChatChunks(usage=True), events)[-1]
    assert last["error"] == {"code": "server_error", "message": "gone"}


def test_a_completion_is_told_as_text() -> None:
    response, events = play(TextDelta("a"), TextDelta("b"), Finished("stop", SOME))
    told = chunks(CompletionChunks(usage=True), events)
    text = "".join(choice["text"] for each in told for choice in each["choices"])
    assert text == text_completion(response)["choices"][0]["text"] == "ab"
    assert told[-2]["choices"][0]["finish_reason"] == "stop"
    assert told[0]["id"] == text_completion(response)["id"] == "cmpl-1"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [({}, False), ({"stream_options": {"include_usage": True}}, True)],
)
def test_the_wish_for_usage_is_read(body: dict[str, Any], wanted: bool) -> None:
    request, _ = decode_completion(json.dumps({"prompt": "x"} | body).encode())
    assert request.wants_usage is wanted
