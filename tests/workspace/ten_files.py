"""A program to be killed: it gives ten files one text after the other, until nobody lets it.

    python -m tests.workspace.ten_files ROOT STATE [edit|undo CALL]

With a number it edits or undoes once, and kills itself, as ``kill -9`` would, before that call of
the system which changes something.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vivace.workspace.document import read
from vivace.workspace.journal import Change, Journal
from vivace.workspace.paths import Workspace

NAMES = [f"part{number}/file{number}.py" for number in range(10)]
CALLS = ("open", "fsync", "rename", "link", "unlink", "fchmod")


def text_of(name: str, version: int) -> bytes:
    return f"# {name} of edit {version}\n".encode() * 400


def edit(root: Path, state: Path, version: int) -> None:
    workspace = Workspace(root)
    documents = [read(workspace.resolve(name)) for name in NAMES]
    changes = [
        Change(each.path, each.version, text_of(str(each.path), version)) for each in documents
    ]
    Journal(workspace, state).apply(changes, f"edit {version}")


def die_at(number: int) -> None:
    count = itertools.count(1)

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            looks_only = real.__name__ == "open" and not arguments[1] & os.O_CREAT
            if not looks_only and next(count) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    os.supports_dir_fd.add(os.open)


def main() -> None:
    root, state = Path(sys.argv[1]), Path(sys.argv[2])
    if len(sys.argv) > 3:
        die_at(int(sys.argv[4]))
        if sys.argv[3] == "edit":
            edit(root, state, 1)
        else:
            Journal(Workspace(root), state).undo()
        return
    os.write(1, b"!")
    for version in itertools.count(1):
        edit(root, state, version)


if __name__ == "__main__":
    main()
