"""Which model ``vivace up`` runs, on which engine, and where its weights come from."""

from __future__ import annotations

import difflib
import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

from msgspec import Struct

from vivace import models
from vivace.cli.machine import Machine
from vivace.download.files import cache_root
from vivace.download.hub import first_of, hub_url, parts_of
from vivace.download.listing import files_in
from vivace.download.wanted import Wanted
from vivace.errors import ConfigError
from vivace.models import Model

__all__ = ["Choice", "EngineName", "check_memory", "choose", "engine_for"]

_GIB = 1 << 30

EngineName = Literal["llama.cpp", "vLLM"]


class Choice(Struct, frozen=True, kw_only=True):
    """A model, its file, and why."""

    name: str
    """What clients call it."""
    path: Path
    """A GGUF file for llama.cpp; for vLLM a folder, or a hub id that it fetches itself."""
    why: str
    engine: EngineName = "llama.cpp"
    gpus: int = 1
    """How many GPUs vLLM spreads it over."""
    wanted: tuple[Wanted, ...] = ()
    """What to download first; nothing for a file of the person's own."""
    model: Model | None = None
    """What we know of it, if it is in our table."""


def engine_for(asked: str | None, machine: Machine) -> EngineName:
    """vLLM where there is an NVIDIA GPU and it is installed, and for weights only it can load."""
    if asked is not None and Path(asked).expanduser().is_dir():
        return "vLLM"
    if asked is not None and asked.endswith(".gguf"):
        return "llama.cpp"
    installed = importlib.util.find_spec("vllm") is not None
    return "vLLM" if machine.kind == "nvidia" and installed else "llama.cpp"


def choose(asked: str | None, machine: Machine, engine: EngineName = "llama.cpp") -> Choice:
    """By name, hub id or path; without one, what the table recommends for this machine."""
    if asked is None:
        advised = models.recommend(machine.memory, machine.kind)
        if advised is None:
            raise ConfigError(
                f"This machine has {machine.describe()}, which is too little for any model we "
                "know. Run a server elsewhere and name it with --url."
            )
        why = f"the fastest of use on {machine.describe()}"
        if engine == "vLLM":
            return _served(_largest_served(advised.fast, machine), why, machine)
        return _from_table(advised.fast, why)
    path = Path(asked).expanduser()
    if path.is_dir():
        known = models.find(path.name)
        name = known.name if known is not None else path.resolve().name.lower()
        why = "it is your folder"
        return Choice(name=name, path=path.resolve(), why=why, engine="vLLM", model=known)
    if path.suffix == ".gguf" or path.is_file():
        return _from_path(path)
    known = models.find(asked)
    if known is not None:
        why = "you asked for it"
        if known.completion_only:
            why += "; it completes code and was not taught to answer"
        return _served(known, why, machine) if engine == "vLLM" else _from_table(known, why)
    if asked.count("/") == 1:
        if engine == "vLLM":
            name, why = asked.split("/")[1].lower(), "you asked for it"
            return Choice(name=name, path=Path(asked), why=why, engine="vLLM")
        return _from_hub(asked)
    raise ConfigError(_unknown(asked))


def _served(model: Model, why: str, machine: Machine) -> Choice:
    """On as few GPUs as hold it: each more costs every token a round of messages."""
    room = machine.memory * models.SHARE[machine.kind] / max(1, machine.gpus)
    needed, gpus = models.memory_needed(model, models.FAST_CONTEXT, model.served), 1
    while gpus < machine.gpus and needed > gpus * room:
        gpus *= 2
    path = Path(model.served.repo)
    return Choice(name=model.name, path=path, why=why, engine="vLLM", gpus=gpus, model=model)


def _largest_served(advised: Model, machine: Machine) -> Model:
    """What was advised for its GGUF file may not fit in the wider numbers vLLM loads."""
    room = machine.memory * models.SHARE[machine.kind]
    fitting = [
        model
        for model in models.MODELS
        if model.fim is not None
        and not model.test_only
        and not model.completion_only
        and model.commercial
        and model.parameters <= advised.parameters
        and models.memory_needed(model, models.FAST_CONTEXT, model.served) <= room
    ]
    return max(fitting, key=lambda model: model.parameters, default=advised)


