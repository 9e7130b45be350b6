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
from vivace.store.url import hosts, place

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

# What docs/reference tells of a key stands beside it: its unit and an example in its type, its
# meaning in the words below it, which end with "Since 0.2.0." if it came later than this table.
Seconds = Annotated[PositiveFloat, Meta(extra={"unit": "s"})]
Minutes = Annotated[PositiveFloat, Meta(extra={"unit": "min"})]
Days = Annotated[PositiveFloat, Meta(extra={"unit": "days"})]
Megabytes = Annotated[PositiveInt, Meta(extra={"unit": "MB"})]
Tokens = Annotated[PositiveInt, Meta(extra={"unit": "tokens"})]


class ServerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server listens, and who may come in."""

    host: str = "127.0.0.1"
    """The address to listen on. One that others can reach needs keys. ``VIVACE_HOST`` wins."""
    port: Annotated[int, Meta(ge=0, le=65535)] = 8765
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
    "wait"``; its client may resume it meanwhile."""
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
    """A PostgreSQL database instead of the file, which several gateways may share; made ready by
    ``vivace store migrate``. A password may stand in it, or in ``PGPASSWORD``."""
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


class KeyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may use the server, beside the keys that ``vivace keys create`` makes."""

    name: Annotated[Name, Meta(examples=["ada"])]
    """Whose it is: turns belong to this name."""
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", examples=["0123456789abcdef" * 4])]
    """Of the key itself: ``printf %s KEY | sha256sum``."""

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
    """Names of engines that answer for it."""
    limits: TierLimitsConfig = field(default_factory=TierLimitsConfig)
    """What each key may use of it; without any, what there is."""
    queue: PositiveInt = 256
    """How many turns may wait."""
    first_token_seconds: Annotated[Seconds, Meta(examples=[20.0])] | None = None
    """A turn that would begin later than this is refused at once, with the time to come back."""
    spill: bool = False
    """Use the engines in their order, the next when one is full, rather than all alike."""


class _Engine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """What all kinds of engines have."""

    name: Annotated[Name, Meta(examples=["local"])]
    """What tiers, logs and metrics call it."""
    model: Annotated[Name, Meta(examples=["qwen2.5-coder-7b"])]
    """What clients ask for, unless a tier has the engine. By a name that is known
    (``models.toml``) Vivace also knows how the model fills gaps, thinks and calls tools."""


class ScriptedConfig(_Engine, frozen=True, kw_only=True, tag="scripted"):
    """Plays prepared answers; for trying things out and for measuring."""

    context: Tokens = 131_072
    """The longest conversation it takes, answer included."""
    script: Annotated[str, Meta(examples=["replies.toml"])] | None = None
    """A TOML file of replies, relative to the configuration file."""
    rate: Annotated[PositiveFloat, Meta(extra={"unit": "tokens/s"})] = 1000.0
    """How fast one request alone is answered."""
    burst: Tokens = 1
    """Of a request in one step, told as one, as an engine does that drafts."""
    growth: Annotated[float, Meta(ge=0)] = 0.0
    """How much longer a step takes for each further request, as a share of the first."""
    prefill_rate: Annotated[float, Meta(ge=0, extra={"unit": "tokens/s"})] = 0.0
    """How fast prompts are read; 0 reads them in no time."""
    prefill_chunk: Tokens = 2048
    """At most so much of prompts is read in one step."""
    patient_chunk: Annotated[Tokens, Meta(examples=[256])] | None = None
    """Of that, at most so much for requests that are not urgent."""
    slots: PositiveInt = 1024
    """How many answers at once; more wait."""
    reserved: Count = 0
    """How many of them are kept free for interactive work."""
    silence_seconds: Seconds = 5
    """How long it may have work and finish no step of it, for anyone, before its turns go on at
    another engine of their tier; without another they wait. While a prompt is read it may take
    longer."""


class OpenAIConfig(_Engine, frozen=True, kw_only=True, tag="openai"):
    """Any OpenAI-compatible endpoint: llama.cpp, vLLM, SGLang, Ollama, or a rented one."""

    url: Annotated[str, Meta(pattern=r"^https?://", examples=["http://127.0.0.1:8080/v1"])]
    """Up to and including ``/v1``."""
    upstream_model: Annotated[str, Meta(examples=["Qwen/Qwen2.5-Coder-7B-Instruct"])] | None = None
    """The model's name there, if it is another than ``model``."""
    key_env: Annotated[str, Meta(examples=["RENTED_KEY"])] | None = None
    """The environment variable that holds the endpoint's key."""
    context: Tokens = 8192
    """The longest conversation the endpoint takes, answer included."""
    allow_remote: bool = False
    """Must be true for an endpoint on another machine: prompts and code go there."""
    slots: PositiveInt = 64
    """How many answers at once; more wait here."""
    reserved: Count = 0
    """How many of them are kept free for interactive work."""
    predictions: bool = False
    """Whether the endpoint takes Chat Completions' ``prediction``."""


