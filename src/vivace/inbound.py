"""Inbound connections of a server: its port, as many files as they need, and how many there may be.

Gateways and engine nodes share this. Nothing here reads what a connection says.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import sys
from collections.abc import Hashable, Iterable
from functools import lru_cache

from msgspec.structs import replace

from vivace.config import Config, LimitsConfig
from vivace.errors import ConfigError, RequestError, TooManyRequests, Unavailable

__all__ = ["CROWDED", "FULL", "ConnectionCounts", "listen", "within_file_limit"]

if sys.platform != "win32":
    import resource

log = logging.getLogger("vivace")


def within_file_limit(config: Config) -> Config:
    """Each connection is an open file. The usual limit of 1,024 is for programs with few, so we ask
    for more; what we do not get must not be missing where turns are stored and engines reached."""
    if sys.platform == "win32":
        return config
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS says unlimited and means less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = files * 3 // 4
    if files == resource.RLIM_INFINITY or config.limits.connections <= most:
        return config
    log.info(
        "takes %d connections, not limits.connections = %d: it may open %d files (ulimit -n)",
        most,
        config.limits.connections,
        files,
    )
    return replace(config, limits=replace(config.limits, connections=most))


def listen(host: str, port: int, setting: str, backlog: int = 4096) -> socket.socket:
    """Return a socket that listens there. ``setting`` names what chooses the port; ``backlog`` is
    how many connections may wait to be accepted, which is also how long one waits under a flood."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # Python repeats the address behind it
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {why}. Stop the other program, or choose "
            f"another port with {setting}."
        ) from error
    # Accepted sockets have this from their listener. asyncio sets it only where the listener was
    # made with the protocol's number; without, small frames wait 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


FULL = Unavailable(
    "This server has as many connections as it takes; try again in a moment.",
    code="too_many_connections",
    retry_after=5,
)
CROWDED = TooManyRequests(
    "Your address has as many connections as one may have here. Close some, or ask whoever runs "
    "this server to raise limits.connections_per_address or to name your proxy in "
    "server.trusted_proxies.",
    code="too_many_connections",
    retry_after=5,
)


class ConnectionCounts:
    """Connections from the moment they are accepted: in all, and by the address they come from."""

    def __init__(self, limits: LimitsConfig, trusted: Iterable[str]) -> None:
        """``trusted`` networks are not counted by address: a proxy is one address for many."""
        self.limits = limits
        self._trusted = [ipaddress.ip_network(network) for network in trusted]
        self.group = lru_cache(1024)(self._find_group)
        self._open: dict[Hashable, str | None] = {}
        self._by_address: dict[str, int] = {}

    def enter(self, connection: Hashable, address: str | None) -> RequestError | None:
        """Count a connection; return ``FULL`` or ``CROWDED`` if there may not be one more."""
        group = self.group(address)
        count = self._by_address.get(group, 0) if group is not None else 0
        if len(self._open) >= self.limits.connections:
            return FULL
        if count >= self.limits.connections_per_address:
            return CROWDED
        self._open[connection] = group
        if group is not None:
            self._by_address[group] = count + 1
        return None

    def leave(self, connection: Hashable) -> None:
        """Count a connection no more; nothing happens if it is not counted."""
        group = self._open.pop(connection, None)
        if group is None:
            return
        self._by_address[group] -= 1
        if not self._by_address[group]:
            del self._by_address[group]

    def _find_group(self, address: str | None) -> str | None:
        """What counts as one address; None for what is not counted by it."""
        if address is None:
            return None
        ip = ipaddress.ip_address(address.partition("%")[0])
        if isinstance(ip, ipaddress.IPv6Address):
            ip = ip.ipv4_mapped or ip
        if any(ip in network for network in self._trusted):
            return None
        # Whoever has one address of IPv6 has the whole network of 64 bits.
        return str(ip) if ip.version == 4 else str(int(ip) >> 64)
