"""The Messages API: what is asked there, and how a turn is told in its words."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.messages_api import events_of, gather
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
from vivace.errors import (
    Forbidden,
    InvalidRequest,
    NotFound,
    RequestError,
    ServerFault,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from vivace.protocol.codec import encode
from vivace.protocol.events import Response, ResponseEvent, ResponseProblem
from vivace.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Message,
    Reasoning,
    ReasoningText,
    text_of,
)
from vivace.protocol.messages_api.errors import error_body, failure
from vivace.protocol.messages_api.request import Asked, decode_messages
from vivace.protocol.messages_api.stream import MessageEvents, message
from vivace.protocol.requests import (
    CreateBody,
    CreateResponse,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedTool,
    PlainFormat,
    TextConfig,
    TextFormat,
)

HI = {"role": "user", "content": "hi"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA}
BILLED = "x-anthropic-billing-header: cc_version=2.1; cch=0a1b2;"
BASH = {"type": "bash_20250124", "name": "bash"}
SEARCH = {"type": "web_search_20260209", "name": "web_search", "max_uses": 8}


def asked(**body: Any) -> Asked:
    return decode_messages(json.dumps({"messages": [HI]} | body))


def create(**body: Any) -> CreateResponse:
    return asked(**body).create


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": content} | more


USE = {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Oslo"}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


# -- messages -------------------------------------------------------------------------------------


def test_messages_become_items_in_their_order() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    made = create(
        messages=[
            user(text("one"), text("two")),
            assistant(thinking, text("Let me see."), USE),
            user(result("sun"), text("go on")),
        ]
    )
    assert made.items == (
        Message(role="user", content="one\ntwo"),
        Reasoning(content=[ReasoningText("Hm.")]),
        Message(role="assistant", content="Let me see."),
        FunctionCall(call_id="t", name="weather", arguments='{"city": "Oslo"}'),
        FunctionCallOutput(call_id="t", output="sun"),
        Message(role="user", content="go on"),
    )


def test_two_turns_of_the_user_follow_each_other() -> None:
    said = Message(role="user", content="hi")
    assert create(messages=[HI, HI]).items == (said, said)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("sun", "sun"),
        (None, ""),
        ([text("sun"), text("rain")], "sun\nrain"),
        ([text("sun"), {"type": "hologram"}], "sun"),
        ([{"type": "tool_reference", "tool_name": "x"}], "The tool x can be called now."),
        ([IMAGE], "[An image was here. It is left out: this model reads text only.]"),
        (
            [{"type": "search_result", "title": "T", "source": "s", "content": [text("sun")]}],
            "T (s)\nsun",
        ),
        (
            [{"type": "document", "source": {"type": "text", "data": "sun"}}],
            "sun",
        ),
        (
            [{"type": "document", "source": {"type": "content", "content": [text("sun")]}}],
            "sun",
        ),
        (
            [{"type": "document", "source": {"type": "base64", "data": "AA=="}}],
            "[A document was here. It is left out: this model reads text only.]",
        ),
    ],
)
def test_a_tools_result_is_read_as_text(sent: Any, read: str) -> None:
    *_, output = create(messages=[HI, assistant(USE), user(result(sent))]).items
    assert output == FunctionCallOutput(call_id="t", output=read)


def test_what_the_system_says_in_between_stands_in_the_turn_before_it() -> None:
    def system(words: Any) -> dict[str, Any]:
        return {"role": "system", "content": words}

    made = create(
        messages=[
            system("first"),
            HI,
            system([text("It is Monday.")]),
            assistant(USE),
            user(result("sun")),
            system("9 tokens left"),
            assistant(text("Sunny.")),
            system("It is Tuesday."),
        ]
    )
    assert made.items == (
        Message(role="system", content="first"),
        Message(role="user", content="<system-reminder>\nIt is Monday.\n</system-reminder>\nhi"),
        FunctionCall(call_id="t", name="weather", arguments='{"city": "Oslo"}'),
        FunctionCallOutput(
            call_id="t", output="sun\n\n<system-reminder>\n9 tokens left\n</system-reminder>"
        ),
        Message(role="assistant", content="Sunny."),
        Message(role="user", content="<system-reminder>\nIt is Tuesday.\n</system-reminder>"),
    )


def test_of_several_reminders_the_newest_stands_first_before_what_a_user_says() -> None:
    reminders = [{"role": "system", "content": words} for words in ("one", "two", "three")]
    one, two, three = (
        f"<system-reminder>\n{each['content']}\n</system-reminder>" for each in reminders
    )
    said = create(messages=[HI, *reminders]).items
    assert said == (Message(role="user", content=f"{three}\n{two}\n{one}\nhi"),)
    *_, output = create(messages=[HI, assistant(USE), user(result("sun")), *reminders]).items
    assert output == FunctionCallOutput(call_id="t", output=f"sun\n\n{one}\n\n{two}\n\n{three}")
    *_, alone = create(messages=[HI, assistant(text("Sunny.")), *reminders]).items
    assert alone == Message(role="user", content=f"{three}\n{two}\n{one}")


@pytest.mark.parametrize(
    ("content", "read"),
    [("no such city", "Error: no such city"), ("", "Error"), ("Error: 7", "Error: 7")],
)
def test_the_model_learns_that_a_tool_failed(content: str, read: str) -> None:
    *_, output = create(messages=[HI, assistant(USE), user(result(content, is_error=True))]).items
    assert output == FunctionCallOutput(call_id="t", output=read)


def test_an_image_of_the_past_is_a_note_and_a_new_one_is_refused() -> None:
    past, _ = create(messages=[user(text("look"), IMAGE), HI]).items
    assert isinstance(past, Message)
    assert "An image was here" in text_of(past.content)
    with pytest.raises(InvalidRequest) as caught:
        create(messages=[HI, user(text("look"), IMAGE)])
    assert caught.value.param == "messages[1].content[1]"


def test_what_is_not_known_is_passed_over() -> None:
    made = create(
        messages=[
            {**HI, "content": [text("hi") | {"cache_control": {"type": "ephemeral"}}], "new": 1},
            assistant(
                {"type": "redacted_thinking", "data": "x"},
                {"type": "thinking", "thinking": "", "signature": "of another server"},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                text(""),
                text("Found."),
            ),
            user(text("more"), {"type": "hologram", "data": [[[]]]}),
        ],
        context_management={"edits": [{"type": "clear_thinking_20251015"}]},
        metadata={"user_id": "u"},
        mcp_servers=[],
        top_k=5,
        service_tier="auto",
    )
    assert made.items == (
        Message(role="user", content="hi"),
        Message(role="assistant", content="Found."),
        Message(role="user", content="more"),
    )


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "user", "content": ""}],
        [user()],
        [user({"type": "hologram"})],
        [HI, assistant(text("{"))],
        [HI, {"role": "assistant", "content": "{"}],
        [HI, assistant(USE)],
    ],
)
def test_nothing_to_answer_is_refused(messages: list[Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        create(messages=messages)
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [user({"type": "text"})]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [text("a"), "b"]}]}, "messages[0].content[1]"),
        ({"messages": [assistant(USE | {"input": "x"}), HI]}, "messages[0].content[0].input"),
        (
            {"messages": [user(result([{"type": "text", "text": 1}]))]},
            "messages[0].content[0].content[0].text",
        ),
        ({"system": 7}, "system"),
        ({"system": [{"type": "text"}]}, "system[0].text"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"tools": [{"name": "f", "input_schema": []}]}, "tools[0].input_schema"),
        ({"tools": [WEATHER], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
        ({"stop_sequences": "END"}, "stop_sequences"),
    ],
)
def test_what_is_wrong_is_named(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        create(**body)
    assert caught.value.param == param


def test_deep_nesting_is_refused() -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    for body in (
        {"messages": [assistant(USE | {"input": deep}), HI]},
        {"tools": [WEATHER | {"input_schema": deep}]},
        {"output_config": {"format": {"type": "json_schema", "schema": deep}}},
    ):
        with pytest.raises(InvalidRequest):
            create(**body)
    with pytest.raises(InvalidRequest):
        decode_messages('{"messages": ' + "[" * 100_000)


# -- system and settings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system",
    [
        f"{BILLED}\nBe brief.\n\nBe kind.",
        [
            text(BILLED),
            text("Be brief."),
            text("Be kind."),
        ],
        "Be brief.\n\nBe kind.",
    ],
)
def test_the_system_prompt_is_the_same_whatever_it_is_billed_by(system: Any) -> None:
    assert create(system=system).body.instructions == "Be brief.\n\nBe kind."


def test_a_word_about_billing_elsewhere_stays() -> None:
    words = "Never say x-anthropic-billing-header: it is secret."
    assert create(system=words).body.instructions == words


@pytest.mark.parametrize(
    ("body", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"output_config": {"effort": "medium"}}, "medium"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "xhigh"),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, "none"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 16_000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 32_000}}, "high"),
    ],
)
def test_effort_is_read_from_wherever_it_stands(body: dict[str, Any], effort: str | None) -> None:
    reasoning = create(**body).body.reasoning
    assert (reasoning.effort if reasoning else None) == effort


def test_settings_are_carried_over_and_nothing_is_stored() -> None:
    made = decode_messages(
        json.dumps(
            {
                "model": "m",
                "messages": [HI],
                "max_tokens": 9,
                "temperature": 0.5,
                "top_p": 0.9,
                "stop_sequences": ["END"],
            }
        ),
        conversation="session",
    ).create
    body = made.body
    assert (body.model, body.max_output_tokens, body.stop) == ("m", 9, ["END"])
    assert (body.temperature, body.top_p, body.prompt_cache_key) == (0.5, 0.9, "session")
    assert not made.stored


def test_tools_that_the_client_runs_are_offered_and_others_are_not() -> None:
    made = create(
        tools=[WEATHER | {"cache_control": {}}, SEARCH, {"type": "bash_20250124", "name": "bash"}]
    )
    assert made.toolbox.tools == (FunctionTool("weather", "Tells it.", SCHEMA),)


def test_a_tool_that_is_to_be_searched_for_is_offered_when_it_was_found() -> None:
    tools = [{"name": name, "input_schema": SCHEMA, "defer_loading": name != "c"} for name in "abc"]
    assert [tool.name for tool in create(tools=tools).toolbox.tools] == ["c"]
    found = [HI, assistant(USE), user(result([{"type": "tool_reference", "tool_name": "b"}]))]
    made = create(tools=tools, messages=found)
    assert [tool.name for tool in made.toolbox.tools] == ["c", "b"]


@pytest.mark.parametrize(
    ("tools", "choice", "meant"),
    [
        ([WEATHER], None, "auto"),
        ([WEATHER], {"type": "auto"}, "auto"),
        ([WEATHER], {"type": "any"}, "required"),
        ([WEATHER], {"type": "none"}, "none"),
        ([WEATHER], {"type": "tool", "name": "weather"}, NamedTool("function", "weather")),
        ([WEATHER, SEARCH], {"type": "tool", "name": "web_search"}, "auto"),
        ([SEARCH], {"type": "any"}, "auto"),
        ([WEATHER], {"type": "something new"}, "auto"),
    ],
)
def test_the_choice_of_tools_is_kept_as_far_as_there_are_any(
    tools: list[Any], choice: Any, meant: Any
) -> None:
    assert create(tools=tools, tool_choice=choice).tool_choice == meant


def test_one_call_at_a_time_can_be_asked_for() -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert create(tools=[WEATHER], tool_choice=choice).body.parallel_tool_calls is False
    assert create(tools=[WEATHER]).body.parallel_tool_calls is None


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        ({}, PlainFormat()),
        ({"output_config": {"effort": "low"}}, PlainFormat()),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
            JsonSchemaFormat(name="answer", schema=SCHEMA, strict=True),
        ),
        (
            {"output_format": {"type": "json_schema", "schema": SCHEMA}},
            JsonSchemaFormat(name="answer", schema=SCHEMA, strict=True),
        ),
        ({"output_format": {"type": "json_schema"}}, JsonObjectFormat()),
    ],
)
def test_a_form_of_the_answer_is_asked_for(body: dict[str, Any], meant: TextFormat) -> None:
    assert create(**body).body.text == TextConfig(meant)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (InvalidRequest("no"), "invalid_request_error"),
        (Unauthorized("no"), "authentication_error"),
        (Forbidden("no"), "permission_error"),
        (NotFound("no"), "not_found_error"),
        (TooLarge("no"), "request_too_large"),
        (TooManyRequests("no"), "rate_limit_error"),
        (ServerFault("no"), "api_error"),
        (Unavailable("no"), "overloaded_error"),
    ],
)
def test_errors_have_the_type_that_clients_know(error: RequestError, kind: str) -> None:
    assert json.loads(error_body(error, "req_1")) == {
        "type": "error",
        "error": {"type": kind, "message": "no"},
        "request_id": "req_1",
    }


def test_an_error_names_the_field_in_the_clients_own_words() -> None:
    known = asked(messages=[HI, user(text("a"), result())])
    error = InvalidRequest("No call found.", param="input[2].call_id")
    said = json.loads(error_body(known.explain(error), ""))["error"]["message"]
    assert said == "messages[1].content[1].tool_use_id: No call found."


# -- answers --------------------------------------------------------------------------------------

SOME = Tokens(input=5, output=3, cached=2, reasoning=1)


def opened() -> Turn:
    return Turn(open_response(CreateResponse(CreateBody()), "resp_1", "m", 9))


def play(*deltas: Delta) -> tuple[Response, list[ResponseEvent]]:
    turn = opened()
    events = turn.begin()
    for delta in deltas:
        events += turn.feed(delta, 10)
    return turn.response, events


def told(events: list[ResponseEvent], **options: bool) -> list[dict[str, Any]]:
    form = MessageEvents(7, **options)
    return events_of(b"".join(form(event) for event in events).decode())


arguments = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=3)


@st.composite
def calls(draw: st.DrawFn) -> list[Delta]:
    """A call whose arguments come in pieces, cut anywhere."""
    whole = json.dumps(draw(arguments), ensure_ascii=draw(st.booleans()))
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    ends = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(ends)]
    return [CallOpened(draw(st.sampled_from("fg"))), *(CallText(piece) for piece in pieces)]


deltas = st.lists(
    st.one_of(
        st.builds(TextDelta, st.text(max_size=5)).map(lambda delta: [delta]),
        st.builds(ReasoningDelta, st.text(max_size=5)).map(lambda delta: [delta]),
        calls(),
        st.just([CallOpened("f")]),
        st.just([CallOpened("p", custom=True), CallText("free text")]),
    ),
    max_size=8,
).map(lambda parts: [delta for part in parts for delta in part])


@given(deltas, st.booleans())
def test_the_stream_is_well_formed_and_says_what_the_whole_answer_says(
    said: list[Delta], omits: bool
) -> None:
    response, events = play(*said, Finished("stop", SOME))
    whole = json.loads(encode(message(response, omits_thoughts=omits)))
    assert gather(told(events, omits_thoughts=omits)) == whole


@given(deltas, st.integers(0, 12), st.sampled_from(["length", "cancel", "interrupt"]))
def test_an_answer_that_is_cut_off_anywhere_still_ends(
    said: list[Delta], place: int, how: str
) -> None:
    turn = opened()
    events = turn.begin()
    for delta in said[:place]:
        events += turn.feed(delta, 10)
    if how == "length":
        events += turn.feed(Finished("length", SOME), 10)
    else:
        events += turn.cancel(10) if how == "cancel" else turn.interrupt(10)
    kinds = [event["type"] for event in told(events)]
    assert kinds.count("content_block_start") == kinds.count("content_block_stop")
    assert kinds[-2:] == ["message_delta", "message_stop"]


@given(deltas, st.booleans())
def test_an_answer_that_is_sent_back_is_read_as_it_was_written(
    said: list[Delta], omits: bool
) -> None:
    response, _ = play(*said, Finished("stop", SOME))
    back = json.loads(encode(message(response, omits_thoughts=omits)))
    read = create(messages=[HI, {"role": "assistant", "content": back["content"]}, HI]).items[1:-1]
    assert [_meaning(item) for item in read] == [
        meaning for item in response.output if (meaning := _meaning(item)) is not None
    ]


def _meaning(item: object) -> object:
    match item:
        case Message():
            return text_of(item.content) or None
        case Reasoning():
            return [text_of(item.content)] if item.content and text_of(item.content) else None
        case FunctionCall():
            return item.call_id, item.name, json.loads(item.arguments or "{}")
    return None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([TextDelta("x"), Finished("stop", SOME)], "end_turn"),
        ([TextDelta("x"), Finished("length", SOME)], "max_tokens"),
        ([CallOpened("f"), CallText("{}"), Finished("stop", SOME)], "tool_use"),
        ([CallOpened("f"), CallText("{"), Finished("length", SOME)], "max_tokens"),
        ([Finished("stop", SOME)], "end_turn"),
    ],
)
def test_the_reason_to_stop_is_told(said: list[Delta], reason: str) -> None:
    response, events = play(*said)
    assert message(response).stop_reason == reason
    [delta] = [event["delta"] for event in told(events) if event["type"] == "message_delta"]
    assert delta == {"stop_reason": reason, "stop_sequence": None}


def test_the_length_of_the_prompt_is_guessed_first_and_then_told() -> None:
    _, events = play(TextDelta("x"), Finished("stop", SOME))
    first, *_, delta, _ = told(events)
    assert first["message"]["usage"]["input_tokens"] == 7
    assert delta["usage"] == {
        "input_tokens": 3,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 2,
        "output_tokens": 3,
    }


def test_a_call_that_was_cut_off_is_not_in_the_whole_message() -> None:
    response, _ = play(CallOpened("f"), CallText('{"a'), Finished("length", SOME))
    assert message(response).content == []


def test_a_call_that_the_model_wrote_wrong_is_left_to_its_tool() -> None:
    response, _ = play(CallOpened("f"), CallText("[1"), Finished("stop", SOME))
    [block] = json.loads(encode(message(response)))["content"]
    assert (block["name"], block["input"]) == ("f", {})


def test_a_failure_ends_the_stream_as_an_error() -> None:
    turn = opened()
    events = [*turn.begin(), *turn.feed(TextDelta("x"), 9), *turn.fail("engine_died", "gone", 10)]
    *_, last = told(events)
    assert last == {"type": "error", "error": {"type": "overloaded_error", "message": "gone"}}


def test_an_answer_that_is_steered_is_one_message() -> None:
    first, second = opened(), opened()
    events = [*first.begin(), *first.feed(TextDelta("a"), 9), *first.steer(10)]
    events += [*second.begin(), *second.feed(TextDelta("b"), 9)]
    events += second.feed(Finished("stop", SOME), 10)
    made = gather(told(events))
    assert [block["text"] for block in made["content"]] == ["a", "b"]
    assert made["stop_reason"] == "end_turn"


# -- whatever is sent -----------------------------------------------------------------------------

WORDS = st.sampled_from(["user", "assistant", "system", "text", "t", "weather", "", "any", "tool"])
KINDS = st.sampled_from(
    ["text", "thinking", "tool_use", "tool_result", "image", "document", "search_result", "new"]
)
FIELDS = st.sampled_from(
    ["text", "thinking", "signature", "id", "name", "input", "tool_use_id", "content", "source"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(FIELDS, inner, max_size=4)
        | st.builds(
            lambda kind, fields: {"type": kind, **fields},
            KINDS,
            st.dictionaries(FIELDS, inner, max_size=4),
        )
    ),
    max_leaves=12,
)
some_message = st.fixed_dictionaries({"role": WORDS, "content": anything})
body = st.fixed_dictionaries(
    {"messages": st.lists(some_message, max_size=4) | anything},
    optional=dict.fromkeys(
        ("system", "tools", "tool_choice", "thinking", "output_config", "max_tokens"), anything
    ),
)


@given(body)
def test_whatever_is_sent_is_read_or_refused(sent: dict[str, Any]) -> None:
    try:
        known = decode_messages(json.dumps(sent))
    except RequestError as error:
        json.loads(error_body(error, "r"))
        return
    assert known.create.items
    assert len(known.places) == len(known.create.items)


def test_an_engine_that_finds_it_too_long_is_told_in_the_words_that_have_it_compacted() -> None:
    told = failure(ResponseProblem("context_length_exceeded", "far takes 100 tokens")).error
    assert told.type == "invalid_request_error"
    assert told.message == "prompt is too long: far takes 100 tokens"
