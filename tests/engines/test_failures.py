"""What a failure means, beyond what the engine's own tests show of it."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from vivace.engines.failures import failure, failure_in_stream, retry_after
from vivace.errors import EngineBusy, EngineRefused


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7),
        ("0.5", 0.5),
        ("0", None),
        ("-3", None),
        ("nan", None),
        ("", None),
        ("soon", None),
        ("inf", 86_400),
        ("1e12", 86_400),
    ],
)
def test_how_long_to_stay_away_is_read_and_bounded(said: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": said}) == seconds


def test_a_date_is_a_time_to_stay_away_too() -> None:
    wait = retry_after({"retry-after": formatdate(time.time() + 90, usegmt=True)})
    assert wait is not None
    assert 80 < wait < 91
    assert retry_after({"retry-after": formatdate(time.time() - 90, usegmt=True)}) is None
    assert retry_after({}) is None


@settings(deadline=None)
@given(st.text(max_size=40))
def test_whatever_is_said_is_a_time_or_nothing(said: str) -> None:
    wait = retry_after({"retry-after": said})
    assert wait is None or 0 < wait <= 86_400


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
