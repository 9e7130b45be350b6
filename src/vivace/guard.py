"""Runs a program and ends it when our own standard input closes, that is, when our parent is gone.

An engine must not outlive the gateway that started it, however that gateway ended, nor a server the
run that it was started for.
"""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
import threading

__all__ = ["main"]


def _end_with_us() -> None:
    """Linux: the child gets SIGTERM when we are gone, even by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def main() -> None:
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, preexec_fn=_end_with_us) as child:  # noqa: S603
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())

        def end_with_parent() -> None:
            sys.stdin.buffer.read()
            child.terminate()

        threading.Thread(target=end_with_parent, daemon=True).start()
        sys.exit(child.wait())


if __name__ == "__main__":
    main()
