"""The Responses API over HTTP, byte by byte as curl would see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.http import RESPONSES, bearer, keys, said, sse, user
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.engines.scripted import Die, Fail, Reply, Say, Stall
from vivace.errors import StoreError

FOREVER = Stall(60)
"""Longer than any test waits; what follows it is never said."""


@pytest.fixture
def http(gateway: RunningGateway) -> Iterator[httpx.Client]:
    with gateway.http as client:
        yield client


@pytest.fixture(scope="module")
def plain() -> Iterator[httpx.Client]:
    """For tests that leave nothing behind: one gateway serves them all."""
    with RunningGateway() as gateway, gateway.http as client:
        yield client


def create(http: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = http.post(RESPONSES, json=body)
    assert answer.status_code == 200, answer.text
    response: dict[str, Any] = answer.json()
    return response


def error(answer: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert set(body) == {"error"}
    found: dict[str, Any] = body["error"]
    return found


# -- answers --------------------------------------------------------------------------------------


def test_a_plain_request_gets_one_finished_response(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=(Say("Good day."),))])
    response = create(http, input="Hi", metadata={"ticket": "7"}, unheard_of={"a": [1]})
    assert response["status"] == "completed"
    assert said(response) == "Good day."
    assert response["metadata"] == {"ticket": "7"}
    assert response["usage"]["total_tokens"] > 0


def test_a_stream_is_named_events_ended_by_done(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=(Say("Good day."),))])
    answer = http.post(RESPONSES, json={"input": "Hi", "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("event: response.created\ndata: {")
    assert answer.text.endswith("\n\ndata: [DONE]\n\n")
    last = list(sse(answer.text.splitlines()))[-1]
    assert last["type"] == "response.completed"
    assert said(last["response"]) == "Good day."


def test_a_limit_on_output_leaves_the_answer_incomplete(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=(Say("one two three four five"),))])
    response = create(http, input="Count", max_output_tokens=3)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"
    assert said(response) == "one two three"
    assert response["usage"]["output_tokens"] == 3


# -- errors ---------------------------------------------------------------------------------------

_TOO_DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ('{"input": "x", "temperature": "hot"}', "invalid_type", "temperature"),
        ('{"input": "x", "temperature": 3}', "invalid_type", "temperature"),
        ('{"input": "x", "text": {"format": {"type": "rtf"}}}', "invalid_type", "text.format.type"),
        ('{"input": [{"role": "user", "content": 5}]}', "invalid_type", "input[0].content"),
        (
            '{"input": [{"role": "user", "content": [{"type": "input_text", "text": 5}]}]}',
            "invalid_type",
            "input[0].content[0].text",
        ),
        ('{"input": [{}]}', "missing_required_parameter", "input[0].type"),
        ('{"input": [5]}', "invalid_type", "input[0]"),
        (
            '{"input": [{"type": "item_reference", "id": "msg_x"}]}',
            "item_not_found",
            "input[0].id",
        ),
        (
            '{"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}',
            "tool_call_not_found",
            "input[0].call_id",
        ),
        (
            '{"input": "x", "tools": [{"type": "function"}]}',
            "missing_required_parameter",
            "tools[0].name",
        ),
        ('{"input": "x", "tool_choice": "sometimes"}', "invalid_type", "tool_choice"),
        (
            '{"input": "x", "previous_response_id": "resp_x"}',
            "previous_response_not_found",
            "previous_response_id",
        ),
        ('{"input": "x", "background": true, "store": false}', "invalid_value", "store"),
        ("{}", "missing_required_parameter", "input"),
        ('{"input": []}', "missing_required_parameter", "input"),
        ('{"input": ', "invalid_json", None),
        ('["input"]', "invalid_type", None),
        ("", "invalid_json", None),
        (b'{"input": "\xff"}', "invalid_json", None),
        ('{"input": ' + _TOO_DEEP, "invalid_json", None),
        ('{"input": "x", "unheard_of": ' + _TOO_DEEP, "invalid_json", None),
        ('{"input": "x", "tool_choice": ' + _TOO_DEEP, "invalid_json", None),
    ],
)
def test_a_wrong_request_is_refused_by_the_name_of_what_is_wrong(
    plain: httpx.Client, body: str | bytes, code: str, param: str | None
) -> None:
    answer = plain.post(RESPONSES, content=body)
    assert answer.status_code == 400
    found = error(answer)
    assert (found["type"], found["code"], found["param"]) == ("invalid_request_error", code, param)
    assert found["message"]
    assert found["request_id"] == answer.headers["x-request-id"]


_TOOL = '{"input": "x", "tools": [{"type": "function", "name": "f", "parameters": {"a": %s}}]}'
_FORMAT = (
    '{"input": "x", "text": {"format": {"type": "json_schema", "name": "n", "schema": {"a": %s}}}}'
)


@pytest.mark.parametrize("mode", [{}, {"stream": True}, {"background": True}], ids=str)
@pytest.mark.parametrize("form", [_TOOL, _FORMAT], ids=["tool", "format"])
def test_what_can_be_read_can_be_echoed_however_deep(
    plain: httpx.Client, form: str, mode: dict[str, bool]
) -> None:
    for depth, status in ((90, 200), (150, 400), (900, 400), *((n, 400) for n in range(960, 975))):
        body = form % ("[" * depth + "]" * depth)
        answer = plain.post(RESPONSES, content=json.dumps(mode)[:-1] + ", " * bool(mode) + body[1:])
        assert answer.status_code == status, depth


@pytest.mark.parametrize("stream", [False, True])
def test_an_unknown_model_is_answered_with_the_nearest_name(
    plain: httpx.Client, stream: bool
) -> None:
    answer = plain.post(RESPONSES, json={"model": "locl-model", "input": "x", "stream": stream})
    assert answer.status_code == 404
    assert error(answer)["code"] == "model_not_found"
    assert error(answer)["param"] == "model"
    assert "'local-model'" in error(answer)["message"]


@pytest.mark.parametrize("chunked", [False, True])
def test_too_large_a_body_is_refused(chunked: bool) -> None:
    body = b'{"input": "' + b"x" * 1_100_000 + b'"}'
    with RunningGateway(config=configuration(limits={"body_megabytes": 1})) as gateway:
        answer = gateway.http.post(RESPONSES, content=iter([body]) if chunked else body)
        assert answer.status_code == 413
        assert error(answer)["code"] == "request_too_large"
        assert create(gateway.http, input="x" * 400_000)["status"] == "completed"


# -- who may ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [None, "Bearer wrong", "Basic c2VjcmV0", "secret"])
def test_without_a_known_key_nothing_is_answered(header: str | None) -> None:
    headers = {"Authorization": header} if header is not None else {}
    with RunningGateway(config=configuration(keys=keys("ada"))) as gateway:
        answer = gateway.http.post(RESPONSES, json={"input": "x"}, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert error(answer)["code"] == "invalid_api_key"
        assert gateway.http.get("/v1/models", headers=headers).status_code == 401
        assert gateway.http.get("/metrics", headers=headers).status_code == 401
        assert gateway.http.get("/healthz", headers=headers).status_code == 200
        assert gateway.http.get("/v1/models", headers=bearer("ada")).status_code == 200


def test_web_pages_are_refused_unless_allowed() -> None:
    friend, stranger = "https://friend.example", "https://stranger.example"
    config = configuration(server={"port": 0, "allowed_origins": [friend]})
    with RunningGateway(config=config) as gateway:
        refused = gateway.http.post(RESPONSES, json={"input": "x"}, headers={"Origin": stranger})
        assert refused.status_code == 403
        assert error(refused)["code"] == "origin_not_allowed"
        assert gateway.engine.running() == 0
        allowed = gateway.http.post(RESPONSES, json={"input": "x"}, headers={"Origin": friend})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == friend


def test_an_allowed_page_may_ask_before_it_sends_its_key() -> None:
    """A browser's preflight carries no Authorization, whatever the request after it will."""
    friend = "https://friend.example"
    server = {"port": 0, "allowed_origins": [friend]}
    preflight = {
        "Origin": friend,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    with RunningGateway(config=configuration(server=server, keys=keys("ada"))) as gateway:
        answer = gateway.http.options(RESPONSES, headers=preflight)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == friend


@pytest.mark.parametrize("name", ["x-request-id", "x-client-request-id"])
@pytest.mark.parametrize("path", ["/healthz", "/v1/responses/resp_unknown"])
def test_a_request_keeps_the_id_it_was_given(plain: httpx.Client, name: str, path: str) -> None:
    assert plain.get(path, headers={name: "mine-1"}).headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize("given", ["two words", "x" * 129, "<b>"])
def test_a_request_with_an_unfit_id_gets_a_fresh_one(plain: httpx.Client, given: str) -> None:
    answer = plain.get("/healthz", headers={"x-request-id": given})
    assert answer.headers["x-request-id"].startswith("req_")


# -- kept responses -------------------------------------------------------------------------------


def test_a_response_continues_the_one_before(gateway: RunningGateway, http: httpx.Client) -> None:
    first = create(http, input="The word is cobalt.")
    second = create(http, input="Which word?", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    assert second["usage"]["input_tokens"] > first["usage"]["total_tokens"]
    assert http.get(f"{RESPONSES}/{second['id']}").json() == second


def test_input_items_come_in_pages_without_gap_or_repeat(plain: httpx.Client) -> None:
    texts = [f"message {number}" for number in range(5)]
    made = create(plain, input=[user(text) for text in texts])
    path = f"{RESPONSES}/{made['id']}/input_items"
    newest_first = plain.get(path).json()["data"]
    assert [item["content"][0]["text"] for item in newest_first] == texts[::-1]

    read: list[str] = []
    page: dict[str, Any] = {"has_more": True}
    query = {"limit": "2", "order": "asc"}
    while page["has_more"]:
        page = plain.get(path, params=query).json()
        read += [item["content"][0]["text"] for item in page["data"]]
        query["after"] = page["last_id"]
    assert read == texts


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=many", "limit"),
        ("limit=" + "9" * 5000, "limit"),
        ("after=msg_unknown", "after"),
        ("order=newest", "order"),
    ],
)
def test_an_impossible_page_is_refused(plain: httpx.Client, query: str, param: str) -> None:
    made = create(plain, input="x")
    answer = plain.get(f"{RESPONSES}/{made['id']}/input_items?{query}")
    assert answer.status_code == 400
    assert error(answer)["param"] == param


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "resp_x"),
        ("GET", "resp_x?stream=true"),
        ("DELETE", "resp_x"),
        ("POST", "resp_x/cancel"),
        ("GET", "resp_x/input_items"),
    ],
)
def test_an_unknown_response_is_not_found(plain: httpx.Client, method: str, path: str) -> None:
    answer = plain.request(method, f"{RESPONSES}/{path}")
    assert answer.status_code == 404
    assert error(answer)["code"] == "response_not_found"


