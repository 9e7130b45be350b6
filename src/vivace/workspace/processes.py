"""Processes in a session of their own, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process

__all__ = ["kill_session"]

_END_S = 5.0
"""How long a killed process may take to be gone: one that waits for a disk cannot be killed."""
_STEP_S = 0.005


async def kill_session(process: Process) -> None:
    """Kill a process and all of its session, and wait until it is gone.

    ``Process.wait`` would wait for the end of its pipes, too. A program that left the session may
    hold them open for ever, so they are closed here.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            while process.returncode is None:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(_STEP_S)
    if process.stdin is not None and not process.stdin.is_closing():
        process.stdin.transport.abort()
    process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - nothing public does
