"""OpenAI's own Python SDK as the client: what it sends is taken, what it parses is right."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.responses import Response
from pydantic import BaseModel

from tests.support.http import key, keys
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.counters.local import LocalLimiter
from vivace.engines.scripted import Call, Die, Fail, Reply, Say, Stall, Think
from vivace.scheduling.limits import Ledger

FOREVER = Stall(3600)
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CITY = '{"city": "Oslo"}'


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[OpenAI]:
    with OpenAI(base_url=gateway.url, api_key="unused", max_retries=0) as made:
        yield made


class Person(BaseModel):
    name: str
    age: int


# -- responses ------------------------------------------------------------------------------------


def test_a_response_is_created_retrieved_and_deleted(
    gateway: RunningGateway, client: OpenAI
) -> None:
    gateway.engine.play([Reply(then=(Say("Good day."),))])
    made = client.responses.create(
        model=MODEL, input="Hi", instructions="Be brief.", metadata={"ticket": "7"}
    )
    assert made.output_text == "Good day."
    assert made.usage is not None
    assert made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    found = client.responses.retrieve(made.id)
    assert found.to_dict() == made.to_dict()
    assert found.metadata == {"ticket": "7"}
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def test_the_stream_helper_builds_the_response_from_its_events(
    gateway: RunningGateway, client: OpenAI
) -> None:
    gateway.engine.play([Reply(then=(Think("Hm."), Say("Good day."), Call("weather", CITY)))])
    with client.responses.stream(model=MODEL, input="Hi") as stream:
        snapshots = [e.snapshot for e in stream if e.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert snapshots[-1] == final.output_text == "Good day."
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call"]


def test_the_raw_stream_has_every_event_in_order(gateway: RunningGateway, client: OpenAI) -> None:
    gateway.engine.play([Reply(then=(Say("Good day."),))])
    events = list(client.responses.create(model=MODEL, input="Hi", stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert events[0].type == "response.created"
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "Good day."


def test_a_background_stream_that_breaks_after_any_event_is_resumed(
    gateway: RunningGateway, client: OpenAI
) -> None:
    gateway.engine.play([Reply(then=(Think("Hm."), Say("one two three")))])
    unbroken = list(client.responses.create(input="Hi", background=True, stream=True))
    for broken_after in range(len(unbroken)):
        stream = client.responses.create(input="Hi", background=True, stream=True)
        with stream:
            seen = [event for event, _ in zip(stream, range(broken_after + 1), strict=False)]
        assert seen[0].type == "response.created"
        rest = client.responses.retrieve(
            seen[0].response.id, stream=True, starting_after=seen[-1].sequence_number
        )
        seen += list(rest)
        again = list(client.responses.retrieve(seen[0].response.id, stream=True))
        assert [event.to_json() for event in seen] == [event.to_json() for event in again]
        assert [event.type for event in seen] == [event.type for event in unbroken]
        assert [event.sequence_number for event in seen] == list(range(len(unbroken)))


def test_a_background_response_is_watched_and_cancelled(
    gateway: RunningGateway, client: OpenAI
) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), FOREVER))])
    begun = client.responses.create(model=MODEL, input="Hi", background=True)
    assert begun.status in ("queued", "in_progress")
    with client.responses.retrieve(begun.id, stream=True, starting_after=0) as stream:
        first = next(iter(stream))
    assert first.sequence_number == 1
    cancelled = client.responses.cancel(begun.id)
    assert cancelled.status == "cancelled"
    assert gateway.engine.running() == 0


def test_input_items_are_listed_across_pages(gateway: RunningGateway, client: OpenAI) -> None:
    texts = ["one", "two", "three", "four", "five"]
    made = client.responses.create(
        model=MODEL, input=[{"role": "user", "content": text} for text in texts]
    )
    items = list(client.responses.input_items.list(made.id, limit=2, order="asc"))
    assert [item.to_dict()["content"][0]["text"] for item in items] == texts  # type: ignore[index]


def test_a_chain_of_responses_is_one_conversation(gateway: RunningGateway, client: OpenAI) -> None:
    lengths = []
    previous: Response | None = None
    for text in ("The word is cobalt.", "Which word?", "Sure?"):
        previous = client.responses.create(
            model=MODEL, input=text, previous_response_id=previous.id if previous else None
        )
        assert previous.usage is not None
        lengths.append(previous.usage.input_tokens)
    assert lengths == sorted(set(lengths))


def test_a_long_conversation_is_compacted_and_goes_on(
    gateway: RunningGateway, client: OpenAI
) -> None:
    gateway.engine.play([Reply(when="Summarise", then=(Say("They like cobalt."),))])
    made = client.responses.create(model=MODEL, input="I like cobalt.")
    compacted = client.responses.compact(model=MODEL, previous_response_id=made.id)
    window: Any = [item.to_dict() for item in compacted.output]
    question: Any = {"role": "user", "content": "Go on."}
    fresh = client.responses.create(model=MODEL, input=[*window, question])
    assert fresh.status == "completed"
    assert fresh.previous_response_id is None


# -- structured output ----------------------------------------------------------------------------


def test_an_answer_is_parsed_into_a_model(gateway: RunningGateway, client: OpenAI) -> None:
    gateway.engine.play([Reply(then=(Say('{"name": "Ada", "age": 36}'),))])
    parsed = client.responses.parse(model=MODEL, input="Who?", text_format=Person)
    assert parsed.output_parsed == Person(name="Ada", age=36)
    with client.responses.stream(model=MODEL, input="Who?", text_format=Person) as stream:
        assert stream.get_final_response().output_parsed == Person(name="Ada", age=36)
    choice = client.chat.completions.parse(
        model=MODEL, messages=[{"role": "user", "content": "Who?"}], response_format=Person
    ).choices[0]
    assert choice.message.parsed == Person(name="Ada", age=36)


def test_the_asked_for_format_is_echoed(gateway: RunningGateway, client: OpenAI) -> None:
    wanted: Any = {
        "format": {
            "type": "json_schema",
            "name": "place",
            "schema": WEATHER,
            "strict": True,
            "description": "Where.",
        },
        "verbosity": "low",
    }
    made = client.responses.create(model=MODEL, input="Who?", text=wanted)
    assert made.text is not None
    assert made.text.to_dict() == wanted


# -- tools ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chained", [True, False], ids=["chained", "resent"])
def test_a_function_is_called_and_its_output_answered(
    gateway: RunningGateway, client: OpenAI, chained: bool
) -> None:
    gateway.engine.play(
        [
            Reply(when="sun", after="tool", then=(Say("Sunny."),)),
            Reply(then=(Call("weather", CITY),)),
        ]
    )
    tool: Any = {"type": "function", "name": "weather", "parameters": WEATHER, "strict": True}
    question: Any = {"role": "user", "content": "Weather?"}
    first = client.responses.create(
        model=MODEL,
        input=[question],
        tools=[tool],
        tool_choice={"type": "function", "name": "weather"},
    )
    [call] = first.output
    assert call.type == "function_call"
    assert json.loads(call.arguments) == {"city": "Oslo"}
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    second = client.responses.create(
        model=MODEL,
        tools=[tool],
        previous_response_id=first.id if chained else None,
        input=[output] if chained else [question, *first.output, output],
    )
    assert second.output_text == "Sunny."


def test_a_custom_tool_is_called_and_its_output_answered(
    gateway: RunningGateway, client: OpenAI
) -> None:
    gateway.engine.play(
        [
            Reply(after="tool", then=(Say("Patched."),)),
            Reply(then=(Call("patch", "+ one\n", custom=True),)),
        ]
    )
    tool: Any = {
        "type": "custom",
        "name": "patch",
        "format": {"type": "grammar", "syntax": "regex", "definition": r"\+ .*\n"},
    }
    first = client.responses.create(
        model=MODEL, input="Fix it.", tools=[tool], tool_choice={"type": "custom", "name": "patch"}
    )
    assert [shown.to_dict() for shown in first.tools] == [tool | {"description": None}]
    [call] = first.output
    assert call.type == "custom_tool_call"
    assert call.input == "+ one\n"
    second = client.responses.create(
        model=MODEL,
        previous_response_id=first.id,
        input=[{"type": "custom_tool_call_output", "call_id": call.call_id, "output": "done"}],
    )
    assert second.output_text == "Patched."


# -- the WebSocket --------------------------------------------------------------------------------


def test_turns_are_chained_on_one_socket(gateway: RunningGateway) -> None:
    gateway.engine.play(
        [
            Reply(when="sun", after="tool", then=(Say("Sunny."),)),
            Reply(when="Weather", then=(Call("weather", CITY),)),
        ]
    )

    async def converse() -> list[Response]:
        client = AsyncOpenAI(base_url=gateway.url, api_key="unused")
        done: list[Response] = []
        async with client.responses.connect() as socket:

            async def turn(**body: Any) -> Response:
                await socket.response.create(model=MODEL, store=False, **body)
                async for event in socket:
                    if event.type == "response.completed":
                        done.append(event.response)
                        break
                return done[-1]

            warm = await turn(input="You are helpful.", generate=False)
            called = await turn(input="Weather?", previous_response_id=warm.id)
            [call] = called.output
            assert call.type == "function_call"
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
            await turn(input=[output], previous_response_id=called.id)
        await client.close()
        return done

    warm, called, answered = asyncio.run(converse())
    assert warm.output == []
    assert answered.output_text == "Sunny."
    assert answered.previous_response_id == called.id


def test_lanes_run_beside_each_other_on_one_socket(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(when="slow", then=(FOREVER,)), Reply(then=(Say("Quick."),))])

    async def converse() -> tuple[str | None, str]:
        client = AsyncOpenAI(base_url=gateway.url, api_key="unused")
        async with client, client.responses.connect() as socket:
            await socket.response.create(model=MODEL, input="slow", stream_id="a")
            await socket.response.create(model=MODEL, input="quick", stream_id="b")
            async for event in socket:
                if event.type == "response.completed":
                    return getattr(event, "stream_id", None), event.response.output_text
        raise AssertionError("nothing was completed")

    assert asyncio.run(converse()) == ("b", "Quick.")
    eventually(lambda: gateway.engine.running() == 0)


def test_a_refused_turn_reaches_its_handler(gateway: RunningGateway) -> None:
    with (
        OpenAI(base_url=gateway.url, api_key="unused") as client,
        client.responses.connect() as socket,
    ):
        socket.response.create(model="unknown", input="Hi")
        refused = socket.recv()
        assert refused.type == "error"
        assert refused.to_dict()["status"] == 404  # the SDK's type has no status


def test_an_answer_is_steered_and_each_receipt_is_understood(gateway: RunningGateway) -> None:
    gateway.engine.play(
        [
            Reply(when="left", then=(Say("Going left."),)),
            Reply(when="tool", then=(Call("look", "{}"), Say("word ", times=20_000))),
            Reply(then=(Say("word ", times=20_000),)),
        ]
    )
    with (
        OpenAI(base_url=gateway.url, api_key="unused") as client,
        client.responses.connect() as socket,
    ):

        def until(kind: str) -> Any:
            while (event := socket.recv()).type != kind:
                pass
            return event

        socket.response.create(model=MODEL, input="Hi")
        first = until("response.created").response.id
        until("response.output_text.delta")
        socket.response.steer(previous_response_id=first, input="Go left")
        accepted = until("response.steer.accepted")
        assert accepted.steer.previous_response_id == first
        steered = until("response.incomplete").response
        assert steered.incomplete_details.reason == "steered"
        assert steered.output_text.startswith("word")
        assert until("response.completed").response.output_text == "Going left."

        socket.response.steer(previous_response_id=first, input="Go on")
        failed = until("response.steer.failed")
        assert failed.error.code == "response_not_found"
        assert failed.steer.input == "Go on"

        socket.response.create(model=MODEL, input="tool")
        second = until("response.created").response.id
        until("response.output_text.delta")
        socket.response.steer(previous_response_id=second, input="Go left")
        pending = until("response.steer.pending")
        assert pending.reason == "waiting_for_required_input"
        [stub] = pending.required_input
        output: Any = {**stub.to_dict(), "output": "sunny"}
        socket.response.create(model=MODEL, input=[output], previous_response_id=second)
        assert until("response.created").response.previous_response_id == second


# -- the older doors ------------------------------------------------------------------------------


def test_chat_answers_whole_and_in_pieces(gateway: RunningGateway, client: OpenAI) -> None:
    gateway.engine.play([Reply(then=(Say("Good day."),))])
    messages: Any = [{"role": "system", "content": "Brief."}, {"role": "user", "content": "Hi"}]
    whole = client.chat.completions.create(model=MODEL, messages=messages)
    assert whole.choices[0].message.content == "Good day."
    assert whole.choices[0].finish_reason == "stop"

    pieces = client.chat.completions.create(
        model=MODEL, messages=messages, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(pieces)
    said = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(said) == "Good day."
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens


@pytest.mark.parametrize("streaming", [False, True])
def test_chat_calls_a_tool_and_answers_its_output(
    gateway: RunningGateway, client: OpenAI, streaming: bool
) -> None:
    gateway.engine.play(
        [Reply(after="tool", then=(Say("Sunny."),)), Reply(then=(Call("weather", CITY),))]
    )
    asked: dict[str, Any] = {
        "model": MODEL,
        "tools": [
            {
                "type": "function",
                "function": {"name": "weather", "parameters": WEATHER, "strict": True},
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
    }
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    if streaming:
        with client.chat.completions.stream(messages=messages, **asked) as stream:
            completion: Any = stream.get_final_completion()
    else:
        completion = client.chat.completions.create(messages=messages, **asked)
    message = completion.choices[0].message
    [call] = message.tool_calls
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    assert completion.choices[0].finish_reason == "tool_calls"
    output: Any = {"role": "tool", "tool_call_id": call.id, "content": "sun"}
    sent_back: Any = message.to_dict(exclude_none=True)
    last: Any = client.chat.completions.create(messages=[*messages, sent_back, output], **asked)
    assert last.choices[0].message.content == "Sunny."


def test_a_predicted_edit_is_taken(gateway: RunningGateway, client: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "Rename a to b."}]
    prediction: Any = {"type": "content", "content": "a = 1\n"}
    made = client.chat.completions.create(model=MODEL, messages=messages, prediction=prediction)
    assert made.choices[0].message.content


def test_text_is_completed_whole_and_in_pieces(gateway: RunningGateway, client: OpenAI) -> None:
    gateway.engine.play([Reply(when="^def $", then=(Say("add(a, b):"),))])
    whole = client.completions.create(model=MODEL, prompt="def ", suffix="\n", max_tokens=50)
    assert whole.choices[0].text == "add(a, b):"
    pieces = client.completions.create(model=MODEL, prompt="def ", stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == "add(a, b):"


def test_models_are_listed(gateway: RunningGateway, client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("unknown")
    assert refused.value.code == "model_not_found"


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True])
def test_each_error_is_raised_as_its_own_class(
    gateway: RunningGateway, client: OpenAI, streaming: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as bad:
        client.responses.create(
            model=MODEL, input="Hi", previous_response_id="resp_x", stream=streaming
        )
    assert bad.value.code == "previous_response_not_found"
    assert bad.value.param == "previous_response_id"
    assert bad.value.request_id
    with pytest.raises(openai.NotFoundError) as missing:
        client.responses.create(model="unknown", input="Hi", stream=streaming)
    assert missing.value.code == "model_not_found"
    assert missing.value.param == "model"
    gateway.engine.play([Reply(then=(Die(),))])
    client.responses.create(model=MODEL, input="Hi")
    with pytest.raises(openai.InternalServerError) as gone:
        client.responses.create(model=MODEL, input="Hi", stream=streaming)
    assert gone.value.status_code == 503


def test_a_stream_that_fails_raises(gateway: RunningGateway, client: OpenAI) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), Fail("Out of luck.")))])
    last = list(client.responses.create(model=MODEL, input="Hi", stream=True))[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.error.message == "Out of luck."
    messages: Any = [{"role": "user", "content": "Hi"}]
    chunks = client.chat.completions.create(model=MODEL, messages=messages, stream=True)
    with pytest.raises(openai.APIError, match=r"Out of luck\."):
        list(chunks)


def test_a_wrong_key_is_an_authentication_error() -> None:
    with RunningGateway(config=configuration(keys=keys("ada"))) as gateway:
        known = OpenAI(base_url=gateway.url, api_key=key("ada"), max_retries=0)
        assert known.responses.create(model=MODEL, input="Hi").status == "completed"
        unknown = OpenAI(base_url=gateway.url, api_key="wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError) as refused:
            unknown.responses.create(model=MODEL, input="Hi")
        assert refused.value.code == "invalid_api_key"


# -- limits and queues ----------------------------------------------------------------------------


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    made = Pauses()
    clock = SimpleNamespace(**{**vars(time), "sleep": made.sleep})
    monkeypatch.setattr("openai._base_client.time", clock)
    return made


class Pauses:
    """The SDK's pauses before it tries again: they take no time, and something happens in each."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.then: Callable[[], object] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.then()


