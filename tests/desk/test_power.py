"""Whether a machine is known to run on its battery."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivace.desk.power import Battery


def supply(folder: Path, name: str, **facts: str) -> None:
    (folder / name).mkdir(exist_ok=True)
    for fact, value in facts.items():
        (folder / name / fact).write_text(f"{value}\n")


@pytest.mark.parametrize(
    ("facts", "in_use"),
    [
        ({"type": "Battery", "status": "Discharging"}, True),
        ({"type": "Battery", "status": "Charging"}, False),
        ({"type": "Battery", "status": "Full"}, False),
        ({"type": "Battery", "status": "Discharging", "scope": "Device"}, False),
        ({"type": "Mains", "online": "0"}, False),
        ({}, False),
    ],
)
def test_only_a_battery_of_the_machine_that_is_drained_counts(
    tmp_path: Path, facts: dict[str, str], in_use: bool
) -> None:
    supply(tmp_path, "AC", type="Mains", online="0")
    supply(tmp_path, "BAT0", **facts)
    assert Battery(tmp_path).in_use is in_use


def test_where_the_system_tells_nothing_it_is_not_in_use(tmp_path: Path) -> None:
    assert not Battery(tmp_path / "none").in_use


def test_it_is_looked_at_again_after_a_while(tmp_path: Path) -> None:
    now = 0.0
    supply(tmp_path, "BAT0", type="Battery", status="Discharging")
    battery = Battery(tmp_path, clock=lambda: now)
    assert battery.in_use
    supply(tmp_path, "BAT0", status="Charging")
    assert battery.in_use
    now = 31.0
    assert not battery.in_use
