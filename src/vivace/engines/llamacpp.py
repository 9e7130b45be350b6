"""llama.cpp's own server, started, watched and restarted by us.

The work itself goes over its OpenAI-compatible API, which it offers to whoever reaches it, pages in
a browser included. So it listens on no port but on a Unix socket, in a folder that only this user
may enter. When the process dies, requests that were running end with ``EngineDied``; it is started
again, with growing pauses while that fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import httpx2

from vivace.conversation.deltas import Delta
from vivace.cpus import usable_cpus
from vivace.engines.base import Card, Continues, Work
from vivace.engines.openai import OpenAIEngine
from vivace.errors import ConfigError, EngineAbsent, EngineDied
from vivace.extras import how_to_install
from vivace.interpreter import NEUTRAL_FOLDER, python_command
from vivace.models import Fim, Thinking
from vivace.protocol.items import Item
from vivace.supervisor import Supervisor

__all__ = ["LlamaCppEngine", "accelerators", "llamacpp_command"]

log = logging.getLogger("vivace.llamacpp")

_ROOT = "http://localhost"
"""What its server is called in requests; nothing looks the name up."""
_NOT_FOR_IT = frozenset({"LLAMA_API_KEY", "LLAMA_ARG_API_PREFIX"})
"""Settings of another llama-server of this person, which would shut us out of ours."""
_SETTLED = 60
"""Seconds after which a server that has made its socket listens on it."""
_LOG_PREFIX = re.compile(r"^[\d.]+ [A-Z] ")
_COMPLAINT = re.compile(r"error|fail|couldn't", re.IGNORECASE)


def llamacpp_command() -> list[str]:
    """How to start llama.cpp's server here; its options follow."""
    found = _llama_server()
    if found is not None:
        return python_command("-m", "vivace.guard", found, "--jinja", "--slots")
    if importlib.util.find_spec("xllamacpp") is not None:
        return python_command("-m", "vivace.engines.xllamacpp_server")
    raise ConfigError(
        "llama.cpp is not installed. Install it so that llama-server is on PATH (brew install "
        f"llama.cpp, winget install llama.cpp), or run: {how_to_install('llamacpp')}"
    )


def _llama_server() -> str | None:
    found = shutil.which("llama-server")
    return found and os.path.abspath(found)  # noqa: PTH100 - links are kept


