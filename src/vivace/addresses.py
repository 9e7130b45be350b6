"""Names and addresses of hosts, as far as both sides of a connection must judge them."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["host_name", "is_loopback"]

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._\-]*)(:[0-9]*)?", re.IGNORECASE | re.ASCII)


def host_name(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is not one."""
    found = _HOST.fullmatch(host)
    return found[1].lower() if found else None


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
