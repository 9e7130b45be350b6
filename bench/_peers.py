"""The servers that benchmarks compare, each with a vLLM of equal settings where it has one."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from bench._bare_vllm import SETTINGS
from bench._server import wait_until_ready

ROOT = Path(__file__).parents[1]
MODEL = "local-model"
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_ENABLE_RESPONSES_API_STORE": "1",
    # It listens on loopback for the length of this run, and keys would be one more cost to it.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "PYTHONPATH": f"{ROOT}/src:{ROOT}",
}

CONFIG = """
version = 1
[server]
port = {port}
[store]
path = ":memory:"
[[engines]]
name = "vllm"
kind = "vllm"
model = "{model}"
path = "{path}"
context = {context}
{drafts}
[engines.arguments]
{arguments}
"""


@contextlib.contextmanager
def running(
    command: list[str], port: int | None, ready: str, source: Path = ROOT / "src"
) -> Iterator[subprocess.Popen[str]]:
    """``source`` is the code of ours that it may use."""
    quiet = None if os.environ.get("VIVACE_BENCH_LOGS") else subprocess.DEVNULL
    process = subprocess.Popen(
        command,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": f"{source}:{ROOT}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if port is None else quiet,
        stderr=quiet,
        text=True,
    )
    try:
        if port is not None:
            wait_until_ready(port, process, ready, 300)
        else:
            assert process.stdout is not None
            while process.stdout.readline().strip() != ready:
                if process.poll() is not None:
                    raise RuntimeError(f"{command[1]} did not start")
        yield process
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children(recursive=True):
                child.terminate()
        process.terminate()
        process.wait(30)


def serve_bare(
    python: str, model: Path, **more: Any
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """``more``, here and below, are further arguments of vLLM."""
    command = [python, "-m", "bench._bare_vllm", str(model), json.dumps(SETTINGS | more)]
    return running(command, None, "ready")


def serve_vllm(
    python: str, model: Path, port: int, **more: Any
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    flags = []
    for name, value in (SETTINGS | more).items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            flags += [flag] if value else []
        else:
            flags += [flag, str(value)]
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model)]
    command += ["--served-model-name", MODEL, "--port", str(port), "--host", "127.0.0.1"]
    return running([*command, "--disable-uvicorn-access-log", *flags], port, "/health")


def serve_vivace(
    python: str,
    model: Path,
    port: int,
    folder: Path,
    source: Path = ROOT / "src",
    *,
    drafts: bool = False,
    **more: Any,
) -> contextlib.AbstractContextManager[subprocess.Popen[str]]:
    """From the code in ``source``; with ``drafts`` answers are drafted from what they rewrite."""
    given = SETTINGS | more
    text = CONFIG.format(
        port=port,
        model=MODEL,
        path=model,
        context=given.pop("max_model_len"),
        drafts='speculation = "edits"' if drafts else "",
        arguments="\n".join(f"{name} = {json.dumps(value)}" for name, value in given.items()),
    )
    path = folder / f"vivace-{port}.toml"
    path.write_text(text)
    command = [python, "-m", "vivace.cli", "serve", "-c", str(path)]
    return running(command, port, "/readyz", source)


def serve_litellm(
    program: str, port: int, behind: int, folder: Path, model: str = MODEL
) -> contextlib.AbstractContextManager[Any]:
    path = folder / "litellm.yaml"
    path.write_text(
        "model_list:\n"
        f"  - model_name: {model}\n"
        "    litellm_params:\n"
        f"      model: openai/{model}\n"
        f"      api_base: http://127.0.0.1:{behind}/v1\n"
        "      api_key: none\n"
        "litellm_settings:\n  telemetry: false\n"
    )
    command = [program, "--config", str(path), "--port", str(port), "--host", "127.0.0.1"]
    return running([*command, "--telemetry", "False"], port, "/health/liveliness")
