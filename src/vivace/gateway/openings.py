"""What a server opens: its port, and as many files as it may."""

from __future__ import annotations

import contextlib
import logging
import socket
import sys

from msgspec.structs import replace

from vivace.config import Config
from vivace.errors import ConfigError

__all__ = ["listen", "within_file_limit"]

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


def listen(config: Config) -> socket.socket:
    host, port = config.server.host, config.server.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=4096)
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # Python repeats the address behind it
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {why}. Stop the other program, or choose "
            "another port with server.port or VIVACE_PORT."
        ) from error
