"""Affinity by the real system call; control groups by files as the kernel writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vivace.cli.machine import inspect
from vivace.cpus import usable_cpus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="affinity and cgroups are Linux's")

ALL = len(os.sched_getaffinity(0))


def system(root: Path, own: str, **files: str) -> Path:
    """``files`` by their path under the control groups, ``__`` for a slash and ``_`` for a dot."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(own)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def in_a_pinned_process(code: str) -> str:
    one = min(os.sched_getaffinity(0))
    pinned = f"import os; os.sched_setaffinity(0, {{{one}}}); {code}"
    asked = [sys.executable, "-c", pinned]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def test_a_pinned_process_counts_what_it_is_pinned_to() -> None:
    code = "from vivace.cpus import usable_cpus; print(usable_cpus())"
    assert in_a_pinned_process(code) == "1"


def test_llama_cpp_gets_no_more_threads_than_we_may_run() -> None:
    code = (
        "from pathlib import Path; from vivace.engines.base import Card; "
        "from vivace.engines.llamacpp import LlamaCppEngine as E; "
        "line = E('l', Card('m', 512), Path('m.gguf'))._command; "
        "print(line[line.index('--threads') + 1])"
    )
    pytest.importorskip("xllamacpp", reason="run: pip install 'vivace[llamacpp]'")
    assert in_a_pinned_process(code) == "1"


def test_the_machine_is_described_by_what_we_may_use() -> None:
    assert inspect().cores == usable_cpus()


def test_without_a_limit_all_we_are_pinned_to_count(tmp_path: Path) -> None:
    root = system(tmp_path, "0::/\n", **{"cpu.max": "max 100000\n"})
    assert usable_cpus(root) == ALL


def test_where_there_are_no_control_groups_affinity_counts(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path) == ALL


@pytest.mark.parametrize(("quota", "cpus"), [(100_000, 1), (50_000, 1), (1_000, 1), (150_000, 2)])
def test_a_share_of_time_counts_as_whole_processors(tmp_path: Path, quota: int, cpus: int) -> None:
    root = system(tmp_path, "0::/\n", **{"cpu.max": f"{quota} 100000\n"})
    assert usable_cpus(root) == min(ALL, cpus)


def test_the_narrowest_of_the_groups_around_us_counts(tmp_path: Path) -> None:
    files = {"pod__cpu.max": "100000 100000\n", "pod__box__cpu.max": "max 100000\n"}
    root = system(tmp_path, "0::/pod/box\n", **files)
    assert usable_cpus(root) == 1


def test_the_older_version_of_control_groups_counts_too(tmp_path: Path) -> None:
    own = "3:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n1:cpuset:/\n0::/docker/abc\n"
    # The container's own view begins at its group, under a path that only the host knows.
    files = {"cpu__cpu.cfs_quota_us": "100000\n", "cpu__cpu.cfs_period_us": "100000\n"}
    assert usable_cpus(system(tmp_path, own, **files)) == 1


def test_the_older_versions_minus_one_is_no_limit(tmp_path: Path) -> None:
    files = {"cpu__cpu.cfs_quota_us": "-1\n", "cpu__cpu.cfs_period_us": "100000\n"}
    assert usable_cpus(system(tmp_path, "2:cpu,cpuacct:/\n", **files)) == ALL


@pytest.mark.parametrize("text", ["", "nonsense", "100000", "100000 0", "1 2 3"])
def test_files_that_make_no_sense_are_no_limit(tmp_path: Path, text: str) -> None:
    root = system(tmp_path, "0::/\n", **{"cpu.max": text})
    assert usable_cpus(root) == ALL
