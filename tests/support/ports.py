"""Ports of this machine on which nothing listens."""

from __future__ import annotations

import itertools
import os
import socket
from pathlib import Path

__all__ = ["free_port"]

_FIRST = 15_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_OWN = 101
"""How far processes that start one after the other are apart."""


def _last() -> int:
    """From the next one on the system gives them to whoever connects."""
    return int(_RANGE.read_text().split()[0]) - 1 if _RANGE.exists() else 32_767


_numbers = itertools.count(os.getpid() * _OWN)


def free_port() -> int:
    """One that is still free when a server has started: nobody is given it who did not ask for it,
    and no process of ours that runs beside this one is likely to. None twice in a process."""
    ports = range(_FIRST, max(_last(), _FIRST + _OWN))
    for number in itertools.islice(_numbers, len(ports)):
        port = ports[number % len(ports)]
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
    raise OSError("Every port below those that the system gives out is taken.")
