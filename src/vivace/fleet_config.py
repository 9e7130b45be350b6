"""The tables ``[fleet]`` and ``[node]``: how gateways and engine nodes find and trust each other.

A node runs whatever a gateway with the key asks of it, and reads every prompt. So both have a key,
and what leaves a machine is encrypted unless the person said otherwise beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from vivace.addresses import is_loopback
from vivace.errors import ConfigError
from vivace.units import Megabytes, Port, Seconds

__all__ = [
    "FleetConfig",
    "NodeAddress",
    "NodeConfig",
    "check_fleet",
    "check_listening",
    "fleet_key",
    "node_address",
]

_SHORTEST_KEY = 16
_SCHEMES = {
    "ws": (False, False),
    "wss": (True, False),
    "dns": (False, True),
    "dns+wss": (True, True),
}
"""Whether it is encrypted, and whether its name may have many addresses."""


class FleetConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What several gateways share, the engine nodes that they use, and how all know each other."""

    engines: Annotated[tuple[str, ...], Meta(examples=[["dns+wss://vivace-engines:8770"]])] = ()
    """Engine nodes: ``wss://HOST:PORT`` for one, ``dns+wss://NAME:PORT`` for all behind a name,
    which is looked up again and again. ``ws://`` and ``dns://`` are the same without encryption."""
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:/\-]*\Z", examples=["gateway-1"])] = ""
    """What ``vivace drain`` and ``vivace top`` call this gateway. If empty, its machine's name and
    its port."""
    key_env: str = "VIVACE_FLEET_KEY"
    """The environment variable with the key that gateways and nodes share."""
    valkey: (
        Annotated[str, Meta(pattern=r"^(rediss?|unix)://", examples=["redis://127.0.0.1:6379/0"])]
        | None
    ) = None
    """A Valkey (or Redis) in which gateways count together against the limits of tiers, and by
    which they wake each other; ``rediss://`` is with TLS, ``unix://`` a socket of this machine.
    Without one, and while it is away, each gives out its share and looks for what others ask of
    it. It holds nothing that may not be lost."""
    allow_remote: bool = False
    """Must be true for nodes on other machines, because prompts and code go there, and for a
    Valkey, because ids go there and how much they use."""
    allow_plain: bool = False
    """Must be true for nodes on other machines that are reached without encryption."""
    heartbeat_seconds: Seconds = 1
    """How often a gateway that shares its store says that it lives."""
    dead_after_seconds: Seconds = 4
    """Without a heartbeat for so long a gateway counts as gone, and others take its turns: at least
    twice ``heartbeat_seconds``."""
    ca: Annotated[str, Meta(examples=["fleet-ca.pem"])] | None = None
    """A file with the certificates that nodes are believed by, relative to the configuration
    file; without it, those of this system."""


class NodeConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How ``vivace engine`` offers the ``[[engines]]`` of this file to gateways."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:/\-]*\Z", examples=["gpu-1"])] = ""
    """What gateways call it: its engine ``coder`` is ``coder@gpu-1`` there. No two nodes may share
    one. If empty, its host and port."""
    host: str = "127.0.0.1"
    """The address to listen on. One that others can reach needs a certificate."""
    port: Port = 8770
    """The port to listen on; 0 takes any that is free."""
    certificate: Annotated[str, Meta(examples=["node.pem"])] | None = None
    """A PEM file with the node's certificate, relative to the configuration file."""
    private_key: Annotated[str, Meta(examples=["node-key.pem"])] | None = None
    """The PEM file with the key of that certificate."""
    allow_plain: bool = False
    """Must be true to listen without a certificate where others can reach it."""
    log_megabytes: Megabytes = 256
    """For what was said of turns, until their gateways have it all."""


class NodeAddress(Struct, frozen=True):
    """Where a node is, or many under one name."""

    host: str
    port: int
    secure: bool
    many: bool
    """Every address that the name has is a node."""


def node_address(url: str, where: str = "") -> NodeAddress:
    """Of an entry of ``fleet.engines``."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    extra = host is not None and (parts.path.strip("/") or parts.query or "@" in parts.netloc)
    if not host or not port or extra or parts.scheme not in _SCHEMES:
        raise ConfigError(
            f"{where}fleet.engines: an address cannot be read. Write each like "
            "'wss://HOST:PORT', or 'dns+wss://NAME:PORT' for all nodes behind a name; 'ws' and "
            "'dns' are without encryption. A key does not belong here: fleet.key_env names it."
        )
    return NodeAddress(host, port, *_SCHEMES[parts.scheme])


def check_fleet(fleet: FleetConfig, where: str = "") -> None:
    """Nothing leaves this machine unless the person said so, and then not for all to read."""
    if fleet.dead_after_seconds < 2 * fleet.heartbeat_seconds:
        raise ConfigError(
            f"{where}fleet.dead_after_seconds is {fleet.dead_after_seconds:g}, less than two "
            f"heartbeats of {fleet.heartbeat_seconds:g} s: gateways that live would count as gone. "
            "Make it longer."
        )
    addresses = [node_address(url, where) for url in fleet.engines]
    places = [(each.host, each.port) for each in addresses]
    twice = [
        url for url, place in zip(fleet.engines, places, strict=True) if places.count(place) > 1
    ]
    if twice:  # also as Nodes:1 and nodes:1, or with and without encryption
        raise ConfigError(f"{where}fleet.engines names {min(twice)} twice; take one out.")
    for address in addresses:
        if is_loopback(address.host):
            continue
        if not fleet.allow_remote:
            raise ConfigError(
                f"{where}fleet.engines has a node on {address.host}, so prompts and code would "
                "leave this machine. If that is what you want, set fleet.allow_remote = true."
            )
        if not address.secure and not fleet.allow_plain:
            safe = "dns+wss" if address.many else "wss"
            raise ConfigError(
                f"{where}fleet.engines reaches {address.host} without encryption, so others could "
                f"read prompts, code and the key. Write '{safe}://' and give the node a "
                "certificate, or set fleet.allow_plain = true if the network itself is encrypted."
            )


def check_listening(node: NodeConfig, where: str = "") -> None:
    if (node.certificate is None) != (node.private_key is None):
        there, missing = ("certificate", "private_key")
        if node.certificate is None:
            there, missing = missing, there
        raise ConfigError(f"{where}node.{there} needs node.{missing} beside it; name both files.")
    if is_loopback(node.host) or node.certificate is not None or node.allow_plain:
        return
    raise ConfigError(
        f"{where}node.host is {node.host!r}, which others can reach, and without a certificate "
        "they could read prompts, code and the key. Set node.certificate and node.private_key, "
        "listen on 127.0.0.1, or set node.allow_plain = true if the network itself is encrypted."
    )


def fleet_key(fleet: FleetConfig, environment: Mapping[str, str], where: str = "") -> str:
    """What gateways and nodes show each other. Never in a file that is passed around."""
    key = environment.get(fleet.key_env, "").strip()
    if len(key) >= _SHORTEST_KEY:
        return key
    problem = f"is shorter than {_SHORTEST_KEY} characters" if key else "is not set"
    raise ConfigError(
        f"{where}Gateways and engine nodes know each other by a key, and ${fleet.key_env} "
        f"{problem}. Make one with 'openssl rand -hex 32', and set it to the same on each of them."
    )
