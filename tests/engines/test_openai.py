"""The OpenAI-compatible engine: as any engine, and what crosses the wire."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from msgspec.structs import replace

from tests.engines.endpoint import ANSWER, Endpoint, call, delta, event, stream, usage
from tests.engines.suite import (
    WORDS,
    EngineSuite,
    Rig,
    answer,
    text_in,
    tokens_in,
    until,
    until_failure,
)
from tests.support.ports import free_port
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import PATIENCE_S
from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Delta,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.engines.base import Card, Chat, Sampling, Work
from vivace.engines.openai import OpenAIEngine
from vivace.engines.scripted import Fail, Reply, Say
from vivace.errors import Blame, EngineBusy, EngineDied, EngineError, EngineRefused
from vivace.models import Fim
from vivace.protocol.items import (
    CustomTool,
    FunctionTool,
    Grammar,
    Item,
    Message,
    NamespaceTool,
    Tool,
)
from vivace.protocol.requests import (
    AllowedTools,
    Fill,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedTool,
    OtherFile,
    Prediction,
    Toolbox,
    ToolMode,
)
from vivace.protocol.sse import SseLines

MODEL = "local-model"
CARD = Card(MODEL, 8192)
REPLIES = (
    Reply(when="short", then=(Say("A few words."),)),
    Reply(when="long", then=(Say("word ", times=3000),)),
    Reply(when="failing", then=(Say("so far"), Fail("it broke"))),
    Reply(when="refused", then=(Fail("never", status=400),)),
    Reply(when="too many", then=(Fail("not now", status=429, retry_after=7),)),
    *(Reply(when=f"echo {word}", then=(Say(word),)) for word in WORDS),
    Reply(when="count", then=(Say("1 2 3 4 5 6 7 8 9"),)),
)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def ask(*items: Item | str, sampling: Sampling | None = None, **chat: Any) -> Work:
    said = [user(item) if isinstance(item, str) else item for item in items]
    prompt = Chat(items=said, **chat)
    return Work(id="resp_1", model=MODEL, prompt=prompt, sampling=sampling or Sampling())


# -- as any engine --------------------------------------------------------------------------------


class GatewayRig(Rig):
    """The endpoint is a gateway of ours on a real port, with the scripted engine behind it."""

    long_tokens = 3000
    # Deltas are not joined: we stop reading, and the endpoint waits on its socket (or joins).
    joins_for_slow_readers = False
    # Every owner of ours is one and the same to the endpoint: it knows our key and nobody else's.
    isolates_owners = False
    # The endpoint is someone else's to run, and is asked for nothing between two requests.
    knows_its_health = False

    def __init__(self) -> None:
        self._gateway = self._serve(0)
        self._port = self._gateway.port
        self.engine = OpenAIEngine("e", CARD, self._gateway.url)

    def _serve(self, port: int) -> RunningGateway:
        config = configuration(engine={"rate": 3000})
        return RunningGateway(REPLIES, config=config, port=port).start()

    def short(self) -> Work:
        return ask("a short one")

    def long(self) -> Work:
        return ask("a long one")

    def echo(self, word: str) -> Work:
        return ask(f"echo {word}")

    def counting(self) -> Work:
        return ask("count")

    def failing(self) -> Work:
        return ask("a failing one")

    def refused(self) -> Work:
        return ask("a refused one")

    def overloaded(self) -> Work:
        return ask("one too many")

    def kill(self) -> None:
        """As kill -9 looks from outside: nobody listens, and every connection breaks."""
        server = self._gateway._server
        killed = threading.Event()

        def cut() -> None:
            for listener in server.servers:
                listener.close()
            for connection in list(server.server_state.connections):
                connection.transport.abort()
            killed.set()

        server.servers[0].get_loop().call_soon_threadsafe(cut)
        assert killed.wait(PATIENCE_S)

    async def revive(self) -> None:
        self.close()
        self._gateway = self._serve(self._port)

    def close(self) -> None:
        self._gateway.stop()
        assert self._gateway.witness.problems == []


class TestAsAnyEngine(EngineSuite):
    @pytest.fixture
    def rig(self) -> Iterator[Rig]:
        rig = GatewayRig()
        yield rig
        rig.close()

    def test_an_aborted_answer_frees_the_slot_of_the_endpoint_too(self, rig: Rig) -> None:
        assert isinstance(rig, GatewayRig)
        behind = rig._gateway.engine

        async def check() -> None:
            stream = rig.engine.generate(rig.long())
            await anext(stream)
            assert behind.running() == 1
            await stream.aclose()
            await until(lambda: behind.running() == 0)

        rig.run(check)

    def test_it_can_be_started_again_after_it_was_stopped(self, rig: Rig) -> None:
        async def check() -> None:
            await rig.engine.stop()
            await rig.engine.start()
            assert text_in(await answer(rig.engine, rig.short()))

        rig.run(check)


# -- what the endpoint is asked -------------------------------------------------------------------


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as running:
        yield running


def deltas_of(endpoint: Endpoint, work: Work, **options: Any) -> list[Delta]:
    async def whole() -> list[Delta]:
        engine = OpenAIEngine("e", CARD, endpoint.url, **options)
        try:
            return await asyncio.wait_for(answer(engine, work), PATIENCE_S)
        finally:
            await engine.stop()

    return asyncio.run(whole())


def asked(endpoint: Endpoint, work: Work, **options: Any) -> dict[str, Any]:
    deltas_of(endpoint, work, **options)
    return endpoint.asked[-1]


def toolbox(*tools: Tool) -> Toolbox:
    return Toolbox(tools)


PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = FunctionTool("read", "Reads a file.", PATH)
LIST = FunctionTool("list", None, None)
PATCH = CustomTool("apply_patch", "Patches.", Grammar("grammar", "lark", 'start: "x"'))
QUERY = CustomTool("query", "Asks.", Grammar("grammar", "regex", "[a-z]+"))
FREE = CustomTool("free", "Takes anything.")


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools", [])]


def test_a_plain_question_carries_nothing_it_does_not_need(endpoint: Endpoint) -> None:
    body = asked(endpoint, ask("hi", instructions="Be brief."))
    assert endpoint.paths == ["/v1/chat/completions"]
    assert body == {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_sampling_and_stops_go_along(endpoint: Endpoint) -> None:
    sampling = Sampling(
        temperature=0.0,
        top_p=0.5,
        presence_penalty=0.1,
        frequency_penalty=-0.2,
        max_tokens=7,
        stop=("END", "\n"),
        seed=3,
    )
    body = asked(endpoint, ask("hi", sampling=sampling))
    wanted = {
        "temperature": 0.0,
        "top_p": 0.5,
        "presence_penalty": 0.1,
        "frequency_penalty": -0.2,
        "max_tokens": 7,
        "stop": ["END", "\n"],
        "seed": 3,
    }
    assert {name: body[name] for name in wanted} == wanted


def test_the_endpoint_may_know_the_model_by_another_name_and_want_a_key(endpoint: Endpoint) -> None:
    body = asked(endpoint, ask("hi"), upstream="Org/Model", key="sk-1")
    assert body["model"] == "Org/Model"
    assert endpoint.headers[-1]["authorization"] == "Bearer sk-1"


def test_without_a_key_there_is_no_header(endpoint: Endpoint) -> None:
    asked(endpoint, ask("hi"))
    assert "authorization" not in endpoint.headers[-1]


def test_tools_are_offered_as_functions(endpoint: Endpoint) -> None:
    box = toolbox(READ, LIST, NamespaceTool("git", [FunctionTool("log", "History.")]))
    body = asked(endpoint, ask("hi", toolbox=box, parallel_tool_calls=False))
    empty = {"type": "object", "properties": {}}
    assert [tool["function"] for tool in body["tools"]] == [
        {"name": "read", "description": "Reads a file.", "parameters": PATH},
        {"name": "list", "description": "", "parameters": empty},
        {"name": "git__log", "description": "History.", "parameters": empty},
    ]
    assert {tool["type"] for tool in body["tools"]} == {"function"}
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("auto", False)


def test_custom_tools_are_offered_as_functions_too(endpoint: Endpoint) -> None:
    body = asked(endpoint, ask("hi", toolbox=toolbox(PATCH, QUERY, FREE)))
    patch, query, free = (tool["function"] for tool in body["tools"])
    assert (patch["name"], patch["parameters"]["required"]) == (
        "apply_patch",
        ["path", "old", "new"],
    )
    assert "regex grammar:\n[a-z]+" in query["description"]
    assert free["description"] == "Takes anything."
    assert query["parameters"]["required"] == free["parameters"]["required"] == ["input"]


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_choice_of_mode_goes_along(endpoint: Endpoint, mode: ToolMode) -> None:
    body = asked(endpoint, ask("hi", toolbox=toolbox(READ, LIST), tool_choice=mode))
    assert (body["tool_choice"], names(body)) == (mode, ["read", "list"])


def test_no_tools_are_offered_when_none_may_be_called(endpoint: Endpoint) -> None:
    body = asked(endpoint, ask("hi", toolbox=toolbox(READ), tool_choice="none"))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & body.keys()


def test_a_named_tool_is_the_only_one_and_required(endpoint: Endpoint) -> None:
    choice = NamedTool("function", "list")
    body = asked(endpoint, ask("hi", toolbox=toolbox(READ, LIST), tool_choice=choice))
    assert (body["tool_choice"], names(body)) == ("required", ["list"])


def test_allowed_tools_are_the_only_ones_in_their_mode(endpoint: Endpoint) -> None:
    some = [NamedTool("function", "list"), NamedTool("custom", "apply_patch")]
    choice = AllowedTools(tools=some, mode="auto")
    body = asked(endpoint, ask("hi", toolbox=toolbox(READ, LIST, PATCH), tool_choice=choice))
    assert (body["tool_choice"], names(body)) == ("auto", ["list", "apply_patch"])


def test_an_endpoint_that_forces_no_calls_gets_a_schema(endpoint: Endpoint) -> None:
    text = json.dumps({"name": "read", "arguments": {"path": "a.py"}})
    endpoint.answers(stream(delta(content=text[:9]), delta(content=text[9:]), delta(reason="stop")))
    work = ask("hi", toolbox=toolbox(READ, LIST), tool_choice="required")
    deltas = deltas_of(endpoint, work, forces_calls=False)
    body = endpoint.asked[-1]
    assert not {"tools", "tool_choice"} & body.keys()
    assert body["messages"][0]["role"] == "system"
    schema = body["response_format"]["json_schema"]["schema"]
    assert [each["properties"]["name"] for each in schema["anyOf"]] == [
        {"const": "read"},
        {"const": "list"},
    ]
    assert deltas[:2] == [CallOpened("read"), CallText('{"path": "a.py"}')]


def test_a_json_object_is_asked_for(endpoint: Endpoint) -> None:
    body = asked(endpoint, ask("hi", format=JsonObjectFormat()))
    assert body["response_format"] == {"type": "json_object"}


def test_a_schema_is_asked_for(endpoint: Endpoint) -> None:
    form = JsonSchemaFormat(name="point", schema=PATH, strict=True)
    body = asked(endpoint, ask("hi", format=form))
    schema = {"name": "point", "schema": PATH, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": schema}


def test_effort_goes_along(endpoint: Endpoint) -> None:
    assert asked(endpoint, ask("hi", effort="low"))["reasoning_effort"] == "low"


def test_a_warm_up_asks_for_one_token_and_tells_nothing(endpoint: Endpoint) -> None:
    endpoint.answers(stream(delta(content="Y"), delta(reason="length"), usage(5, 1)))
    work = Work(id="r", model=MODEL, prompt=Chat(items=[user("hi")]), generate=False)
    assert deltas_of(endpoint, work) == [Finished("stop", Tokens(5, 0))]
    assert endpoint.asked[-1]["max_tokens"] == 1
    assert endpoint.asked[-1]["messages"] == [{"role": "user", "content": "hi"}]


def test_a_warm_up_in_which_no_user_speaks_is_padded(endpoint: Endpoint) -> None:
    endpoint.answers(stream(delta(content="Y"), delta(reason="length"), usage(5, 1)))
    told = Message(role="developer", content="Be kind.")
    work = Work(id="r", model=MODEL, prompt=Chat(items=[told]), generate=False)
    assert deltas_of(endpoint, work) == [Finished("stop", Tokens(5, 0))]
    roles = [message["role"] for message in endpoint.asked[-1]["messages"]]
    assert roles == ["system", "user"]


# -- fill in the middle ---------------------------------------------------------------------------

FIM = Fim(prefix="<P>", suffix="<S>", middle="<M>", repo="<R>", file_sep="<F>")
FILLED = stream(
    {"choices": [{"text": "re", "finish_reason": None}]},
    {"choices": [{"text": "turn", "finish_reason": "stop"}], "usage": usage(9, 2)["usage"]},
)


def fill(**gap: Any) -> Work:
    return Work(id="r", model=MODEL, prompt=Fill(**gap), sampling=Sampling(stop=("\n",)))


def test_a_gap_is_written_by_the_models_own_template(endpoint: Endpoint) -> None:
    endpoint.answers(FILLED)
    work = fill(prefix="a", suffix="b", path="m.py", files=(OtherFile("n.py", "x"),))
    deltas = deltas_of(endpoint, work, fim=FIM)
    assert endpoint.paths == ["/v1/completions"]
    body = endpoint.asked[-1]
    assert body["prompt"] == "<R>repository\n<F>n.py\nx\n<F>m.py\n<P>a<S>b<M>"
    assert body["stop"] == ["<P>", "<S>", "<M>", "<R>", "<F>", "\n"]
    assert "suffix" not in body
    assert deltas == [TextDelta("re"), TextDelta("turn"), Finished("stop", Tokens(9, 2))]


def test_without_a_template_the_endpoint_gets_the_suffix(endpoint: Endpoint) -> None:
    endpoint.answers(FILLED)
    body = asked(endpoint, fill(prefix="a", suffix="b"))
    assert (body["prompt"], body["suffix"], body["stop"]) == ("a", "b", ["\n"])


@pytest.mark.parametrize(
    ("marks", "suffix", "prompt"),
    [(FIM, "b", "<P>a<S>b<M>c"), (FIM, None, "ac"), (None, "b", "ac"), (None, None, "ac")],
)
def test_what_was_typed_goes_last(
    endpoint: Endpoint, marks: Fim | None, suffix: str | None, prompt: str
) -> None:
    endpoint.answers(FILLED)
    body = asked(endpoint, fill(prefix="a", suffix=suffix, typed="c"), fim=marks)
    assert body["prompt"] == prompt


def test_a_mark_in_a_text_is_no_mark(endpoint: Endpoint) -> None:
    endpoint.answers(FILLED)
    gap = fill(prefix="marks = '<M>'", suffix="b")
    assert asked(endpoint, gap, fim=FIM)["prompt"] == "<P>marks = '< M>'<S>b<M>"
    parts = ["<P>", "marks = '<", "M>'", "<S>", "b", "<M>"]
    body = asked(endpoint, gap, fim=FIM, llamacpp=True)
    assert body["prompt"] == {"prompt_string": parts}, "which llama.cpp tokenises one by one"
    body = asked(endpoint, fill(prefix="a", suffix="b"), fim=FIM, llamacpp=True)
    assert body["prompt"] == "<P>a<S>b<M>"


def test_llama_cpp_is_held_to_how_an_answer_begins(endpoint: Endpoint) -> None:
    endpoint.answers(FILLED)
    gap = fill(prefix="a", suffix="b", starts_with=" re")
    assert asked(endpoint, gap, llamacpp=True, fim=FIM)["grammar"] == 'root ::= " re" .*'
    assert "grammar" not in asked(endpoint, gap, fim=FIM), "others may not know the word"
    assert "grammar" not in asked(endpoint, fill(prefix="a"), llamacpp=True)
    warm_up = replace(gap, generate=False)
    assert "grammar" not in asked(endpoint, warm_up, llamacpp=True, fim=FIM)


def test_plain_text_is_continued_as_it_is(endpoint: Endpoint) -> None:
    endpoint.answers(FILLED)
    body = asked(endpoint, fill(prefix="a"), fim=FIM)
    assert (body["prompt"], body["stop"]) == ("a", ["\n"])
    assert "suffix" not in body


# -- what it answers ------------------------------------------------------------------------------


def test_text_thoughts_and_calls_come_as_they_are_said(endpoint: Endpoint) -> None:
    endpoint.answers(
        stream(
            delta(role="assistant", content=None),
            delta(reasoning_content="Hm."),
            delta(content="I read."),
            call("read", '{"path"', id="c1"),
            call(None, ': "a"}'),
            call("list", "{}", index=1, id="c2"),
            delta(reason="tool_calls"),
            usage(20, 9),
        )
    )
    assert deltas_of(endpoint, ask("hi", toolbox=toolbox(READ, LIST))) == [
        ReasoningDelta("Hm."),
        TextDelta("I read."),
        CallOpened("read", call_id="c1"),
        CallText('{"path"'),
        CallText(': "a"}'),
        CallOpened("list", call_id="c2"),
        CallText("{}"),
        Finished("stop", Tokens(20, 9)),
    ]


def test_a_custom_tool_is_called_with_the_text_it_takes(endpoint: Endpoint) -> None:
    change = json.dumps({"path": "a.py", "old": "x = 1", "new": "x = 2"})
    pieces = [call("apply_patch", change[:10], id="c"), call(None, change[10:])]
    endpoint.answers(stream(*pieces, delta(reason="tool_calls"), usage(1, 1)))
    opened, text, _ = deltas_of(endpoint, ask("hi", toolbox=toolbox(PATCH)))
    assert opened == CallOpened("apply_patch", custom=True, call_id="c")
    assert text == CallText(
        "*** Begin Patch\n*** Update File: a.py\n@@\n-x = 1\n+x = 2\n*** End Patch"
    )


@pytest.mark.parametrize(
    ("takes", "tools", "passed"), [(True, (), True), (False, (), False), (True, (PATCH,), False)]
)
def test_a_prediction_is_passed_on_where_it_is_taken(
    endpoint: Endpoint, takes: bool, tools: tuple[Tool, ...], passed: bool
) -> None:
    foretold = Prediction("x = 1", leniency=4)  # which no endpoint knows
    work = ask("hi", prediction=foretold, toolbox=toolbox(*tools))
    sent = asked(endpoint, work, predictions=takes).get("prediction")
    assert sent == ({"type": "content", "content": "x = 1"} if passed else None)


def test_the_kinds_of_tokens_are_counted(endpoint: Endpoint) -> None:
    predicted = {"accepted_prediction_tokens": 3, "rejected_prediction_tokens": 8}
    details = {
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 4, **predicted},
    }
    endpoint.answers(stream(delta(content="x"), delta(reason="stop"), usage(50, 9, **details)))
    assert tokens_in(deltas_of(endpoint, ask("hi"))) == Tokens(50, 9, 30, 4, 3, 8)


@pytest.mark.parametrize("details", [{}, {"prompt_tokens_details": None}])
def test_usage_without_details_has_none_cached(endpoint: Endpoint, details: Any) -> None:
    endpoint.answers(stream(delta(content="x"), delta(reason="stop"), usage(50, 9, **details)))
    assert tokens_in(deltas_of(endpoint, ask("hi"))) == Tokens(50, 9)


def test_where_usage_is_missing_the_pieces_of_the_answer_are_counted(endpoint: Endpoint) -> None:
    pieces = [delta(role="assistant", content=""), delta(content="a"), delta(content="b")]
    endpoint.answers(stream(*pieces, delta(reason="stop")))
    assert tokens_in(deltas_of(endpoint, ask("hi"))).output == 2


@pytest.mark.parametrize("reason", ["stop", "tool_calls", "content_filter"])
def test_an_end_of_any_kind_is_a_stop(endpoint: Endpoint, reason: str) -> None:
    endpoint.answers(stream(delta(content="x"), delta(reason=reason)))
    last = deltas_of(endpoint, ask("hi"))[-1]
    assert isinstance(last, Finished)
    assert last.reason == "stop"


def test_a_stream_without_its_last_line_is_whole_once_the_end_was_said(endpoint: Endpoint) -> None:
    endpoint.answers(event(delta(content="x")), event(delta(reason="stop")))
    assert deltas_of(endpoint, ask("hi"))[0] == TextDelta("x")


def test_the_last_event_counts_even_without_a_newline(endpoint: Endpoint) -> None:
    last = event({**delta(reason="stop"), "usage": usage(5, 1)["usage"]}).rstrip()
    endpoint.answers(event(delta(content="x")), last)
    assert tokens_in(deltas_of(endpoint, ask("hi"))) == Tokens(5, 1)


# -- when it fails --------------------------------------------------------------------------------


def failure(url: str, work: Work | None = None) -> tuple[list[Delta], EngineError]:
    async def whole() -> tuple[list[Delta], EngineError]:
        engine = OpenAIEngine("e", CARD, url)
        try:
            return await asyncio.wait_for(until_failure(engine, work or ask("hi")), PATIENCE_S)
        finally:
            assert engine.running() == 0
            await engine.stop()

    return asyncio.run(whole())


@pytest.mark.parametrize(
    ("status", "kind", "body", "said"),
    [
        (
            400,
            "application/json",
            b'{"error":{"message":"too long","type":"invalid_request_error"}}',
            "400: too long",
        ),
        (404, "application/json", b'{"error":"no such model"}', "404: no such model"),
        (422, "application/json", b'{"detail":[{"loc":["body"]}]}', '422: {"detail"'),
        (500, "text/html", b"<html><h1>Internal Server Error</h1></html>", "500: <html>"),
        (502, "text/plain", b"", "502"),
        (503, "application/json", b'["odd"]', "503"),
        (400, "application/json", b'{"error":{"message":null}}', "400"),
        (500, "application/json", b"\xff\xfe", "500"),
    ],
)
def test_a_refusal_is_told_in_the_words_of_the_endpoint(
    endpoint: Endpoint, status: int, kind: str, body: bytes, said: str
) -> None:
    endpoint.answers(body, status=status, kind=kind)
    deltas, error = failure(endpoint.url)
    assert deltas == []
    assert not isinstance(error, EngineDied)
    assert said in str(error)


BUSY = [(b"retry-after", b"7")]


@pytest.mark.parametrize(
    ("status", "kind", "elsewhere", "blame", "wait"),
    [
        (400, EngineRefused, False, "never", None),
        (413, EngineRefused, False, "never", None),
        (422, EngineRefused, False, "never", None),
        (401, EngineError, True, "compared", 7),
        (404, EngineError, True, "compared", 7),
        (429, EngineBusy, True, "never", 7),
        (500, EngineError, True, "compared", 7),
        (502, EngineError, True, "always", 7),
        (503, EngineError, True, "always", 7),
    ],
)
def test_a_status_says_whose_fault_it_is_and_whether_another_may_be_tried(
    endpoint: Endpoint,
    status: int,
    kind: type[EngineError],
    elsewhere: bool,
    blame: Blame,
    wait: float | None,
) -> None:
    endpoint.answers(b"{}", status=status, kind="application/json", headers=BUSY)
    _, error = failure(endpoint.url)
    assert type(error) is kind
    assert (error.elsewhere, error.blame, error.retry_after) == (elsewhere, blame, wait)


def test_what_is_broken_or_out_of_reach_counts_against_the_endpoint(endpoint: Endpoint) -> None:
    endpoint.answers(b"data: {not json\n\n")
    for url in (endpoint.url, f"http://127.0.0.1:{free_port()}/v1"):
        _, error = failure(url)
        assert (error.elsewhere, error.blame) == (True, "always")


def test_a_refusal_is_not_told_at_any_length(endpoint: Endpoint) -> None:
    endpoint.answers(b"x" * 100_000, status=500, kind="text/plain")
    assert len(str(failure(endpoint.url)[1])) < 400


def test_a_refusal_without_an_end_is_not_read_to_its_end(endpoint: Endpoint) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 10_000
            await asyncio.sleep(0)

    endpoint.streams(endless, status=503)
    _, error = failure(endpoint.url)
    assert error.blame == "always"
    assert endpoint.sent < 50_000_000


def test_an_answer_that_cannot_be_unpacked_counts_against_the_endpoint(endpoint: Endpoint) -> None:
    endpoint.answers(b"no gzip at all", headers=[(b"content-encoding", b"gzip")])
    deltas, error = failure(endpoint.url)
    assert (deltas, error.elsewhere, error.blame) == ([], True, "always")


def test_an_endpoint_that_is_not_there_is_dead() -> None:
    deltas, error = failure(f"http://127.0.0.1:{free_port()}/v1")
    assert deltas == []
    assert isinstance(error, EngineDied)
    assert "cannot be reached" in str(error)


def test_an_endpoint_that_cannot_be_found_is_dead() -> None:
    assert isinstance(failure("http://nowhere.invalid/v1")[1], EngineDied)


def test_an_answer_that_is_cut_off_is_a_death(endpoint: Endpoint) -> None:
    endpoint.answers(event(delta(content="so far")), cut=True)
    deltas, error = failure(endpoint.url)
    assert deltas == [TextDelta("so far")]
    assert isinstance(error, EngineDied)


def test_a_line_without_an_end_is_a_death(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SseLines.__init__, "__defaults__", (100_000,))
    endpoint.answers(b"data: ", *[b"x" * 10_000] * 20)
    error = failure(endpoint.url)[1]
    assert isinstance(error, EngineDied)
    assert "broke off" in str(error)


@pytest.mark.parametrize("end", [b"", b"data: [DONE]\n\n"])
def test_an_answer_that_ends_without_a_reason_broke_off(endpoint: Endpoint, end: bytes) -> None:
    endpoint.answers(event(delta(content="so far")), end)
    deltas, error = failure(endpoint.url)
    assert deltas == [TextDelta("so far")]
    assert "broke off" in str(error)


@pytest.mark.parametrize(
    "garbage",
    [
        b"data: {not json\n\n",
        b"data: 7\n\n",
        b'data: {"choices": 1}\n\n',
        b'data: {"usage": {"prompt_tokens": 9223372036854775808}}\n\n',  # no store has room for it
    ],
)
def test_garbage_in_the_stream_ends_the_answer(endpoint: Endpoint, garbage: bytes) -> None:
    endpoint.answers(event(delta(content="so far")), garbage, ANSWER)
    deltas, error = failure(endpoint.url)
    assert deltas == [TextDelta("so far")]
    assert not isinstance(error, EngineDied)
    assert "no chunk" in str(error)


@pytest.mark.parametrize("error", [{"message": "out of memory", "code": 500}, "out of memory"])
def test_an_error_in_the_stream_ends_the_answer(endpoint: Endpoint, error: object) -> None:
    endpoint.answers(event(delta(content="so far")), event({"error": error}))
    deltas, failed = failure(endpoint.url)
    assert deltas == [TextDelta("so far")]
    assert "out of memory" in str(failed)


def test_a_connection_that_the_endpoint_gave_up_is_no_death() -> None:
    """llama.cpp promises to keep its connections and closes them after every streamed answer; a
    request that is sent in that moment was never read, and can be sent again."""
    length = f"content-length: {len(ANSWER)}\r\n".encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n" + length
    requests = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await reader.readuntil(b"\r\n\r\n")
        requests += 1
        writer.write(head + b"Keep-Alive: timeout=5, max=100\r\n\r\n" + ANSWER)
        await reader.readuntil(b"\r\n\r\n")  # the body of the first, the head of the second
        writer.close()

    async def check() -> list[str]:
        server = await asyncio.start_server(serve, "127.0.0.1")
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        engine = OpenAIEngine("e", CARD, url)
        try:
            return [text_in(await answer(engine, ask("hi"))) for _ in range(3)]
        finally:
            await engine.stop()
            server.close()

    assert asyncio.run(asyncio.wait_for(check(), PATIENCE_S)) == ["Yes."] * 3
    assert requests == 3


def test_a_page_in_place_of_a_stream_is_no_answer(endpoint: Endpoint) -> None:
    endpoint.answers(b"<html>welcome</html>", kind="text/html")
    assert failure(endpoint.url)[0] == []


def test_an_engine_that_was_stopped_refuses_work() -> None:
    async def whole() -> EngineError:
        engine = OpenAIEngine("e", CARD, "http://127.0.0.1:9/v1")
        await engine.stop()
        return (await until_failure(engine, ask("hi")))[1]

    assert isinstance(asyncio.run(whole()), EngineError)


# -- a reader that takes its time -----------------------------------------------------------------


def test_a_slow_reader_stops_the_endpoint_not_the_memory(endpoint: Endpoint) -> None:
    piece = event(delta(content="x" * 10_000))

    async def flood() -> AsyncIterator[bytes]:
        for _ in range(5_000):
            yield piece

    endpoint.streams(flood)
    sent = [0]

    def stands_still() -> bool:
        """Return whether nothing moved for a hundred polls."""
        sent.append(endpoint.sent)
        return len(sent) > 100 and sent[-100] == sent[-1] > 0

    async def check() -> None:
        engine = OpenAIEngine("e", CARD, endpoint.url)
        async with aclosing(engine.generate(ask("hi"))) as stream:
            await anext(stream)
            await until(stands_still)
            assert endpoint.sent < 20_000_000
        await engine.stop()

    asyncio.run(asyncio.wait_for(check(), PATIENCE_S))


def test_closing_closes_the_connection_to_the_endpoint(endpoint: Endpoint) -> None:
    async def forever() -> AsyncIterator[bytes]:
        while True:
            yield event(delta(content="x"))
            await asyncio.sleep(0)

    endpoint.streams(forever)

    async def check() -> None:
        engine = OpenAIEngine("e", CARD, endpoint.url)
        stream = engine.generate(ask("hi"))
        await anext(stream)
        await stream.aclose()
        await until(endpoint.disconnected.is_set)
        await engine.stop()

    asyncio.run(asyncio.wait_for(check(), PATIENCE_S))


def test_an_answer_that_is_broken_off_is_counted_as_far_as_was_read(endpoint: Endpoint) -> None:
    progress = {"total": 700, "cache": 640, "processed": 700, "time_ms": 9}

    async def forever() -> AsyncIterator[bytes]:
        yield event({**delta(content=""), "prompt_progress": progress})
        while True:
            yield event(delta(content="x"))
            await asyncio.sleep(0)

    endpoint.streams(forever)
    work = ask("hi")

    async def check() -> None:
        engine = OpenAIEngine("e", CARD, endpoint.url, llamacpp=True)
        async with aclosing(engine.generate(work)) as stream:
            await anext(stream)
        await engine.stop()

    asyncio.run(asyncio.wait_for(check(), PATIENCE_S))
    assert endpoint.asked[-1]["return_progress"] is True
    assert (work.tally.input, work.tally.cached) == (700, 640)
