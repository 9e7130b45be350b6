"""What a client that says it is Codex is told, on both transports, and what it gains by that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.http import RESPONSES, said, sse
from tests.support.plain_endpoint import PlainEndpoint, Refusal, Routes
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.socket import Event, Socket
from vivace.config import LOCAL
from vivace.counters import local
from vivace.engines.scripted import Recite, Reply, Say, Stall
from vivace.gateway import planning

CODEX = {"originator": "codex_exec"}
LONG = "word " * 3000


@pytest.fixture
def narrow() -> Iterator[RunningGateway]:
    """Its model takes a thousand tokens."""
    config = configuration(engine={"context": 1024})
    with RunningGateway([Reply(then=(Say("Hello."),))], config=config) as gateway:
        yield gateway


def beside(event: Event) -> bool:
    """Whether it tells Codex what it reads from headers over HTTP."""
    return bool(event["type"].startswith("codex."))


class Client:
    """One turn at a time, over whichever transport."""

    def __init__(self, gateway: RunningGateway, headers: dict[str, str]) -> None:
        self._url = gateway.url
        self._http = gateway.http
        self._headers = headers

    def http(self, **body: Any) -> list[Event]:
        asked = {"model": MODEL, "stream": True, "store": False} | body
        with self._http.stream("POST", RESPONSES, json=asked, headers=self._headers) as answer:
            assert answer.status_code == 200, answer.read()
            return list(sse(answer.iter_lines()))

    def websocket(self, **body: Any) -> list[Event]:
        with Socket(self._url, self._headers) as socket:
            socket.create(**{"model": MODEL, "store": False} | body)
            return [event for event in socket.until_end() if not beside(event)]


every_transport = pytest.mark.parametrize("way", ["http", "websocket"])


def problem(events: list[Event]) -> tuple[str, str]:
    """Of a response that failed as it was created."""
    created, failed = events
    assert (created["type"], failed["type"]) == ("response.created", "response.failed")
    assert created["response"]["id"] == failed["response"]["id"]
    assert created["response"]["store"] is False
    assert failed["response"]["output"] == []
    error = failed["response"]["error"]
    return error["code"], error["message"]


def refused(gateway: RunningGateway, code: str) -> float:
    registry = gateway.gateway.metrics.registry
    return registry.get_sample_value("vivace_requests_refused_total", {"code": code}) or 0


@every_transport
def test_an_overflow_is_a_response_that_fails(narrow: RunningGateway, way: str) -> None:
    code, message = problem(getattr(Client(narrow, CODEX), way)(input=LONG))
    assert code == "context_length_exceeded"
    assert "the model takes 1024" in message
    assert refused(narrow, "context_length_exceeded") == 1


@every_transport
def test_an_overflow_by_the_engines_own_count_is_one_too(way: str) -> None:
    said = {"error": {"message": "This model's maximum context length is 100 tokens.", "code": 400}}
    routes: Routes = {"/v1/chat/completions": lambda _: Refusal(400, said)}
    with PlainEndpoint(routes) as endpoint:
        engines = [
            {"name": "scripted", "kind": "scripted", "model": "near"},
            {"name": "far", "kind": "openai", "model": "far", "url": endpoint.url},
        ]
        with RunningGateway(config=configuration(engines=engines)) as gateway:
            last = getattr(Client(gateway, CODEX), way)(model="far", input="Hi")[-1]
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["code"] == "context_length_exceeded"


@every_transport
def test_what_can_never_pass_is_an_invalid_prompt(gateway: RunningGateway, way: str) -> None:
    client = Client(gateway, CODEX)
    code, message = problem(getattr(client, way)(model="nobody", input="Hi"))
    assert (code, MODEL in message) == ("invalid_prompt", True)
    code, message = problem(getattr(client, way)(input=[{"type": "message", "role": "king"}]))
    assert (code, "input[0]" in message) == ("invalid_prompt", True)
    assert refused(gateway, "model_not_found") == 1


@every_transport
def test_a_limit_is_told_in_words_that_codex_waits_by(way: str) -> None:
    tier = {"name": MODEL, "engines": ["scripted"], "limits": {"requests_per_minute": 1}}
    config = configuration(tiers=[tier], engine={"model": "other"})
    with RunningGateway(config=config) as gateway:
        ask = getattr(Client(gateway, CODEX), way)
        assert ask(input="Hi")[-1]["type"] == "response.completed"
        for count in range(1, 6):  # refused turns cost nothing and keep nothing
            code, message = problem(ask(input="Hi"))
            assert code == "rate_limit_exceeded"
            assert re.search(r"Try again in \d\ds\.$", message)
            assert refused(gateway, "rate_limit_exceeded") == count


@every_transport
def test_memory_that_is_used_up_is_waited_for(way: str) -> None:
    limits = {"memory_megabytes": 1, "memory_megabytes_per_key": 1}
    with RunningGateway(config=configuration(limits=limits)) as gateway:
        held = gateway.gateway.memory.take(LOCAL, "requests", 990_000)
        code, message = problem(getattr(Client(gateway, CODEX), way)(input="y" * 20_000))
        assert code == "rate_limit_exceeded"
        assert message.endswith("Try again in 1s.")
        assert held.size


@pytest.mark.parametrize("headers", [{}, {"originator": "opencode"}])
def test_every_other_client_keeps_the_statuses(
    narrow: RunningGateway, headers: dict[str, str]
) -> None:
    body = {"model": MODEL, "input": LONG, "stream": True}
    answer = narrow.http.post(RESPONSES, json=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    with Socket(narrow.url, headers) as socket:
        error = socket.turn(LONG)
        assert (error["type"], error["status"]) == ("error", 400)


def test_whoever_waits_for_the_whole_answer_keeps_the_statuses(narrow: RunningGateway) -> None:
    for body in ({}, {"background": True}):
        answer = narrow.http.post(
            RESPONSES, json={"model": MODEL, "input": LONG, **body}, headers=CODEX
        )
        assert answer.status_code == 400
    chat = {"model": MODEL, "messages": [{"role": "user", "content": LONG}], "stream": True}
    assert narrow.http.post("/v1/chat/completions", json=chat, headers=CODEX).status_code == 400


def test_a_refused_turn_is_not_there_and_its_lane_goes_on(narrow: RunningGateway) -> None:
    with Socket(narrow.url, CODEX) as socket:
        for lane in ({}, {"stream_id": "a"}):
            for _ in range(5):
                socket.create(LONG, **lane)  # store is not said, and would be true
                events = [event for event in socket.until_end() if not beside(event)]
                problem(events)
                assert all(event.get("stream_id") == lane.get("stream_id") for event in events)
            failed = events[-1]["response"]["id"]
            error = socket.turn("Hi", previous_response_id=failed, **lane)
            assert (error["type"], error["status"]) == ("error", 400)
            assert error["error"]["code"] == "previous_response_not_found"
            assert narrow.http.get(f"{RESPONSES}/{failed}").status_code == 404
            assert socket.turn("Hi", **lane)["type"] == "response.completed"


def test_a_refusal_has_no_place_within_a_response_that_runs(gateway: RunningGateway) -> None:
    gateway.engine.play([Reply(then=(Say("word"), Stall(600)))])
    with Socket(gateway.url, CODEX) as socket:
        socket.create("Hi")
        socket.until("response.output_text.delta")
        socket.create([{"type": "message", "role": "king"}])
        assert socket.until("error")["status"] == 400
        gateway.go_on()
        assert socket.until_end()[-1]["type"] == "response.completed"


def test_a_key_that_is_not_known_is_told_by_its_status() -> None:
    sha256 = "0" * 64
    config = configuration(keys=[{"name": "ada", "sha256": sha256}])
    with RunningGateway(config=config) as gateway:
        body = {"model": MODEL, "input": "Hi", "stream": True}
        assert gateway.http.post(RESPONSES, json=body, headers=CODEX).status_code == 401


# -- conversations that began elsewhere -----------------------------------------------------------

FOREIGN = [
    {"type": "web_search_call", "status": "completed", "action": {"query": "secret query"}},
    {"type": "hologram", "light": "secret light"},
    {"type": "compaction", "encrypted_content": "gAAAA"},
]


def test_what_is_skipped_is_counted_and_told_without_its_content(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.engine.play([Reply(when="^Go on$", then=(Say("On it goes."),))])
    caplog.set_level("INFO", "vivace.turns")
    body = {"model": MODEL, "input": [*FOREIGN, {"role": "user", "content": "Go on"}]}
    answer = gateway.http.post(RESPONSES, json=body)
    assert said(answer.json()) == "On it goes."
    metrics = gateway.http.get("/metrics").text
    for kind in ("web_search_call", "other", "compaction"):
        assert f'vivace_items_skipped_total{{type="{kind}"}} 1.0' in metrics
    (line,) = [each for each in caplog.messages if each.startswith("skipped items")]
    assert line.endswith("compaction=1 other=1 web_search_call=1")
    assert "secret" not in caplog.text


@every_transport
def test_a_trigger_is_answered_by_a_compaction_that_starts_a_conversation(
    gateway: RunningGateway, way: str
) -> None:
    gateway.engine.play(
        [
            Reply(when="^Summarise the conversation", then=(Say("They like cobalt."),)),
            Reply(when="^What do I like", then=(Recite(),)),
        ]
    )
    ask = getattr(Client(gateway, CODEX), way)
    likes = {"type": "message", "role": "user", "content": "I like cobalt."}
    events = ask(input=[likes, {"type": "compaction_trigger"}])
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    (item,) = events[-1]["response"]["output"]
    assert item["type"] == "compaction"
    question = {"type": "message", "role": "user", "content": "What do I like?"}
    answer = said(ask(input=[item, question])[-1]["response"])
    summary = "Summary of the conversation so far:\nThey like cobalt."
    assert answer == Recite.text([("developer", summary), ("user", "What do I like?")])


def test_an_item_at_fault_is_named_by_its_place_in_what_was_sent(gateway: RunningGateway) -> None:
    search = {"type": "web_search_call", "status": "completed", "action": {"type": "search"}}
    hello = {"type": "message", "role": "user", "content": "Hi"}
    orphan = {"type": "function_call_output", "call_id": "nobody", "output": "x"}
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    picture = {"type": "message", "role": "user", "content": [image]}
    for wrong, at in ((orphan, "input[3].call_id"), (picture, "input[3].content[0]")):
        body = {"input": [search, hello, search, wrong]}
        answer = gateway.http.post(RESPONSES, json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, at)


def test_an_image_behind_a_reference_is_named_by_its_place(gateway: RunningGateway) -> None:
    first = gateway.http.post(RESPONSES, json={"input": "Hi"}).json()
    known = {"type": "item_reference", "id": first["output"][0]["id"]}
    image = {"type": "input_image", "image_url": "data:image/png;base64,aGk="}
    picture = {"role": "user", "content": [image]}
    body = {"input": [known, picture], "previous_response_id": first["id"]}
    error = gateway.http.post(RESPONSES, json=body).json()["error"]
    assert error["param"] == "input[1].content[0]"


# -- what it shows --------------------------------------------------------------------------------


LIMITED = {"requests_per_minute": 10, "input_tokens_per_minute": 100_000}


NOW = 1_000_000


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningGateway]:
    """Its clocks stand still, so that nothing of a limit comes back."""
    monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    monkeypatch.setattr(planning, "now", lambda: NOW)
    tiers = [{"name": "v1/Fast", "engines": ["scripted"], "limits": LIMITED}]
    with RunningGateway(config=configuration(tiers=tiers, engine={"model": "other"})) as gateway:
        yield gateway


def asked_by(headers: dict[str, str], gateway: RunningGateway) -> dict[str, str]:
    """The headers of the answer."""
    asked = {"model": "v1/Fast", "input": "Hi", "stream": True, "store": False}
    return dict(gateway.http.post(RESPONSES, json=asked, headers=headers).headers)


def told_beside(headers: dict[str, str], gateway: RunningGateway) -> list[Event]:
    with Socket(gateway.url, headers) as socket:
        socket.create("Hi", model="v1/Fast", store=False)
        return [event for event in socket.until_end() if beside(event)]


def test_codex_reads_the_share_that_is_used_of_a_tiers_limits(limited: RunningGateway) -> None:
    told = asked_by(CODEX, limited)
    assert told["x-v1-fast-limit-name"] == "v1/Fast"
    assert float(told["x-v1-fast-primary-used-percent"]) == pytest.approx(10, abs=1)
    assert 0 <= float(told["x-v1-fast-secondary-used-percent"]) < 1
    assert told["x-v1-fast-primary-window-minutes"] == "1"
    assert int(told["x-v1-fast-primary-reset-at"]) == NOW + 6
    assert told["x-ratelimit-remaining-requests"] == "9"  # as everyone is told

    _, limits = told_beside(CODEX, limited)
    assert limits["limit_name"] == "v1/Fast"
    assert limits["rate_limits"]["primary"]["used_percent"] == pytest.approx(20, abs=2)
    assert limits["rate_limits"]["primary"]["window_minutes"] == 1


def test_codex_hears_of_the_limits_where_it_is_refused_for_them(limited: RunningGateway) -> None:
    for _ in range(10):
        asked_by({}, limited)
    _, limits = told_beside(CODEX, limited)
    assert limits["rate_limits"]["primary"]["used_percent"] > 95
    assert float(asked_by(CODEX, limited)["x-v1-fast-primary-used-percent"]) > 95


def test_of_a_tier_called_codex_it_is_not_told_as_of_a_plan() -> None:
    tiers = [{"name": "Codex", "engines": ["scripted"], "limits": LIMITED}]
    with RunningGateway(config=configuration(tiers=tiers)) as gateway:
        told = gateway.http.post(RESPONSES, json={"input": "Hi", "stream": True}, headers=CODEX)
        with Socket(gateway.url, CODEX) as socket:
            socket.create("Hi", store=False)
            beside_it = [event["type"] for event in socket.until_end() if beside(event)]
    assert told.headers["x-ratelimit-remaining-requests"] == "9"
    assert not [name for name in told.headers if name.startswith("x-codex")]
    assert beside_it == ["codex.response.metadata"]


def test_where_there_are_no_limits_codex_is_told_of_none(gateway: RunningGateway) -> None:
    with Socket(gateway.url, CODEX) as socket:
        socket.create("Hi")
        events = [event["type"] for event in socket.until_end() if beside(event)]
    assert events == ["codex.response.metadata"]


def test_what_codex_is_told_of_the_models_fits_the_list_of_them(limited: RunningGateway) -> None:
    version = {"client_version": "0.166.0"}
    listed = limited.http.get("/v1/models", params=version, headers=CODEX).headers["etag"]
    assert asked_by(CODEX, limited)["x-models-etag"] == listed
    metadata, _ = told_beside(CODEX, limited)
    assert metadata["headers"] == {"x-models-etag": listed}


def test_others_hear_nothing_of_it(limited: RunningGateway) -> None:
    told = asked_by({}, limited)
    assert not [name for name in told if "percent" in name or name == "x-models-etag"]
    assert told_beside({}, limited) == []


def test_who_answered_is_not_said_in_the_header_that_codex_takes_for_an_accusation(
    tiered: RunningGateway,
) -> None:
    # Of a model that it did not ask for, Codex says that the account was flagged for attacks.
    asked = {"model": "fast", "input": "Hi", "stream": True, "service_tier": "deep"}
    answer = tiered.http.post(RESPONSES, json=asked, headers=CODEX)
    assert answer.status_code == 200
    assert "openai-model" not in answer.headers


# -- its catalogue, and tiers ---------------------------------------------------------------------

TIERS = [
    {"name": "fast", "engines": ["scripted"]},
    {"name": "deep", "engines": ["scripted"], "limits": {"requests_per_minute": 1}},
]


@pytest.fixture
def tiered() -> Iterator[RunningGateway]:
    with RunningGateway(config=configuration(tiers=TIERS, engine={"model": "other"})) as gateway:
        yield gateway


def test_codex_gets_the_models_in_its_own_form_and_others_in_openais(
    tiered: RunningGateway,
) -> None:
    http, version = tiered.http, {"client_version": "0.166.0"}
    answer = http.get("/v1/models", params=version, headers=CODEX)
    models = answer.json()["models"]
    assert [model["slug"] for model in models] == ["fast", "deep", "auto"]
    tiers = models[0]["service_tiers"]
    assert [(tier["id"], tier["name"]) for tier in tiers] == [
        ("priority", "fast"),  # whose name would be lost on its way through Codex
        ("deep", "deep"),
    ]
    again = http.get("/v1/models", params=version, headers=CODEX)
    assert answer.headers["etag"] == again.headers["etag"]
    for plain in (
        http.get("/v1/models"),
        http.get("/v1/models", headers=CODEX),
        http.get("/v1/models", params=version),
    ):
        rows = plain.json()["data"]
        assert [(model["id"], model["service_tier"]) for model in rows] == [
            ("fast", True),
            ("deep", True),
            ("auto", False),
        ]


def test_a_tier_that_is_called_as_openai_calls_one_is_not_offered_as_a_choice() -> None:
    tiers = [{"name": name, "engines": ["scripted"]} for name in ("default", "deep")]
    with RunningGateway(config=configuration(tiers=tiers, engine={"model": "other"})) as gateway:
        version = {"client_version": "0.166.0"}
        models = gateway.http.get("/v1/models", params=version, headers=CODEX).json()["models"]
    assert [tier["name"] for tier in models[0]["service_tiers"]] == ["deep"]


@every_transport
def test_codex_says_priority_for_the_tier_that_is_called_fast(
    tiered: RunningGateway, way: str
) -> None:
    chosen = {"model": "deep", "input": "Hi", "service_tier": "priority"}
    assert getattr(Client(tiered, CODEX), way)(**chosen)[-1]["response"]["model"] == "fast"
    assert getattr(Client(tiered, {}), way)(**chosen)[-1]["response"]["model"] == "deep"


def test_priority_means_nothing_to_a_server_without_a_fast_tier(gateway: RunningGateway) -> None:
    (*_, last) = Client(gateway, CODEX).http(input="Hi", service_tier="priority")
    assert last["response"]["model"] == MODEL


def test_codex_is_told_how_much_a_model_can_be_asked_to_think() -> None:
    known = {"name": "known", "kind": "scripted", "model": "gpt-oss-20b"}
    unknown = {"name": "unknown", "kind": "scripted", "model": "unheard-of"}
    with RunningGateway(config=configuration(engines=[known, unknown])) as gateway:
        asked = {"client_version": "0.166.0"}
        cards = gateway.http.get("/v1/models", params=asked, headers=CODEX).json()["models"]
        plain = gateway.http.get("/v1/models").json()["data"]
    levels = [[each["effort"] for each in card["supported_reasoning_levels"]] for card in cards]
    assert levels == [["low", "medium", "high"], []]
    assert all(each["description"] for each in cards[0]["supported_reasoning_levels"])
    assert [card["default_reasoning_level"] for card in cards] == ["medium", None]
    assert [model["reasoning_efforts"] for model in plain] == levels
    assert [model["default_reasoning_effort"] for model in plain] == ["medium", None]


def test_a_service_tier_that_is_one_of_ours_is_chosen(tiered: RunningGateway) -> None:
    http = tiered.http
    asked = {"model": "fast", "input": "Hi", "service_tier": "deep"}
    answer = http.post(RESPONSES, json=asked)
    assert answer.json()["model"] == "deep"
    again = http.post(RESPONSES, json=asked)
    assert again.status_code == 429  # by the limits of the tier that was chosen
    assert "'deep'" in again.json()["error"]["message"]
    assert again.headers["x-ratelimit-limit-requests"] == "1"


@pytest.mark.parametrize("word", ["auto", "default", "flex", "priority", "made up"])
def test_other_words_for_a_service_tier_leave_the_model_alone(
    tiered: RunningGateway, word: str
) -> None:
    asked = {"model": "fast", "input": "Hi", "service_tier": word}
    assert tiered.http.post(RESPONSES, json=asked).json()["model"] == "fast"
