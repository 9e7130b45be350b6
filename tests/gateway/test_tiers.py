"""Tiers as a client meets them: routing, limits, queues, and engines that come and go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.http import RESPONSES, bearer, keys, said
from tests.support.server import RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import eventually
from vivace.config import Config
from vivace.engines.base import Work
from vivace.engines.scripted import Fail, Reply, Say, ScriptedEngine, Stall

FOREVER = Stall(60)


def engine(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "scripted", "model": f"model-of-{name}", "rate": 2000, **more}


def tier(name: str, *engines: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "engines": engines or (name,), **more}


def two_tiers(**changes: Any) -> Config:
    """``fast`` and ``deep``, each with an engine of its own that says which it is."""
    raw: dict[str, Any] = {
        "engines": [engine("fast"), engine("deep")],
        "tiers": [tier("fast"), tier("deep")],
    }
    return configuration(**raw | changes)


def introduce(gateway: RunningGateway) -> RunningGateway:
    for each in gateway.gateway.catalogue.engines:
        assert isinstance(each, ScriptedEngine)
        each.play([Reply(then=(Say(f"I am {each.name}."),))])
    return gateway


@pytest.fixture
def tiers() -> Iterator[RunningGateway]:
    with RunningGateway(config=two_tiers()) as gateway:
        yield introduce(gateway)


def post(gateway: RunningGateway, input: Any = "Hi", **body: Any) -> dict[str, Any]:  # noqa: A002
    answer: dict[str, Any] = gateway.http.post(RESPONSES, json={"input": input, **body}).json()
    return answer


def named(gateway: RunningGateway, name: str) -> ScriptedEngine:
    found = gateway.gateway.catalogue.by_name[name]
    assert isinstance(found, ScriptedEngine)
    return found


# -- which tier answers ---------------------------------------------------------------------------


def test_a_conversation_moves_between_tiers_turn_by_turn(tiers: RunningGateway) -> None:
    with Socket(tiers.url) as socket:
        after: dict[str, str] = {}
        for model in ("fast", "deep", "fast"):
            done = socket.turn("Who are you?", model=model, store=False, **after)["response"]
            assert (done["model"], said(done)) == (model, f"I am {model}.")
            assert "routing" not in done
            after = {"previous_response_id": done["id"]}


@pytest.mark.parametrize(
    ("body", "answered", "why"),
    [
        ({}, "fast", "nothing asked for more"),
        ({"reasoning": {"effort": "high"}}, "deep", "much reasoning"),
        ({"input": "word " * 20_000}, "deep", "to read"),
    ],
)
def test_auto_says_which_tier_answered_and_why(
    tiers: RunningGateway, body: dict[str, Any], answered: str, why: str
) -> None:
    response = post(tiers, **{"model": "auto", **body})
    assert said(response) == f"I am {answered}."
    assert response["routing"]["tier"] == response["model"] == answered
    assert why in response["routing"]["reason"]


def test_after_a_turn_that_was_cut_off_auto_takes_the_deep_tier(tiers: RunningGateway) -> None:
    cut = post(tiers, model="auto", max_output_tokens=1)
    assert cut["status"] == "incomplete"
    again = post(tiers, model="auto", previous_response_id=cut["id"])
    assert again["routing"] == {"tier": "deep", "reason": "the turn before it did not succeed"}


def test_models_are_listed_with_auto(tiers: RunningGateway) -> None:
    models = tiers.http.get("/v1/models").json()["data"]
    assert [model["id"] for model in models] == ["fast", "deep", "auto"]
    assert tiers.http.get("/v1/models/auto").json()["id"] == "auto"


def test_a_model_says_whether_it_fills_gaps() -> None:
    """Their names tell nothing; ``auto`` fills where its fast tier does."""

    def endpoint(name: str, model: str) -> dict[str, Any]:
        url = "http://127.0.0.1:9/v1"
        return {"name": name, "kind": "openai", "model": model, "url": url}

    config = configuration(
        engines=[
            engine("scripted"),
            endpoint("coder", "qwen2.5-coder-7b"),
            endpoint("talker", "unheard-of"),
        ],
        tiers=[tier("fast", "scripted", "coder"), tier("deep", "coder", "talker")],
    )
    with RunningGateway(config=config) as gateway:
        rows = gateway.http.get("/v1/models").json()["data"]
    assert {row["id"]: row["fill_in_the_middle"] for row in rows} == {
        "fast": True,
        "deep": False,
        "auto": True,
    }


def test_without_tiers_there_is_no_auto(gateway: RunningGateway) -> None:
    refused = gateway.http.post(RESPONSES, json={"input": "Hi", "model": "auto"})
    assert refused.status_code == 404


# -- limits ---------------------------------------------------------------------------------------

EXHAUSTING: dict[str, dict[str, Any]] = {
    "requests_per_minute": {"limits": {"requests_per_minute": 1}},
    "input_tokens_per_minute": {"limits": {"input_tokens_per_minute": 250}},
    "output_tokens_per_minute": {"limits": {"output_tokens_per_minute": 5}},
    "concurrency": {"limits": {"concurrency": 1}},
}


@pytest.mark.parametrize("dimension", EXHAUSTING)
def test_one_tier_used_up_leaves_the_other_alone(dimension: str) -> None:
    limited = tier("fast", **EXHAUSTING[dimension])
    config = two_tiers(tiers=[limited, tier("deep", **EXHAUSTING[dimension])])
    with RunningGateway(config=config) as gateway:
        introduce(gateway)
        body = {"model": "fast", "input": "x " * 200, "max_output_tokens": 4}
        with Socket(gateway.url) as socket:
            if dimension == "concurrency":
                named(gateway, "fast").play([Reply(then=(Say("word"), FOREVER))])
                socket.create("x", model="fast")
                socket.until("response.output_text.delta")
            else:
                assert post(gateway, **body)["status"] in ("completed", "incomplete")
            refused = gateway.http.post(RESPONSES, json=body)
            assert refused.status_code == 429
            assert refused.json()["error"]["code"] == "rate_limit_exceeded"
            assert int(refused.headers["retry-after"]) >= 1
            assert post(gateway, **body | {"model": "deep"})["status"] != "failed"


def test_all_that_a_completion_shows_is_charged_but_no_more_than_fits() -> None:
    limits = {"input_tokens_per_minute": 10_000}
    config = configuration(
        engines=[engine("fast", context=5000)], tiers=[tier("fast", limits=limits)]
    )
    file = {"path": "n.py", "text": "x = 1\n" * 100_000}
    with RunningGateway([Reply(then=(Fail(),))], config=config) as gateway:
        before = {"model": "fast", "fill": {"prefix": "a", "suffix": "b", "files": [file]}}
        left = gateway.http.post(RESPONSES, json=before).headers["x-ratelimit-remaining-tokens"]
        assert int(left) == pytest.approx(5000, abs=500)  # it grows while we look


def test_what_is_left_stands_in_the_headers() -> None:
    limits = {"requests_per_minute": 60, "input_tokens_per_minute": 10_000}
    config = two_tiers(tiers=[tier("fast", limits=limits), tier("deep")])
    with RunningGateway(config=config) as gateway:
        introduce(gateway)
        for stream in (False, True):
            body = {"model": "fast", "input": "Hi", "stream": stream}
            headers = gateway.http.post(RESPONSES, json=body).headers
            assert headers["x-ratelimit-limit-requests"] == "60"
            assert headers["x-ratelimit-remaining-requests"] == ("58" if stream else "59")
            assert headers["x-ratelimit-limit-tokens"] == "10000"
        free = gateway.http.post(RESPONSES, json={"model": "deep", "input": "Hi"}).headers
        assert not any(name.startswith("x-ratelimit") for name in free)


@pytest.mark.parametrize("what", ["compaction", "warm-up"])
def test_compaction_and_warm_up_are_charged_to_their_own_tier(what: str) -> None:
    limits = {"requests_per_minute": 1}
    config = two_tiers(tiers=[tier(name, limits=limits) for name in ("fast", "deep")])
    with RunningGateway(config=config) as gateway:
        introduce(gateway)
        if what == "compaction":
            conversation = [{"role": "user", "content": "Hi"}]
            body = {"model": "deep", "input": conversation}
            assert gateway.http.post(f"{RESPONSES}/compact", json=body).status_code == 200
        else:
            with Socket(gateway.url) as socket:
                socket.turn("Hi", model="deep", generate=False)
        assert (
            gateway.http.post(RESPONSES, json={"model": "deep", "input": "Hi"}).status_code == 429
        )
        assert (
            gateway.http.post(RESPONSES, json={"model": "fast", "input": "Hi"}).status_code == 200
        )


def test_each_key_has_limits_of_its_own() -> None:
    limits = {"requests_per_minute": 1}
    config = two_tiers(tiers=[tier("fast", limits=limits), tier("deep")], keys=keys("ann", "bob"))
    with RunningGateway(config=config) as gateway:
        introduce(gateway)
        body = {"model": "fast", "input": "Hi"}
        statuses = [
            gateway.http.post(RESPONSES, json=body, headers=bearer(owner)).status_code
            for owner in ("ann", "ann", "bob")
        ]
        assert statuses == [200, 429, 200]


def test_a_refusal_over_the_websocket_says_when_to_come_back() -> None:
    limits = {"requests_per_minute": 1}
    config = two_tiers(tiers=[tier("fast", limits=limits), tier("deep")])
    with RunningGateway(config=config) as gateway, Socket(gateway.url) as socket:
        introduce(gateway)
        socket.turn("Hi", model="fast")
        socket.create("Hi", model="fast")
        refused = socket.read()
        assert (refused["type"], refused["status"]) == ("error", 429)
        assert int(refused["error"]["headers"]["retry-after"]) >= 1


# -- queues ---------------------------------------------------------------------------------------


def one_slot(**more: Any) -> Config:
    return configuration(engine={"slots": 1}, **more)


def test_who_has_to_wait_is_told_where_it_stands() -> None:
    with (
        RunningGateway([Reply(then=(Say("word"), FOREVER))], config=one_slot()) as gateway,
        Socket(gateway.url) as first,
        Socket(gateway.url) as second,
    ):
        first.create("x")
        running = first.until("response.created")["response"]["id"]
        first.until("response.output_text.delta")
        second.create("y", stream_id="a")
        second.create("z", stream_id="b")
        created, queued = second.read(), second.read()
        assert created["response"]["status"] == "queued"
        assert queued["type"] == "response.queued"
        assert queued["queue"]["position"] == 1
        assert second.until("response.queued")["queue"]["position"] == 2
        first.send(type="response.interrupt", response_id=running)
        begun = second.until("response.in_progress")
        assert begun["stream_id"] == "a"
        moved = second.until("response.queued")
        assert (moved["stream_id"], moved["queue"]["position"]) == ("b", 1)


@pytest.mark.parametrize("how", ["interrupt", "steer", "leave"])
def test_who_waits_can_leave_the_queue(how: str) -> None:
    replies = [Reply(when="left", then=(Say("Going left."),)), Reply(then=(Say("word"), FOREVER))]
    with RunningGateway(replies, config=one_slot()) as gateway, Socket(gateway.url) as first:
        first.create("x")
        running = first.until("response.created")["response"]["id"]
        first.until("response.output_text.delta")
        with Socket(gateway.url) as second:
            second.create("y")
            waiting = second.until("response.queued")["response"]["id"]
            if how == "interrupt":
                second.send(type="response.interrupt", response_id=waiting)
                ended = second.until("response.incomplete")["response"]
                assert ended["incomplete_details"] == {"reason": "interrupted"}
            elif how == "steer":
                second.send(type="response.steer", previous_response_id=waiting, input="left")
                second.until("response.incomplete")
                second.until("response.queued")
                first.send(type="response.interrupt", response_id=running)
                assert said(second.until_end()[-1]["response"]) == "Going left."
                return
        assert gateway.engine.running() == 1
        first.send(type="response.interrupt", response_id=running)
        first.until("response.incomplete")
        eventually(lambda: gateway.engine.running() == 0)
        metrics = gateway.http.get("/metrics").text
        assert 'vivace_queue_length{kind="agent",tier="local-model"} 0.0' in metrics


def test_interactive_work_goes_before_agents_that_waited_longer() -> None:
    with (
        RunningGateway([Reply(then=(Say("word"), FOREVER))], config=one_slot()) as gateway,
        Socket(gateway.url) as socket,
    ):
        socket.create("x", stream_id="first")
        socket.until("response.output_text.delta")
        socket.create("x", stream_id="agent")
        socket.until("response.queued")
        socket.create("x", stream_id="quick", max_output_tokens=10)
        socket.until("response.queued")
        ended = []
        for _ in range(3):
            gateway.go_on()
            ended.append(socket.until_end()[-1]["stream_id"])
        assert ended == ["first", "quick", "agent"]


def test_a_full_queue_refuses_at_once() -> None:
    config = configuration(engines=[engine("one", slots=1)], tiers=[tier("fast", "one", queue=1)])
    with (
        RunningGateway([Reply(then=(Say("word"), FOREVER))], config=config) as gateway,
        Socket(gateway.url) as socket,
    ):
        for lane in "ab":
            socket.create("x", stream_id=lane)
        socket.until("response.queued")
        socket.create("x", stream_id="c")
        refused = socket.until("error")
        assert refused["error"]["code"] == "queue_full"


def tokens_of(gateway: RunningGateway, kind: str) -> float:
    name = f'vivace_tokens_total{{kind="{kind}",model="local-model"}} '
    lines = gateway.http.get("/metrics").text.splitlines()
    return sum(float(line.removeprefix(name)) for line in lines if line.startswith(name))


@pytest.mark.parametrize("burst", [1, 16])
def test_a_stopped_turn_is_charged_what_it_took_however_its_tokens_came(burst: int) -> None:
    """A delta is many tokens where the engine drafts, or where its reader was slow."""
    config = configuration(engine={"rate": 2000, "burst": burst})
    replies = [Reply(then=(Say(" word", times=160), FOREVER))]
    with RunningGateway(replies, config=config) as gateway, Socket(gateway.url) as socket:
        socket.create("x " * 100)
        running = socket.until("response.created")["response"]["id"]
        text = ""
        while len(text) < 160 * len(" word"):
            text += socket.until("response.output_text.delta")["delta"]
        socket.send(type="response.interrupt", response_id=running)
        socket.until("response.incomplete")
        assert tokens_of(gateway, "output") == 160
        assert tokens_of(gateway, "input") == 51


def test_a_turn_that_no_engine_has_worked_on_is_charged_nothing() -> None:
    replies = [Reply(then=(Say("word"), FOREVER))]
    with (
        RunningGateway(replies, config=one_slot()) as gateway,
        Socket(gateway.url) as first,
        Socket(gateway.url) as second,
    ):
        first.create("x")
        first.until("response.output_text.delta")
        second.create("y " * 100)
        waiting = second.until("response.queued")["response"]["id"]
        second.send(type="response.interrupt", response_id=waiting)
        second.until("response.incomplete")
        assert tokens_of(gateway, "input") == 0


# -- engines that come and go ---------------------------------------------------------------------


def pool(count: int = 2) -> Config:
    names = [f"replica{number}" for number in range(count)]
    return configuration(engines=[engine(name) for name in names], tiers=[tier("fast", *names)])


@pytest.mark.parametrize("door", ["responses", "completions"])
def test_completions_of_one_document_go_where_it_was_read_before(door: str) -> None:
    def replica(document: str) -> str:
        named = {"model": "fast", "prompt_cache_key": document}
        if door == "responses":
            return said(post(gateway, input=None, fill={"prefix": "a", "suffix": "b"}, **named))
        body = {"prompt": "a", "suffix": "b", **named}
        answer = gateway.http.post("/v1/completions", json=body).json()
        return str(answer["choices"][0]["text"])

    with RunningGateway(config=pool(4)) as gateway:
        introduce(gateway)
        documents = [f"shop/{number}.py" for number in range(12)]
        homes = [{replica(document) for _ in range(3)} for document in documents]
    assert all(len(home) == 1 for home in homes)
    assert len(set.union(*homes)) > 1


def test_a_turn_whose_engine_dies_before_the_first_word_runs_on_another() -> None:
    with RunningGateway(config=pool()) as gateway:
        introduce(gateway)
        home = said(post(gateway, model="fast", prompt_cache_key="c"))
        name = home.removeprefix("I am ").removesuffix(".")
        stuck = named(gateway, name)
        stuck.play([Reply(then=(FOREVER,))])
        answers: list[dict[str, Any]] = []
        asked = threading.Thread(
            target=lambda: answers.append(post(gateway, model="fast", prompt_cache_key="c"))
        )
        asked.start()
        eventually(lambda: stuck.running() == 1)
        stuck.die("killed")
        asked.join(10)
        assert answers[0]["status"] == "completed"
        assert said(answers[0]) != home


def calls_of(each: ScriptedEngine) -> list[Work]:
    """Fills with what the engine is asked from now on."""
    asked: list[Work] = []
    original = each.generate

    def counted(work: Work) -> Any:
        asked.append(work)
        return original(work)

    each.generate = counted  # type: ignore[method-assign]
    return asked


@pytest.mark.parametrize(
    ("status", "most"),
    [
        (429, 1),  # it asked to be left alone
        (503, 3),  # its circuit opens
        (500, 3),  # the same, because the other engine can
    ],
)
def test_an_engine_that_answers_with_errors_costs_nobody_a_turn(status: int, most: int) -> None:
    with RunningGateway(config=pool()) as gateway:
        introduce(gateway)
        bad = named(gateway, "replica0")
        bad.play([Reply(then=(Fail("no", status=status, retry_after=60 * (status == 429)),))])
        asked = calls_of(bad)
        for number in range(24):
            response = post(gateway, f"conversation {number}", model="fast")
            assert (response["status"], said(response)) == ("completed", "I am replica1.")
        assert 1 <= len(asked) <= most


def test_what_no_engine_takes_is_tried_once_and_shuts_nobody_out() -> None:
    replies = [Reply(when="poison", then=(Fail("no", status=400),))]
    with RunningGateway(config=pool()) as gateway:
        engines = [named(gateway, f"replica{number}") for number in range(2)]
        introduce(gateway)
        asked = [calls_of(each) for each in engines]
        for each in engines:
            each.play(replies)
        for number in range(8):
            response = post(gateway, f"poison {number}", model="fast")
            assert response["error"] == {"code": "invalid_prompt", "message": "no"}
        assert sum(map(len, asked)) == 8
        homes = {said(post(gateway, f"good {number}", model="fast")) for number in range(24)}
        assert homes == {"I am replica0.", "I am replica1."}


def test_what_makes_every_engine_fail_counts_against_none() -> None:
    with RunningGateway(config=pool()) as gateway:
        introduce(gateway)
        for number in range(2):
            named(gateway, f"replica{number}").play([Reply(when="poison", then=(Fail("no"),))])
        for number in range(12):
            assert post(gateway, f"poison {number}", model="fast")["status"] == "failed"
        homes = {said(post(gateway, f"good {number}", model="fast")) for number in range(24)}
        assert homes == {"I am replica0.", "I am replica1."}


def test_after_the_first_word_a_failure_is_told_and_not_tried_elsewhere() -> None:
    with RunningGateway(config=pool()) as gateway:
        for number in range(2):
            each = named(gateway, f"replica{number}")
            each.play([Reply(then=(Say("so far"), Fail("no", status=503)))])
        with Socket(gateway.url) as socket:
            socket.create("Hi", model="fast")
            events = socket.until_end()
        assert events[-1]["type"] == "response.failed"
        text = [each["delta"] for each in events if each["type"].endswith("output_text.delta")]
        assert "".join(text) == "so far"


def test_when_all_engines_are_busy_the_client_learns_for_how_long() -> None:
    with RunningGateway(config=pool()) as gateway:
        for number, wait in enumerate((300, 200)):
            each = named(gateway, f"replica{number}")
            each.play([Reply(then=(Fail("Too much.", status=429, retry_after=wait),))])
        failed = gateway.http.post(RESPONSES, json={"input": "Hi", "model": "fast"})
        assert failed.json()["error"] == {
            "code": "rate_limit_exceeded",
            "message": "Too much. Try again in 200 s.",
        }
        assert failed.headers["retry-after"] == "200"
        refused = gateway.http.post(RESPONSES, json={"input": "Hi", "model": "fast"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "engine_unavailable")
        assert 190 < int(refused.headers["retry-after"]) <= 200


def test_chat_says_by_its_headers_when_to_come_back() -> None:
    with RunningGateway([Reply(then=(Fail("Too much.", status=429, retry_after=5),))]) as gateway:
        body = {"model": "local-model", "messages": [{"role": "user", "content": "Hi"}]}
        failed = gateway.http.post("/v1/chat/completions", json=body)
        assert (failed.status_code, failed.headers["retry-after"]) == (503, "5")


def test_conversations_of_a_dead_engine_move_and_none_loses_a_turn() -> None:
    with RunningGateway(config=pool(4)) as gateway:
        introduce(gateway)
        last: dict[int, str] = {}
        homes: dict[int, str] = {}
        for number in range(24):
            response = post(gateway, f"conversation {number}", model="fast")
            last[number], homes[number] = response["id"], said(response)
        dead = named(gateway, "replica2")
        dead.die("killed")
        for number, previous in last.items():
            response = post(gateway, "go on", model="fast", previous_response_id=previous)
            assert response["status"] == "completed"
            assert said(response) != "I am replica2."
            if homes[number] != "I am replica2.":
                assert said(response) == homes[number]


def test_when_all_engines_are_gone_it_says_so() -> None:
    with RunningGateway(config=pool()) as gateway:
        for each in gateway.gateway.catalogue.engines:
            assert isinstance(each, ScriptedEngine)
            each.die("killed")
        refused = gateway.http.post(RESPONSES, json={"input": "Hi", "model": "fast"})
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "engine_unavailable"
        assert refused.headers["retry-after"] == "1"


def test_the_metrics_tell_of_queues_and_engines(tiers: RunningGateway) -> None:
    post(tiers, model="fast")
    text = tiers.http.get("/metrics").text
    for line in (
        'vivace_engine_up{engine="fast"} 1.0',
        'vivace_engine_slots{engine="deep"} 1024.0',
        'vivace_engine_running{engine="fast"} 0.0',
        'vivace_engine_circuit_open{engine="fast"} 0.0',
        'vivace_queue_wait_seconds_count{kind="agent",tier="fast"} 1.0',
    ):
        assert line in text
