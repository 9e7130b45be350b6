"""Servers that are not ours fill gaps too, each asked in the form that it knows."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from tests.support.plain_endpoint import PlainEndpoint, Refusal, Routes, sse
from tests.support.server import RunningGateway
from tests.support.waiting import PATIENCE_S, eventually
from vivace.client.dialling import NoWebSocket
from vivace.client.gap import Gap
from vivace.client.lanes import ClientError, Lanes
from vivace.completion.beginnings import grammar
from vivace.engines.scripted import Reply, Say

T = TypeVar("T")
GAP = Gap(
    fill={
        "prefix": "def f():\n    ",
        "suffix": "\n",
        "typed": "ret",
        "files": [{"path": "b.py", "text": "x = 1"}],
    }
)

LLAMA_INPUT = {"error": {"code": 400, "message": "'input' is required", "type": "x"}}
"""llama.cpp's words for a request to its own Responses API without an input."""


def use(url: str, work: Callable[[Lanes], Awaitable[T]]) -> T:
    async def run() -> T:
        lanes = Lanes(url)
        try:
            return await asyncio.wait_for(work(lanes), PATIENCE_S)
        finally:
            await lanes.close()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

    return asyncio.run(run())


async def whole(lanes: Lanes, **options: Any) -> str:
    return "".join([text async for text in lanes.fill("a.py", replace(GAP, **options))])


def infilled(body: dict[str, Any]) -> list[bytes]:
    """As llama.cpp streams it."""
    return sse(
        {"index": 0, "content": "urn", "tokens": [1], "stop": False, "id_slot": -1},
        {"index": 0, "content": " 1", "tokens": [2], "stop": False, "id_slot": -1},
        {"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": "eos"},
    )


