"""Words that say where they come from show where an answer was handed over, and how well."""

from __future__ import annotations

import pytest
from chaos.marks import broken_off


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no marks at all",
        "shown user-1\n m17.0@n1.a1 m17.1@n1.a1",
        "m17.0@n1.a1 m17.1@n2.a2 m17.2@n2.a2",
        "m17.0@n1.a1 m17.1@n1.a3",
    ],
    ids=["nothing", "other words", "one engine", "handed over", "restarted"],
)
def test_words_that_go_on_are_in_order(text: str) -> None:
    assert broken_off(text) is None


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("m17.1@n1.a1", "first word"),
        ("m17.0@n1.a1 m17.2@n2.a2", "after word 0"),
        ("m17.0@n1.a1 m17.0@n2.a2", "after word 0"),
        ("m17.0@n1.a2 m17.1@n1.a1", "attempt 2 was followed"),
        ("m17.0@n1.a1 m17.1@n2.a1", "both spoke"),
        ("m17.0@n1.a1 m18.1@n1.a1", "another answer"),
    ],
    ids=["begins late", "left out", "said twice", "goes back", "two at once", "mixed up"],
)
def test_where_they_do_not_is_said(text: str, where: str) -> None:
    assert where in (broken_off(text) or "")
