"""Tests that judge by the clock are found, whatever they call their readings."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.lint_clocks import findings


def faults(folder: Path, code: str) -> list[str]:
    path = folder / "test_it.py"
    path.write_text(code)
    return [f"{line} {function}" for line, function, _ in findings(path)]


@pytest.mark.parametrize(
    "code",
    [
        "assert time.monotonic() - began < 1",
        "took = time.perf_counter() - began\n    assert took < limit",
        "times = []\n    times.append(time.time_ns())\n    assert max(times) < 5",
        "assert response.elapsed.total_seconds() < 1",
        "while (left := deadline - time.monotonic()) > 0: pass",
        "time.sleep(0.5)",
        "await asyncio.sleep(2 * 60)",
        "await asyncio.sleep(PAUSE)",
    ],
)
def test_lint_finds_a_judgement_by_the_clock(tmp_path: Path, code: str) -> None:
    whole = f"PAUSE = 0.5\n\n\nasync def test_it():\n    {code}\n"
    assert [fault.split()[1] for fault in faults(tmp_path, whole)] == ["test_it"]


@pytest.mark.parametrize(
    "code",
    [
        "record['at'] = time.time()",
        "assert calls < 5",
        "await asyncio.sleep(0)",
        "await asyncio.sleep(pause)",
        "eventually(lambda: done, 60)",
    ],
)
def test_lint_leaves_readings_and_waits_alone(tmp_path: Path, code: str) -> None:
    assert faults(tmp_path, f"async def test_it(pause):\n    {code}\n") == []


def test_lint_names_a_method_once(tmp_path: Path) -> None:
    code = "class TestIt:\n    def test_method(self):\n        time.sleep(1)\n"
    assert faults(tmp_path, code) == ["3 test_method"]
