"""The tables ``[[engines]]``: what each kind of engine can be told."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from vivace.addresses import is_loopback
from vivace.errors import ConfigError
from vivace.units import Count, Name, PositiveFloat, PositiveInt, Seconds, Tokens

__all__ = [
    "EngineConfig",
    "LlamaCppConfig",
    "OpenAIConfig",
    "ScriptedConfig",
    "VllmConfig",
    "check_remote",
]


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


def check_remote(engine: OpenAIConfig, where: str = "") -> None:
    """Nothing leaves this machine unless the person said so beside what it goes to."""
    host = urlsplit(engine.url).hostname or ""
    if not engine.allow_remote and not is_loopback(host):
        raise ConfigError(
            f"{where}engine {engine.name!r} is on {host}, so prompts and code would leave this "
            "machine. If that is what you want, set allow_remote = true there."
        )
