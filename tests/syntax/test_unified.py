"""Unified diffs: what git writes is read back, whatever is in the files."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.counting import lines_run
from tests.support.examples import examples
from vivace.errors import EditError
from vivace.syntax.hunk import Hunk, apply, unified
from vivace.syntax.lines import lines_of
from vivace.syntax.unified import FileDiff, read_diff

GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false")


def git(root: Path, *arguments: str) -> bytes:
    ran = subprocess.run([*GIT, "-C", str(root), *arguments], check=True, capture_output=True)
    return ran.stdout


@pytest.fixture(scope="module")
def repository() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        git(root, "init", "--quiet", "--object-format=sha1")
        yield root


def diff_of(
    root: Path,
    before: dict[str, bytes],
    after: dict[str, bytes],
    *options: str,
    configured: tuple[str, ...] = (),
) -> str:
    """Return what git says of ``after``, compared with ``before``."""
    trees = [tree_of(root, files) for files in (before, after)]
    said = git(root, *configured, "diff", "--no-ext-diff", "-M", *options, *trees)
    return said.decode("utf-8", "surrogateescape")


def tree_of(root: Path, files: dict[str, bytes]) -> str:
    """Write objects as git keeps them, without a process for each, and return the name of the tree
    that holds ``files``."""
    folders: dict[str, dict[str, bytes]] = {}
    entries: dict[bytes, bytes] = {}
    for name, content in files.items():
        first, _, rest = name.partition("/")
        if rest:
            folders.setdefault(first, {})[rest] = content
        else:
            sha = written(root, b"blob", content)
            entries[first.encode()] = b"100644 %b\0%b" % (first.encode(), bytes.fromhex(sha))
    for name, inner in folders.items():
        sha = tree_of(root, inner)
        key = name.encode() + b"/"  # a folder is sorted as if its name ended so
        entries[key] = b"40000 %b\0%b" % (name.encode(), bytes.fromhex(sha))
    return written(root, b"tree", b"".join(entries[key] for key in sorted(entries)))


def written(root: Path, kind: bytes, content: bytes) -> str:
    whole = b"%b %d\0%b" % (kind, len(content), content)
    sha = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = root / ".git/objects" / sha[:2] / sha[2:]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return sha


LINES = st.sampled_from(
    [
        *("", "a", "b", "  c", "d\r", "\x0c", "\u2028x", "é", "\x1b[31m"),
        *("--- a/x", "+++ b/x", "- b", "+ c", "-- a/x", "++ b/x"),
        *("@@ -1,2 +1,2 @@", "diff --git a/x b/x", "\\ No newline at end of file", "rename to y"),
        "Binary files a/x and b/x differ",
    ]
)
CONTENTS = st.builds(
    lambda lines, ended: ("\n".join(lines) + ("\n" if ended and lines else "")).encode(),
    st.lists(LINES, max_size=14),
    st.booleans(),
)
NAMES = st.sampled_from(
    [
        "a",
        "b b",
        "a b/b c",
        'q"uote',
        "tab\there",
        "new\nline",
        "ü/ß",
        "back\\slash",
        "a/b",
        "x b/x",
    ]
)
FILES = st.dictionaries(NAMES, CONTENTS, max_size=4).filter(
    lambda files: not ({"a", "a/b"} <= set(files))
)


@settings(max_examples=examples(130))
@given(
    before=FILES,
    after=FILES,
    around=st.sampled_from(["-U0", "-U1", "-U3"]),
    quoting=st.booleans(),
)
def test_what_git_writes_is_read_back(
    repository: Path,
    before: dict[str, bytes],
    after: dict[str, bytes],
    around: str,
    quoting: bool,
) -> None:
    options = ("-c", f"core.quotePath={str(quoting).lower()}")
    texts = {name: content.decode() for name, content in before.items()}
    for file in read_diff(diff_of(repository, before, after, around, configured=options)):
        old = texts[file.old] if file.old is not None else ""
        new = apply(old, file.hunks)
        if file.old is not None and file.old not in after:
            texts.pop(file.old)
        if file.new is not None:
            texts[file.new] = new
            lines = lines_of(new)
            assert [lines[start:end] for start, end in file.added] == [
                list(hunk.new) for hunk in file.hunks if hunk.new
            ]
        else:
            assert new == ""
    assert {name: text.encode() for name, text in texts.items()} == after


@given(text=CONTENTS, place=st.integers(0, 20), new=st.lists(LINES, max_size=3))
def test_what_we_write_is_read_back(text: bytes, place: int, new: list[str]) -> None:
    before = text.decode()
    lines = [f"{line}\n" for line in before.split("\n")]
    start = min(place, len(lines))
    before = "".join(lines)
    hunk = Hunk(start, tuple(lines[start : start + 1]), tuple(f"{line}\n" for line in new))
    (file,) = read_diff(unified("x", before, [hunk])) or [FileDiff("x", "x")]
    assert apply(before, file.hunks) == apply(before, [hunk])


# -- files ----------------------------------------------------------------------------------------


def test_a_rename_has_both_names(repository: Path) -> None:
    content = b"".join(b"line %d\n" % number for number in range(20))
    said = diff_of(repository, {"old name": content}, {"new name": content + b"more\n"})
    assert read_diff(said) == [FileDiff("old name", "new name", (Hunk(20, (), ("more\n",)),))]
    said = diff_of(repository, {"old name": content}, {"new name": content})
    assert read_diff(said) == [FileDiff("old name", "new name")]


def test_new_and_gone_files_and_empty_ones(repository: Path) -> None:
    said = diff_of(repository, {"gone": b"x\n", "void": b""}, {"new": b"y", "empty b/empty": b""})
    found = {file.old or file.new: file for file in read_diff(said)}
    assert found["gone"] == FileDiff("gone", None, (Hunk(0, ("x\n",), ()),))
    assert found["new"] == FileDiff(None, "new", (Hunk(0, (), ("y",)),))
    if "void" in found:  # or git takes the one for the other, renamed
        assert found["void"] in (FileDiff("void", None), FileDiff("void", "empty b/empty"))


def test_what_is_not_text_has_no_lines(repository: Path) -> None:
    said = diff_of(repository, {"a b": b"\0\1"}, {"a b": b"\0\2", "new": b"\0"})
    assert read_diff(said) == [
        FileDiff("a b", "a b", binary=True),
        FileDiff(None, "new", binary=True),
    ]
    said = diff_of(repository, {"a b": b"\0\1"}, {"a b": b"\0\2"}, "--binary")
    assert read_diff(said) == [FileDiff("a b", "a b", binary=True)]


def test_a_change_of_mode_alone_has_no_lines() -> None:
    said = 'diff --git "a/t\\ta\\303\\274" "b/t\\ta\\303\\274"\nold mode 100644\nnew mode 100755\n'
    assert read_diff(said) == [FileDiff("t\taü", "t\taü")]


def test_a_name_that_is_not_utf_8_stays_what_it_is() -> None:
    said = '--- "a/\\377"\n+++ "b/\\377"\n@@ -1 +1 @@\n-a\n+b\n'
    (file,) = read_diff(said)
    assert file.new is not None
    assert file.new.encode("utf-8", "surrogateescape") == b"\xff"


def test_a_diff_that_git_did_not_write() -> None:
    said = (
        "Only in b: c\n--- x.c\t2026-01-01 00:00:00\n+++ x.c\t2026-01-02 00:00:00\n"
        "@@ -1,2 +1,3 @@\n a\n+b\n\n"
        "--- y.c\n+++ y.c\n@@ -0,0 +1 @@\n+z\n"
    )
    assert read_diff(said) == [
        FileDiff("x.c", "x.c", (Hunk(1, (), ("b\n",)),)),
        FileDiff("y.c", "y.c", (Hunk(0, (), ("z\n",)),)),
    ]


def test_what_stands_around_a_diff_is_passed_over(repository: Path) -> None:
    said = diff_of(repository, {"a": b"1\n"}, {"a": b"2\n"})
    letter = f"commit 0123\nAuthor: A\n\n    rename to x\n\n{said}-- \n2.40\n"
    assert read_diff(letter) == read_diff(said)
    assert read_diff("") == []
    assert read_diff("nothing of the kind\n") == []


# -- lines ----------------------------------------------------------------------------------------


def test_the_new_lines_have_the_numbers_of_the_new_text() -> None:
    file = FileDiff(
        "x",
        "x",
        (Hunk(2, ("a\n",), ()), Hunk(5, ("b\n",), ("c\n", "d\n")), Hunk(9, (), ("e\n",))),
    )
    assert file.added == ((4, 6), (9, 10))


@pytest.mark.parametrize(
    "said",
    [
        "@@ -1 +1 @@\n-a\n+b\n",
        "--- a/x\n+++ b/x\n@@ -1,2 +1 @@\n-a\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n-b\n+c\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\nnonsense\n",
        "--- a/x\n+++ b/x\n@@ nonsense @@\n-a\n",
        "--- a/x\n+++ b/x\n@@ -0 +1 @@\n-a\n+b\n",
        "--- a/x\n+++ b/x\n@@ -1 +7 @@\n-a\n+b\n",
        "diff --cc x\n@@@ -1 -1 +1 @@@\n--a\n++b\n",
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_do(said: str) -> None:
    with pytest.raises(EditError, match=r"make it again|Compare with one"):
        read_diff(said)


@given(st.text(alphabet=st.sampled_from('-+@ ,1234ab/\\\n"diff --git')))
def test_nonsense_is_read_or_refused(said: str) -> None:
    with contextlib.suppress(EditError):
        read_diff(said)


def test_a_long_diff_is_read_with_a_bounded_number_of_steps_for_each_line() -> None:
    body = "".join(f"@@ -{n},0 +{2 * n} @@\n+line\n" for n in range(1, 10_000))
    found: list[FileDiff] = []
    count = lines_run(lambda: found.extend(read_diff(f"--- a/x\n+++ b/x\n{body}")))
    assert [len(file.added) for file in found] == [9_999]
    assert count < 75 * 20_000
