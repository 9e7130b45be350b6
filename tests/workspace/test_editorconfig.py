"""Which files a section is about."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from editorconfig.ini import EditorConfigParser
from hypothesis import given
from hypothesis import strategies as st

from vivace.workspace.editorconfig import settings_in


def settings(text: str, path: str) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, ".editorconfig")
        file.write_text(text)
        return settings_in(file, Path(folder, path))[0]


def is_about(glob: str, path: str) -> bool:
    return settings(f"[{glob}]\nindent_size = 4\n", path) == {"indent_size": "4"}


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*", "a/b/c.py"),
        ("*.py", "a/b.py"),
        ("*.{js,ts}", "src/a.ts"),
        ("{package.json,.travis.yml}", "package.json"),
        ("lib/**.js", "lib/a/b.js"),
        ("lib/*.js", "lib/a.js"),
        ("/a.py", "a.py"),
        ("**/test/*.py", "test/a.py"),
        ("file{1..3}.txt", "file2.txt"),
        ("[ab].py", "b.py"),
        ("[!ab].py", "c.py"),
        ("?.py", "x.py"),
        ("a\\*.py", "a*.py"),
        ("Makefile", "deep/Makefile"),
    ],
)
def test_a_section_is_about(glob: str, path: str) -> None:
    assert is_about(glob, path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*.py", "a.pyi"),
        ("lib/*.js", "lib/a/b.js"),
        ("lib/*.js", "src/lib/a.js"),
        ("/a.py", "b/a.py"),
        ("file{1..3}.txt", "file4.txt"),
        ("[!ab].py", "a.py"),
        ("*.{js,ts}", "a.js,ts"),
    ],
)
def test_a_section_is_not_about(glob: str, path: str) -> None:
    assert not is_about(glob, path)


@given(st.text("[]{}*?!,.\\/a1\n= #;", max_size=60), st.text("a1./", max_size=20))
def test_no_text_is_too_odd(text: str, path: str) -> None:
    assert all(isinstance(value, str) for value in settings(text, path.strip("/")).values())


def test_glob_that_would_take_for_ever_is_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def matches(self: EditorConfigParser, config_filename: str, glob: str) -> bool:
        tried.append(glob)
        return True

    monkeypatch.setattr(EditorConfigParser, "matches_filename", matches)
    assert not is_about("*a" * 40, "a" * 60 + "b.py")
    assert not is_about("*a" * 9, "a" * 9)
    assert tried == []
    assert is_about("*a" * 8, "a" * 8)
    assert tried == ["*a" * 8]
