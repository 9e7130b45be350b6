"""Items as they are kept."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.protocol.items import (
    AdditionalTools,
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    InputImage,
    InputText,
    Item,
    ItemReference,
    Message,
    NewId,
    OutputText,
    Part,
    Reasoning,
    Refusal,
    Role,
    admit,
    text_of,
)

BARE: list[tuple[Item, str]] = [
    (Message(role="user", content="hi"), "msg"),
    (FunctionCall(call_id="c", name="f", arguments="{}"), "fc"),
    (FunctionCallOutput(call_id="c", output="x"), "fco"),
    (CustomToolCall(call_id="c", name="f", input="x"), "ctc"),
    (CustomToolCallOutput(call_id="c", output="x"), "ctco"),
    (Reasoning(), "rs"),
    (Compaction(encrypted_content="x"), "cmp"),
    (AdditionalTools(tools=[]), "at"),
]


def ids() -> NewId:
    numbers = count()
    return lambda prefix: f"{prefix}_{next(numbers)}"


@pytest.mark.parametrize(("item", "prefix"), BARE)
def test_an_admitted_item_has_an_id_of_its_kind(item: Item, prefix: str) -> None:
    assert admit(item, ids()).id == f"{prefix}_0"


@pytest.mark.parametrize("item", [item for item, _ in BARE])
def test_admitting_twice_changes_nothing_more(item: Item) -> None:
    once = admit(item, ids())
    assert admit(once, ids()) is once


@pytest.mark.parametrize("item", [item for item, _ in BARE[:5]])
def test_what_came_without_a_status_is_complete(item: Item) -> None:
    assert getattr(admit(item, ids()), "status", None) == "completed"


def test_what_the_client_said_of_an_item_stays() -> None:
    item = FunctionCall(id="fc_mine", call_id="c", name="f", arguments="{", status="incomplete")
    assert admit(item, ids()) is item


def test_a_reference_is_not_an_item_of_its_own() -> None:
    reference = ItemReference(id="msg_1")
    assert admit(reference, ids()) is reference


@settings(deadline=None)
@given(st.sampled_from(["user", "assistant", "system", "developer"]), st.text())
def test_a_string_becomes_the_part_its_role_speaks_in(role: Role, text: str) -> None:
    admitted = admit(Message(role=role, content=text), ids())
    assert isinstance(admitted, Message)
    part = OutputText(text) if role == "assistant" else InputText(text)
    assert admitted.content == [part]
    assert text_of(admitted.content) == text


@settings(deadline=None)
@given(st.lists(st.text()))
def test_the_text_of_parts_is_all_of_it_in_order(pieces: list[str]) -> None:
    spoken: list[Part] = [InputText(piece) for piece in pieces]
    assert text_of(spoken) == "".join(pieces)


def test_a_refusal_is_text_and_an_image_is_not() -> None:
    assert text_of([InputText("a"), InputImage("http://x"), Refusal("no")]) == "ano"
