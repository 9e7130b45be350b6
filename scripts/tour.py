"""The tour: ``vivace up``, an edit that is redirected on the way, ``vivace top``, and the editor.

A real shell in a terminal (drawn by pyte), into which commands are typed as a person would, and a
real VS Code. Times are those of the run, but for waits: what stood still is cut to a moment.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pexpect
import pyte
from film import Scene

from vivace.cli.demonstration.sample import PATH, REDIRECT, sample

ROWS, COLUMNS = 27, 110
FRAME, WAIT, END = 0.1, 1.0, 1.5
"""Seconds between two scenes at least, of a wait at most, and that a chapter's end is seen."""
KEY = 0.03
SHOT = 2.5
PATIENCE = 180.0

INSTRUCTION = "give fetch a parameter timeout, 10 by default, and pass it to send instead of 30"
Shown = Callable[[str], bool]


class Shell:
    """A bash in a terminal, and every screen it showed."""

    def __init__(self, folder: Path) -> None:
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self._screen)
        self._bash = pexpect.spawn(
            "bash",
            ["--norc", "--noprofile"],
            encoding="utf-8",
            dimensions=(ROWS, COLUMNS),
            cwd=folder,
            env=os.environ | {"PS1": "\\[\\e[32m\\]$\\[\\e[0m\\] ", "TERM": "xterm-256color"},
        )
        self.scenes: list[Scene] = []
        self.until(lambda text: "$" in text)

    def until(self, shown: Shown) -> None:
        """Watches until the screen shows it."""
        deadline = time.monotonic() + PATIENCE
        while not shown(self.text()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"The terminal still shows:\n{self.text()}")
            self.watch(FRAME)

    def watch(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(pexpect.TIMEOUT):
                self._stream.feed(self._bash.read_nonblocking(4096, timeout=min(left, FRAME)))
            self._keep()

    def type(self, text: str) -> None:
        for key in text:
            self._bash.send(key)
            self.watch(KEY)

    def enter(self, text: str) -> None:
        self.type(text)
        self._bash.send("\r")

    def interrupt(self) -> None:
        self._bash.sendintr()
        self.watch(3)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def _keep(self) -> None:
        rows = [_row(self._screen.buffer[number]) for number in range(ROWS)]
        if not self.scenes or self.scenes[-1].rows != rows:
            self.scenes.append(Scene(time.monotonic(), rows))


_CODES = {"red": 31, "green": 32, "brown": 33, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


def _row(cells: Any) -> str:
    """A line of the screen as it could be printed, with its colours."""
    made, now = "", ""
    for column in range(COLUMNS):
        cell = cells[column]
        codes = [str(_CODES[cell.fg])] if cell.fg in _CODES else []
        codes += ["1"] if cell.bold else []
        style = f"\x1b[0;{';'.join(codes)}m" if codes else "\x1b[0m"
        if style != now:
            made += style
            now = style
        made += cell.data
    return made.rstrip()


def without_waits(chapters: Sequence[Sequence[Scene]]) -> list[Scene]:
    """One after the other, each seen a moment longer at its end."""
    film: list[Scene] = []
    at = 0.0
    for chapter in chapters:
        before = chapter[0].when
        for scene in chapter:
            at += scene.when - before if scene.screenshot else min(scene.when - before, WAIT)
            before = scene.when
            if film and at - film[-1].when < FRAME and scene is not chapter[0]:
                film[-1] = scene._replace(when=film[-1].when)
            else:
                film.append(scene._replace(when=at))
        at += END
    return film


def tour(model: str, in_editor: Callable[[], Iterator[bytes]]) -> list[Scene]:
    """``in_editor`` types into an editor that has the server, and gives screenshots of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / PATH).write_text(sample(), encoding="utf-8")
        up = Shell(folder)
        up.enter(f"vivace up --model {model}")
        up.until(lambda text: "Ctrl-C ends it" in text)
        served = len(up.scenes)
        edit = _edited(folder)
        top = _watched(folder)
        shots = [Scene(SHOT * number, [""], png) for number, png in enumerate(in_editor())]
        up.interrupt()
    return without_waits([up.scenes[:served], edit, top, shots])


def _edited(folder: Path) -> list[Scene]:
    shell = Shell(folder)
    shell.enter(f'vivace edit {PATH} "{INSTRUCTION}"')
    shell.until(lambda text: "tokens/s" in text)
    shell.enter(REDIRECT)
    shell.until(lambda text: text.endswith(("?", "$")))
    if shell.text().endswith("$"):
        raise ValueError(f"The edit did not come out:\n{shell.text()}")
    shell.enter("a")
    shell.until(lambda text: text.endswith("$"))
    return shell.scenes


def _watched(folder: Path) -> list[Scene]:
    """While two others ask."""
    asked = ["vivace", "ask", "Write a Python class for a bank account with ten methods."]
    others = [subprocess.Popen(asked, stdout=subprocess.DEVNULL) for _ in range(2)]
    shell = Shell(folder)
    shell.enter("vivace top")
    shell.watch(5)
    for each in others:
        each.terminate()
        each.wait()
    return shell.scenes
