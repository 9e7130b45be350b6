"""An answer on the screen, and what is said in the middle of it."""

from __future__ import annotations

import sys

import pytest

from vivace.cli.dialogue import Printed


@pytest.mark.parametrize(
    ("terminal", "shown"),
    [
        (True, ["def area(width", "def area(width, height):"]),
        (False, ["def area(width, height):"]),
    ],
)
def test_a_note_within_a_line_of_the_answer_leaves_the_line_whole(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    terminal: bool,
    shown: list[str],
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    printed = Printed()
    printed.show("import math\ndef area(")
    printed.show("width")
    printed.note("The connection is back.")
    printed.show(", height):\n")
    printed.note("It is back again.")
    out, err = capsys.readouterr()
    assert out.splitlines() == ["import math", *shown]
    assert err.splitlines() == ["The connection is back.", "It is back again."]
