"""Compiled files that would hide a change of their source."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vivace.workspace.bytecode import discard_bytecode
from vivace.workspace.document import read
from vivace.workspace.paths import Workspace, open_folder
from vivace.workspace.write import replace

SECOND = 1_700_000_000


def compiled(root: Path, second: int, size: int, name: str, flags: int = 0) -> Path:
    """Make a file as Python compiles it."""
    path = root / "__pycache__" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<4sIII", b"\xa7\r\r\n", flags, second, size) + b"code")
    return path


def discard(workspace: Workspace, name: str) -> None:
    with open_folder(workspace.resolve(name)) as folder:
        discard_bytecode(folder, name)


def save(path: Path, text: str) -> None:
    """Write it within a second that is always the same."""
    path.write_text(text)
    os.utime(path, (SECOND, SECOND))


def test_python_runs_what_was_saved_within_the_second_of_the_save_before(
    workspace: Workspace, root: Path
) -> None:
    def prints() -> str:
        environment = {"PATH": os.environ["PATH"]}
        command = [sys.executable, "-c", "import shop; print(shop.price)"]
        ran = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, check=True
        )
        return ran.stdout.strip()

    save(root / "shop.py", "price = 1\n")
    assert prints() == "1"
    save(root / "shop.py", "price = 2\n")
    assert prints() == "1"  # what this is about
    discard(workspace, "shop.py")
    assert prints() == "2"


def test_replaced_file_loses_what_was_compiled_within_its_second(
    workspace: Workspace, root: Path
) -> None:
    (root / "shop.py").write_text("price = 1\n")
    now = int(time.time())
    seconds = range(now - 5, now + 600)
    files = {each: compiled(root, each, 10, f"shop.cpython-{each}.pyc") for each in seconds}
    document = read(workspace.resolve("shop.py"))
    replace(document.path, b"price = 2\n", document.version)
    gone = [second for second, path in files.items() if not path.exists()]
    assert gone == [int((root / "shop.py").stat().st_mtime)]


@pytest.mark.parametrize(
    ("name", "second", "size", "flags"),
    [
        ("shop.cpython-311.pyc", SECOND - 1, 10, 0),
        ("shop.cpython-311.pyc", SECOND, 11, 0),
        ("shop.cpython-311.pyc", SECOND, 10, 3),  # compiled by content, which Python compares
        ("shopping.cpython-311.pyc", SECOND, 10, 0),
        ("shop.cpython-311.txt", SECOND, 10, 0),
    ],
)
def test_compiled_files_that_python_would_not_take_for_it_stay(
    workspace: Workspace, root: Path, name: str, second: int, size: int, flags: int
) -> None:
    save(root / "shop.py", "price = 1\n")
    other = compiled(root, second, size, name, flags)
    taken = compiled(root, SECOND, 10, "shop.cpython-311-pytest-9.0.pyc")
    discard(workspace, "shop.py")
    assert other.exists()
    assert not taken.exists()


def test_compiled_files_are_not_looked_for_through_a_link(
    workspace: Workspace, root: Path, tmp_path: Path
) -> None:
    save(root / "shop.py", "price = 1\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    outside = compiled(elsewhere, SECOND, 10, "shop.cpython-311.pyc")
    (root / "__pycache__").symlink_to(outside.parent)
    discard(workspace, "shop.py")
    assert outside.exists()


def test_discarding_does_nothing_where_there_is_nothing(workspace: Workspace, root: Path) -> None:
    save(root / "shop.py", "price = 1\n")
    discard(workspace, "shop.py")
    discard(workspace, "none.py")
    (root / "__pycache__").mkdir()
    os.mkfifo(root / "__pycache__/shop.cpython-311.pyc")
    (root / "__pycache__/shop.cpython-312.pyc").write_bytes(b"short")
    discard(workspace, "shop.py")
    assert (root / "shop.py").read_text() == "price = 1\n"
