"""``vivace up``: from nothing to a running model in one command."""

from __future__ import annotations

import logging
import socket
import time

import click

from vivace.cli import drafts as measured
from vivace.cli.ask import describe
from vivace.cli.choice import Choice, EngineName, check_memory, choose, engine_for
from vivace.cli.machine import Machine, inspect
from vivace.cli.output import say, styled, visible
from vivace.cli.places import data_root, shortened
from vivace.client.connection import ClientError, Figures, open_connection
from vivace.config import (
    Config,
    EngineConfig,
    LlamaCppConfig,
    ServerConfig,
    StoreConfig,
    VllmConfig,
)
from vivace.download.files import bring_all
from vivace.download.progress import progress_line
from vivace.errors import ConfigError
from vivace.logs import log_to_stderr

__all__ = ["up"]

_PROBE = "Write a Python function that returns the n-th Fibonacci number."


@click.command()
@click.option(
    "--model",
    "-m",
    metavar="NAME",
    help="A model's name, a hub id (owner/name), the path of a GGUF file, or for vLLM of a folder. "
    "Default: chosen for this machine.",
)
@click.option(
    "--engine",
    type=click.Choice(["llama.cpp", "vLLM"], case_sensitive=False),
    help="Default: vLLM where it is installed and there is an NVIDIA GPU, else llama.cpp.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8765,
    show_default=True,
    help="Where to listen.",
)
@click.option(
    "--context",
    type=click.IntRange(min=256),
    default=8192,
    show_default=True,
    help="Tokens per answer.",
)
@click.option(
    "--slots", type=click.IntRange(1, 1024), help="Answers at once. Default: 2, on vLLM 64."
)
@click.option(
    "--drafts/--no-drafts",
    default=None,
    help="Draft what an answer repeats of the code it is about, and check many tokens at once. "
    "Default: on, unless it measured no faster on this machine.",
)
def up(
    model: str | None,
    engine: EngineName | None,
    port: int,
    context: int,
    slots: int | None,
    drafts: bool | None,
) -> None:
    """Run a coding model on this machine.

    Chooses a model that fits and the engine for it, downloads it once, and serves it on this
    machine only. It says what it chose and why, how fast it is, and what to type next. Ctrl-C ends
    it.
    """
    from vivace.gateway.app import llamacpp_command, serve  # not for a Tab key or --help

    began = time.perf_counter()
    log_to_stderr(logging.WARNING, "%(message)s")
    machine = inspect()
    choice = choose(model, machine, engine or engine_for(model, machine))
    slots = slots or (64 if choice.engine == "vLLM" else 2)
    _say("machine", machine.describe())
    _say("model", f"{choice.name}: {choice.why}")
    check_memory(choice, machine, context, slots)
    _check_port(port)
    if choice.engine == "llama.cpp":
        llamacpp_command()  # where there is none, that is said before a long download
        _warn_of_idle_gpu(machine)
        _fetch(choice)
        _say("engine", "starting llama.cpp")
    else:
        _say("engine", "starting vLLM; loading takes a minute, and the first time it downloads")
    asked = drafts is not None or choice.engine == "vLLM"
    gain = None if asked else measured.gain_of(choice.path)
    on = measured.worth_it(gain) if drafts is None else drafts
    config = _config(choice, port, context, slots, drafts=on)
    url = f"http://127.0.0.1:{port}/v1"

    async def greet() -> None:
        _say("ready", f"after {time.perf_counter() - began:.1f} s")
        figures = None
        try:
            figures = await _probe(url)
            _say("speed", describe(figures) + " (one short question)")
        except ClientError as error:
            _say("warning", f"the first question failed: {error}")
        say(_next_steps(url, choice.name))
        if not asked and gain is None and figures is not None and figures.tokens_per_second:
            await _measure_drafts(url, choice, figures.tokens_per_second)

    serve(config, data_root(), greet)


def _check_port(port: int) -> None:
    """Before a long download, not after it."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError as error:
        why = str(error.strerror).partition(" (while")[0]  # Python repeats the address behind it
        raise ConfigError(
            f"Cannot listen on 127.0.0.1:{port}: {why}. Stop the other program (if it is a "
            "Vivace, vivace doctor says so), or choose another port with --port."
        ) from None


async def _measure_drafts(url: str, choice: Choice, plain: float) -> None:
    """Once for each model, when all else has been said."""
    gain = await measured.measure(url, _PROBE, plain)
    if gain is not None:
        measured.remember(choice.path, gain)
        held = "" if measured.worth_it(gain) else "; they stay off from the next start on"
        _say("drafts", f"copied code comes {gain:.1f} times as fast with drafts{held}")


def _config(choice: Choice, port: int, context: int, slots: int, *, drafts: bool) -> Config:
    folder = data_root()
    folder.mkdir(parents=True, exist_ok=True)
    return Config(
        version=1,
        engines=(_engine(choice, context, slots, drafts=drafts),),
        server=ServerConfig(port=port),
        store=StoreConfig(path=str(folder / "turns.db")),
    )


def _engine(choice: Choice, context: int, slots: int, *, drafts: bool) -> EngineConfig:
    name, path = choice.name, str(choice.path)
    if choice.engine == "llama.cpp":
        # One slot stays free for what somebody is typing, beside whatever agent runs.
        reserved = 1 if slots > 1 else 0
        return LlamaCppConfig(
            name="llama.cpp",
            model=name,
            path=path,
            context=context,
            slots=slots,
            reserved=reserved,
            speculation="ngram" if drafts else None,
        )
    arguments = {"max_num_seqs": slots, "tensor_parallel_size": choice.gpus}
    return VllmConfig(
        name="vLLM",
        model=name,
        path=path,
        context=context,
        slots=slots,
        reserved=slots // 8,
        speculation="edits" if drafts else None,
        arguments=arguments,
    )


def _say(what: str, text: str) -> None:
    say(styled(f"{what:>8}", bold=True), f"  {text}")


def _warn_of_idle_gpu(machine: Machine) -> None:
    """A GPU is never left idle without a word."""
    from vivace.gateway.app import accelerators

    if machine.kind == "cpu":
        return
    if not accelerators():
        _say(
            "warning",
            f"this machine has {machine.describe()}, but the llama.cpp found here runs on the "
            "processor only. Install one with GPU support (llama-server on PATH is preferred).",
        )


def _fetch(choice: Choice) -> None:
    if not choice.wanted:
        return
    with progress_line(visible(choice.name)) as progress:
        fetched = bring_all(choice.wanted, progress, tell=lambda line: _say("file", line))
    if fetched:
        _say("file", f"{shortened(choice.path)} (verified)")
    else:
        _say("file", f"{shortened(choice.path)} (already here)")


async def _probe(url: str) -> Figures:
    async with open_connection(url) as connection:
        body = {"input": _PROBE, "max_output_tokens": 32, "store": False}
        async for _ in connection.turn(**body):
            pass
        return connection.figures


def _next_steps(url: str, model: str) -> str:
    at = "" if url.endswith(":8765/v1") else f" --url {url}"
    return f"""
  Now, in another terminal:
    vivace ask{at} "Explain Python's with statement in two sentences."
    vivace run{at} claude     an agent that uses it; also codex, opencode
    vivace connect codex{at}     lines for Codex CLI; also claude, sdk, curl, zed
  The API stands at {url}, the model is called {model}. Ctrl-C ends it.
"""
