"""Where a PostgreSQL store is, read from its url and told without its password."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["hosts", "place"]


def hosts(url: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The hosts that turns may go to; none of them is a socket of this machine, which has none.

    A service file may name any host, so its own name counts as one.
    """
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    network = parts.netloc.rpartition("@")[2]
    named = [unquote(_without_port(each)) for each in network.split(",") if each]
    if not named:
        named = [host for each in query.get("host", ()) for host in each.split(",")]
    named += [f"service {each}" for each in query.get("service", ())]
    if not named:
        named = environment.get("PGHOST", "").split(",")
    return [host for host in named if host and not host.startswith(("/", "@"))]


def place(url: str, environment: Mapping[str, str] = os.environ) -> str:
    """For people: the database and its hosts, no user and no password."""
    database = urlsplit(url).path.strip("/") or environment.get("PGDATABASE", "")
    where = ", ".join(hosts(url, environment)) or "this machine"
    return f"PostgreSQL {database} on {where}" if database else f"PostgreSQL on {where}"


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host
