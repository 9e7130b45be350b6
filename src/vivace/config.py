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
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, field

from vivace.addresses import host_name, is_loopback
from vivace.errors import ConfigError
from vivace.scheduling.limits import Limits

__all__ = [
    "LOCAL",
    "STAND_INS",
    "Config",
    "EngineConfig",
    "KeyConfig",
    "LimitsConfig",
    "LlamaCppConfig",
    "OpenAIConfig",
    "ScriptedConfig",
    "ServerConfig",
    "StoreConfig",
    "VllmConfig",
    "keys_in",
    "load",
    "stand_ins",
]

Count = Annotated[int, Meta(ge=0)]
PositiveInt = Annotated[int, Meta(ge=1)]
PositiveFloat = Annotated[float, Meta(gt=0)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:/\-]+\Z")]


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8765
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may use this server. Programs that are not browsers send no Origin."""
    trusted_proxies: tuple[str, ...] = ("127.0.0.0/8", "::1/128")
    """Networks whose connections are not counted by address: a balancer is one address for many
    clients, and whoever sits at this machine needs no network to harm it."""
    allowed_hosts: tuple[str, ...] = ()
    """Names this server is called by, beside those of this machine itself. Without keys it answers
    to no other; with keys to any, unless some are given here."""


class LimitsConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    body_megabytes: PositiveInt = 16
    connections: PositiveInt = 20_000
    """Open at once, of every kind, from the moment they are accepted."""
    connections_per_address: PositiveInt = 1_000
    """From one address, or one network of IPv6 (/64), unless it is in server.trusted_proxies."""
    connections_per_key: PositiveInt = 1_000
    """A key's open WebSockets and running requests."""
    connection_minutes: PositiveFloat = 60
    head_seconds: PositiveFloat = 10
    """A request's headers, or a WebSocket's handshake, must be whole by then."""
    message_seconds: PositiveFloat = 20
    """A request's body, or a WebSocket's message, must be whole by then, or bring 256 KB in each
    such time."""
    unfinished_megabytes: PositiveInt = 256
    """Of all bodies and messages that are not whole yet."""
    unfinished_megabytes_per_key: PositiveInt = 64
    turns_in_flight: PositiveInt = 16
    """On one connection; more wait."""
    turns_waiting: PositiveInt = 256
    lanes: PositiveInt = 32
    memory_megabytes: PositiveInt = 1024
    """For what clients send and what is remembered of it: requests that wait or run, conversations
    that can be continued at once, events of background responses. What can be read or sent again is
    forgotten first; when that is not enough, new requests are refused."""
    memory_megabytes_per_key: PositiveInt = 256
    """The same for each key, so that one alone cannot take it all."""
    slow_reader_seconds: PositiveFloat = 30
    """A client that takes nothing for this long is closed, whatever it is sent."""
    drain_seconds: PositiveFloat = 30
    """How long running turns may go on after SIGTERM."""


class StoreConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str = "vivace.db"
    """Relative to the configuration file; ``:memory:`` keeps nothing over a restart."""
    max_age_days: PositiveFloat = 30
    max_megabytes: PositiveInt = 1024


LOCAL = "local"
"""The owner of everything on a server without keys."""


class KeyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    """Of the key itself: ``printf %s KEY | sha256sum``."""

    @property
    def owner(self) -> str:
        """Whom its turns belong to: here the name, which no other key may take."""
        return self.name


