"""Records real runs as pictures: nothing in the pictures is typed in by hand.

first-run   vivace up, then vivace ask
redirect    an answer that is redirected in mid-sentence; moves as it did
restart     an answer whose server is killed and started again; moves as it did
edit        vivace edit, accepted, and vivace undo
demo        vivace demo; moves as it did until the edit is there, then faster
editor      a completion and an edit in a real VS Code; PNG
findings    a vulnerable line as it is typed in a real VS Code, and its fix; PNG
tour        up, an edit that is redirected, top, and the editor, in one film
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import tour
from film import Scene, film, growing, scenes, still

from vivace.cli.machine import inspect
from vivace.cli.places import state_root

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs/pictures"
VIVACE = str(ROOT / ".venv/bin/vivace")
MODEL = "qwen2.5-coder-0.5b"
URL = "http://127.0.0.1:8765/v1"
QUESTION = "Write a Python function that reverses the words of a sentence. Only the code."
REDIRECTED = "Write a Python class for a bank account with ten methods."
STEER = "Stop. Two methods are enough, deposit and withdraw."
WIDE, COLUMNS = 104, 84


def started() -> tuple[subprocess.Popen[str], list[str]]:
    """A running ``vivace up``, and what it said until it was ready."""
    up = subprocess.Popen(
        [VIVACE, "up", "--model", MODEL],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert up.stdout is not None
    lines = []
    for line in up.stdout:
        lines.append(line.rstrip())
        if "Ctrl-C ends it" in line:
            break
    return up, lines


@contextlib.contextmanager
def server() -> Iterator[list[str]]:
    up, lines = started()
    try:
        yield lines
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(30)


# -- a first run ----------------------------------------------------------------------------------


def first_run() -> None:
    rows = typed(f"vivace up --model {MODEL}")
    with server() as lines:
        rows += wrapped("\n".join(lines))
        rows += ["", *typed(f'vivace ask "{QUESTION}"')]
        answer = subprocess.run(
            [VIVACE, "ask", "--max-tokens", "220", QUESTION],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
    rows += wrapped(answer.stdout.rstrip())
    rows += [f"\x1b[2m{answer.stderr.rstrip()}\x1b[0m"]
    save("first-run", still(rows, WIDE, real_run("llama.cpp")))


def typed(command: str) -> list[str]:
    return [f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m"]


def wrapped(text: str) -> list[str]:
    """As a terminal does it."""
    return [
        line[start : start + WIDE]
        for line in text.split("\n")
        for start in range(0, max(1, len(line)), WIDE)
    ]


def real_run(engine: str) -> str:
    return f"A real run with {engine} on {inspect().describe()}."


def save(name: str, picture: str) -> None:
    (PICTURES / f"{name}.svg").write_text(picture, encoding="utf-8")


# -- a redirect -----------------------------------------------------------------------------------


def redirect() -> None:
    """A small model often ends by itself before the line is typed; so until it was a redirect."""
    with server():
        heard = talk()
        while not was_redirected():
            heard = talk()
    command = f'$ vivace ask "{REDIRECTED}"\n'
    shown = growing([(heard[0][0] - 1, command), *heard], COLUMNS)
    save("redirect", film(shown, COLUMNS, real_run("llama.cpp")))


def was_redirected() -> bool:
    answers = json.loads((state_root() / "last-answers.json").read_text())
    response = kept(answers[URL])
    before = kept(response["previous_response_id"]) if response["previous_response_id"] else {}
    return (before.get("incomplete_details") or {}).get("reason") == "steered"


def kept(response: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{URL}/responses/{response}") as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def talk() -> list[tuple[float, str]]:
    """What appeared in the terminal, and when."""
    asked = Asked(REDIRECTED, tokens=400)
    asked.listen_for(120)
    for key in STEER:
        asked.terminal.send(key)
        asked.listen(0.04)
    asked.terminal.send("\r")
    return asked.all()


class Asked:
    """A ``vivace ask`` in a terminal, and what appeared there when."""

    def __init__(self, question: str, tokens: int) -> None:
        self.terminal = pexpect.spawn(
            VIVACE,
            ["ask", "--max-tokens", str(tokens), question],
            encoding="utf-8",
            timeout=60,
            dimensions=(40, COLUMNS),
        )
        self._started = time.perf_counter()
        self._heard: list[tuple[float, str]] = []

    def listen(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            with contextlib.suppress(pexpect.TIMEOUT):
                text = self.terminal.read_nonblocking(4096, timeout=left)
                self._heard.append((time.perf_counter() - self._started, text))

    def listen_for(self, letters: int) -> None:
        while sum(len(text) for _, text in self._heard) < letters:
            self.listen(0.2)

    def all(self) -> list[tuple[float, str]]:
        with contextlib.suppress(pexpect.EOF):
            self.listen(60)
        return self._heard


# -- a server that is killed ----------------------------------------------------------------------


def restart() -> None:
    up, _ = started()
    asked = Asked(REDIRECTED, tokens=250)
    asked.listen_for(250)
    up.kill()
    up.wait()
    with server():
        heard = asked.all()
    command = f'$ vivace ask "{REDIRECTED}"\n'
    shown = growing([(heard[0][0] - 1, command), *heard], COLUMNS)
    caption = "A real run with llama.cpp. Its server was killed by kill -9 and started again."
    save("restart", film(shown, COLUMNS, caption))


# -- an edit --------------------------------------------------------------------------------------

EDITED = '''\
"""Settings of a shop."""

import json


class Settings:
    def __init__(self, path):
        self.path = path
        self.values = {}

    def load(self):
        file = open(self.path)
        self.values = json.load(file)
        file.close()

    def get(self, name):
        return self.values[name]
'''
EDIT = "let get() take a default and return it for unknown names"
_STATUS = re.compile(r"\r\x1b\[K")
_TAKEN_BACK = re.compile(r"\x1b\[(\d+)A\x1b\[J")


def edit() -> None:
    rows = typed(f'vivace edit settings.py "{EDIT}"')
    with tempfile.TemporaryDirectory() as folder, server():
        Path(folder, "settings.py").write_text(EDITED)
        environment = os.environ | {"XDG_STATE_HOME": f"{folder}/state", "TERM": "xterm-256color"}
        terminal = pexpect.spawn(
            VIVACE,
            ["edit", "settings.py", EDIT],
            encoding="utf-8",
            timeout=120,
            dimensions=(50, WIDE),
            cwd=folder,
            env=environment,
        )
        terminal.expect_exact("? \x1b[0m")
        heard = f"{terminal.before}{terminal.after}"
        terminal.send("y\r")
        terminal.expect(pexpect.EOF)
        rows += remaining(f"{heard}{terminal.before}")
        rows += ["", *typed("vivace undo")]
        undone = subprocess.run(
            [VIVACE, "undo"],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=60,
        )
    rows += wrapped((undone.stderr + undone.stdout).rstrip())
    save("edit", still(rows, WIDE, real_run("llama.cpp")))


def remaining(heard: str) -> list[str]:
    """The lines that stay on the screen when all is said."""
    lines = [""]
    for part in re.split(r"(\n|\r\x1b\[K|\x1b\[\d+A\x1b\[J)", heard):
        if part == "\n":
            lines.append("")
        elif _STATUS.fullmatch(part):
            lines[-1] = ""
        elif taken := _TAKEN_BACK.fullmatch(part):
            del lines[len(lines) - 1 - int(taken[1]) :]
            lines.append("")
        else:
            lines[-1] += part.replace("\r", "")
    return [line for line in lines if line]


# -- the demonstration ----------------------------------------------------------------------------

DEMO_ROWS, DEMO_COLUMNS, DEMO_SECONDS = 27, 110, 60
DEMO_FRAME, DEMO_LAPSE = 0.25, 10
"""Seconds between two scenes, and how much faster time passes once the edit is there."""


def demo() -> None:
    """With vLLM, which takes its drafts from the code that is edited and can do without."""
    sys.path.insert(0, str(ROOT))
    from bench._edit_engine import serving

    with serving("vllm", MODEL) as endpoint:
        heard = watch_demo(f"{endpoint.url}/v1")
    caption = f"{real_run('vLLM')} After the edit, shown {DEMO_LAPSE} times as fast."
    save("demo", demo_film(heard, caption))


def watch_demo(url: str) -> list[tuple[float, str]]:
    """What ``vivace demo`` drew, and when."""
    terminal = pexpect.spawn(
        VIVACE,
        ["demo", "--url", url, "--seconds", str(DEMO_SECONDS)],
        encoding="utf-8",
        timeout=DEMO_SECONDS + 60,
        dimensions=(DEMO_ROWS, DEMO_COLUMNS),
        env=os.environ | {"TERM": "xterm-256color"},
    )
    started = time.perf_counter()
    heard: list[tuple[float, str]] = []
    with contextlib.suppress(pexpect.EOF):
        while True:
            text = terminal.read_nonblocking(65536)
            heard.append((time.perf_counter() - started, text))
    return heard


def demo_film(heard: list[tuple[float, str]], caption: str) -> str:
    """The screens one after the other, then the summary below the last of them."""
    drawn, rest = scenes(heard)
    first = drawn[0].when
    done = next((each.when for each in drawn if any("applied" in row for row in each.rows)), None)
    shown: list[Scene] = []
    for scene in drawn:
        at = scene.when - first
        if done is not None and scene.when > done + 2:
            at = done + 2 - first + (scene.when - done - 2) / DEMO_LAPSE
        if not shown or at - shown[-1].when >= DEMO_FRAME:
            shown.append(Scene(at, scene.rows))
    summary = rest.strip("\n").split("\n")
    last = [*shown[-1].rows[: DEMO_ROWS - 1], "", *summary]  # all but its line of keys
    return film([*shown, Scene(shown[-1].when + 3, last)], DEMO_COLUMNS, caption)


# -- the editor -----------------------------------------------------------------------------------

OPENED = EDITED + "\n\n# What is in stock, by name.\n"
TYPED = "def in_stock(stock: dict[str, int]) -> list[str]:\n"  # the editor indents
EDITOR_SCREENS = "editor-completion", "editor-instruction", "editor-edited"


def editor() -> None:
    with server():
        for name, png in zip(EDITOR_SCREENS, in_editor(), strict=True):
            (PICTURES / f"{name}.png").write_bytes(png)


def in_editor() -> Iterator[bytes]:
    """Ghost text for a function that is begun, then an edit of a method by instruction."""
    sys.path.insert(0, str(ROOT))
    from tests.support.vscode import VivaceProgram, VSCode, extension

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = VivaceProgram(folder / "bin")
        machine = {"vivace.command": str(program.path), "vivace.address": URL}
        shot = folder / "shot.png"
        with VSCode(folder, extension(folder), machine) as code:

            def screenshot() -> bytes:
                code.do("screenshot", str(shot))
                return shot.read_bytes()

            code.do("resize", 860, 560)
            code.do("bePatient", 120)  # two cores, which the browser needs too
            code.trust()
            code.press("Control+b")
            code.open("settings.py", OPENED)
            code.wait_for_status("runs")
            code.type(TYPED, per_second=8)
            code.wait_for_ghost("return")
            yield screenshot()
            code.press(
                "Tab",
                "Control+Home",
                *["ArrowDown"] * EDITED[: EDITED.index("def get")].count("\n"),
            )
            code.press("Shift+ArrowDown", "Shift+ArrowDown", "Control+k", "Control+e")
            code.do("waitForInput")
            code.type(EDIT)
            yield screenshot()
            code.press("Enter")
            code.do("waitForCode", "default")
            code.do("waitForNoHunks")
            yield screenshot()


UNSAFE = """\
\"\"\"Users of a shop.\"\"\"

