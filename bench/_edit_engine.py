"""A Responses endpoint with a real model behind it, for the benchmarks of edits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from bench import _files
from bench._peers import running
from bench._server import free_port, served
from vivace.protocol.items import Item

__all__ = ["Answers", "Endpoint", "Reply", "serving"]

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
context = 8192
slots = 1
"""

_VLLM = """
[[engines]]
name = "vllm"
kind = "vllm"
model = "{model}"
path = "{path}"
context = 8192
{drafts}
[engines.arguments]
dtype = "bfloat16"
enforce_eager = true
max_num_seqs = 16
block_size = 32
[engines.environment]
HF_HUB_OFFLINE = "1"
VLLM_CPU_KVCACHE_SPACE = "2"
VLLM_CPU_OMP_THREADS_BIND = "0-1"
VLLM_LOGGING_LEVEL = "WARNING"
"""


@dataclass(frozen=True)
class Reply:
    text: str
    seconds: float
    tokens: int
    complete: bool


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
        tokens = response["usage"]["output_tokens"]
        return Reply(text, seconds, tokens, response["status"] == "completed")


class Answers:
    """An endpoint's answers, kept in a file: a run that was cut off goes on from what stands there.

    A request is known by all that it says, so that answers to other prompts are never taken for it.
    """

    def __init__(self, endpoint: Endpoint, path: Path | None) -> None:
        self.model = endpoint.model
        self._endpoint, self._path = endpoint, path
        self._one_writes = threading.Lock()
        self._known: dict[str, Reply] = {}
        if path is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                entry = json.loads(line)
                self._known[entry["key"]] = Reply(**entry["reply"])

    def ask(self, items: Sequence[Item], prediction: str, most: int) -> Reply:
        asked = msgspec.json.encode([self.model, list(items), prediction, most])
        key = hashlib.sha256(asked).hexdigest()
        if key not in self._known:
            self._known[key] = self._endpoint.ask(items, prediction, most)
            if self._path is not None:
                line = json.dumps({"key": key, "reply": asdict(self._known[key])})
                with self._one_writes, self._path.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")
        return self._known[key]


@contextlib.contextmanager
def serving(engine: str, model: str, *, drafts: bool = True) -> Iterator[Endpoint]:
    """A gateway of its own with this engine (``vllm`` or ``llamacpp``) and model."""
    if engine == "llamacpp":
        config = _HEAD + _LLAMACPP.format(model=model, path=_files.model(model))
        with served(config) as (port, _):
            yield Endpoint(f"http://127.0.0.1:{port}", model)
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vivace.toml"
        found = _files.vllm_model(model)
        line = 'speculation = "edits"' if drafts else ""
        text = _HEAD.format(port=port) + _VLLM.format(model=model, path=found, drafts=line)
        path.write_text(text)
        command = [str(_files.vllm_python()), "-m", "vivace.cli", "serve", "-c", str(path)]
        with running(command, port, "/readyz"):
            yield Endpoint(f"http://127.0.0.1:{port}", model)