def _output(command: Sequence[str]) -> str:
    """Return what a program of llama.cpp prints; nothing where it cannot be run."""
    try:
        return subprocess.run(  # noqa: S603 - a program that was looked up, or our own
            command, capture_output=True, text=True, timeout=60, check=False, cwd=NEUTRAL_FOLDER
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _drafting(name: str) -> tuple[str, ...]:
    """What makes it draft; nothing where the server found here is too old to."""
    found = _llama_server()
    if found is not None and "ngram-simple" not in _output([found, "--help"]):
        log.warning("%s: this llama-server is too old to draft repeated text", name)
        return ()
    return ("--spec-type", "ngram-simple")


def accelerators() -> list[str]:
    """The GPUs that the llama.cpp found here can use."""
    found = _llama_server()
    if found is not None:
        asked = [found, "--list-devices"]
    else:
        listed = "import xllamacpp as x; print('\\n  '.join(['', *map(str, x.get_device_info())]))"
        asked = python_command("-c", listed)
    lines = (line.strip() for line in _output(asked).splitlines() if line.startswith("  "))
    return [line for line in lines if "CPU" not in line.upper()]


class LlamaCppEngine:
    continues: Continues = "text"
    counts = False

    def __init__(
        self,
        name: str,
        card: Card,
        path: Path,
        *,
        fim: Fim | None = None,
        slots: int = 2,
        gpu_layers: int = 999,
        batch_size: int = 512,
        prompt_cache_mib: int = 2048,
        drafts: bool = False,
        thinking: Thinking | None = None,
        template: Path | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        """``card.context`` is what each of the ``slots`` gets. ``batch_size``: how many tokens of
        prompts are read before anything else is looked at. ``prompt_cache_mib``: memory for what
        has lost its slot. ``drafts``: repeated text is drafted and checked many tokens at a time.
        ``thinking``: how the model is told to think, if it is known. ``template``: a chat template
        instead of the model's own. ``supervisor`` keeps the watch alive."""
        self.name = name
        self.cards: Sequence[Card] = (card,)
        self._path = path.absolute()  # it runs in another folder
        self.socket = _socket_path()
        self._command = [
            *llamacpp_command(),
            *("--model", str(self._path)),
            *("--host", str(self.socket)),
            *("--ctx-size", str(card.context * slots), "--parallel", str(slots)),
            *("--batch-size", str(batch_size)),
            *("--threads", str(usable_cpus()), "--n-gpu-layers", str(gpu_layers)),
            *(_drafting(name) if drafts else ()),
            *(("--chat-template-file", str(template.absolute())) if template else ()),
        ]
        # Servers that are too old for it would refuse the option; the variable they pass over.
        self._environment = {"LLAMA_ARG_CACHE_RAM": str(prompt_cache_mib)}
        # Its grammar lets a model that was told to call a tool answer with text all the same.
        self._api = OpenAIEngine(
            name,
            card,
            f"{_ROOT}/v1",
            fim=fim,
            forces_calls=False,
            llamacpp=True,
            thinking=thinking,
            socket=self.socket,
        )
        self._process: asyncio.subprocess.Process | None = None
        self._supervisor = supervisor or Supervisor()
        self._watching: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._said: deque[str] = deque(maxlen=40)
        self._ready = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        _sweep(self.socket.parents[1])
        await self._api.start()
        await self._launch()
        self._watching = self._supervisor.watch(f"engine-{self.name}", self._watch)

    async def stop(self) -> None:
        self._ready = False
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        if self._process is not None:
            await _end(self._process)
        await self._api.stop()
        self._forget_socket()

    def healthy(self) -> bool:
        return self._ready

    def running(self) -> int:
        return self._api.running()

    def count(self, items: Sequence[Item], model: str) -> int:
        return self._api.count(items, model)

    def metrics(self) -> bytes:
        return b""

    def generate(self, work: Work) -> AsyncGenerator[Delta, None]:
        if not self._ready:
            raise EngineAbsent(f"{self.name} is not running.")
        return self._api.generate(work)

    # -- the process ------------------------------------------------------------------------------

    async def _launch(self) -> None:
        """Start the process and wait until it has loaded the model."""
        self._said.clear()
        try:
            self._process = process = await self._spawn()
        except OSError as error:
            raise EngineDied(f"llama.cpp cannot be started: {error}.") from error
        self._listening = asyncio.create_task(self._listen(process))
        try:
            await self._loaded(process, self._listening)
        except Exception:
            await _end(process)
            raise
        self._ready = True

    async def _spawn(self) -> asyncio.subprocess.Process:
        self._forget_socket()
        self.socket.parent.mkdir(mode=0o700)  # ours, or it fails: whoever made it could replace it
        return await asyncio.create_subprocess_exec(
            *self._command,
            env={
                **{name: value for name, value in os.environ.items() if name not in _NOT_FOR_IT},
                **self._environment,
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=NEUTRAL_FOLDER,
            # A terminal's Ctrl-C is for us; we end the engine when its answers are done.
            start_new_session=True,
        )

    def _forget_socket(self) -> None:
        shutil.rmtree(self.socket.parent, ignore_errors=True)

    async def _loaded(
        self, process: asyncio.subprocess.Process, listening: asyncio.Task[None]
    ) -> None:
        # vivace: ignore[python-tls-argument-off] a socket of our own, which has no TLS
        by_socket = httpx2.AsyncHTTPTransport(uds=str(self.socket), verify=False)
        async with httpx2.AsyncClient(transport=by_socket, timeout=5, trust_env=False) as http:
            while not await self._answers(http):
                if process.returncode is not None:
                    await listening
                    raise EngineDied(
                        f"llama.cpp could not load {self._path}: {self._reason()}. If the file is "
                        "spoilt, delete it or name another (--model, or path in vivace.toml)."
                    )
                await asyncio.sleep(0.1)

    async def _answers(self, http: httpx2.AsyncClient) -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return (await http.get(f"{_ROOT}/health")).status_code == 200
        return False

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Keep the last lines it says, to explain a failure; the rest goes nowhere."""
        assert process.stdout is not None
        line = b"-"
        while line:
            with contextlib.suppress(ValueError):  # a line too long to be kept
                line = await process.stdout.readline()
                self._said.append(line.decode(errors="replace").strip())

    def _reason(self) -> str:
        lines = [_LOG_PREFIX.sub("", line) for line in self._said]
        complaints = [
            line for line in lines if re.search("error|fail|couldn't", line, re.IGNORECASE)
        ]
        return (complaints or list(self._said) or ["it said nothing"])[0][:300]

    async def _watch(self) -> None:
        """Whenever it dies, start it again; where that fails, the supervisor has us try later."""
        while True:
            assert self._process is not None
            code = await self._process.wait()
            self._ready = False
            log.warning("%s died with exit code %s; starting it again", self.name, code)
            try:
                await self._launch()
            except EngineDied as error:
                log.warning("%s: %s", self.name, str(error))
                raise
            log.info("%s is running again", self.name)


async def _end(process: asyncio.subprocess.Process) -> None:
    """It ends with its standard input; when it does not, by force."""
    assert process.stdin is not None
    for end in (process.stdin.close, process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError):
            end()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), 5)
            return


def _sweep(folder: Path) -> None:
    """Take away the sockets of gateways that were killed and could not do it themselves."""
    for path in folder.glob("vivace-*/llama.sock"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _SETTLED and not _is_listened_to(path):
                path.unlink()
                path.parent.rmdir()


def _is_listened_to(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.setblocking(False)
        try:
            caller.connect(str(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:  # many wait before us
            return True
    return True


def _socket_path() -> Path:
    """In a folder of its own, which is made when the server starts."""
    name = Path(f"vivace-{secrets.token_hex(8)}", "llama.sock")
    path = Path(tempfile.gettempdir(), name)
    # The system takes no longer address: 104 bytes on macOS, 108 on Linux, with the final zero.
    return path if len(os.fsencode(path)) < 104 else Path("/tmp", name)  # noqa: S108