def test_a_request_over_the_limit_is_tried_again_when_the_server_says(pauses: Pauses) -> None:
    tier = {"name": "fast", "engines": ["scripted"], "limits": {"requests_per_minute": 60}}
    with RunningGateway(config=configuration(tiers=[tier])) as gateway:
        limiter = gateway.gateway.limiter
        assert isinstance(limiter, LocalLimiter)
        limits = gateway.gateway.catalogue.offer("fast").tier.limits
        later = time.monotonic() + 40  # the first of these requests comes back a second after
        for _ in range(60):
            spent = limiter.ledger.charge(
                "local", "fast", limits, input_tokens=0, output_tokens=0, now=later
            )
            limiter.ledger.settle(spent, input_tokens=0, output_tokens=0, now=later)
        pauses.then = lambda: setattr(limiter, "ledger", Ledger())
        with OpenAI(base_url=gateway.url, api_key="unused", max_retries=3) as client:
            answer = client.responses.with_raw_response.create(model="fast", input="Hi")
        assert answer.retries_taken == 1
        assert pauses.seconds[0] > 8, "of its own accord, the SDK waits no longer than this"
        assert answer.headers["x-ratelimit-limit-requests"] == "60"
        assert answer.parse().status == "completed"


def test_a_request_is_tried_again_when_the_engine_is_away(pauses: Pauses) -> None:
    with RunningGateway() as gateway, gateway.http as http:
        gateway.engine.die("killed")

        def comes_back() -> None:
            gateway.run(gateway.engine.start())
            eventually(lambda: http.get("/readyz").is_success)

        pauses.then = comes_back
        with OpenAI(base_url=gateway.url, api_key="unused", max_retries=3) as client:
            answer = client.responses.with_raw_response.create(model=MODEL, input="Hi")
        assert answer.retries_taken >= 1
        assert answer.parse().status == "completed"


def test_queued_events_are_read_while_a_request_waits() -> None:
    config = configuration(engine={"slots": 1})
    replies = [Reply(when="first", then=(Say("word"), FOREVER)), Reply(then=(Say("Hello."),))]
    with (
        RunningGateway(replies, config=config) as gateway,
        OpenAI(base_url=gateway.url, api_key="unused") as client,
        client.responses.connect() as socket,
    ):
        socket.response.create(model=MODEL, input="first")
        while socket.recv().type != "response.output_text.delta":
            pass
        kinds = []
        with client.responses.stream(model=MODEL, input="Hi") as stream:
            for event in stream:
                kinds.append(event.type)
                if event.type == "response.queued":
                    gateway.go_on()
            final = stream.get_final_response()
        assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
        assert final.output_text == "Hello."
