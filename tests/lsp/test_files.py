"""Which documents a model may read: git is asked once, and again when it may say something else."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest
from lsprotocol.types import TextDocumentContentChangeWholeDocument

from vivace.lsp import files as files_module
from vivace.lsp.documents import Document
from vivace.lsp.files import Files, folders_on_disk, name_for
from vivace.workspace.errors import PathRefused, WorkspaceError
from vivace.workspace.ignore import why_not_read
from vivace.workspace.paths import SafePath

TOKEN = "ghp_" + "a" * 36


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    return root


@pytest.fixture
def files(tmp_path: Path, folder: Path) -> Files:
    return Files(tmp_path / "untitled", [folder])


def opened(files: Files, path: Path | str, text: str = "") -> Document:
    uri = path.as_uri() if isinstance(path, Path) else path
    document = Document(uri, str(path), 1, text, "utf-16")
    files.opened(document)
    return document


def changed(files: Files, document: Document, text: str) -> None:
    change = TextDocumentContentChangeWholeDocument(text=text)
    document.change(document.version + 1, [change])
    files.changed(document, [change])


def why_not(files: Files, document: Document) -> str:
    return asyncio.run(files.why_not(document)) or ""


def test_an_ordinary_file_may_be_read_and_git_is_asked_once(
    files: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def counted(path: SafePath, content: bytes | None = None) -> str | None:
        asked.append(str(path))
        return why_not_read(path, content)

    monkeypatch.setattr(files_module, "why_not_read", counted)
    document = opened(files, folder / "src" / "a.py")
    assert not files.known_to_be_readable(document)
    for _ in range(3):
        assert why_not(files, document) == ""
    assert asked == ["src/a.py"]
    assert files.known_to_be_readable(document)


@pytest.mark.parametrize("rules", [".gitignore", "src/.gitignore", ".git/info/exclude"])
def test_git_is_asked_again_when_what_it_goes_by_has_changed(
    files: Files, folder: Path, rules: str
) -> None:
    (folder / "src").mkdir()
    document = opened(files, folder / "src" / "a.py")
    assert why_not(files, document) == ""
    (folder / rules).write_text("a.py\n")
    assert "git ignores it" in why_not(files, document)
    (folder / rules).write_text("# nothing\n")
    assert why_not(files, document) == ""


def test_a_key_that_is_pasted_in_is_noticed_until_it_is_gone(files: Files, folder: Path) -> None:
    document = opened(files, folder / "a.py", "x = 1\n")
    assert why_not(files, document) == ""
    changed(files, document, f"x = '{TOKEN}'\n")
    assert not files.known_to_be_readable(document)
    assert "GitHub token" in why_not(files, document)
    assert "GitHub token" in why_not(files, document)
    changed(files, document, "x = 2\n")
    assert why_not(files, document) == ""


def test_a_link_is_the_file_it_leads_to(files: Files, folder: Path, tmp_path: Path) -> None:
    (folder / "real.py").write_text("")
    (tmp_path / "outside.py").write_text("")
    (folder / "within.py").symlink_to("real.py")
    (folder / "out.py").symlink_to(tmp_path / "outside.py")
    (folder / "way").symlink_to(tmp_path)
    assert why_not(files, opened(files, folder / "within.py")) == ""
    assert str(files.find((folder / "within.py").as_uri()).path) == "real.py"
    assert "leads out" in why_not(files, opened(files, folder / "out.py"))
    assert "leads out" in why_not(files, opened(files, folder / "way" / "outside.py"))


def test_what_is_no_file_is_not_read(files: Files) -> None:
    assert "is no file" in why_not(files, opened(files, "git:/a.py?HEAD"))
    with pytest.raises(PathRefused):
        files.find("output:extension")


def test_what_has_no_file_yet_belongs_to_the_first_folder(files: Files, folder: Path) -> None:
    file = files.find("untitled:Untitled-1")
    assert (file.workspace.root, str(file.path)) == (folder, "Untitled-1")
    assert why_not(files, opened(files, "untitled:Untitled-1")) == ""
    for folders in ([], [folder / "gone"]):
        files.folders = folders
        assert files.find("untitled:Untitled-1").workspace.root == files.untitled


def test_folders_that_are_on_no_disk_are_left_out() -> None:
    uris = ["file:///a%20b", "vscode-vfs://github/a/b", "x://[y", "file:///a%00b", "file:///c"]
    assert folders_on_disk(uris) == [Path("/a b"), Path("/c")]


def test_a_file_outside_of_all_folders_is_at_home_in_its_own(files: Files, tmp_path: Path) -> None:
    file = files.find((tmp_path / "elsewhere.py").as_uri())
    assert (file.workspace.root, str(file.path)) == (tmp_path, "elsewhere.py")


@pytest.mark.parametrize(
    ("uri", "language", "name"),
    [
        ("file:///a/b%20c.py", "python", "/a/b c.py"),
        ("file:///a/script", "python", "/a/script.py"),
        ("vscode-notebook-cell:/a/b.ipynb#W0sZm", "python", "/a/b.ipynb.py"),
        ("untitled:Untitled-1", "typescriptreact", "Untitled-1.tsx"),
        ("file:///a/b.txt", "plaintext", "/a/b.txt"),
        ("x://[y", "python", "x://[y.py"),
    ],
)
def test_the_language_is_known_by_the_name(uri: str, language: str, name: str) -> None:
    assert name_for(uri, language) == name


@pytest.mark.parametrize(
    "uri", ["", "x://[y", "file:", "file:///", "file:///a%00b.py", "untitled:", "file:///no/where"]
)
def test_an_address_that_is_none_of_a_file_is_told_apart(files: Files, uri: str) -> None:
    assert why_not(files, opened(files, uri))
    with pytest.raises(PathRefused):
        files.find(uri)


def test_what_is_no_text_is_not_read(files: Files, folder: Path) -> None:
    document = opened(files, folder / "data", "\0\1")
    assert "not text" in why_not(files, document)
    assert not files.known_to_be_readable(document)


@pytest.mark.parametrize(
    "uri",
    [
        "file:a.py",
        "file:///",
        "file:///\ud800.py",
        "file:///a%00.py",
        "file:///" + "d/" * 50_000 + "a.py",
        "file://elsewhere/{folder}/a.py",
        "file://elsewhere{folder}/a.py",
        "file:////elsewhere/share/a.py",
        "file:///c%3A/a.py",
        "untitled:" + "a" * 5000,
        "untitled:..",
        "http://127.0.0.1/a.py",
        "file://[",
        "",
    ],
    ids=lambda uri: uri[:40],
)
def test_an_address_that_is_none_of_a_file_here_is_refused_in_words(
    files: Files, folder: Path, uri: str
) -> None:
    with pytest.raises(WorkspaceError) as refused:
        files.find(uri.format(folder=folder))
    assert str(refused.value).endswith(".")
    assert why_not(files, opened(files, uri.format(folder=folder))) == str(refused.value)


def test_an_address_may_name_this_machine(files: Files, folder: Path) -> None:
    assert files.find(f"file://localhost{folder}/a.py").path.absolute == folder / "a.py"
