"""``vivace.toml`` and the environment, read once into frozen values.

Whoever gets one of these values may trust it: it was checked as a whole, and a mistake was
reported with the place it stands in and the nearest right word.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from vivace.addresses import host_name, is_loopback
from vivace.counters import url as counters_url
from vivace.engine_config import (
    EngineConfig,
    LlamaCppConfig,
    OpenAIConfig,
    ScriptedConfig,
    VllmConfig,
    check_remote,
)
from vivace.errors import ConfigError
from vivace.fleet_config import (
    FleetConfig,
    NodeConfig,
    check_fleet,
    check_listening,
    fleet_key,
)
from vivace.scheduling.limits import Limits
from vivace.store.url import hosts, place
from vivace.units import (
    Days,
    Megabytes,
    Minutes,
    Name,
    Port,
    PositiveInt,
    Seconds,
)

__all__ = [
    "LOCAL",
    "STAND_INS",
    "Config",
    "EngineConfig",
    "FleetConfig",
    "KeyConfig",
    "LimitsConfig",
    "LlamaCppConfig",
    "NodeConfig",
    "OpenAIConfig",
    "ScriptedConfig",
    "ServerConfig",
    "StoreConfig",
    "VllmConfig",
    "check_node",
    "keys_in",
    "load",
    "stand_ins",
]

# What docs/reference tells of a key stands beside it: its unit and an example in its type, its
# meaning in the words below it, which end with "Since 0.2.0." if it came later than this table.


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server listens, and who may come in."""

    host: str = "127.0.0.1"
    """The address to listen on. One that others can reach needs keys. ``VIVACE_HOST`` wins."""
    port: Port = 8765
    """The port to listen on; 0 takes any that is free. ``VIVACE_PORT`` wins."""
    allowed_origins: Annotated[tuple[str, ...], Meta(examples=[["https://ide.example.com"]])] = ()
    """Web pages that may use this server. Programs that are not browsers send no Origin."""
    trusted_proxies: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    """Networks whose connections are not counted by address: a balancer is one address for many
    clients, and whoever sits at this machine needs no network to harm it."""
    allowed_hosts: Annotated[tuple[str, ...], Meta(examples=[["vivace.example.com"]])] = ()
    """Names this server is called by, beside those of this machine itself. Without keys it answers
    to no other; with keys to any, unless some are given here."""


class LimitsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients may take of the server, so that none can take it from the others."""

    body_megabytes: Megabytes = 16
    """The largest body of a request, or message of a WebSocket."""
    connections: PositiveInt = 20_000
    """Open at once, of every kind, from the moment they are accepted."""
    connections_per_address: PositiveInt = 1_000
    """From one address, or one network of IPv6 (/64), unless it is in server.trusted_proxies."""
    connections_per_key: PositiveInt = 1_000
    """A key's open WebSockets and running requests."""
    connection_minutes: Minutes = 60
    """How long a WebSocket may last; then its client opens another."""
    head_seconds: Seconds = 10
    """A request's headers, or a WebSocket's handshake, must be whole by then."""
    message_seconds: Seconds = 20
    """A request's body, or a WebSocket's message, must be whole by then, or bring 256 KB in each
    such time."""
    unfinished_megabytes: Megabytes = 256
    """Of all bodies and messages that are not whole yet."""
    unfinished_megabytes_per_key: Megabytes = 64
    """The same for each key."""
    turns_in_flight: PositiveInt = 16
    """On one connection; more wait."""
    turns_waiting: PositiveInt = 256
    """How many wait on one connection; more are refused."""
    lanes: PositiveInt = 32
    """Named lanes (``stream_id``) of one WebSocket."""
    memory_megabytes: Megabytes = 1024
    """For what clients send and what is remembered of it: requests that wait or run, conversations
    that can be continued at once, events of background responses. What can be read or sent again is
    forgotten first; when that is not enough, new requests are refused."""
    memory_megabytes_per_key: Megabytes = 256
    """The same for each key, so that one alone cannot take it all."""
    slow_reader_seconds: Seconds = 30
    """A client that takes nothing for this long is closed, whatever it is sent."""
    orphan_seconds: Seconds = 15
    """How long a turn goes on whose connection broke, if it was asked for with ``on_disconnect:
    "wait"``; its client may resume it meanwhile. And on an engine node one whose gateway died,
    until another takes it."""
    drain_seconds: Seconds = 30
    """How long running turns may go on after SIGTERM."""


_STORE_PATH = "vivace.db"


class StoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where turns are kept, and for how long."""

    path: str = _STORE_PATH
    """Relative to the configuration file; ``:memory:`` keeps nothing over a restart."""
    url: (
        Annotated[
            str,
            Meta(pattern=r"^postgres(ql)?://", examples=["postgresql://vivace@127.0.0.1/vivace"]),
        ]
        | None
    ) = None
    """A PostgreSQL database instead of the file, which several gateways may share, and with it the
    keys of ``vivace keys``; made ready by ``vivace store migrate``. A password may stand in it, or
    in ``PGPASSWORD``."""
    allow_remote: bool = False
    """Must be true for a database on another machine: prompts and code go there."""
    max_age_days: Days = 30
    """Older turns are deleted."""
    max_megabytes: Megabytes = 1024
    """The oldest turns are deleted when there are more."""
    resume_seconds: Seconds = 60
    """How long a turn that was cut off by the end of the server waits for its client to come back
    before it ends as it is. Turns in the background go on without one."""

    @property
    def place(self) -> str:
        """For people; a password in the url is not told."""
        return self.path if self.url is None else place(self.url)


LOCAL = "local"
"""The owner of everything on a server without keys."""


class KeyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who may use the server, beside the keys that ``vivace keys create`` makes."""

    name: Annotated[Name, Meta(examples=["ada"])]
    """Whose it is: turns belong to this name."""
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", examples=["0123456789abcdef" * 4])]
    """Of the key itself: ``printf %s KEY | sha256sum``."""
    admin: bool = False
    """Whether it may also drain gateways and engine nodes (``vivace drain``)."""

    @property
    def owner(self) -> str:
        """Whom its turns belong to: here the name, which no other key may take."""
        return self.name