def test_a_deleted_response_is_gone_and_its_children_cannot_be_continued(
    plain: httpx.Client,
) -> None:
    first = create(plain, input="The word is cobalt.")
    child = create(plain, input="Go on.", previous_response_id=first["id"])
    path = f"{RESPONSES}/{first['id']}"
    assert plain.delete(path).json() == {
        "id": first["id"],
        "object": "response.deleted",
        "deleted": True,
    }
    assert plain.get(path).status_code == 404
    assert plain.delete(path).status_code == 404
    for parent in (first, child):
        body = {"input": "Which word?", "previous_response_id": parent["id"]}
        answer = plain.post(RESPONSES, json=body)
        assert answer.status_code == 400
        assert error(answer)["code"] == "previous_response_not_found"


def test_nothing_of_an_unstored_response_reaches_the_disk(tmp_path: Path) -> None:
    config = configuration(store={"path": "turns.db"})
    reply = Reply(when="malachite", then=(Say("obsidian"),))
    with RunningGateway([reply], config=config, base=tmp_path) as gateway:
        secret = create(gateway.http, input="malachite", store=False)
        assert said(secret) == "obsidian"
        assert secret["store"] is False
        assert gateway.http.get(f"{RESPONSES}/{secret['id']}").status_code == 404
        create(gateway.http, input="turquoise")
        while_running = _bytes_in(tmp_path)
    for written in (while_running, _bytes_in(tmp_path)):
        assert b"turquoise" in written
        assert b"malachite" not in written
        assert b"obsidian" not in written


