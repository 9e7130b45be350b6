"""How long to stay away is read from whatever a server says."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.retry_after import retry_after


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


@given(st.text(max_size=40))
def test_whatever_is_said_is_a_time_or_nothing(said: str) -> None:
    wait = retry_after({"retry-after": said})
    assert wait is None or 0 < wait <= 86_400
