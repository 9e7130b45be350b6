"""Where a Valkey is, read from its url and told without its password."""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["host", "place"]

_SETTINGS = {"db", "username", "password"}
"""What may stand behind the question mark; others would change what it is or whom it trusts."""
_OF_TLS = {"ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}


def host(url: str) -> str | None:
    """The host that is asked; None for a socket of this machine. ``ValueError`` if it cannot be
    read."""
    parts = urlsplit(url)
    allowed = _SETTINGS | (_OF_TLS if parts.scheme == "rediss" else set())
    if parts.port == 0 or set(parse_qs(parts.query)) - allowed or parts.fragment:
        raise ValueError
    if parts.scheme == "unix":
        if parts.hostname or not parts.path.startswith("/"):
            raise ValueError
        return None
    if not parts.hostname or not (parts.path.strip("/") or "0").isdecimal():
        raise ValueError
    return unquote(parts.hostname)


def place(url: str) -> str:
    """For people: no user and no password."""
    parts, where = urlsplit(url), host(url)
    if where is None:
        return parts.path
    name = f"[{where}]" if ":" in where else where
    return f"{name}:{parts.port or 6379}"