class TierLimitsConfig(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each key may use of the tier."""


class TierConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients name as their model, and the engines that answer for it."""

    name: Annotated[Name, Meta(examples=["fast"])]
    """What clients ask for. ``auto`` chooses between ``fast`` and ``deep`` where there are any."""
    engines: Annotated[tuple[Name, ...], Meta(min_length=1, examples=[["local"]])]
    """Names of engines that answer for it, here and on every engine node."""
    limits: TierLimitsConfig = field(default_factory=TierLimitsConfig)
    """What each key may use of it; without any, what there is."""
    queue: PositiveInt = 256
    """How many turns may wait."""
    first_token_seconds: Annotated[Seconds, Meta(examples=[20.0])] | None = None
    """A turn that would begin later than this is refused at once, with the time to come back."""
    spill: bool = False
    """Use the engines in their order, the next when one is full, rather than all alike."""


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``vivace.toml``: one file says all that a server does."""

    version: Literal[1]
    """Which form the file has. It stands first, so that later forms can be told from this one."""
    engines: tuple[EngineConfig, ...] = ()
    """What runs models; at least one, unless engine nodes do (``fleet.engines``)."""
    tiers: tuple[TierConfig, ...] = ()
    """Groups of engines under a name; an engine in none is asked for by its model."""
    server: ServerConfig = field(default_factory=ServerConfig)
    """Where the server listens, and who may come in."""
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    """What clients may take of the server."""
    store: StoreConfig = field(default_factory=StoreConfig)
    """Where turns are kept."""
    fleet: FleetConfig = field(default_factory=FleetConfig)
    """Other gateways, what they share, and engines on other machines."""
    node: NodeConfig = field(default_factory=NodeConfig)
    """What ``vivace engine`` does with the engines of this file."""
    keys: tuple[KeyConfig, ...] = ()
    """Who may use the server. ``vivace keys`` keeps others in a file beside this one, or in the
    database of ``store.url``."""
    models: Annotated[
        dict[str, Name], Meta(examples=[{"haiku": "fast", "sonnet": "auto", "opus": "deep"}])
    ] = {}
    """Words in names by which clients of Anthropic's API ask, and what answers for them here.
    Where there are such tiers, ``haiku`` is ``fast``, ``sonnet`` ``auto`` and ``opus`` ``deep``."""


STAND_INS: Mapping[str, str] = MappingProxyType({"haiku": "fast", "sonnet": "auto", "opus": "deep"})
"""Where there are such tiers, and nothing else is configured."""


def stand_ins(config: Config) -> dict[str, str]:
    """What was written counts first, in its order."""
    return {**config.models, **{w: n for w, n in STAND_INS.items() if w not in config.models}}


class _Keys(Struct, frozen=True):
    """That part alone; whatever else there is, is not looked at."""

    keys: tuple[KeyConfig, ...] = ()
    store: StoreConfig = StoreConfig()


Table = TypeVar("Table", bound=Struct)


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """Read, check, and apply the environment (``VIVACE_HOST``, ``VIVACE_PORT``)."""
    return check(_with_environment(_read(path), environment), path)


def keys_in(path: Path) -> tuple[tuple[KeyConfig, ...], StoreConfig]:
    """The keys of a file that may not be right otherwise: others can reach it, and it has none.
    With the store, which may have others."""
    found = _convert(_read(path), _Keys, path)
    check_store(found.store, f"{path}: ")
    return found.keys, found.store


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. Name another with --config, or type "
            "vivace up, which needs none."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error


def _convert(raw: dict[str, Any], kind: type[Table], path: Path) -> Table:
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {_explain(str(error))}") from None


def _with_environment(raw: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    server: Any = raw.get("server", {})
    if not isinstance(server, dict):
        return raw
    changes: dict[str, Any] = {}
    if "VIVACE_HOST" in environment:
        changes["host"] = environment["VIVACE_HOST"]
    if "VIVACE_PORT" in environment:
        port = environment["VIVACE_PORT"]
        if not port.isdecimal():
            raise ConfigError(f"VIVACE_PORT must be a number, not {port!r}.")
        changes["port"] = int(port)
    return raw | {"server": server | changes} if changes else raw


def check(raw: dict[str, Any], path: Path) -> Config:
    if "version" not in raw:
        raise ConfigError(f"{path}: the first line must be 'version = 1'.")
    config = _convert(raw, Config, path)
    _check_names(config, path)
    _check_hosts(config, path)
    _check_keys(config, path)
    _check_tiers(config, path)
    _check_models(config, path)
    _check_remote(config, path)
    _check_memory(config, path)
    _check_proxies(config, path)
    made = path.resolve().with_name("keys.json").exists()
    made = made or config.store.url is not None  # there may be some; nobody comes in until then
    check_reach(config, keys=bool(config.keys) or made, where=f"{path}: ")
    return config


def check_reach(config: Config, *, keys: bool, where: str = "") -> None:
    """Others may reach a server only if it has keys."""
    if not keys and not is_loopback(config.server.host):
        raise ConfigError(
            f"{where}server.host is {config.server.host!r}, which others can reach, but there "
            "are no keys. Make one with 'vivace keys create NAME', or listen on 127.0.0.1."
        )


def _check_names(config: Config, path: Path) -> None:
    if not config.engines and not config.fleet.engines:
        raise ConfigError(
            f"{path}: add at least one [[engines]], or engine nodes with fleet.engines; without "
            "one nothing can answer."
        )
    for what, names in (
        ("engines are named", [engine.name for engine in config.engines]),
        ("tiers or engines without one offer the model", _offered(config)),
        ("keys are named", [key.name for key in config.keys]),
    ):
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ConfigError(f"{path}: two {what} {min(twice)!r}; give each its own.")


def _check_hosts(config: Config, path: Path) -> None:
    for host in config.server.allowed_hosts:
        if host_name(host) != host.lower() or not host:
            raise ConfigError(
                f"{path}: server.allowed_hosts: {host!r} is not the name of a host. Write it as it "
                "stands in the address, without 'http://' and the port."
            )


def _check_keys(config: Config, path: Path) -> None:
    seen: dict[str, str] = {}
    for key in config.keys:
        if key.name == LOCAL:
            raise ConfigError(
                f"{path}: a key cannot be named {LOCAL!r}: that is who used this server before it "
                "had keys, and whose turns they are. Give it another name."
            )
        if key.sha256 in seen:
            raise ConfigError(
                f"{path}: the keys {seen[key.sha256]!r} and {key.name!r} have the same sha256, so "
                "nobody could tell whose a turn is; make each its own key."
            )
        seen[key.sha256] = key.name


def _offered(config: Config) -> list[str]:
    """The names that clients can ask for."""
    pooled = {name for tier in config.tiers for name in tier.engines}
    single = [engine.model for engine in config.engines if engine.name not in pooled]
    return [*(tier.name for tier in config.tiers), *single]


def _check_tiers(config: Config, path: Path) -> None:
    known = [engine.name for engine in config.engines]
    for tier in config.tiers:
        if tier.name == "auto":
            raise ConfigError(f"{path}: 'auto' chooses between tiers and cannot be one itself.")
        for name in tier.engines:
            if name not in known and not config.fleet.engines:  # a node may have it
                raise ConfigError(
                    f"{path}: tier {tier.name!r} names the engine {name!r}, which is not there; "
                    f"there are: {', '.join(known)}."
                )
    for engine in config.engines:
        if engine.reserved >= engine.slots:
            raise ConfigError(
                f"{path}: engine {engine.name!r} keeps {engine.reserved} of {engine.slots} slots "
                "free for interactive work, which leaves none for the rest."
            )


def _check_models(config: Config, path: Path) -> None:
    offered = _offered(config)
    if {"fast", "deep"}.intersection(tier.name for tier in config.tiers):
        offered.append("auto")
    for word, name in config.models.items():
        if not word:
            raise ConfigError(f"{path}: models: a word cannot be empty; it stands in every name.")
        if name not in offered and not config.fleet.engines:  # a node may offer it
            near = difflib.get_close_matches(name, offered, n=1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(offered)}."
            raise ConfigError(f"{path}: models.{word} is {name!r}, which is not there; {advice}")


def _check_proxies(config: Config, path: Path) -> None:
    for network in config.server.trusted_proxies:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise ConfigError(
                f"{path}: server.trusted_proxies: {error}. Write networks like '10.1.0.0/16', or "
                "single addresses."
            ) from None


def _check_memory(config: Config, path: Path) -> None:
    limits = config.limits
    share = min(limits.memory_megabytes_per_key, limits.memory_megabytes)
    if limits.body_megabytes > share:
        raise ConfigError(
            f"{path}: limits.body_megabytes is {limits.body_megabytes}, and a key may take {share} "
            "MB of memory (limits.memory_megabytes_per_key, limits.memory_megabytes): such a "
            "request could never be taken. Make the one smaller or the others larger."
        )


def _check_remote(config: Config, path: Path) -> None:
    """Nothing leaves this machine unless the person said so beside what it goes to."""
    for engine in config.engines:
        if isinstance(engine, OpenAIConfig):
            check_remote(engine, f"{path}: ")
    check_store(config.store, f"{path}: ")
    check_fleet(config.fleet, f"{path}: ")
    check_valkey(config.fleet, f"{path}: ")
    check_listening(config.node, f"{path}: ")


def check_node(config: Config, environment: Mapping[str, str] = os.environ) -> None:
    """What ``vivace engine`` needs beyond what every file is checked for."""
    if not config.engines:
        raise ConfigError("An engine node needs engines of its own: add at least one [[engines]].")
    check_listening(config.node)  # whoever made the configuration, and however
    fleet_key(config.fleet, environment)


def check_store(store: StoreConfig, where: str = "") -> None:
    if store.url is None:
        return
    if store.path != _STORE_PATH:
        raise ConfigError(
            f"{where}store has a path and a url, and turns are kept in one place. Take one out."
        )
    try:
        away = [host for host in hosts(store.url) if not is_loopback(host)]
    except ValueError:  # what it says quotes the url, and so a password
        raise ConfigError(
            f"{where}store.url cannot be read; write it like 'postgresql://USER@HOST/DATABASE'."
        ) from None
    if away and not store.allow_remote:
        raise ConfigError(
            f"{where}store is on {away[0]}, so prompts and code would leave this machine. If that "
            "is what you want, set allow_remote = true there."
        )


def check_valkey(fleet: FleetConfig, where: str = "") -> None:
    if fleet.valkey is None:
        return
    try:
        host = counters_url.host(fleet.valkey)
    except ValueError:  # what it says may quote a password
        raise ConfigError(
            f"{where}fleet.valkey cannot be read; write it like 'redis://HOST:6379/0', "
            "'rediss://USER:PASSWORD@HOST:6379/0?ssl_ca_certs=FILE' or 'unix:///PATH?db=0'."
        ) from None
    if host is not None and not is_loopback(host) and not fleet.allow_remote:
        raise ConfigError(
            f"{where}fleet.valkey is on {host}, so ids of keys and how much they use would leave "
            "this machine. If that is what you want, set allow_remote = true there."
        )


def _explain(message: str) -> str:
    """A validation error in words for the person who wrote the file."""
    what, _, place = message.partition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    unknown = re.search(r"unknown field `(.+?)`", what)
    if not unknown:
        return f"{place or 'the file'}: {what[:1].lower()}{what[1:]}."
    known = _fields_at(place)
    near = difflib.get_close_matches(unknown[1], known, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"known here: {', '.join(sorted(known))}."
    return f"{place + ': ' if place else ''}unknown key '{unknown[1]}'; {advice}"


def _fields_at(place: str) -> list[str]:
    tables: dict[str, type[Struct]] = {
        "": Config,
        "server": ServerConfig,
        "limits": LimitsConfig,
        "store": StoreConfig,
        "fleet": FleetConfig,
        "node": NodeConfig,
        "keys": KeyConfig,
        "tiers": TierConfig,
        "tiers.limits": TierLimitsConfig,
    }
    table = re.sub(r"\[[^\]]*\]", "", place)
    if table == "engines":
        engines = (ScriptedConfig, OpenAIConfig, LlamaCppConfig, VllmConfig)
        return sorted({field for kind in engines for field in kind.__struct_fields__})
    return list(tables[table].__struct_fields__)
