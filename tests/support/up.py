"""``vivace up`` as a process, with a real llama.cpp and model or with a played llama-server."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from types import TracebackType

import httpx
import psutil
import pytest

from tests.support import llama_server
from tests.support.files import model_file
from tests.support.hub import CleanHome
from tests.support.ports import free_port
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S, eventually

__all__ = ["MODEL", "SAID_ALL", "Up", "play_llama_server", "real_model"]

MODEL = "qwen2.5-coder-0.5b"
SAID_ALL = "Ctrl-C ends it"
"""The last line before requests of others; a measurement of drafts can follow."""
LOADING_S = 600.0
"""Seconds that a busy machine may take to load a real model, or to answer with it."""


def real_model() -> Path:
    """Return the real weights, which tests read and link to and never write; or skip the test."""
    if importlib.util.find_spec("xllamacpp") is None and shutil.which("llama-server") is None:
        pytest.skip("needs llama.cpp: pip install 'vivace[llamacpp]'")
    return model_file(MODEL)


def play_llama_server(home: CleanHome, *, first: str = "") -> None:
    """Put a played llama-server first on the PATH of ``home``; ``first`` is what it runs first."""
    programs = home.folder / "played"
    programs.mkdir(exist_ok=True)
    llama_server.put_into(programs, first=first)
    home.environment["PATH"] = os.pathsep.join((str(programs), home.environment["PATH"]))


class Up:
    """``with Up(home, "--model", ...) as up``: a ``vivace up`` until the block ends.

    Its output is kept as it comes, in ``said``.
    """

    def __init__(self, home: CleanHome, *arguments: str) -> None:
        self.port = free_port()
        self.said = ""
        self.process = subprocess.Popen(
            home.command("up", "--port", str(self.port), *arguments),
            cwd=home.folder,
            env=home.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def says(self, text: str) -> None:
        """Wait for a text to appear."""
        with contextlib.suppress(AssertionError):
            eventually(lambda: text in self.said or self.process.poll() is not None, LOADING_S)
        if self.process.poll() is not None:
            self._listening.join()
        assert text in self.said, self.said

    def answers(self, prompt: str = "Say hello.", tokens: int = 8) -> None:
        """Have a short answer."""
        with Socket(self.url) as client:
            client.create(prompt, max_output_tokens=tokens, store=False)
            kinds = [event["type"] for event in client.until_end(LOADING_S)]
        assert "response.output_text.delta" in kinds, kinds

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url[:-3]}/readyz", timeout=PATIENCE_S).status_code == 200
        except httpx.TransportError:
            return False

    def engine(self) -> psutil.Process:
        """Return llama.cpp itself: the innermost of the processes that were started for it."""
        *_, last = psutil.Process(self.process.pid).children(recursive=True)
        assert "--host" in last.cmdline()
        return last

    def seconds(self, of: str) -> float:
        """Return a time that it told of itself: until it was ``ready``, or ``first`` answered."""
        told = re.search(rf"{of}\s+after (\d+\.\d+) s", self.said)
        assert told is not None, self.said
        return float(told[1])

    def interrupt(self) -> int:
        """Send Ctrl-C's signal, and return the exit status."""
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE_S)
        self._listening.join()
        return code

    def __enter__(self) -> Up:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._listening.join()