class TierLimitsConfig(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For each key."""


class TierConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients name as their model, and the engines that answer for it."""

    name: Name
    engines: Annotated[tuple[Name, ...], Meta(min_length=1)]
    limits: TierLimitsConfig = field(default_factory=TierLimitsConfig)
    queue: PositiveInt = 256
    """How many turns may wait."""
    first_token_seconds: PositiveFloat | None = None
    """A turn that would begin later than this is refused at once, with the time to come back."""
    spill: bool = False
    """Use the engines in their order, the next when one is full, rather than all alike."""


class ScriptedConfig(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="scripted"
):
    """Plays prepared answers; for trying things out and for measuring."""

    name: Name
    model: Name
    context: PositiveInt = 131_072
    script: str | None = None
    """A TOML file of replies, relative to the configuration file."""
    rate: PositiveFloat = 1000.0
    burst: PositiveInt = 1
    growth: Annotated[float, Meta(ge=0)] = 0.0
    prefill_rate: Annotated[float, Meta(ge=0)] = 0.0
    prefill_chunk: PositiveInt = 2048
    patient_chunk: PositiveInt | None = None
    slots: PositiveInt = 1024
    reserved: Count = 0


class OpenAIConfig(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="openai"
):
    """Any OpenAI-compatible endpoint: llama.cpp, vLLM, SGLang, Ollama, or a rented one."""

    name: Name
    model: Name
    url: Annotated[str, Meta(pattern=r"^https?://")]
    """Up to and including ``/v1``."""
    upstream_model: str | None = None
    """The model's name there, if it is another than ``model``."""
    key_env: str | None = None
    """The environment variable that holds the endpoint's key."""
    context: PositiveInt = 8192
    allow_remote: bool = False
    """Must be true for an endpoint on another machine: prompts and code go there."""
    slots: PositiveInt = 64
    """How many answers at once; more wait here."""
    reserved: Count = 0
    """How many of them are kept free for interactive work."""
    predictions: bool = False
    """Whether the endpoint takes Chat Completions' ``prediction``."""


class LlamaCppConfig(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="llamacpp"
):
    """A GGUF file, served by llama.cpp, which Vivace starts and watches."""

    name: Name
    model: Name
    path: str
    """The GGUF file, relative to the configuration file."""
    context: PositiveInt = 8192
    slots: PositiveInt = 2
    """How many answers at once; each has the whole context."""
    reserved: Count = 0
    """How many of them are kept free for interactive work."""
    gpu_layers: Annotated[int, Meta(ge=0)] = 999
    batch_size: PositiveInt = 512
    """Tokens of prompts that are read at a stretch. For so long a cancel goes unheard, and whoever
    is being answered beside it stands still. llama.cpp computes 512 at a time, so more gain nothing
    on one device; fewer may be read more slowly."""
    prompt_cache_megabytes: Count = 2048
    """Memory for what was read and has lost its slot to another document or chat; 0 keeps none."""
    speculation: Literal["ngram"] | None = None
    """Draft what was said before; llama.cpp's own way."""


class VllmConfig(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="vllm"
):
    """A model that vLLM runs inside this process tree."""

    name: Name
    model: Name
    path: str
    """A folder, relative to the configuration file, or a hub id."""
    context: PositiveInt = 32_768
    devices: str | None = None
    """Which GPUs, as CUDA_VISIBLE_DEVICES has it."""
    tool_parser: str | None = None
    """vLLM's name for how this model writes tool calls; known models need none."""
    reasoning_parser: str | None = None
    slots: PositiveInt = 256
    """How many answers at once; more wait here, in their order."""
    reserved: Count = 16
    """How many of them are kept free for interactive work."""
    speculation: Literal["edits", "exact"] | None = None
    """Draft answers from the text they rewrite: much faster edits, on an engine for them. With
    ``exact`` every step is equally wide, so that drafts cannot change how the engine rounds."""
    arguments: dict[str, Any] = {}
    """Any of vLLM's engine arguments, by its own names."""
    environment: dict[str, str] = {}


EngineConfig = ScriptedConfig | OpenAIConfig | LlamaCppConfig | VllmConfig


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1]
    engines: tuple[EngineConfig, ...]
    tiers: tuple[TierConfig, ...] = ()
    server: ServerConfig = field(default_factory=ServerConfig)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    keys: tuple[KeyConfig, ...] = ()
    models: dict[str, Name] = {}
    """Words in names by which clients of Anthropic's API ask, and what answers for them here."""


STAND_INS: Mapping[str, str] = MappingProxyType({"haiku": "fast", "sonnet": "auto", "opus": "deep"})
"""Where there are such tiers, and nothing else is configured."""


def stand_ins(config: Config) -> dict[str, str]:
    """What was written counts first, in its order."""
    return {**config.models, **{w: n for w, n in STAND_INS.items() if w not in config.models}}


class _Keys(Struct, frozen=True):
    """That part alone; whatever else there is, is not looked at."""

    keys: tuple[KeyConfig, ...] = ()


Table = TypeVar("Table", bound=Struct)


def load(path: Path, environment: Mapping[str, str] = os.environ) -> Config:
    """Read, check, and apply the environment (``VIVACE_HOST``, ``VIVACE_PORT``)."""
    return check(_with_environment(_read(path), environment), path)


def keys_in(path: Path) -> tuple[KeyConfig, ...]:
    """The keys of a file that may not be right otherwise: others can reach it, and it has none."""
    return _convert(_read(path), _Keys, path).keys


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. Name another with --config."
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
    if not config.engines:
        raise ConfigError(f"{path}: add at least one [[engines]]; without one nothing can answer.")
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
            if name not in known:
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
        if name not in offered:
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
    """Nothing leaves this machine unless the person said so beside the engine it goes to."""
    for engine in config.engines:
        if isinstance(engine, OpenAIConfig):
            check_remote(engine, f"{path}: ")


def check_remote(engine: OpenAIConfig, where: str = "") -> None:
    host = urlsplit(engine.url).hostname or ""
    if not engine.allow_remote and not is_loopback(host):
        raise ConfigError(
            f"{where}engine {engine.name!r} is on {host}, so prompts and code would leave this "
            "machine. If that is what you want, set allow_remote = true there."
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
        "keys": KeyConfig,
        "tiers": TierConfig,
        "tiers.limits": TierLimitsConfig,
    }
    table = re.sub(r"\[[^\]]*\]", "", place)
    if table == "engines":
        kinds = (ScriptedConfig, OpenAIConfig, LlamaCppConfig, VllmConfig)
        return sorted({field for kind in kinds for field in kind.__struct_fields__})
    return list(tables[table].__struct_fields__)
