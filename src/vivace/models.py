"""What we know of open coding models, read from the one table of them, ``models.toml``.

Plain data: no clock, nothing of ours is imported, so every layer may read it. Memory is computed,
never typed: weights, plus keys and values of one sequence in 16 bits, plus a workspace. See
:func:`memory_needed`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from importlib.resources import files
from types import MappingProxyType
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Struct

__all__ = [
    "EFFORTS",
    "FAST_CONTEXT",
    "MODELS",
    "RECOMMENDED",
    "SHARE",
    "Choice",
    "EditFormat",
    "Effort",
    "Fim",
    "Kind",
    "Kv",
    "Model",
    "Recommendation",
    "Thinking",
    "ToolForm",
    "Weights",
    "find",
    "memory_needed",
    "recommend",
]

GIB = 1 << 30

Kind = Literal["cpu", "apple", "nvidia"]
"""What the weights sit in: main memory, unified memory, or the memory of the GPUs together."""

EditFormat = Literal["region", "search_replace"]
"""``region``: the model rewrites the function or selection it is given, and we splice it in.
``search_replace``: the model names the old lines and gives the new ones, anywhere in the file.
Small models fail at the second, so this is our judgement by size, not a fact of the card."""

ToolForm = Literal[
    "deepseek_v31",
    "deepseek_v4",
    "glm45",
    "glm47",
    "granite4",
    "hermes",
    "kimi_k2",
    "kimi_k3",
    "minimax_m2",
    "mistral",
    "openai",
    "qwen3_coder",
]
"""How the chat template writes a tool call, under the name vLLM gives to its parser.
``hermes``: JSON in ``<tool_call>``; ``qwen3_coder``: XML-like parameters; ``openai``: harmony."""


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
"""How much a model is asked to think, in the words of OpenAI's API. ``none`` is not at all."""

EFFORTS: tuple[Effort, ...] = get_args(Effort)


Count = Annotated[int, Meta(ge=1)]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9.]+(-[a-z0-9.]+)*$")]
Repository = Annotated[str, Meta(pattern=r"^[\w.-]+/[\w.-]+$")]