def completed(body: dict[str, Any]) -> list[bytes]:
    return sse(
        {"choices": [{"text": "urn", "index": 0, "finish_reason": None}]},
        {"choices": [{"text": " 1", "index": 0, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"completion_tokens": 2}},
        "[DONE]",
    )


LLAMA: Routes = {
    "/v1/responses": lambda body: Refusal(400, LLAMA_INPUT),
    "/infill": infilled,
    "/v1/completions": completed,
}


# -- which form -----------------------------------------------------------------------------------


def test_llama_cpp_is_asked_in_its_own_form_and_from_then_on_in_no_other() -> None:
    async def twice(lanes: Lanes) -> list[str]:
        found = [await whole(lanes, stop=["\n"], model="m", max_tokens=9) for _ in range(2)]
        assert not lanes.has_tiers
        return found

    with PlainEndpoint(LLAMA) as endpoint:
        assert use(endpoint.url, twice) == ["urn 1", "urn 1"]
        assert endpoint.paths == ["/v1/responses", "/infill", "/infill"]
        assert endpoint.asked[1][1] == {
            "input_prefix": "def f():\n    ",
            "input_suffix": "\n",
            "prompt": "ret",
            "input_extra": [{"filename": "b.py", "text": "x = 1"}],
            "n_predict": 9,
            "temperature": 0,
            "model": "m",
            "stop": ["\n"],
            "stream": True,
        }


def test_llama_cpp_is_made_to_begin_as_it_is_told() -> None:
    async def asked(lanes: Lanes) -> None:
        begun = replace(GAP, fill={**GAP.fill, "starts_with": ' "x'})
        async for _ in lanes.fill("a.py", begun):
            pass

    with PlainEndpoint(LLAMA) as endpoint:
        use(endpoint.url, asked)
        assert endpoint.asked[-1][1]["grammar"] == grammar(' "x')


def test_any_other_server_is_asked_for_a_completion_with_a_suffix() -> None:
    async def twice(lanes: Lanes) -> list[str]:
        return [await whole(lanes, background=True, cache_key="k") for _ in range(2)]

    with PlainEndpoint({"/v1/completions": completed}) as endpoint:
        assert use(endpoint.url, twice) == ["urn 1", "urn 1"]
        assert endpoint.paths == ["/v1/responses", "/infill", *["/v1/completions"] * 2]
        assert endpoint.asked[-1][1] == {
            "prompt": "def f():\n    ret",
            "suffix": "\n",
            "max_tokens": 64,
            "temperature": 0,
            "stream": True,
        }


def test_an_answer_that_is_left_early_has_shown_the_form_too() -> None:
    async def left(lanes: Lanes) -> None:
        for _ in range(2):
            async with aclosing(lanes.fill("a.py", GAP)) as texts:
                assert await anext(texts) == "urn"

    with PlainEndpoint(LLAMA) as endpoint:
        use(endpoint.url, left)
        assert endpoint.paths == ["/v1/responses", "/infill", "/infill"]


def test_a_server_that_ignores_what_it_does_not_know_is_not_taken_at_its_word() -> None:
    def chats(body: dict[str, Any]) -> list[bytes]:
        response = {"id": "r", "status": "completed"}
        return sse(
            {"type": "response.created", "response": response},
            {"type": "response.output_text.delta", "delta": "Hello! How can I help?"},
            {"type": "response.completed", "response": response},
        )

    with PlainEndpoint({"/v1/responses": chats, "/v1/completions": completed}) as endpoint:
        assert use(endpoint.url, whole) == "urn 1"


def test_another_server_at_the_same_address_is_understood_again() -> None:
    async def both(lanes: Lanes) -> list[str]:
        first = await whole(lanes)
        endpoint.routes = {"/v1/completions": completed}
        return [first, await whole(lanes)]

    with PlainEndpoint(LLAMA) as endpoint:
        assert use(endpoint.url, both) == ["urn 1", "urn 1"]


def test_our_own_gateway_is_asked_for_a_gap_where_no_websocket_gets_through(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def blocked(url: str, key: str | None) -> None:
        raise NoWebSocket("A proxy let nothing through.")

    monkeypatch.setattr("vivace.client.lane_socket.dial", blocked)
    gateway.engine.play(
        [Reply(when="ret$", then=(Say("urn 1"),)), Reply(then=(Say("on ", times=100_000),))]
    )

    async def asked(lanes: Lanes) -> str:
        await whole(lanes, generate=False)
        assert lanes.has_tiers
        async for _ in lanes.fill("a.py", Gap(fill={"prefix": "x"}, max_tokens=1_000_000)):
            break
        return await whole(lanes)

    assert use(gateway.url, asked) == "urn 1"
    eventually(lambda: gateway.engine.running() == 0)


# -- leaving, and warming -------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/infill", "/v1/completions"])
def test_closing_closes_the_request(path: str) -> None:
    def endless(body: dict[str, Any]) -> Iterator[bytes]:
        said = {"content": "on ", "choices": [{"text": "on "}]}
        for _ in itertools.count():
            yield from sse(said)
            endpoint.left.wait(0.01)

    async def left(lanes: Lanes) -> None:
        async with aclosing(lanes.fill("a.py", GAP)) as texts:
            assert await anext(texts) == "on "
        eventually(endpoint.left.is_set)

    with PlainEndpoint({path: endless}) as endpoint:
        use(endpoint.url, left)


def test_llama_cpp_is_warmed_by_asking_for_no_token() -> None:
    with PlainEndpoint(LLAMA) as endpoint:
        use(endpoint.url, lambda lanes: whole(lanes, generate=False))
        path, body = endpoint.asked[-1]
        assert (path, body["n_predict"]) == ("/infill", 0)


def test_a_server_that_would_have_to_write_is_not_warmed() -> None:
    with PlainEndpoint({"/v1/completions": completed}) as endpoint:
        use(endpoint.url, lambda lanes: whole(lanes, generate=False))
        assert "/v1/completions" not in endpoint.paths


# -- what is refused ------------------------------------------------------------------------------


def refused(routes: Routes) -> ClientError:
    with PlainEndpoint(routes) as endpoint, pytest.raises(ClientError) as caught:
        use(endpoint.url, whole)
    return caught.value


def test_a_limit_says_the_seconds_to_wait() -> None:
    error = {"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}
    busy = Refusal(429, error, {"Retry-After": "12"})
    told = refused({"/v1/completions": lambda body: busy})
    assert (str(told), told.code, told.retry_after) == ("Slow down.", "rate_limit_exceeded", 12)


def test_a_model_that_cannot_is_said_in_the_words_of_the_server() -> None:
    error = {"error": {"code": 501, "message": "Infill is not supported by this model"}}
    told = refused(LLAMA | {"/infill": lambda body: Refusal(501, error)})
    assert "not supported by this model" in str(told)


def test_a_model_that_is_not_there_is_said_in_the_words_of_the_server() -> None:
    error = {"error": {"code": 404, "param": "model", "message": "The model `x` does not exist."}}
    told = refused({"/v1/completions": lambda body: Refusal(404, error)})
    assert str(told) == "The model `x` does not exist."


def test_a_server_that_cannot_be_asked_at_all_is_one() -> None:
    told = refused({})
    assert told.code == "cannot_fill"
    assert "cannot be asked to fill a gap" in str(told)


@pytest.mark.parametrize(
    "pieces",
    [
        sse({"content": "a", "stop": False}),
        sse("what?"),
        sse({"content": 5}),
        sse({"error": {"code": 500, "message": "Broken."}}),
        sse("[" * 100_000),
        [b"data: \xff\n\n"],
    ],
    ids=["no end", "no JSON", "no text", "an error", "too deep", "no characters"],
)
def test_an_answer_that_is_none_is_a_client_error(pieces: list[bytes]) -> None:
    assert str(refused({"/infill": lambda body: pieces}))


def test_a_server_that_goes_away_is_no_other_kind_of_server() -> None:
    async def gone(lanes: Lanes) -> None:
        assert await whole(lanes)
        endpoint.__exit__(None, None, None)
        with pytest.raises(ClientError) as caught:
            await whole(lanes)
        assert caught.value.code == "no_server"

    endpoint = PlainEndpoint(LLAMA).__enter__()
    use(endpoint.url, gone)
