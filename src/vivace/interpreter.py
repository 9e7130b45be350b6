"""Python programs that Vivace starts for itself: never with code from the current folder.

``python -m`` and ``python -c`` look for every module in the current folder first, also for those
that ``multiprocessing`` starts. That folder may be a repository that was just cloned.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = [
    "NEUTRAL_FOLDER",
    "SAFE_PATH",
    "children_environment",
    "console_script",
    "python_command",
]

SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment that keeps the current folder off ``sys.path`` of Python processes."""
NEUTRAL_FOLDER = os.path.abspath(os.sep)  # noqa: PTH100 - of the current drive, as a string
"""A folder for programs that load libraries from the one that they run in, as llama.cpp does."""
_lock = threading.Lock()


def python_command(*arguments: str) -> list[str]:
    """Return the command that runs this interpreter with ``arguments``."""
    return [sys.executable, "-P", *arguments]


def console_script() -> Path | None:
    """Return the program ``vivace`` that was installed beside the interpreter; None without one."""
    beside = Path(sys.executable).with_name("vivace")
    return beside if beside.is_file() else None


@contextlib.contextmanager
def children_environment(changes: Mapping[str, str] | None = None) -> Iterator[None]:
    """Change this process's environment while a library starts processes of ours, which inherit
    it: by ``changes``, and so that none of them imports from the current folder.

    Programs of the person (tests, agents, watched commands) must not be started meanwhile.
    """
    wanted = {**SAFE_PATH, **(changes or {})}
    with _lock:
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
