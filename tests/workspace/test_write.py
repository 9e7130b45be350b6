"""One file, replaced."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from vivace.workspace.document import read
from vivace.workspace.errors import CannotWrite, FileChanged, PathRefused
from vivace.workspace.paths import Workspace
from vivace.workspace.write import commit, discard, remove, replace, stage


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755, 0o4755])
def test_permissions_are_kept(workspace: Workspace, root: Path, mode: int) -> None:
    (root / "a.sh").write_bytes(b"old")
    (root / "a.sh").chmod(mode)
    document = read(workspace.resolve("a.sh"))
    replace(document.path, b"new", document.version)
    assert (root / "a.sh").read_bytes() == b"new"
    assert stat.S_IMODE((root / "a.sh").stat().st_mode) == mode


def test_a_new_file_has_the_usual_permissions(workspace: Workspace, root: Path) -> None:
    before = os.umask(0o027)
    try:
        replace(workspace.resolve("sub/a.py"), b"new", None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "sub" / "a.py").stat().st_mode) == 0o640
    assert [path.name for path in (root / "sub").iterdir()] == ["a.py"]


@pytest.mark.skipif(sys.platform != "linux", reason="extended attributes are Linux's")
def test_extended_attributes_are_kept(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_bytes(b"old")
    try:
        os.setxattr(root / "a.py", "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    document = read(workspace.resolve("a.py"))
    replace(document.path, b"new", document.version)
    assert os.getxattr(root / "a.py", "user.note") == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_bytes(b"old")
    os.chown(root / "a.py", 12345, 54321)
    document = read(workspace.resolve("a.py"))
    replace(document.path, b"new", document.version)
    status = (root / "a.py").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


def test_where_the_owner_cannot_be_kept_nobody_gets_more_rights(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.sh").write_bytes(b"old")
    if os.geteuid() != 0:
        pytest.skip("only root can give files away")
    os.chown(root / "a.sh", 12345, 54321)
    (root / "a.sh").chmod(0o6774)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "fchown", refuse)
    document = read(workspace.resolve("a.sh"))
    replace(document.path, b"new", document.version)
    assert stat.S_IMODE((root / "a.sh").stat().st_mode) == 0o744


def test_a_file_with_the_same_bytes_is_the_same_file(workspace: Workspace, root: Path) -> None:
    """Saved again without a change: there is nothing to lose."""
    (root / "a.py").write_bytes(b"old")
    document = read(workspace.resolve("a.py"))
    (root / "b.py").write_bytes(b"old")
    (root / "b.py").replace(root / "a.py")
    replace(document.path, b"new", document.version)
    assert (root / "a.py").read_bytes() == b"new"


def test_a_change_between_the_two_steps_is_seen(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_bytes(b"old")
    document = read(workspace.resolve("a.py"))
    stage(document.path, b"new", document.version, ".temporary")
    (root / "a.py").write_bytes(b"typed")
    with pytest.raises(FileChanged):
        commit(document.path, document.version, ".temporary")
    discard(document.path, ".temporary")
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a.py": b"typed"}


def test_a_file_is_removed_only_as_it_was_read(workspace: Workspace, root: Path) -> None:
    (root / "a.py").write_bytes(b"old")
    document = read(workspace.resolve("a.py"))
    assert document.version is not None
    (root / "a.py").write_bytes(b"typed")
    with pytest.raises(FileChanged):
        remove(document.path, document.version)
    (root / "a.py").write_bytes(b"old")
    remove(document.path, document.version)
    assert not (root / "a.py").exists()


@pytest.mark.parametrize("call", ["fsync", "fchmod"])
def test_a_failing_write_leaves_the_file_and_nothing_else(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    (root / "a.py").write_bytes(b"old")
    document = read(workspace.resolve("a.py"))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(CannotWrite, match="disk is full"):
        replace(document.path, b"new", document.version)
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a.py": b"old"}


def test_without_hard_links_a_new_file_is_made_all_the_same(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    replace(workspace.resolve("a.py"), b"new", None)
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a.py": b"new"}


def test_a_new_file_that_fails_leaves_no_folders(workspace: Workspace, root: Path) -> None:
    path = workspace.resolve("new/sub/a.py")
    (root / "new").symlink_to(root)
    with pytest.raises(PathRefused):
        replace(path, b"new", None)
    assert [each.name for each in root.iterdir()] == ["new"]


def test_a_file_that_appears_at_the_last_moment_is_not_overwritten(
    workspace: Workspace, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def late(*arguments: Any, **named: Any) -> None:
        (root / "a.py").write_bytes(b"typed")
        link(*arguments, **named)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(FileChanged, match="appeared"):
        replace(workspace.resolve("a.py"), b"new", None)
    assert {path.name: path.read_bytes() for path in root.iterdir()} == {"a.py": b"typed"}
