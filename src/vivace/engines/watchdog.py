"""Ends the processes that ours leaves behind when it is killed.

vLLM's engine does not notice that whoever started it is gone: it keeps the memory, and what is
started next finds none. So a process of its own waits beside ours for that.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable

from vivace.interpreter import python_command

__all__ = ["Watchdog", "main"]

_LOOK = 1.0
"""Seconds between two looks at whether the parent lives, should another keep its pipe open."""
_PATIENCE = 5.0
"""Seconds that a process gets to end by itself."""


class Watchdog:
    """Guards processes until it is closed."""

    def __init__(self) -> None:
        command = python_command("-m", "vivace.engines.watchdog", str(os.getpid()))
        # A terminal's Ctrl-C is for us.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # noqa: S603
        self._guarded: set[int] = set()

    def guard(self, pids: Iterable[int]) -> None:
        """Ours, or ended."""
        assert self._process.stdin is not None
        fresh = set(pids) - self._guarded
        if not fresh or self._process.stdin.closed:
            return
        self._guarded |= fresh
        with contextlib.suppress(BrokenPipeError):  # somebody ended it: then nobody guards them
            self._process.stdin.write("".join(f"{pid}\n" for pid in fresh).encode())
            self._process.stdin.flush()

    def close(self) -> None:
        """Nothing is guarded any more."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()


class _Guarded:
    """One process, and no other that has its number later (on Linux)."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._fd = os.pidfd_open(pid) if sys.platform == "linux" else None

    def end(self, how: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if sys.platform == "linux" and self._fd is not None:
                signal.pidfd_send_signal(self._fd, how)
            else:
                os.kill(self._pid, how)

    def ended_within(self, seconds: float) -> bool:
        if self._fd is None:
            time.sleep(seconds)
            return False
        ready, _, _ = select.select([self._fd], [], [], max(0.0, seconds))
        return bool(ready)


def main() -> None:
    """The parent tells its number: it may be gone before this begins."""
    parent, guarded = int(sys.argv[1]), list[_Guarded]()
    said, unread = b"-", b""
    while said:
        if select.select([sys.stdin], [], [], _LOOK)[0]:
            said = os.read(sys.stdin.fileno(), 4096)
            *lines, unread = (unread + said).split(b"\n")
            for line in lines:
                with contextlib.suppress(ProcessLookupError):
                    guarded.append(_Guarded(int(line)))
        elif os.getppid() != parent:
            break
    _end(guarded)


def _end(guarded: Iterable[_Guarded]) -> None:
    guarded = [*guarded]
    for each in guarded:
        each.end(signal.SIGTERM)
    until = time.monotonic() + _PATIENCE
    for each in guarded:
        if not each.ended_within(until - time.monotonic()):
            each.end(signal.SIGKILL)


if __name__ == "__main__":
    main()
