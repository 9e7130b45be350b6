from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from vivace.protocol.codex import failure_of, is_codex
from vivace.scheduling.limits import Ledger, Limits

# As Codex reads a wait from the message of a failed response (codex-api/src/sse/responses.rs).
WAIT = re.compile(r"(?i)try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)")


def read_wait(error: RequestError) -> float:
    """The seconds that Codex waits for this."""
    problem = failure_of(error)
    assert problem is not None
    assert problem.code == "rate_limit_exceeded"
    assert problem.message.lower().count("try again") == 1
    found = WAIT.search(problem.message)
    assert found is not None, problem.message
    return float(found[1]) * (0.001 if found[2] == "ms" else 1)


@given(st.floats(0, 10_000, allow_nan=False))
def test_codex_waits_as_long_as_it_is_told_and_at_most_a_second_longer(seconds: float) -> None:
    error = TooManyRequests("Full; try again later.", code="queue_full", retry_after=seconds)
    assert seconds - 1e-9 <= read_wait(error) <= max(1, seconds + 1)


def test_minutes_are_told_in_seconds() -> None:
    ledger = Ledger()
    limits = Limits(input_tokens_per_minute=100)
    charge = ledger.charge("ada", "fast", limits, input_tokens=100, output_tokens=0, now=0)
    ledger.settle(charge, input_tokens=600, output_tokens=0, now=0)
    with pytest.raises(TooManyRequests, match="6m0s") as caught:
        ledger.charge("ada", "fast", limits, input_tokens=100, output_tokens=0, now=0)
    assert read_wait(caught.value) == 360


def test_less_than_a_second_is_told_in_milliseconds() -> None:
    problem = failure_of(TooManyRequests("Too fast. Try again in 250ms.", retry_after=0.25))
    assert problem is not None
    assert problem.message == "Too fast. Try again in 250ms."


def test_an_engine_that_rests_is_waited_for() -> None:
    message = "No engine for 'fast' takes turns now; try again in 20 s."
    assert read_wait(Unavailable(message, code="engine_unavailable", retry_after=20)) == 20


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("Too long.", code="context_length_exceeded"),
        TooLarge("Too many bytes."),
    ],
)
def test_what_a_shorter_conversation_would_mend_is_an_overflow(error: RequestError) -> None:
    problem = failure_of(error)
    assert problem is not None
    assert (problem.code, problem.message) == ("context_length_exceeded", error.message)


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("No such field."),
        NotFound("No such model.", code="model_not_found"),
        TooManyRequests("This request needs 9 tokens and the limit is 5. It can never pass."),
    ],
)
def test_what_can_never_pass_is_not_tried_again(error: RequestError) -> None:
    problem = failure_of(error)
    assert problem is not None
    assert (problem.code, problem.message) == ("invalid_prompt", error.message)


@pytest.mark.parametrize(
    "error",
    [
        Unauthorized("No key."),
        Forbidden("Not from there."),
        ServerFault("A fault."),
        InvalidRequest("Gone.", code="previous_response_not_found"),
        InvalidRequest("Old.", code="websocket_connection_limit_reached"),
        Unavailable("Going.", code="server_shutting_down", retry_after=1),
    ],
)
def test_what_codex_handles_as_an_error_stays_one(error: RequestError) -> None:
    assert failure_of(error) is None


@pytest.mark.parametrize(
    ("headers", "known"),
    [
        ({"originator": "codex_exec"}, True),
        ({"originator": "codex_cli_rs"}, True),
        ({"originator": "codex-tui"}, True),
        ({"originator": "Codex Desktop"}, True),
        ({"originator": "my_editor", "x-codex-window-id": "1:0"}, True),
        ({"originator": "my_editor"}, False),
        ({"x-codex-window-id": "1:0"}, False),
        ({"user-agent": "OpenAI/Python"}, False),
    ],
)
def test_codex_is_known_by_its_originator(headers: dict[str, str], known: bool) -> None:
    assert is_codex(headers) is known
