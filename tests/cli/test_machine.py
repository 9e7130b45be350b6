"""What is found of the machine, with a GPU's own program played by a script."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from vivace.cli.machine import Machine, inspect

MIB, GIB = 1 << 20, 1 << 30

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the scripts are for sh")


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder where programs are looked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def nvidia(programs: Path, *rows: str, code: int = 0) -> None:
    program = programs / "nvidia-smi"
    said = "".join(f"echo '{row}'\n" for row in rows)
    program.write_text(f"#!/bin/sh\n{said}exit {code}\n")
    program.chmod(0o755)


def test_without_a_gpu_the_machines_own_memory_counts() -> None:
    machine = inspect()
    assert machine.kind in ("cpu", "apple")
    assert 0 < machine.available <= machine.memory <= psutil.virtual_memory().total
    assert machine.cores >= 1
    assert machine.gpu is None


def test_the_memory_of_a_gpu_counts_where_there_is_one(programs: Path) -> None:
    nvidia(programs, "NVIDIA GeForce RTX 4090, 24564, 23000")
    machine = inspect()
    assert machine.kind == "nvidia"
    assert machine.memory == 24564 * MIB
    assert machine.available == 23000 * MIB
    assert machine.describe() == "NVIDIA GeForce RTX 4090 with 24 GiB"


def test_several_gpus_count_together(programs: Path) -> None:
    nvidia(programs, "NVIDIA L40S, 46068, 45000", "NVIDIA L40S, 46068, 40000")
    machine = inspect()
    assert machine.memory == 2 * 46068 * MIB
    assert machine.available == 85000 * MIB
    assert machine.gpu == "2 x NVIDIA L40S"


@pytest.mark.parametrize(
    ("rows", "code"),
    [((), 0), (("NVIDIA-SMI has failed because it could not talk to the driver.",), 9)],
    ids=["none", "no driver"],
)
def test_a_gpu_that_does_not_answer_is_none(
    programs: Path, rows: tuple[str, ...], code: int
) -> None:
    nvidia(programs, *rows, code=code)
    assert inspect().kind != "nvidia"


def test_a_gpu_that_shares_the_machines_memory_is_still_a_gpu(programs: Path) -> None:
    """Such a one has no memory of its own to tell of."""
    nvidia(programs, "NVIDIA GB10, [N/A], [N/A]")
    machine = inspect()
    assert machine.kind == "nvidia"
    assert machine.gpu == "NVIDIA GB10"
    assert 0 < machine.available <= machine.memory <= psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (
            Machine(kind="cpu", memory=16 * GIB, available=8 * GIB, cores=8),
            "8 cores, 16 GiB of memory, no GPU",
        ),
        (
            Machine(kind="apple", memory=32 * GIB, available=8 * GIB, cores=10),
            "10 cores, 32 GiB of memory, Apple silicon",
        ),
    ],
    ids=["cpu", "apple"],
)
def test_a_machine_is_told_in_words(machine: Machine, words: str) -> None:
    assert machine.describe() == words