def _bytes_in(folder: Path) -> bytes:
    """The write-ahead log before its database: pages move from the one to the other meanwhile."""
    files = sorted((path for path in folder.rglob("*") if path.is_file()), reverse=True)
    return b"".join(path.read_bytes() for path in files)


def test_responses_of_another_owner_do_not_exist() -> None:
    with RunningGateway(config=configuration(keys=keys("ada", "bob"))) as gateway:
        ada = httpx.Client(base_url=gateway.http.base_url, headers=bearer("ada"))
        bob = httpx.Client(base_url=gateway.http.base_url, headers=bearer("bob"))
        gateway.engine.play([Reply(when="wait", then=(FOREVER,))])
        kept = create(ada, input="The word is cobalt.")
        running = create(ada, input="wait", background=True)
        for response in (kept, running):
            path = f"{RESPONSES}/{response['id']}"
            assert bob.get(path).status_code == 404
            assert bob.get(f"{path}?stream=true").status_code == 404
            assert bob.get(f"{path}/input_items").status_code == 404
            assert bob.post(f"{path}/cancel").status_code == 404
            assert bob.delete(path).status_code == 404
            body = {"input": "Go on.", "previous_response_id": response["id"]}
            assert bob.post(RESPONSES, json=body).status_code == 400
            assert ada.get(path).json() == response
        assert gateway.engine.running() == 1