def _from_table(model: Model, why: str) -> Choice:
    weights = model.gguf
    if weights is None or weights.file is None:
        raise ConfigError(
            f"{model.name} has no GGUF file that we know of, so llama.cpp cannot run it. Serve it "
            "with vLLM."
        )
    folder = cache_root() / "models"
    wanted = _wanted(model.name, weights.repo, weights.file, folder)
    if weights.sha256 is not None:  # of the first where it is split
        size = weights.size if len(wanted) == 1 else None
        wanted = (replace(wanted[0], size=size, sha256=weights.sha256), *wanted[1:])
    return Choice(name=model.name, path=wanted[0].path, why=why, wanted=wanted, model=model)


def _wanted(name: str, repo: str, file: str, folder: Path) -> tuple[Wanted, ...]:
    """The file, with those that belong to it where it is split; all lie in one folder."""
    return tuple(
        Wanted(name=name, url=hub_url(repo, part), path=folder / Path(part).name)
        for part in parts_of(file)
    )


def _from_path(path: Path) -> Choice:
    for part in parts_of(path.name):
        if not path.with_name(part).is_file():
            raise ConfigError(f"There is no file {path.with_name(part)}.")
    path = path.with_name(first_of(path.name))
    known = models.find(path.name)
    name = known.name if known is not None else path.stem
    return Choice(name=name, path=path.resolve(), why="it is your file", model=known)


_USUAL = re.compile(r"q4_k_m(-00001-of-\d{5})?\.gguf$", re.IGNORECASE)
"""The quantisation most people run."""


def _from_hub(repo: str) -> Choice:
    """The usual quantisation out of a repository of GGUF files."""
    # Two repositories may have files of one name, so each gets a folder of its own.
    folder = cache_root() / "models" / repo.replace("/", "--")
    name, why = repo.split("/")[1].removesuffix("-GGUF").lower(), "you asked for it"
    for here in sorted(folder.glob("*.gguf")):  # verified when it came: needs no network again
        if all((folder / part).is_file() for part in parts_of(here.name)):
            return Choice(name=name, path=here, why=why)
    listed = set(files_in(repo))
    fitting = [file for file in listed if _USUAL.search(file) and listed.issuperset(parts_of(file))]
    if not fitting:
        raise ConfigError(
            f"'{repo}' has no Q4_K_M GGUF file. Name a repository that has (often the same with "
            "-GGUF), or give a local file with --model PATH."
        )
    file = min(fitting, key=lambda file: (len(parts_of(file)), len(file), file))
    wanted = _wanted(repo, repo, file, folder)
    return Choice(name=name, path=wanted[0].path, why=why, wanted=wanted)


def _unknown(asked: str) -> str:
    names = [model.name for model in models.MODELS if model.gguf is not None]
    near = difflib.get_close_matches(asked, names, n=1)
    advice = f"Did you mean '{near[0]}'?" if near else f"We know: {', '.join(names)}."
    return (
        f"No model '{asked}'. {advice} A hub id (owner/name) or the path of a GGUF file works too."
    )


def check_memory(choice: Choice, machine: Machine, context: int, slots: int) -> None:
    """Say now what would otherwise end as a killed process in a minute."""
    if choice.model is None:
        return
    if choice.engine == "vLLM":
        weights, slots = choice.model.served, 1  # its answers share one cache, page by page
    else:
        weights = choice.model.weights
    needed = models.memory_needed(choice.model, context * slots, weights)
    if needed <= machine.available:
        return
    advised = _largest_below(choice.model, context * slots, machine)
    advice = f"Try --model {advised.name}" if advised else "Close other programs"
    raise ConfigError(
        f"{choice.name} with {slots} x {context} tokens of context needs {needed / _GIB:.1f} GiB, "
        f"and {machine.available / _GIB:.1f} GiB are free. {advice}, or a smaller --context."
    )


def _largest_below(model: Model, context: int, machine: Machine) -> Model | None:
    """A long context may cost another model less; that does not make it the smaller choice."""
    fitting = [
        other
        for other in models.MODELS
        if other.gguf is not None
        and other.weights.size < model.weights.size
        and other.commercial
        and not (other.test_only or other.completion_only)
        and models.memory_needed(other, context) <= machine.available
    ]
    return max(fitting, key=lambda other: other.weights.size, default=None)
