"""Whether a project is right by its hidden test, in a copy of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.watch_sets.reader import Language, Task, write

__all__ = ["broken", "environment", "invalid", "lacking", "right"]

_SECONDS = 300
_TOOLS: dict[Language, tuple[str, ...]] = {
    "python": (),
    "javascript": ("node",),
    "c": ("cc", "make"),
    "rust": ("cargo",),
    "go": ("go",),
}


def lacking(task: Task) -> str | None:
    """Which program the task needs that is not installed here."""
    missing = [tool for tool in _TOOLS[task.language] if shutil.which(tool) is None]
    return f"{missing[0]} is not installed" if missing else None


def environment() -> dict[str, str]:
    """``python`` is the one that runs this, whatever the machine has, without the plugins of our
    own tests; and nothing of ours is found by what a project imports."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = os.pathsep.join([str(Path(sys.executable).parent), own.get("PATH", "")])
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return own | alone | {"PATH": path}


def right(task: Task, files: Mapping[str, str]) -> bool:
    """Whether the hidden test passes with these files of the project."""
    return _passes(task.hidden_command, {**files, **task.hidden_files})


def broken(task: Task, files: Mapping[str, str]) -> bool:
    """Whether the person's own command fails with these files."""
    return not _passes(task.command, files)


def invalid(task: Task) -> str | None:
    """What is not as it has to be with a task; None where it is."""
    if broken(task, task.right):
        return "the command fails without the bug"
    if not broken(task, task.wrong):
        return "the command passes with the bug"
    if not right(task, task.right):
        return "the hidden test fails without the bug"
    if right(task, task.wrong):
        return "the hidden test passes with the bug"
    return None


def _passes(command: str, files: Mapping[str, str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="watch-sets-") as folder:
        write(Path(folder), files)
        process = subprocess.Popen(
            command,
            shell=True,
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return process.wait(_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
