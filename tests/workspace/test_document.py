"""A text and its bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.workspace.document import Document, of_text, read
from vivace.workspace.errors import NotText
from vivace.workspace.paths import Workspace


def document(data: bytes) -> Document:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a.txt").write_bytes(data)
        return read(Workspace(Path(folder)).resolve("a.txt"))


def test_a_document_says_what_it_is(root: Path) -> None:
    (root / "a.py").write_bytes(b"\xef\xbb\xbfa\r\nb")
    (root / "a.py").chmod(0o640)
    found = read(Workspace(root).resolve("a.py"))
    assert (found.text, found.encoding, found.line_ending) == ("a\nb", "utf-8-sig", "\r\n")
    assert not found.final_newline
    assert found.mode == 0o640
    assert found.version is not None
    assert found.version.inode == (root / "a.py").stat().st_ino


@pytest.mark.parametrize(
    ("data", "ending"),
    [
        (b"", "\n"),
        (b"a", "\n"),
        (b"a\n", "\n"),
        (b"a\r\n", "\r\n"),
        (b"a\rb", "\r"),
        (b"a\r\nb\n", "mixed"),
        (b"a\rb\n", "mixed"),
        (b"a\r\r\n", "mixed"),
    ],
)
def test_the_line_ending_is_known(data: bytes, ending: str) -> None:
    assert document(data).line_ending == ending


def test_the_line_of_a_wrong_byte_is_named() -> None:
    with pytest.raises(NotText, match=r"line 3 holds the byte 0xe9.*iconv"):
        document(b"a\nb\ncaf\xe9\n")


def test_a_file_that_is_not_there_is_said_so(workspace: Workspace) -> None:
    with pytest.raises(NotText, match=r"no file none\.py"):
        read(workspace.resolve("none.py"))


pieces = st.lists(
    st.sampled_from(["a", "b", "  c", "é", "\u2028", "\x0c", "\n", "\r\n", "\r", "\r\r\n"]),
    max_size=20,
)


@given(pieces, st.booleans())
def test_a_text_that_is_not_changed_keeps_every_byte(parts: list[str], bom: bool) -> None:
    data = (b"\xef\xbb\xbf" if bom else b"") + "".join(parts).encode()
    found = document(data)
    assert found.encode(found.text) == data
    assert found.encode(data.decode("utf-8-sig")) == data


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["\n", "\r\n"])), min_size=1),
    st.data(),
)
def test_every_untouched_line_keeps_its_ending(
    lines: list[tuple[str, str]], data: st.DataObject
) -> None:
    """Each line is given a text of its own, so that it can be told which are untouched."""
    numbered = [(f"{text}{number}", ending) for number, (text, ending) in enumerate(lines)]
    found = document("".join(text + ending for text, ending in numbered).encode())
    new: list[str] = []
    for text, _ in numbered:
        match data.draw(st.sampled_from(["keep", "keep", "drop", "change", "insert"])):
            case "keep":
                new.append(text)
            case "change":
                new.append("changed")
            case "insert":
                new += ["inserted", text]
    result = found.encode("".join(f"{line}\n" for line in new)).decode()
    endings = dict(numbered)
    kept = result.splitlines(keepends=True)
    assert [line.rstrip("\r\n") for line in kept] == new
    for line in kept:
        text = line.rstrip("\r\n")
        assert line.removeprefix(text) == endings.get(text, line.removeprefix(text))
        assert line.removeprefix(text) in {ending for _, ending in numbered}


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb\r\n", "a\rb\r", "a\r\nb\n", "\ufeffa\n", ""])
def test_an_editors_text_is_as_if_it_had_been_read(workspace: Workspace, text: str) -> None:
    path = workspace.root / "a.txt"
    path.write_bytes(text.encode())
    safe = workspace.resolve("a.txt")
    on_disk, typed = read(safe), of_text(safe, text)
    assert (typed.text, typed.line_ending, typed.bom) == (
        on_disk.text,
        on_disk.line_ending,
        on_disk.bom,
    )
    assert typed.encode(typed.text).decode() == text


def test_an_editors_text_with_half_a_character_is_none(workspace: Workspace) -> None:
    with pytest.raises(NotText, match="half a character"):
        of_text(workspace.resolve("a.txt"), "\ud83d")
