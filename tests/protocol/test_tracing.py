"""What is taken for a trace, and what is not."""

from __future__ import annotations

import pytest
from msgspec import Raw

from vivace.protocol.codec import decode_create
from vivace.protocol.tracing import in_metadata, trace_id, traceparent

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def test_a_trace_is_known_by_its_id() -> None:
    assert traceparent(PARENT) == PARENT
    assert trace_id(PARENT) == TRACE


@pytest.mark.parametrize(
    "said",
    [
        None,
        7,
        "",
        PARENT + "\n",
        PARENT.upper(),
        PARENT + "-what",
        PARENT.replace("00-4", "ff-4"),
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-00f067aa0ba902b7-1",
        f"00-{TRACE}-00f067aa0ba902b7-01, {PARENT}",
        PARENT.replace("4", "４", 1),  # noqa: RUF001 - a digit of another script
    ],
)
def test_what_is_not_exactly_one_is_none(said: object) -> None:
    assert traceparent(said) is None


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (f'{{"ws_request_header_traceparent": "{PARENT}", "x": {{"y": 1}}}}', PARENT),
        ('{"ws_request_header_traceparent": 5}', None),
        ('{"other": true}', None),
        ("null", None),
        ("[1]", None),
        ('"text"', None),
    ],
)
def test_codex_says_it_in_its_metadata(metadata: str, found: str | None) -> None:
    assert in_metadata(Raw(metadata.encode())) == found
    read = decode_create(f'{{"input": "Hi", "client_metadata": {metadata}}}')
    assert read.traceparent == found
    assert bytes(read.body.client_metadata) == b"null"  # nothing holds on to the message
