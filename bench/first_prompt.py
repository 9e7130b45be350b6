"""A long first prompt beside somebody's stream: how long the stream stands still.

One gateway has two engines. The scripted one streams a thousand tokens a second to a client that
writes down when each arrives. Then a conversation of a hundred thousand tokens, never seen before,
is sent to vLLM, which has to render and tokenise it. vLLM runs the real tokenizer and template on a
model of one layer with random weights: what is measured is the gateway, not the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

from tests.support.ports import free_port

from bench import _files
from bench._peers import ROOT, running
from bench._report import Report
from bench._socket import Client
from bench.against import earlier

CONFIG = """
version = 1
[server]
port = {port}
[limits]
body_megabytes = 32
[store]
path = ":memory:"
[[engines]]
name = "stream"
kind = "scripted"
model = "stream"
script = "script.toml"
rate = 1000
[[engines]]
name = "vllm"
kind = "vllm"
model = "reader"
path = "{model}"
context = 131072
[engines.arguments]
enforce_eager = true
load_format = "dummy"
hf_overrides = {{ num_hidden_layers = 1, max_position_embeddings = 131072 }}
max_num_seqs = 2
"""
SCRIPT = '[[replies]]\nthen = [{ do = "say", text = " word", times = 10000000 }]\n'
TURNS, CHARACTERS = 40, 4
"""Messages of the conversation; characters of source code that are a token to this tokenizer."""
QUIET, LOADED = "the stream alone", "beside the first prompt"


@contextlib.contextmanager
def served(python: str, source: Path) -> Iterator[int]:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        path = Path(folder, "vivace.toml")
        path.write_text(CONFIG.format(port=port, model=_files.vllm_model()))
        path.with_name("script.toml").write_text(SCRIPT)
        command = [python, "-m", "vivace.cli", "serve", "-c", str(path)]
        with running(command, port, "/readyz", source):
            yield port


def conversation(number: int, tokens: int) -> bytes:
    """An agent's conversation with many files in it, and unlike any other from its beginning on."""
    files = "".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    size = tokens * CHARACTERS // TURNS
    pieces = [files[start : start + size] for start in range(0, size * TURNS, size)]
    turns = [
        {"role": "assistant" if turn % 2 else "user", "content": f"{number}\n{piece}"}
        for turn, piece in enumerate(pieces)
    ]
    asked = [*turns, {"role": "user", "content": "Which of these is the longest?"}]
    body = {"model": "reader", "input": asked, "max_output_tokens": 1, "store": False}
    return json.dumps(body).encode()


async def ask(port: int, body: bytes) -> asyncio.StreamWriter:
    """Send a prepared request with as little work as can be: the same process keeps the time."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    return writer


class Stream:
    """Reads deltas and writes down the gaps between them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.gaps: list[float] = []

    async def read(self, seconds: float) -> list[float]:
        """The gaps of so many seconds, the one that goes beyond included."""
        gaps: list[float] = []
        began = last = time.perf_counter()
        while last - began < seconds:
            if (await self._client.event())["type"] == "response.output_text.delta":
                now = time.perf_counter()
                gaps.append(now - last)
                last = now
        return gaps


async def measure(port: int, options: Any) -> dict[str, list[list[float]]]:
    """The gaps of each round."""
    gaps: dict[str, list[list[float]]] = {QUIET: [], LOADED: []}
    async with Client.at(port) as client:
        await client.send("create", model="stream", input="go", store=False)
        stream = Stream(client)
        await stream.read(1)
        for number in range(options.rounds):
            body = conversation(number, options.tokens)
            gaps[QUIET].append(await stream.read(options.seconds))
            asked = await ask(port, body)
            gaps[LOADED].append(await stream.read(options.seconds))
            asked.close()  # and with it the work: reading the prompt would take minutes
            await stream.read(1)
    return gaps


def main() -> None:
    report, options = Report.from_arguments(
        "first-prompt",
        "the gap of a 1,000 tok/s stream beside a long first prompt on vLLM",
        rounds=(10, "how many prompts"),
        tokens=(100_000, "tokens of each prompt"),
        seconds=(2.0, "how long the stream is watched from each prompt on"),
        commit=("", "an earlier commit to measure first"),
        python=(str(_files.vllm_python()), "a Python that has vLLM"),
    )
    with contextlib.ExitStack() as stack:
        trees = {"": ROOT / "src"}
        if options.commit:
            trees = {f", {options.commit}": stack.enter_context(earlier(options.commit)), **trees}
        for name, source in trees.items():
            with served(options.python, source) as port:
                gaps = asyncio.run(measure(port, options))
            longest = {what: [max(each) for each in rounds] for what, rounds in gaps.items()}
            for what, rounds in gaps.items():
                report.spread(f"{what}{name}", list(chain(*rounds)), "ms", 1000)
                report.spread(f"{what}{name}, longest of a round", longest[what], "ms", 1000)
    middle, alone = (median(longest[what]) * 1000 for what in (LOADED, QUIET))
    report.goal(
        "the longest gap of a round: at most 50 ms at the median",
        met=middle <= 50,
        measured=f"{middle:.0f} ms, {alone:.0f} ms alone ({options.rounds} rounds)",
    )
    report.end()


if __name__ == "__main__":
    main()
