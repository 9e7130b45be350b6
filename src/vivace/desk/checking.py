"""The person's own check of an edit: a command, run in the work tree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vivace.workspace.processes import kill_session

__all__ = ["Checked", "run_check"]

_TAIL = 4096
"""Bytes of a failing check that the model gets to see: the end is where the reason stands."""


@dataclass(frozen=True)
class Checked:
    command: str
    status: int
    tail: str

    @property
    def passed(self) -> bool:
        return self.status == 0


async def run_check(
    command: str,
    folder: Path,
    show: Callable[[bytes], None],
    environment: Mapping[str, str] | None = None,
) -> Checked:
    """Run it in a shell; what it says is shown as it comes. Cancelled, it and its children end."""
    # Not to be cancelled half started: it runs already, and nobody would know its children.
    starting = asyncio.create_task(
        asyncio.create_subprocess_shell(
            command,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    )
    tail = b""
    try:
        process = await asyncio.shield(starting)
        assert process.stdout is not None
        while piece := await process.stdout.read(65536):
            show(piece)
            tail = (tail + piece)[-_TAIL:]
        status = await process.wait()
    except BaseException:
        process = await starting
        await kill_session(process)
        raise
    return Checked(command, status, tail.decode(errors="replace"))
