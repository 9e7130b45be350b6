"""What a failure means, beyond what the engine's own tests show of it."""

from __future__ import annotations

import pytest
from msgspec import Raw

from vivace.engines.failures import failure, failure_in_stream
from vivace.errors import EngineBusy, EngineRefused


def test_a_busy_endpoint_that_does_not_say_how_long_is_left_alone_for_a_moment() -> None:
    assert failure(429, "slow down").retry_after == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (b'{"code": 400, "message": "too long"}', EngineRefused),
        (b'{"code": "invalid_prompt"}', EngineRefused),
        (b'{"code": 429}', EngineBusy),
        (b'{"code": "rate_limit_exceeded"}', EngineBusy),
    ],
)
def test_an_error_in_the_stream_is_judged_by_its_code(error: bytes, kind: type) -> None:
    assert isinstance(failure_in_stream(Raw(error)), kind)


@pytest.mark.parametrize(
    "error", [b'{"code": "odd"}', b'{"code": null}', b'{"code": [1]}', b'"words"', b"7", b"[]"]
)
def test_an_error_without_a_known_code_may_be_anyones_fault(error: bytes) -> None:
    found = failure_in_stream(Raw(error))
    assert (found.elsewhere, found.blame) == (True, "compared")


@pytest.mark.parametrize(
    "said",
    [
        "This model's maximum context length is 8192 tokens. However, you requested 9000.",
        "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        '{"code": "context_length_exceeded"}',
    ],
)
def test_a_refusal_for_the_length_is_told_from_others(said: str) -> None:
    found = failure(400, f"far refused the request with 400: {said}")
    assert (found.code, found.elsewhere) == ("context_length_exceeded", False)
    assert failure(503, said).code == "server_error"  # whatever it says, it is down


@pytest.mark.parametrize("said", ["unknown field", "bad grammar: 'the context length'"])
def test_other_refusals_stay_what_they_are(said: str) -> None:
    assert failure(400, said).code == "invalid_prompt"


def test_an_overflow_in_mid_stream_is_one_too() -> None:
    found = failure_in_stream(Raw(b'{"code": "context_length_exceeded", "message": "too much"}'))
    assert found.code == "context_length_exceeded"
