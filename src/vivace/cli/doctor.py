"""``vivace doctor``: what is well, what is not, and what to do about it."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import click

from vivace import __version__
from vivace.cli import options, vscode
from vivace.cli.clients import CLIENTS, Endpoint, Person, Served
from vivace.cli.completion import SHELLS
from vivace.cli.editors import EDITORS
from vivace.cli.reporting import Finding, report
from vivace.cli.service_unit import NAME, Unit, unit_path
from vivace.client.checkup import fill_gap, measure_cancel, measure_speed
from vivace.client.connection import ClientError
from vivace.client.get import Unanswered
from vivace.client.models import ServedModel, list_models
from vivace.client.server_version import server_version
from vivace.extras import how_to_install

__all__ = ["doctor"]

_SLOW_READING = 100.0
_SLOW_WRITING = 8.0
"""Tokens per second; below, a suggestion comes later than anybody waits for it."""
_LATE_S = 2.0
"""An engine that is free begins an answer no later than this beyond the usual."""

_EDITORS = {
    **dict.fromkeys(vscode.PROGRAMS, "vscode"),
    "nvim": "neovim",
    "emacs": "emacs",
    "hx": "helix",
    "zed": "zed",
}
"""Programs, and what ``vivace connect`` calls them."""


@click.command()
@options.url
@options.key
@click.option("--json", "as_json", is_flag=True, help="The findings as JSON, for programs.")
def doctor(url: str, key: str | None, as_json: bool) -> None:
    """Check all that completions and edits need, and say what to do where something is wrong.

    Asks the server a few short questions, which takes some seconds. The exit code is 0 only if all
    is well.
    """
    well = asyncio.run(report(_examine(url, key), as_json=as_json))
    sys.exit(0 if well else 1)


async def _examine(url: str, key: str | None) -> AsyncIterator[Finding]:
    yield _versions()
    yield _language_server()
    try:
        listing = await list_models(url, key)
    except Unanswered:
        yield Finding("server", "wrong", f"nobody answers at {url}", _NO_SERVER)
    else:
        yield Finding("server", "ok", f"answers at {url}")
        if listing.status in (401, 403):
            yield _refused(key)
        else:
            async for finding in _work(url, key, listing.models):
                yield finding
    for finding in (*_service(), *_completion(), *_editors()):
        yield finding


_NO_SERVER = (
    "Start one with: vivace up. Name another with --url or VIVACE_URL. vivace up listens to its "
    "own machine only; from another it is reached through ssh -L 8765:127.0.0.1:8765 THAT-MACHINE, "
    "or, started there, ssh -R 8765:127.0.0.1:8765 THIS-MACHINE."
)


# -- this machine ---------------------------------------------------------------------------------


def _versions() -> Finding:
    told = f"vivace {__version__}, Python {platform.python_version()}, {platform.system()}"
    return Finding("versions", "ok", told)


def _language_server() -> Finding:
    try:
        parts = [f"{name} {importlib.metadata.version(name)}" for name in ("pygls", "lsprotocol")]
    except importlib.metadata.PackageNotFoundError as missing:
        return Finding(
            "lsp",
            "wrong",
            f"vivace lsp, which editors start, lacks {missing.name}",
            f"Install it: {how_to_install('lsp')}",
        )
    return Finding("lsp", "ok", f"vivace lsp can run ({', '.join(parts)})")


def _service() -> Iterator[Finding]:
    """Nothing is said where there is none: most people start a server themselves."""
    text = _text(unit_path())
    unit = Unit.read(text)
    if unit is not None:
        problems = [Finding("service", "wrong", *each) for each in unit.problems(__version__)]
        yield from problems or [Finding("service", "ok", f"{NAME} is as this Vivace writes it")]
    elif text:
        yield Finding("service", "hint", f"{unit_path()} was written by somebody else")


def _completion() -> Iterator[Finding]:
    """Of the person's own shell, if it is one that we know."""
    shell = SHELLS.get(Path(os.environ.get("SHELL", "")).name)
    if shell is None:
        return
    written, *_ = shell.edits(shell.script(), os.environ)
    advice = f"Have it written: vivace completion {shell.name} --write"
    text = _text(written.path)
    if not written.holds(text):
        yield Finding("tab", "hint", f"Tab completes nothing in {shell.name}", advice)
    elif written.apply(text) != text:
        yield Finding(
            "tab", "hint", f"the completion of {shell.name} is of another version", advice
        )
    else:
        yield Finding("tab", "ok", f"Tab completes commands in {shell.name}")


def _editors() -> Iterator[Finding]:
    found = {program: name for program, name in _EDITORS.items() if shutil.which(program)}
    set_up = {program for program in found if _is_set_up(program)}
    if not found:
        names = ", ".join(_EDITORS)
        yield Finding("editors", "hint", f"none is on PATH (looked for {names})")
    for program, name in found.items():
        if program in set_up:
            yield Finding("editors", "ok", f"{program} is set up")
        else:
            yield Finding(
                "editors",
                "hint" if set_up else "wrong",
                f"{program} is not set up",
                f"Set it up: vivace connect {name}",
            )


