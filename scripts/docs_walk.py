"""The page for a laptop, walked as a newcomer would: its commands are typed one after the other
into two terminals of a new clone and a home with nothing in it, with a real engine and model.

The model is taken from this machine's cache if it is there, as the download measures the network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
from docs_pages import blocks_of

__all__ = ["walk"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/start/laptop.md"
MOST_SECONDS = 300
_PATIENCE = 240
_PROMPT = "next> "
_SERVES = "Ctrl-C ends it"
_ASKED = r"\[y,n[^\]]*\]\?"


def walk() -> int:
    """Whether the page leads to an edit that is applied, in time."""
    with tempfile.TemporaryDirectory(prefix="vivace-walk-") as name:
        folder = Path(name)
        clone, home = folder / "vivace", folder / "home"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        _model_at(home)
        began = time.monotonic()
        first = _terminal(clone, home)
        second = None
        applied, closed, text = 0.0, False, ""
        for command in _commands():
            here = second or first
            took = _typed(here, command)
            print(f"walk: {took:6.1f} s  {command.splitlines()[0]}", flush=True)
            if command.startswith("vivace up"):
                second = _terminal(clone, home)
                _typed(second, "export PATH=$PWD/.venv/bin:$PATH")
            if command.startswith("vivace edit"):
                applied = time.monotonic() - began
                text = (home / "first/shop.py").read_text("utf-8")
                closed = "with open" in text or ".close()" in text
        first.sendintr()
        first.expect_exact(_PROMPT)
    print(f"walk: {applied:.0f} s from an empty home to an applied edit; at most {MOST_SECONDS}")
    if not closed:
        print(f"walk: but the file is not closed:\n{text}")
    return 0 if closed and 0 < applied <= MOST_SECONDS else 1


def _model_at(home: Path) -> None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "vivace/models"
    there = home / ".cache/vivace/models"
    there.mkdir(parents=True)
    for model in cache.glob("qwen2.5-coder-0.5b*"):
        if model.is_file():
            shutil.copyfile(model, there / model.name)
            print(f"walk: {model.name} is in the cache already")


def _commands() -> Iterator[str]:
    """What stands on the page, command by command; those over several lines stay together."""
    for block in blocks_of(PAGE.read_text("utf-8")):
        if "<<'END'" in block.text:
            begin, _, rest = block.text.partition("cat >")
            yield from begin.splitlines()
            yield "cat >" + rest.rstrip("\n")
        else:
            yield from block.text.splitlines()


def _terminal(folder: Path, home: Path) -> pexpect.spawn:
    kept = {name: os.environ[name] for name in ("LANG", "PATH") if name in os.environ}
    kept["PATH"] = os.pathsep.join(
        each for each in kept["PATH"].split(os.pathsep) if not each.startswith(str(ROOT))
    )
    terminal = pexpect.spawn(
        "bash",
        ["--norc", "--noprofile"],
        encoding="utf-8",
        timeout=_PATIENCE,
        cwd=folder,
        env=kept | {"HOME": str(home), "PS1": _PROMPT, "PS2": "", "TERM": "dumb"},
        dimensions=(50, 120),
        echo=False,
    )
    terminal.expect_exact(_PROMPT)
    return terminal


def _typed(terminal: pexpect.spawn, command: str) -> float:
    began = time.monotonic()
    terminal.sendline(command)
    while (met := terminal.expect([_PROMPT, _SERVES, _ASKED])) == 2:
        terminal.sendline("y")
    said = terminal.before
    if met == 0:
        terminal.sendline("echo status $?")
        terminal.expect(r"status (\d+)")
        # What doctor thinks of this machine is no fault of the page.
        if terminal.match[1] != "0" and command.split()[:2] != ["vivace", "doctor"]:
            sys.exit(f"walk: {command}\nended with status {terminal.match[1]}:\n{said}")
        terminal.expect_exact(_PROMPT)
    return time.monotonic() - began