def test_who_may_not_delete_a_response_takes_nothing_of_it() -> None:
    with RunningGateway(config=configuration(keys=keys("ada", "bob"))) as gateway:
        ada = httpx.Client(base_url=gateway.http.base_url, headers=bearer("ada"))
        bob = httpx.Client(base_url=gateway.http.base_url, headers=bearer("bob"))
        path = f"{RESPONSES}/{create(ada, input='x', background=True)['id']}"
        events = ada.get(path, params={"stream": "true"}).text
        assert "response.completed" in events
        assert bob.delete(path).status_code == 404
        assert ada.get(path, params={"stream": "true"}).text == events
        assert ada.delete(path).status_code == 200
        assert ada.get(path, params={"stream": "true"}).status_code == 404


# -- in the background ----------------------------------------------------------------------------


def test_a_background_response_is_fetched_when_it_is_done(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play(
        [
            Reply(
                then=(
                    Stall(0.05),
                    Say("At last."),
                )
            )
        ]
    )
    begun = create(http, input="x", background=True)
    assert begun["status"] in ("queued", "in_progress")
    path = f"{RESPONSES}/{begun['id']}"
    eventually(lambda: http.get(path).json()["status"] == "completed")
    assert said(http.get(path).json()) == "At last."


def test_a_broken_stream_is_taken_up_again_without_gap_or_repeat(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play(
        [
            Reply(
                then=(
                    Say("early "),
                    Stall(0.2),
                    Say("late"),
                )
            )
        ]
    )
    body = {"input": "x", "background": True, "stream": True}
    events: list[dict[str, Any]] = []
    with http.stream("POST", RESPONSES, json=body) as answer:
        for event in sse(answer.iter_lines()):
            events.append(event)
            if event["type"] == "response.output_text.delta":
                break
    path = f"{RESPONSES}/{events[0]['response']['id']}"
    after = {"stream": "true", "starting_after": str(events[-1]["sequence_number"])}
    with http.stream("GET", path, params=after) as answer:
        events += sse(answer.iter_lines())
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert "".join(event["delta"] for event in events if "delta" in event) == "early late"
    assert events[-1]["type"] == "response.completed"

    whole = http.get(path, params={"stream": "true"}).text
    assert list(sse(whole.splitlines())) == events
    nothing_left = {"stream": "true", "starting_after": "999999"}
    assert http.get(path, params=nothing_left).text == "data: [DONE]\n\n"


def test_stream_is_true_or_false(plain: httpx.Client) -> None:
    path = f"{RESPONSES}/{create(plain, input='x')['id']}"
    assert plain.get(path, params={"stream": "false"}).status_code == 200
    answer = plain.get(path, params={"stream": "maybe"})
    assert answer.status_code == 400
    assert error(answer)["param"] == "stream"


@pytest.mark.parametrize("after", ["-1", "soon", "9" * 5000])
def test_an_impossible_place_to_start_after_is_refused(plain: httpx.Client, after: str) -> None:
    made = create(plain, input="x", background=True)
    query = {"stream": "true", "starting_after": after}
    answer = plain.get(f"{RESPONSES}/{made['id']}", params=query)
    assert answer.status_code == 400
    assert error(answer)["param"] == "starting_after"


def test_a_cancelled_response_stops_and_keeps_what_was_said(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=(Say("Well begun"), FOREVER, Say("half done")))])
    begun = create(http, input="x", background=True)
    path = f"{RESPONSES}/{begun['id']}"
    with http.stream("GET", path, params={"stream": "true"}) as answer:
        deltas = (event for event in sse(answer.iter_lines()) if "delta" in event)
        assert next(deltas)["delta"] == "Well"
        assert next(deltas)["delta"] == " begun"
    cancelled = http.post(f"{path}/cancel").json()
    assert cancelled["status"] == "cancelled"
    assert said(cancelled) == "Well begun"
    assert gateway.engine.running() == 0
    assert http.post(f"{path}/cancel").json() == cancelled
    assert http.get(path).json() == cancelled
    events = list(sse(http.get(path, params={"stream": "true"}).text.splitlines()))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["delta"] for event in events if "delta" in event] == ["Well", " begun"]


