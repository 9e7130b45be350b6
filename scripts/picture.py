"""Records a real first run as an SVG: nothing in the picture is typed in by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/pictures/first-run.svg"
VIVACE = str(ROOT / ".venv/bin/vivace")
MODEL = "qwen2.5-coder-0.5b"
PORT = "8765"
QUESTION = "Write a Python function that reverses the words of a sentence. Only the code."


def main() -> None:
    console = Console(record=True, width=100, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
    up = subprocess.Popen(
        [VIVACE, "up", "--model", MODEL, "--port", PORT],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    threading.Timer(180, up.kill).start()
    show(console, f"vivace up --model {MODEL}")
    assert up.stdout is not None
    for line in up.stdout:
        console.print(Text(line.rstrip()))
        if "Ctrl-C ends it" in line:
            break
    show(console, f'vivace ask "{QUESTION}"')
    answer = subprocess.run(
        [VIVACE, "ask", "--max-tokens", "220", QUESTION],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    console.print(Text(answer.stdout.rstrip()))
    console.print(Text(answer.stderr.rstrip(), style="dim"))
    up.send_signal(signal.SIGINT)
    up.wait(30)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(PICTURE), title="vivace")
    print(f"{PICTURE.relative_to(ROOT)} is new")
    sys.stdout.flush()
    os._exit(0)


def show(console: Console, command: str) -> None:
    console.print()
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))


if __name__ == "__main__":
    main()