class LlamaCppConfig(_Engine, frozen=True, kw_only=True, tag="llamacpp"):
    """A GGUF file, served by llama.cpp, which Vivace starts and watches."""

    path: Annotated[str, Meta(examples=["models/qwen2.5-coder-7b-instruct-q4_k_m.gguf"])]
    """The GGUF file, relative to the configuration file."""
    context: Tokens = 8192
    """The longest conversation it takes, answer included."""
    slots: PositiveInt = 2
    """How many answers at once; each has the whole context."""
    reserved: Count = 0
    """How many of them are kept free for interactive work."""
    silence_seconds: Seconds = 5
    """How long it may have work and finish no step of it, for anyone, before its turns go on at
    another engine of their tier; without another they wait. While a prompt is read it may take
    longer."""
    gpu_layers: Count = 999
    """How many of the model's layers go to the GPU, as far as there is one; 0 uses none."""
    batch_size: Tokens = 512
    """How much of prompts is read at a stretch. For so long a cancel goes unheard, and whoever
    is being answered beside it stands still. llama.cpp computes 512 at a time, so more gain nothing
    on one device; fewer may be read more slowly."""
    prompt_cache_megabytes: Annotated[Count, Meta(extra={"unit": "MiB"})] = 2048
    """Memory for what was read and has lost its slot to another document or chat; 0 keeps none."""
    speculation: Literal["ngram"] | None = None
    """Draft what was said before; llama.cpp's own way."""


class VllmConfig(_Engine, frozen=True, kw_only=True, tag="vllm"):
    """A model that vLLM runs inside this process tree."""

    path: Annotated[str, Meta(examples=["Qwen/Qwen2.5-Coder-7B-Instruct"])]
    """A folder, relative to the configuration file, or a hub id."""
    context: Tokens = 32_768
    """The longest conversation it takes, answer included."""
    devices: Annotated[str, Meta(examples=["0,1"])] | None = None
    """Which GPUs, as CUDA_VISIBLE_DEVICES has it."""
    tool_parser: Annotated[str, Meta(examples=["hermes"])] | None = None
    """vLLM's name for how this model writes tool calls; known models need none."""
    reasoning_parser: Annotated[str, Meta(examples=["qwen3"])] | None = None
    """vLLM's name for how this model writes its thoughts; known models need none."""
    slots: PositiveInt = 256
    """How many answers at once; more wait here, in their order."""
    reserved: Count = 16
    """How many of them are kept free for interactive work."""
    silence_seconds: Seconds = 5
    """How long it may have work and finish no step of it, for anyone, before its turns go on at
    another engine of their tier; without another they wait. While a prompt is read it may take
    longer."""
    speculation: Literal["edits", "exact"] | None = None
    """Draft answers from the text they rewrite: much faster edits, on an engine for them. With
    ``exact`` every step is equally wide, so that drafts cannot change how the engine rounds."""
    arguments: Annotated[dict[str, Any], Meta(examples=[{"tensor_parallel_size": 2}])] = {}
    """Any of vLLM's engine arguments, by its own names."""
    environment: Annotated[dict[str, str], Meta(examples=[{"VLLM_CPU_KVCACHE_SPACE": "4"}])] = {}
    """Variables for vLLM's processes."""


EngineConfig = LlamaCppConfig | OpenAIConfig | VllmConfig | ScriptedConfig


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``vivace.toml``: one file says all that a server does."""

    version: Literal[1]
    """Which form the file has. It stands first, so that later forms can be told from this one."""
    engines: tuple[EngineConfig, ...]
    """What runs models; at least one."""
    tiers: tuple[TierConfig, ...] = ()
    """Groups of engines under a name; an engine in none is asked for by its model."""
    server: ServerConfig = field(default_factory=ServerConfig)
    """Where the server listens, and who may come in."""
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    """What clients may take of the server."""
    store: StoreConfig = field(default_factory=StoreConfig)
    """Where turns are kept."""
    keys: tuple[KeyConfig, ...] = ()
    """Who may use the server. ``vivace keys`` keeps others in a file beside this one."""
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
    """Nothing leaves this machine unless the person said so beside what it goes to."""
    for engine in config.engines:
        if isinstance(engine, OpenAIConfig):
            check_remote(engine, f"{path}: ")
    check_store(config.store, f"{path}: ")


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