def test_deleting_a_running_response_stops_it(gateway: RunningGateway, http: httpx.Client) -> None:
    gateway.engine.play([Reply(then=(FOREVER,))])
    begun = create(http, input="x", background=True)
    assert http.delete(f"{RESPONSES}/{begun['id']}").status_code == 200
    assert gateway.engine.running() == 0
    assert http.get(f"{RESPONSES}/{begun['id']}").status_code == 404


# -- too long for the model -----------------------------------------------------------------------


def test_a_conversation_too_long_for_the_model_is_refused_or_truncated() -> None:
    with RunningGateway(config=configuration(engine={"context": 50})) as gateway:
        http = gateway.http
        first = create(http, input="a" * 80)
        more = {"input": "b" * 80, "previous_response_id": first["id"]}
        refused = http.post(RESPONSES, json=more)
        assert refused.status_code == 400
        assert error(refused)["code"] == "context_length_exceeded"
        truncated = create(http, **more, truncation="auto")
        assert truncated["truncation"] == "auto"
        assert truncated["usage"]["input_tokens"] < 50


def test_turn_after_turn_no_more_is_read_than_the_model_takes(tmp_path: Path) -> None:
    """Whatever was dropped before, instructions that come and go, and a server that forgets."""
    config = configuration(engine={"context": 200}, store={"path": "turns.db"})
    last: dict[str, str] = {}
    read = []
    for _ in range(2):
        with RunningGateway(config=config, base=tmp_path) as gateway:
            for turn in range(6):
                body = {"input": "x" * 240, "instructions": "y" * 120 * (turn % 2), **last}
                response = create(gateway.http, **body, truncation="auto")
                read.append(response["usage"]["input_tokens"])
                last = {"previous_response_id": response["id"]}
            refused = gateway.http.post(RESPONSES, json={"input": "x", **last})
            assert error(refused)["code"] == "context_length_exceeded"
    assert max(read) < 200
    assert min(read[1:]) >= 80  # and no less than what fits


def test_truncation_never_drops_what_was_just_said() -> None:
    with RunningGateway(config=configuration(engine={"context": 50})) as gateway:
        answer = gateway.http.post(RESPONSES, json={"input": "a" * 400, "truncation": "auto"})
        assert answer.status_code == 400
        assert error(answer)["code"] == "context_length_exceeded"


# -- when things break ----------------------------------------------------------------------------


def test_a_failing_engine_ends_the_response_as_failed(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), Fail("Out of luck.")))])
    failed = create(http, input="x")
    assert failed["status"] == "failed"
    assert failed["error"] == {"code": "server_error", "message": "Out of luck."}
    answer = http.post(RESPONSES, json={"input": "x", "stream": True})
    events = list(sse(answer.text.splitlines()))
    assert events[-1]["type"] == "response.failed"
    assert answer.text.endswith("data: [DONE]\n\n")