import sqlite3

from flask import Flask, request

app = Flask(__name__)


@app.get("/user")
def user():
    name = request.args["name"]
    db = sqlite3.connect("shop.db")
"""
TYPED_UNSAFE = "rows = db.execute(f\"select * from users where name = '{name}'\")\n"


def findings() -> None:
    """A query that is put together from a request, marked when its line is left."""
    sys.path.insert(0, str(ROOT))
    from tests.support.vscode import VivaceProgram, VSCode, extension

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = VivaceProgram(folder / "bin")
        machine = {"vivace.command": str(program.path), "vivace.address": URL}
        with VSCode(folder, extension(folder), machine) as code:
            code.do("resize", 860, 560)
            code.do("bePatient", 120)
            code.trust()
            code.press("Control+b")
            code.open("shop.py", UNSAFE)
            code.press("Control+End")
            code.type(f"    {TYPED_UNSAFE}", per_second=8)
            code.do("waitForMarks", 1)
            code.press("ArrowUp", "End", "ArrowLeft", "ArrowLeft", "ArrowLeft")
            code.press("Control+k", "Control+i")  # what is said of it
            time.sleep(2)
            code.do("screenshot", str(PICTURES / "editor-finding.png"))


# -- the tour -------------------------------------------------------------------------------------


def whole_tour() -> None:
    os.environ["PATH"] = f"{Path(VIVACE).parent}{os.pathsep}{os.environ['PATH']}"
    caption = f"{real_run('llama.cpp')} Waits are cut to {tour.WAIT:g} seconds."
    save("tour", film(tour.tour(MODEL, in_editor), tour.COLUMNS, caption))


def main() -> None:
    recordings = {
        "first-run": first_run,
        "redirect": redirect,
        "restart": restart,
        "edit": edit,
        "demo": demo,
        "editor": editor,
        "findings": findings,
        "tour": whole_tour,
    }
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or recordings:
        if name not in recordings:
            sys.exit(f"picture: no recording is called {name}; there are: {', '.join(recordings)}")
        recordings[name]()
        print(f"docs/pictures: {name} is new", flush=True)


if __name__ == "__main__":
    main()
