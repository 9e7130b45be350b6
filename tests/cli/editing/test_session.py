"""What a line typed into a session is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivace.cli.editing.session import Said, understood


@pytest.mark.parametrize(
    ("line", "current", "said"),
    [
        ("a.py add types", None, Said("a.py", "add types")),
        ("a.py:2-3 add types", "b.py", Said("a.py:2-3", "add types")),
        ("add types", "b.py", Said("b.py", "add types")),
        (":2-3 add types", "b.py", Said("b.py:2-3", "add types")),
        (":2-3 add types", None, Said(None, ":2-3 add types")),
        ("add types", None, Said(None, "add types")),
        ("a.py", "b.py", Said("a.py", "")),
    ],
)
def test_a_line_is_about_the_file_it_begins_with_or_the_last_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    current: str | None,
    said: Said,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x\n")
    assert understood(line, current) == said