class Fim(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Fill-in-the-middle tokens, used in the order prefix, suffix, middle."""

    prefix: str
    suffix: str
    middle: str
    suffix_first: bool = False
    """Suffix, prefix, middle: what was typed comes last, so that the rest stays in the cache."""
    pad: str | None = None
    repo: str | None = None
    file_sep: str | None = None


class Thinking(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a model is told to think before it answers, and how it marks its thoughts."""

    default: Effort = "medium"
    """What it does when it is told nothing."""
    switch: str | None = None
    """The variable of its chat template that turns thinking on (true) and off (false)."""
    variable: str | None = None
    """The variable of its chat template for how much."""
    levels: dict[Effort, str] = {}
    """What that takes, by our names."""
    opens: str = "<think>"
    closes: str = "</think>"
    kept_as: str = "reasoning_content"
    """What the template calls the thoughts of an earlier message."""
    parser: str | None = None
    """vLLM's name for a reasoning parser, for a model that does more than open and close."""

    @property
    def efforts(self) -> tuple[Effort, ...]:
        """Those that make a difference, in order."""
        known = set(self.levels) or {"medium"}
        if self.switch is not None:
            known.add("none")
        return tuple(effort for effort in EFFORTS if effort in known)


class Weights(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One set of files that an engine can load."""

    repo: Repository
    size: Count
    file: Annotated[str, Meta(pattern=r"\.gguf$")] | None = None
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")] | None = None


class Kv(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Layers that cache alike."""

    layers: Count
    kv_heads: Count
    key_dim: Count
    value_dim: Annotated[int, Meta(ge=0)]
    window: Count | None = None
    every: Count = 1
    """How many tokens share an entry, where attention compresses them."""

    def size(self, context: int) -> int:
        """Bytes of one sequence of ``context`` tokens, in 16-bit keys and values."""
        tokens = context if self.window is None else min(context, self.window)
        entries = -(-tokens // self.every)
        return self.layers * self.kv_heads * (self.key_dim + self.value_dim) * 2 * entries


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row. ``hub`` is the original; ``served`` is what vLLM should load, ``gguf`` what
    llama.cpp should."""

    name: Name
    hub: Repository
    licence: str
    parameters: Count
    context: Count
    edit_format: EditFormat
    source: str
    checked: date
    served: Weights
    kv: Annotated[tuple[Kv, ...], Meta(min_length=1)]
    gguf: Weights | None = None
    state: int = 0
    fim: Fim | None = None
    tool_form: ToolForm | None = None
    thinking: Thinking | None = None
    """None for a model that does not think, or of which we do not know how."""
    commercial: bool = True
    completion_only: bool = False
    """A base model: it fills gaps, and was never taught to answer."""
    test_only: bool = False
    note: str = ""
    unverified: str = ""

    @property
    def weights(self) -> Weights:
        """What a laptop loads: the GGUF where there is one."""
        return self.gguf or self.served


class Choice(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to run on a machine with so many GiB or more.

    ``context`` is the deep model's; the fast one always gets :data:`FAST_CONTEXT`.
    """

    kind: Kind
    gib: Count
    fast: Name
    deep: Name | None = None
    context: Count = 16_384
    served: bool = False
    """Load ``served`` weights (vLLM) rather than GGUF (llama.cpp)."""


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    models: tuple[Model, ...]
    recommended: tuple[Choice, ...]


def _read() -> _Table:
    raw = tomllib.loads(files("vivace").joinpath("models.toml").read_text("utf-8"))
    shared = {field: raw.pop(field) for field in ("fim", "thinking")}
    for row in raw["models"]:
        row |= {field: table[row[field]] for field, table in shared.items() if field in row}
    return msgspec.convert(raw, _Table)


_TABLE = _read()
MODELS = _TABLE.models
RECOMMENDED = _TABLE.recommended

# An engine's buffers beside weights and cache. With a vocabulary of 150,000 tokens, the logits of
# one batch of 512 tokens alone take 300 MiB.
_WORKSPACE = 512 << 20


def memory_needed(model: Model, context: int, weights: Weights | None = None) -> int:
    """Bytes to hold the model and one sequence of ``context`` tokens.

    ``weights`` chooses between ``model.gguf`` (the default where there is one) and
    ``model.served``.
    """
    if context < 1:
        raise ValueError(f"context must be positive, not {context}")
    chosen = weights or model.weights
    return chosen.size + sum(kv.size(context) for kv in model.kv) + model.state + _WORKSPACE


def _index() -> dict[str, Model]:
    index: dict[str, Model] = {}
    for model in MODELS:
        keys = {model.name, model.hub, model.served.repo}
        if model.gguf is not None:
            keys.add(model.gguf.repo)
            if model.gguf.file is not None:
                keys.add(model.gguf.file.rpartition("/")[2])
        for key in keys:
            index[key.casefold()] = model
    return index


_BY_KEY: Mapping[str, Model] = MappingProxyType(_index())


def find(name: str) -> Model | None:
    """The row for our name, a hub id, or a GGUF file name (alone or at the end of a path)."""
    key = name.strip().casefold()
    if key.endswith(".gguf"):
        key = key.replace("\\", "/").rpartition("/")[2]
    return _BY_KEY.get(key)


class Recommendation(Struct, frozen=True, kw_only=True):
    """A choice with its rows, and the bytes that both models need together."""

    fast: Model
    fast_context: int
    deep: Model | None
    deep_context: int
    served: bool
    needed: int


FAST_CONTEXT = 8_192

SHARE: Mapping[Kind, float] = MappingProxyType({"cpu": 0.70, "apple": 0.66, "nvidia": 0.80})
"""How much of the memory models may take. The rest is for the editor, the build and the system
(on Apple silicon also because the system lets the GPU have only a part); on a server, for the
caches of further sequences."""

# Machines report less than what is printed on the box: firmware and the display take their part.
_REPORTED = 0.90


def recommend(memory_bytes: int, kind: Kind) -> Recommendation | None:
    """The largest row of :data:`RECOMMENDED` that the machine reaches; ``None`` below the least."""
    reached = [
        row for row in RECOMMENDED if row.kind == kind and row.gib * GIB * _REPORTED <= memory_bytes
    ]
    if not reached:
        return None
    row = max(reached, key=lambda row: row.gib)
    fast = _BY_KEY[row.fast]
    deep = None if row.deep is None else _BY_KEY[row.deep]
    needed = memory_needed(fast, FAST_CONTEXT, fast.served if row.served else None)
    if deep is not None:
        needed += memory_needed(deep, row.context, deep.served if row.served else None)
    return Recommendation(
        fast=fast,
        fast_context=FAST_CONTEXT,
        deep=deep,
        deep_context=row.context,
        served=row.served,
        needed=needed,
    )
