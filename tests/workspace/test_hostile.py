"""Paths and contents that must do no harm: each is refused or handled, and the files are intact."""

from __future__ import annotations

import os
import random
import socket
import stat
import subprocess
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.disk import small_disk_at
from vivace.workspace import journal as journal_module
from vivace.workspace.document import LARGEST, Document, read
from vivace.workspace.errors import (
    CannotWrite,
    FileChanged,
    NotText,
    PathRefused,
    WorkspaceError,
)
from vivace.workspace.journal import Change, Journal
from vivace.workspace.paths import Workspace

OLD = b"old = 1\n"
NEW = "new = 2\n"


def edit(workspace: Workspace, journal: Journal, path: str | Path, new: str = NEW) -> None:
    """The whole way of an edit, for a file that is there or not."""
    found = workspace.resolve(path)
    document = read(found) if found.absolute.exists() else Document.new(found)
    journal.apply([Change(found, document.version, document.encode(new))], "a test")


def everything_in(folder: Path) -> dict[str, object]:
    """All there is below a folder: what a refusal must not change."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content: object = None
        if path.is_symlink():
            content = path.readlink()
        elif path.is_file():
            content = path.read_bytes()
        found[str(path.relative_to(folder))] = (stat.S_IFMT(status.st_mode), content)
    return found


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "victim.py").write_bytes(OLD)
    return folder


@pytest.fixture
def project(root: Path, outside: Path) -> Path:
    """A workspace with something of everything."""
    (root / "src").mkdir()
    (root / "src" / "a.py").write_bytes(OLD)
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_bytes(OLD)
    (root / "vendored").mkdir()
    (root / "vendored" / ".git").write_text("gitdir: ../.git/modules/vendored\n")
    (root / ".vscode").mkdir()
    (root / ".vscode" / "settings.json").write_bytes(b"{}\n")
    (root / "vivace.toml").write_bytes(b"version = 1\n")
    (root / "link.py").symlink_to(outside / "victim.py")
    (root / "inner-link.py").symlink_to("src/a.py")
    (root / "dangling.py").symlink_to(outside / "none.py")
    (root / "out").symlink_to(outside)
    (root / "config").symlink_to(".git")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    return root


HOSTILE_PATHS = [
    "",
    ".",
    "/",
    "..",
    "../outside/victim.py",
    "src/../../outside/victim.py",
    "src/../src/a.py",
    "..\\outside\\victim.py",
    ".. /outside/victim.py",
    "/etc/passwd",
    "/dev/null",
    "/proc/self/mem",
    "{root}/../outside/victim.py",
    "{root}-other/a.py",
    "~/.bashrc",
    "~root/.bashrc",
    "link.py",
    "inner-link.py",
    "dangling.py",
    "out/victim.py",
    "out/new.py",
    "loop/a.py",
    "src",
    "src/",
    "src/a.py/b.py",
    "pipe",
    "socket",
    ".git/config",
    ".git/hooks/pre-commit",
    ".GIT/config",
    ".Git/hooks/post-checkout",
    ".git./config",
    ".git /config",
    ".g\u200cit/config",
    ".git::$INDEX_ALLOCATION/config",
    "GIT~1/config",
    "\uff0egit/config",
    "vendored/.git",
    "src/.git/hooks/pre-commit",
    "config/hooks/pre-commit",
    ".gitmodules",
    ".vscode/settings.json",
    "src/.idea/workspace.xml",
    "team.code-workspace",
    ".nvim.lua",
    ".husky/pre-commit",
    ".githooks/pre-push",
    ".envrc",
    ".github/workflows/ci.yml",
    "vivace.toml",
    "VIVACE.TOML",
    ".vivace/config.toml",
    "src/new\nname.py",
    "src/\x1b[31mred.py",
    "src/nul\0.py",
    "src/\udcff.py",
    "src/" + "n" * 300 + ".py",
    "d/" * 3000 + "deep.py",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_hostile_path_is_refused_in_words_and_nothing_is_touched(
    project: Path, tmp_path: Path, path: str
) -> None:
    workspace = Workspace(project)
    journal = Journal(workspace, tmp_path.parent / f"{tmp_path.name}-state")
    before = everything_in(tmp_path)
    with pytest.raises(WorkspaceError) as refused:
        edit(workspace, journal, path.format(root=project))
    assert str(refused.value).endswith(".")
    assert everything_in(tmp_path) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_in_the_workspace_is_refused(workspace: Workspace, root: Path) -> None:
    try:
        os.mknod(root / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("devices cannot be made here")
    with pytest.raises(PathRefused, match="device"):
        workspace.resolve("null")


# -- contents that are refused --------------------------------------------------------------------

REFUSED_CONTENTS = {
    "NUL": b"a = 1\0\n",
    "invalid UTF-8": b"ok\nname = 'caf\xe9'\n",
    "cut UTF-8": "café".encode()[:-1],
    "UTF-16": "a = 1\n".encode("utf-16"),
    "overlong": b"\xc0\xaf",
    "surrogate": b"\xed\xa0\x80",
    "huge": b"x" * (LARGEST + 1),
    "program": b"\x7fELF\x02\x01\x01\0",
}


@pytest.mark.parametrize("data", REFUSED_CONTENTS.values(), ids=REFUSED_CONTENTS)
def test_a_file_that_is_not_text_is_refused_and_intact(
    workspace: Workspace, journal: Journal, root: Path, data: bytes
) -> None:
    (root / "a.py").write_bytes(data)
    with pytest.raises(NotText):
        edit(workspace, journal, "a.py")
    assert (root / "a.py").read_bytes() == data


@pytest.mark.parametrize("text", ["nul\0\n", "half \ud800\n", "x" * (LARGEST + 1)])
def test_a_new_text_that_could_not_be_read_again_is_refused(
    workspace: Workspace, journal: Journal, root: Path, text: str
) -> None:
    (root / "a.py").write_bytes(OLD)
    with pytest.raises(CannotWrite):
        edit(workspace, journal, "a.py", text)
    assert (root / "a.py").read_bytes() == OLD


# -- contents that are handled --------------------------------------------------------------------

HANDLED = {
    "CRLF": (b"a\r\nb\r\n", "a\nB\n", b"a\r\nB\r\n"),
    "CRLF, edited as it is": (b"a\r\nb\r\n", "a\r\nB\r\n", b"a\r\nB\r\n"),
    "CR": (b"a\rb\r", "a\nB\n", b"a\rB\r"),
    "mixed": (b"a\r\nb\nc\r\nd\n", "a\nB\nc\nd\n", b"a\r\nB\nc\r\nd\n"),
    "mixed, a line fewer": (b"a\r\nb\nc\r\nd\n", "a\nc\nd\n", b"a\r\nc\r\nd\n"),
    "a lone CR inside": (b"a\rb\nc\n", "a\rb\nC\n", b"a\rb\nC\n"),
    "doubled CR": (b"a\r\r\nb\nc\n", "a\r\nb\nC\n", b"a\r\r\nb\nC\n"),
    "BOM": (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
    "BOM and CRLF": (b"\xef\xbb\xbfa\r\n", "b\n", b"\xef\xbb\xbfb\r\n"),
    "no final newline": (b"a\nb", "a\nB", b"a\nB"),
    "CRLF, no final newline": (b"a\r\nb", "a\nB", b"a\r\nB"),
    "empty": (b"", "a\n", b"a\n"),
    "emptied": (OLD, "", b""),
    "form feeds and odd separators": (b"a\x0c\nb\xe2\x80\xa8c\n", "a\x0c\nB\u2028c\n", None),
    "a line of 5 MB": (b"x" * LARGEST, "y" * LARGEST, b"y" * LARGEST),
}


@pytest.mark.parametrize(("old", "new", "expected"), HANDLED.values(), ids=HANDLED)
def test_what_is_not_edited_keeps_its_bytes(
    workspace: Workspace, journal: Journal, root: Path, old: bytes, new: str, expected: bytes | None
) -> None:
    (root / "a.py").write_bytes(old)
    edit(workspace, journal, "a.py", new)
    assert (root / "a.py").read_bytes() == (new.encode() if expected is None else expected)
    journal.undo()
    assert (root / "a.py").read_bytes() == old


@pytest.mark.parametrize(
    "name", ["sp ace.py", "-rf", "$(touch x).py", "ünïcode.py", "日本.py", "a:b"]
)
def test_an_odd_name_is_only_a_name(
    workspace: Workspace, journal: Journal, root: Path, name: str
) -> None:
    (root / name).write_bytes(OLD)
    edit(workspace, journal, name)
    assert [path.name for path in root.iterdir()] == [name]
    assert (root / name).read_text() == NEW


@pytest.mark.parametrize(("there", "asked"), [("NFD", "NFC"), ("NFC", "NFD")])
def test_a_twin_in_another_unicode_form_is_not_made(
    workspace: Workspace, journal: Journal, root: Path, there: str, asked: str
) -> None:
    name = unicodedata.normalize(there, "café.py")  # type: ignore[arg-type]
    (root / name).write_bytes(OLD)
    with pytest.raises(PathRefused, match="looks the same"):
        edit(workspace, journal, unicodedata.normalize(asked, "café.py"))  # type: ignore[arg-type]
    assert everything_in(root) == {name: (stat.S_IFREG, OLD)}


# -- files and folders that do not let themselves be written --------------------------------------


def test_a_read_only_file_is_refused_even_for_root(
    workspace: Workspace, journal: Journal, root: Path
) -> None:
    (root / "a.py").write_bytes(OLD)
    (root / "a.py").chmod(0o444)
    with pytest.raises(CannotWrite, match="chmod"):
        edit(workspace, journal, "a.py")
    assert everything_in(root) == {"a.py": (stat.S_IFREG, OLD)}


def test_a_hard_link_is_refused_and_still_one(
    workspace: Workspace, journal: Journal, root: Path, outside: Path
) -> None:
    (root / "a.py").hardlink_to(outside / "victim.py")
    with pytest.raises(CannotWrite, match="2 hard links"):
        edit(workspace, journal, "a.py")
    assert (outside / "victim.py").read_bytes() == OLD
    assert (root / "a.py").samefile(outside / "victim.py")


def test_a_read_only_folder_is_refused(tmp_path: Path, journal: Journal, root: Path) -> None:
    """As root nothing is read-only but a disk that is mounted so."""
    (root / "sub").mkdir()
    (root / "sub" / "a.py").write_bytes(OLD)
    workspace = Workspace(root)
    (root / "sub").chmod(0o555)
    if os.geteuid() == 0:
        bind = ["mount", "--bind", "-o", "ro", str(root / "sub"), str(root / "sub")]
        if subprocess.run(bind, capture_output=True, check=False).returncode:
            pytest.skip("nothing can be mounted read-only here")
    try:
        with pytest.raises(CannotWrite, match=r"only be read|permissions"):
            edit(workspace, journal, "sub/a.py")
        assert everything_in(root / "sub") == {"a.py": (stat.S_IFREG, OLD)}
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", str(root / "sub")], check=True)
    assert journal.last() is None


def test_a_full_disk_leaves_the_file_and_no_rubbish(tmp_path: Path, state: Path) -> None:
    with small_disk_at(tmp_path / "small", "64k") as disk:
        (disk / "a.py").write_bytes(OLD)
        (disk / "b.py").write_bytes(OLD)
        workspace = Workspace(disk)
        journal = Journal(workspace, state)
        small, large = (read(workspace.resolve(name)) for name in ("a.py", "b.py"))
        with pytest.raises(CannotWrite, match="disk is full"):
            journal.apply(
                [
                    Change(small.path, small.version, NEW.encode()),
                    Change(large.path, large.version, b"y" * 100_000),
                ],
                "too much",
            )
        regular = stat.S_IFREG
        assert everything_in(disk) == {"a.py": (regular, OLD), "b.py": (regular, OLD)}
        assert journal.last() is None


def test_a_journal_without_room_stops_the_edit_before_it_begins(
    tmp_path: Path, workspace: Workspace, root: Path
) -> None:
    (root / "a.py").write_bytes(b"x" * 100_000)
    with small_disk_at(tmp_path / "small", "64k") as disk:
        with pytest.raises(CannotWrite, match="noted"):
            edit(workspace, Journal(workspace, disk), "a.py")
        assert list(disk.rglob("*.writing")) == []
    assert everything_in(root) == {"a.py": (stat.S_IFREG, b"x" * 100_000)}


# -- what happens meanwhile -----------------------------------------------------------------------


def _change(path: Path) -> None:
    path.write_text("the person typed\n")


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_text("an editor saved\n")
    other.replace(path)


def _to_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parents[1] / "outside" / "victim.py")


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _to_socket(path: Path) -> None:
    path.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


MEANWHILE: list[Callable[[Path], None]] = [
    _change,
    _replace,
    Path.unlink,
    _to_link,
    _to_folder,
    _to_pipe,
    _to_socket,
]


@pytest.mark.parametrize("happens", MEANWHILE)
def test_a_file_that_became_another_since_it_was_read_is_not_touched(
    journal: Journal,
    workspace: Workspace,
    root: Path,
    outside: Path,
    happens: Callable[[Path], None],
) -> None:
    (root / "a.py").write_bytes(OLD)
    document = read(workspace.resolve("a.py"))
    happens(root / "a.py")
    before = everything_in(root)
    with pytest.raises((FileChanged, PathRefused)):
        journal.apply([Change(document.path, document.version, NEW.encode())], "late")
    assert everything_in(root) == before
    assert (outside / "victim.py").read_bytes() == OLD


def test_a_new_file_does_not_overwrite_one_that_appeared(
    journal: Journal, workspace: Workspace, root: Path
) -> None:
    path = workspace.resolve("new.py")
    (root / "new.py").write_bytes(OLD)
    with pytest.raises(FileChanged):
        journal.apply([Change(path, None, NEW.encode())], "late")
    assert everything_in(root) == {"new.py": (stat.S_IFREG, OLD)}


@pytest.fixture
def swap(root: Path, outside: Path) -> Callable[[], None]:
    """Puts a link to the outside in the place of the folder ``sub``, or the folder back."""
    folder, aside, link = root / "sub", root / "aside", root / "link"
    folder.mkdir()
    (folder / "victim.py").write_bytes(OLD)
    link.symlink_to(outside)

    def swap() -> None:
        if folder.is_symlink():
            folder.rename(link)
            aside.rename(folder)
        else:
            folder.rename(aside)
            link.rename(folder)

    return swap


def write(workspace: Workspace, journal: Journal, new: str) -> None:
    document = read(workspace.resolve("sub/victim.py"))
    journal.apply([Change(document.path, document.version, document.encode(new))], "a test")


@pytest.mark.parametrize("step", ["stage", "commit"])
def test_a_link_swapped_in_before_a_step_of_the_write_is_refused(
    journal: Journal,
    workspace: Workspace,
    root: Path,
    outside: Path,
    swap: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    real = getattr(journal_module, step)

    def with_a_swap_before(*arguments: object) -> None:
        swap()
        real(*arguments)

    monkeypatch.setattr(journal_module, step, with_a_swap_before)
    with pytest.raises(PathRefused):
        write(workspace, journal, NEW)
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"victim.py": OLD}
    assert (root / "aside" / "victim.py").read_bytes() == OLD


def test_a_link_swapped_in_again_and_again_never_leads_out(
    journal: Journal, workspace: Workspace, outside: Path, swap: Callable[[], None]
) -> None:
    stop = threading.Event()

    def swap_and_rest() -> None:
        while not stop.wait(random.uniform(0, 0.004)):
            swap()
            swap()

    swapping = threading.Thread(target=swap_and_rest)
    swapping.start()
    outcomes: Counter[str] = Counter()
    try:
        while len(outcomes) < 2 or outcomes.total() < 100:
            assert outcomes.total() < 20_000, outcomes
            try:
                write(workspace, journal, f"number {outcomes.total()}\n")
                outcomes["written"] += 1
            except WorkspaceError as error:
                outcomes[type(error).__name__] += 1
    finally:
        stop.set()
        swapping.join()
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"victim.py": OLD}
    assert outcomes["written"]
