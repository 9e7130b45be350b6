"""A Responses endpoint with a real model behind it, for the benchmarks of edits."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec
from tests.support.ports import free_port

from bench import _files
from bench._peers import running
from bench._server import served
from vivace.protocol.items import Item

__all__ = ["Endpoint", "Reply", "TooLong", "serving"]

_HEAD = """
version = 1
[server]
port = {port}
[store]
path = ":memory:"
"""

_LLAMACPP = """
[[engines]]
name = "llama.cpp"
kind = "llamacpp"
model = "{model}"
path = "{path}"
context = {context}
slots = 1
{drafts}
"""

_VLLM = """
[[engines]]
name = "vllm"
kind = "vllm"
model = "{model}"
path = "{path}"
context = {context}
{drafts}
[engines.arguments]
enforce_eager = true
max_num_seqs = 16
block_size = 32
[engines.environment]
HF_HUB_OFFLINE = "1"
VLLM_CPU_KVCACHE_SPACE = "2"
VLLM_CPU_OMP_THREADS_BIND = "0-1"
VLLM_LOGGING_LEVEL = "WARNING"
"""


class TooLong(Exception):
    """The model does not take so much; the message is the endpoint's."""


@dataclass(frozen=True)
class Reply:
    text: str
    seconds: float
    tokens: int
    complete: bool
    drafted: int = 0


@dataclass
class Endpoint:
    """Where all ways ask: greedily, and with the old text foretold."""

    url: str
    model: str
    http: httpx2.Client = field(default_factory=lambda: httpx2.Client(timeout=3600))

    def ask(self, items: Sequence[Item], prediction: str, most: int) -> Reply:
        body = {
            "model": self.model,
            "input": msgspec.to_builtins(list(items)),
            "temperature": 0,
            "max_output_tokens": most,
            "prediction": {"type": "content", "content": prediction},
            "store": False,
        }
        started = time.perf_counter()
        answer = self.http.post(f"{self.url}/v1/responses", json=body)
        seconds = time.perf_counter() - started
        if answer.status_code == 400 and "context_length_exceeded" in answer.text:
            raise TooLong(answer.json()["error"]["message"])
        if answer.status_code != 200:
            raise RuntimeError(f"the endpoint answered {answer.status_code}: {answer.text[:300]}")
        response: dict[str, Any] = answer.json()
        text = "".join(
            part["text"]
            for item in response["output"]
            if item["type"] == "message"
            for part in item["content"]
        )
        if response["status"] == "failed":
            raise RuntimeError(f"the model did not answer: {response['error']}")
        usage = response["usage"]
        drafted = usage["output_tokens_details"].get("accepted_prediction_tokens", 0)
        complete = response["status"] == "completed"
        return Reply(text, seconds, usage["output_tokens"], complete, drafted)


@contextlib.contextmanager
def serving(
    engine: str, model: str, *, drafts: bool = True, context: int = 8192
) -> Iterator[Endpoint]:
    """A gateway of its own with this engine (``vllm`` or ``llamacpp``) and model."""
    if engine == "llamacpp":
        found = _files.model(model)
        line = 'speculation = "ngram"' if drafts else ""
        config = _HEAD + _LLAMACPP.format(model=model, path=found, context=context, drafts=line)
        with served(config) as (port, _):
            yield Endpoint(f"http://127.0.0.1:{port}", model)
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vivace.toml"
        found = _files.vllm_model(model)
        line = 'speculation = "edits"' if drafts else ""
        config = _HEAD.format(port=port)
        config += _VLLM.format(model=model, path=found, drafts=line, context=context)
        path.write_text(config)
        command = [str(_files.vllm_python()), "-m", "vivace.cli", "serve", "-c", str(path)]
        with running(command, port, "/readyz"):
            yield Endpoint(f"http://127.0.0.1:{port}", model)
