"""What others log is kept without their words."""

from __future__ import annotations

import logging

import pytest

from vivace.logs import Wordless


@pytest.mark.parametrize(
    ("name", "message", "given", "kept"),
    [
        ("pygls.protocol", "Failed %s\n%s", ("CODE", "CODE"), "Failed %s"),
        ("pygls.protocol", "Failed CODE", (), "said something in m:3"),
        ("vivace.lsp", "%s starts", ("it",), "it starts"),
    ],
)
def test_lines_of_others_lose_what_was_put_into_them(
    name: str, message: str, given: tuple[str, ...], kept: str
) -> None:
    record = logging.LogRecord(name, logging.INFO, "/x/m.py", 3, message, given, None)
    assert Wordless().filter(record)
    assert record.getMessage() == kept
