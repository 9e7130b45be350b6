"""``vivace up``: how long from nothing to ready and to the first token, cold and warm.

Cold is a home that has never seen Vivace: the file is downloaded from a hub on loopback, so a real
network's time comes on top. Warm is the same home again. The file stays in the system's page cache
throughout, as it does for whoever has just downloaded it.
"""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.support.hub import CleanHome, Hub
from tests.support.ports import free_port

from bench import _files
from bench._report import Report
from vivace import models
from vivace.client.connection import open_connection

MODEL = "qwen2.5-coder-0.5b"


class Times(NamedTuple):
    """Seconds since the command was entered."""

    ready: float
    first_token: float


async def first_token(url: str) -> None:
    async with open_connection(url) as connection:
        async for _ in connection.turn(input="Say hello.", max_output_tokens=8, store=False):
            return


def run(home: CleanHome) -> Times:
    port = free_port()
    began = time.perf_counter()
    with subprocess.Popen(
        home.command("up", "--model", MODEL, "--port", str(port)),
        cwd=home.folder,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.split()[:1] == ["ready"]:
                    break
            else:
                raise RuntimeError("vivace up ended before it was ready")
            ready = time.perf_counter() - began
            asyncio.run(first_token(f"http://127.0.0.1:{port}/v1"))
            return Times(ready, time.perf_counter() - began)
        finally:
            process.terminate()
            process.stdout.read()


def main() -> None:
    report, options = Report.from_arguments(
        "up",
        "from the command to ready and to the first token",
        "xllamacpp",
        runs=(3, "how many runs of each kind"),
    )
    row = models.find(MODEL)
    assert row is not None
    assert row.gguf is not None
    file = _files.model(MODEL)
    cold: list[Times] = []
    warm: list[Times] = []
    with Hub() as hub, tempfile.TemporaryDirectory(prefix="vivace-bench-") as folder:
        hub.hold(row.gguf.repo, file, sha256=row.gguf.sha256)
        for number in range(options.runs):
            home = CleanHome(Path(folder) / str(number), hub.url)
            home.folder.mkdir()
            cold.append(run(home))
            warm.append(run(home))
            home.clear()
    report.say("model", f"{MODEL} ({row.gguf.size / 1e6:.0f} MB)")
    report.say("cold means", "an empty home, and the file from a hub on loopback")
    report.say("warm means", "the same home again, with the file in its cache")
    for name, times in (("cold", cold), ("warm", warm)):
        report.spread(f"to ready, {name}", [each.ready for each in times], "s")
        report.spread(f"to the first token, {name}", [each.first_token for each in times], "s")
    report.end()


if __name__ == "__main__":
    main()
