"""What this machine has to run a model on."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys

from msgspec import Struct

from vivace.cpus import usable_cpus
from vivace.memory import free_memory, total_memory
from vivace.models import Kind

__all__ = ["Machine", "inspect"]


class Machine(Struct, frozen=True, kw_only=True):
    kind: Kind
    memory: int
    """Bytes that a model can be put into: of the GPUs together, or of the machine."""
    available: int
    """Bytes of it that nothing uses now."""
    cores: int
    gpu: str | None = None
    gpus: int = 0

    def describe(self) -> str:
        gigabytes = self.memory / (1 << 30)
        if self.kind == "nvidia":
            return f"{self.gpu} with {gigabytes:.0f} GiB"
        what = "Apple silicon" if self.kind == "apple" else "no GPU"
        return f"{self.cores} cores, {gigabytes:.0f} GiB of memory, {what}"


def inspect() -> Machine:
    cores = usable_cpus()
    gpu = _nvidia()
    if gpu is not None:
        name, count, total, free = gpu
        return Machine(
            kind="nvidia", memory=total, available=free, cores=cores, gpu=name, gpus=count
        )
    apple = sys.platform == "darwin" and platform.machine() == "arm64"
    return Machine(
        kind="apple" if apple else "cpu",
        memory=total_memory(),
        available=free_memory(),
        cores=cores,
    )


def _nvidia() -> tuple[str, int, int, int] | None:
    """Name and number of all NVIDIA GPUs, and their total and free memory together."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    query = "--query-gpu=name,memory.total,memory.free"
    asked = [program, query, "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    rows = [line.split(", ") for line in answer.stdout.splitlines() if line.count(", ") == 2]
    if not rows:
        return None
    name = rows[0][0] if len(rows) == 1 else f"{len(rows)} x {rows[0][0]}"
    if not all(row[1].isdecimal() and row[2].isdecimal() for row in rows):
        # A GPU without memory of its own shares the machine's.
        return name, len(rows), total_memory(), free_memory()
    total, free = (sum(int(row[column]) for row in rows) << 20 for column in (1, 2))
    return name, len(rows), total, free