def test_a_dead_engine_fails_its_turn_and_then_nothing_is_taken(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    assert http.get("/readyz").status_code == 200
    gateway.engine.play([Reply(when="die", then=(Die("Gone."),))])
    assert create(http, input="die")["error"] == {"code": "engine_died", "message": "Gone."}
    for stream in (False, True):
        answer = http.post(RESPONSES, json={"input": "x", "stream": stream})
        assert answer.status_code == 503
        assert error(answer)["code"] == "engine_unavailable"
        assert int(answer.headers["retry-after"]) >= 1
    assert http.get("/readyz").status_code == 503
    assert http.get("/healthz").status_code == 200


def test_a_store_that_cannot_be_read_is_said_to_be_unavailable(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise StoreError("The disk is gone.")

    kept = create(http, input="x")["id"]
    monkeypatch.setattr(gateway.gateway.archive._store, "stat", broken)
    for path in (kept, f"{kept}/input_items"):
        answer = http.get(f"{RESPONSES}/{path}")
        assert answer.status_code == 503
        assert error(answer)["message"] == "The disk is gone."


def test_an_answer_that_cannot_be_stored_is_given_and_says_so(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise StoreError("The disk is full.")

    for write in ("accept", "end"):
        with monkeypatch.context() as broke:
            broke.setattr(gateway.gateway.keeper.store, write, broken)
            broke.setattr(gateway.gateway.keeper.store, "save", broken)
            response = create(http, input="x")
            assert response["status"] == "completed"
            assert response["store"] is False


def test_an_answer_whose_beginning_could_not_be_put_on_record_is_stored_at_its_end(
    gateway: RunningGateway, http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise StoreError("The disk is full.")

    with monkeypatch.context() as broke:
        broke.setattr(gateway.gateway.keeper.store, "accept", broken)
        response = create(http, input="x")
    assert response["store"] is True
    assert http.get(f"{RESPONSES}/{response['id']}").json() == response


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/unknown", 404), ("PUT", RESPONSES, 405), ("GET", "/v1/models/unknown", 404)],
)
def test_a_wrong_address_is_answered_in_the_form_of_an_error(
    plain: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = plain.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert error(answer)["message"]


def test_a_wrong_method_is_told_the_right_ones(plain: httpx.Client) -> None:
    answer = plain.put(f"{RESPONSES}/resp_1")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET, HEAD"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_place_in_the_engine(
    gateway: RunningGateway, stream: bool
) -> None:
    gateway.engine.play([Reply(then=(Say("Well"), FOREVER))])
    impatient = httpx.Timeout(10, read=0.2)
    with gateway.http as http, pytest.raises(httpx.ReadTimeout):
        http.post(RESPONSES, json={"input": "x", "stream": stream}, timeout=impatient)
    eventually(lambda: gateway.engine.running() == 0)


def test_a_server_that_is_leaving_takes_no_new_turns(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.gateway.runner.draining = True
    for stream in (False, True):
        answer = http.post(RESPONSES, json={"input": "x", "stream": stream})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
    assert http.get("/readyz").status_code == 503


def test_metrics_count_turns_tokens_and_refusals(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(when="fail", then=(Fail(),)), Reply(then=(Say("one two"),))])
    create(http, input="x")
    create(http, input="fail")
    http.post(RESPONSES, json={"model": "unknown", "input": "x"})
    lines = http.get("/metrics").text.splitlines()
    assert 'vivace_turns_total{model="local-model",status="completed"} 1.0' in lines
    assert 'vivace_turns_total{model="local-model",status="failed"} 1.0' in lines
    assert 'vivace_tokens_total{kind="output",model="local-model"} 2.0' in lines
    assert 'vivace_requests_refused_total{code="model_not_found"} 1.0' in lines
    assert 'vivace_turns_running{model="local-model"} 0.0' in lines


# -- compaction -----------------------------------------------------------------------------------


def test_a_compacted_conversation_starts_a_new_chain(
    gateway: RunningGateway, http: httpx.Client
) -> None:
    gateway.engine.play([Reply(when="Summarise", then=(Say("They like cobalt."),))])
    past = create(http, input="I like cobalt.")
    body = {"model": "local-model", "previous_response_id": past["id"]}
    compacted = http.post(f"{RESPONSES}/compact", json=body).json()
    assert [item["type"] for item in compacted["output"]] == ["compaction"]
    gateway.engine.play([Reply(when="What do I like", then=(Say("Cobalt."),))])
    fresh = create(http, input=[*compacted["output"], user("What do I like?")])
    assert said(fresh) == "Cobalt."
    assert fresh["usage"]["input_tokens"] > 5


def test_a_compaction_that_was_changed_is_refused(plain: httpx.Client) -> None:
    item = {"type": "compaction", "encrypted_content": "vivace1.somebody else's"}
    answer = plain.post(RESPONSES, json={"input": [item, user("x")]})
    assert answer.status_code == 400
    assert error(answer)["code"] == "invalid_compaction"
    assert error(answer)["param"] == "input[0].encrypted_content"
