"""A conversation in short, there and back."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.conversation.compaction import expand, pack, unpack
from vivace.errors import InvalidRequest
from vivace.protocol.items import Compaction, Message, text_of

many = settings(deadline=None)


def packed(summary: str) -> Compaction:
    return pack(summary, lambda prefix: f"{prefix}_1")


@many
@given(st.text())
def test_a_summary_is_read_back_as_it_was_written(summary: str) -> None:
    assert unpack(packed(summary), "input[0]") == summary


@many
@given(st.text(), st.text())
def test_different_summaries_are_packed_differently(one: str, other: str) -> None:
    same = packed(one).encrypted_content == packed(other).encrypted_content
    assert same == (one == other)


@many
@given(st.text())
def test_what_this_server_did_not_make_is_refused_by_name(content: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        unpack(Compaction(encrypted_content=content), "input[3]")
    assert caught.value.code == "invalid_compaction"
    assert caught.value.param == "input[3].encrypted_content"


@many
@given(st.text(min_size=1), st.data())
def test_a_damaged_one_is_refused_or_at_least_a_beginning(
    summary: str, data: st.DataObject
) -> None:
    whole = packed(summary).encrypted_content
    cut = data.draw(st.integers(0, len(whole) - 1))
    with contextlib.suppress(InvalidRequest):
        assert summary.startswith(unpack(Compaction(encrypted_content=whole[:cut]), "input[0]"))


@pytest.mark.parametrize("content", ["vivace1.****", "vivace1.aGk=\n!", "vivace1.aG k="])
def test_what_is_not_in_our_alphabet_is_refused_rather_than_skipped(content: str) -> None:
    with pytest.raises(InvalidRequest):
        unpack(Compaction(encrypted_content=content), "input[0]")


def test_bytes_that_are_no_text_are_refused() -> None:
    content = "vivace1." + base64.urlsafe_b64encode(b"\xff\xfe").decode()
    with pytest.raises(InvalidRequest):
        unpack(Compaction(encrypted_content=content), "input[0]")


def test_the_model_reads_the_summary_where_the_compaction_stood() -> None:
    before = Message(role="user", content="before")
    after = Message(role="user", content="after")
    first, summary, last = expand([before, packed("we agreed"), after])
    assert (first, last) == (before, after)
    assert isinstance(summary, Message)
    assert (summary.role, summary.id) == ("developer", "cmp_1")
    assert text_of(summary.content).endswith("we agreed")
