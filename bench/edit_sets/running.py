"""Runs programs that were not written here: a clean environment, no network, and not for long."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from bench.edit_sets.errors import NoTool

__all__ = ["COMPILE_SECONDS", "RUN_SECONDS", "execute", "tool"]

# Of processor time, so that a busy machine changes no verdict; by the clock it may take longer.
RUN_SECONDS = 10
COMPILE_SECONDS = 60
_PATIENCE = 5
_SHOWN = 1500
_DEBIAN = {
    "node": "nodejs",
    "cc": "gcc",
    "c++": "g++",
    "go": "golang-go",
    "rustc": "rustc",
    "javac": "openjdk-17-jdk-headless",
    "java": "openjdk-17-jdk-headless",
}


@cache
def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NoTool(f"{name} is not installed; on Debian: apt-get install {_DEBIAN[name]}")
    if name == "rustc":  # what rustup puts there finds the compiler by the environment we clean
        asked = [found, "--print", "sysroot"]
        root = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        return str(Path(root) / "bin" / "rustc")
    return found


@cache
def _without_network() -> tuple[str, ...]:
    ways = (("unshare", "--net"), ("unshare", "--map-root-user", "--net"))
    for way in ways if shutil.which("unshare") else ():
        if subprocess.run([*way, "true"], capture_output=True, check=False).returncode == 0:
            return way
    return ()


def execute(
    command: Sequence[str | Path],
    folder: Path,
    seconds: int,
    environment: Mapping[str, str] | None = None,
    within: Path | None = None,
) -> str | None:
    """What went wrong, or None if it ended with 0 in time; it may write into the folder."""
    scratch = folder / ".scratch"
    scratch.mkdir(exist_ok=True)
    clean = {"PATH": os.environ.get("PATH", ""), "LANG": "C.UTF-8"}
    clean |= {"HOME": str(scratch), "TMPDIR": str(scratch), **(environment or {})}
    isolated = [*_without_network(), *map(str, command)]
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -t {seconds}; exec "$@"', "sh", *isolated],
        cwd=within or folder,
        env=clean,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=seconds * _PATIENCE)
    except subprocess.TimeoutExpired:
        return f"did not end within {seconds * _PATIENCE} s"
    finally:
        _end(process)
    if process.returncode == 0:
        return None
    if process.returncode in {-signal.SIGXCPU, -signal.SIGKILL}:
        return f"needed more than {seconds} s of processor time"
    text = said.decode(errors="replace").replace(str(folder), "")
    for part in command:  # a trace goes through helpers of ours, wherever they are
        if isinstance(part, Path):
            text = text.replace(f"{part.parent}/", "")
    text = text.strip()
    return text[-_SHOWN:] or f"exit {process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """What it started must not outlive it either."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
