"""What goes on record of a turn that is handed over, and for whom that holds."""

from __future__ import annotations

import pytest

from vivace.conversation.deltas import TextDelta
from vivace.conversation.log import Begun, Entry, Said, pack
from vivace.conversation.response import open_response
from vivace.gateway.keeping.adopted import read
from vivace.gateway.keeping.handed_over import handed_over, to_hand_over
from vivace.protocol.requests import CreateBody, CreateResponse
from vivace.store.base import TurnRecord

CREATED = open_response(CreateResponse(CreateBody(model="m")), "resp_1", "m", 1)
LOG: list[Entry] = [Begun(2), Said(3, TextDelta("hello"))]


def record(said: bytes | None, epoch: int) -> TurnRecord:
    return TurnRecord(
        id="resp_1",
        owner="ada",
        previous_id=None,
        root_id="resp_1",
        epoch=epoch,
        attempt=1,
        holder="g2",
        engine=None,
        said=said,
        request=None,
        input=b"[]",
        status=None,
        response=b"",
        cuts=None,
        tokens=0,
        background=False,
        broken=False,
        parked_until=None,
        created_at=1,
    )


def test_who_takes_it_next_has_all_that_was_said() -> None:
    said = to_hand_over(4, CREATED, pack(LOG))
    assert handed_over(record(said, 5)) == (CREATED, LOG)
    adopted = read(record(said, 5), None)
    assert adopted.whole
    assert adopted.entries == LOG


@pytest.mark.parametrize("epoch", [4, 6])
def test_for_anybody_else_it_may_be_less_than_was_said(epoch: int) -> None:
    said = to_hand_over(4, CREATED, pack(LOG))
    assert handed_over(record(said, epoch)) is None
    assert not read(record(said, epoch), None).whole


@pytest.mark.parametrize("said", [None, b"", b"\x93", to_hand_over(4, CREATED, pack(LOG))[:-3]])
def test_what_cannot_be_read_is_as_good_as_lost(said: bytes | None) -> None:
    assert handed_over(record(said, 5)) is None
