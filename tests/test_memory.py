"""What may still be taken: by the machine's own word, and by control groups' files."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from vivace.memory import free_memory, total_memory

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="control groups are Linux's")

MIB = 1 << 20


def system(root: Path, files: dict[str, int | str], own: str = "0::/pod/box\n") -> Path:
    """``files`` by their path under the control groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    (root / "proc/meminfo").write_text("MemTotal: 9999999 kB\nMemAvailable: 204800 kB\n")
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


def test_this_machine_has_some() -> None:
    assert 0 < free_memory() <= total_memory() <= psutil.virtual_memory().total


def test_without_limits_the_machines_word_counts(tmp_path: Path) -> None:
    root = system(tmp_path, {"pod/box/memory.max": "max", "pod/box/memory.current": 5})
    assert free_memory(root) == 200 * MIB


def test_a_container_has_what_its_limit_leaves_and_cached_files_can_go(tmp_path: Path) -> None:
    files: dict[str, int | str] = {
        "pod/box/memory.max": 128 * MIB,
        "pod/box/memory.current": 100 * MIB,
        "pod/box/memory.stat": f"anon {50 * MIB}\nactive_file {20 * MIB}\ninactive_file {MIB}",
    }
    root = system(tmp_path, files)
    assert total_memory(root) == 128 * MIB
    assert free_memory(root) == 49 * MIB


def test_a_group_around_ours_counts_too(tmp_path: Path) -> None:
    files: dict[str, int | str] = {"pod/memory.max": 64 * MIB, "pod/memory.current": 60 * MIB}
    assert free_memory(system(tmp_path, files)) == 4 * MIB


def test_the_older_version_of_control_groups_counts_too(tmp_path: Path) -> None:
    files: dict[str, int | str] = {
        "memory/memory.limit_in_bytes": 64 * MIB,
        "memory/memory.usage_in_bytes": 70 * MIB,
    }
    assert free_memory(system(tmp_path, files, "3:memory:/docker/abc\n")) == 0


def test_where_nothing_is_said_all_there_is_counts(tmp_path: Path) -> None:
    assert free_memory(tmp_path) == total_memory(tmp_path)