def _is_set_up(program: str) -> bool:
    if program in vscode.PROGRAMS:
        return vscode.has_extension(program, Path.home())
    person = Person(Path.home(), os.environ)
    recipe = {**CLIENTS, **EDITORS}[_EDITORS[program]].recipe
    edits = recipe(Endpoint("http://127.0.0.1/v1", (Served(""),)), person).edits
    return any(edit.path.is_file() and edit.holds(_text(edit.path)) for edit in edits)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


# -- the server -----------------------------------------------------------------------------------


def _refused(key: str | None) -> Finding:
    if key:
        return Finding(
            "key",
            "wrong",
            "the server does not know this key",
            "Ask who runs it, or make one there with: vivace keys create NAME",
        )
    return Finding(
        "key", "wrong", "the server asks for a key", "Give it with VIVACE_KEY, or with --key."
    )


async def _work(
    url: str, key: str | None, models: tuple[ServedModel, ...]
) -> AsyncIterator[Finding]:
    yield Finding("key", "ok", "the key is accepted" if key else "the server asks for none")
    runs = await server_version(url, key)
    if runs not in (None, __version__):
        yield Finding(
            "server",
            "hint",
            f"the server runs Vivace {runs}, and this is {__version__}",
            "After an upgrade start it again; a service with: vivace service install",
        )
    if not models:
        yield Finding(
            "models",
            "wrong",
            "the server lists none",
            "Is --url the address of an OpenAI-compatible server, up to and including /v1?",
        )
        return
    yield Finding("models", "ok", ", ".join(model.id for model in models))
    yield await _filling(url, key, models)
    filler = next((model for model in models if model.fill_in_the_middle), models[0]).id
    yield await _speed(url, key, filler)
    yield await _cancel(url, key, filler)


async def _filling(url: str, key: str | None, models: tuple[ServedModel, ...]) -> Finding:
    """A server that does not tell whether a model fills gaps is asked to fill one."""
    able = [model.id for model in models if model.fill_in_the_middle is not False]
    why = "no model is known to fill gaps"
    if able:
        try:
            await fill_gap(url, key, able[0])
        except (ClientError, TimeoutError) as error:
            why = f"{able[0]} fills no gap: {_why(error)}"
        else:
            return Finding("fill", "ok", f"{able[0]} fills gaps: it can complete at the cursor")
    return Finding(
        "fill",
        "wrong",
        f"{why}, so nothing can be completed at the cursor",
        "Serve one that does, such as: vivace up --model qwen2.5-coder-1.5b",
    )


_SMALLEST = "qwen2.5-coder-0.5b"
_SMALLER = f"Serve a smaller model (vivace up --model {_SMALLEST}), or free the machine."
_FASTER = "It is the smallest: free the machine, or use the server of a faster one (--url)."


async def _speed(url: str, key: str | None, model: str) -> Finding:
    try:
        speed = await measure_speed(url, key, model)
    except (ClientError, TimeoutError) as error:
        return _unanswered("speed", model, error)
    told = f"{model} reads {_rate(speed.reading)} and writes {_rate(speed.writing)}"
    slow = (speed.reading or _SLOW_READING) < _SLOW_READING
    slow = slow or (speed.writing or _SLOW_WRITING) < _SLOW_WRITING
    if slow:
        return Finding(
            "speed",
            "wrong",
            f"{told}: suggestions will come too late",
            _FASTER if model == _SMALLEST else _SMALLER,
        )
    return Finding("speed", "ok", told)


def _rate(rate: float | None) -> str:
    return "at an unknown speed" if rate is None else f"{rate:.0f} tokens/s"


async def _cancel(url: str, key: str | None, model: str) -> Finding:
    try:
        cancel = await measure_cancel(url, key, model)
    except (ClientError, TimeoutError) as error:
        return _unanswered("cancel", model, error)
    told = (
        f"after a cancel the next answer begins within {cancel.after_cancel:.2f} s "
        f"(usually {cancel.usual:.2f} s)"
    )
    if cancel.after_cancel > cancel.usual + _LATE_S:
        return Finding(
            "cancel",
            "wrong",
            f"{told}: the engine goes on with what was cancelled",
            "Some versions of llama-server do (its issues 13262 and 24496): update it, or let "
            "vivace up run its own.",
        )
    return Finding("cancel", "ok", told)


def _unanswered(check: str, model: str, error: Exception) -> Finding:
    told = f"{model} could not be asked: {_why(error)}"
    return Finding(check, "wrong", told, "See the server's log.")


def _why(error: Exception) -> str:
    return str(error) or "no answer came in two minutes"
