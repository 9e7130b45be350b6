"""``vivace stats``: what is told of the counts, and that they can be deleted."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from vivace.cli.stats import stats
from vivace.desk.counts import Counts
from vivace.desk.usage import UsageFile, this_day


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = UsageFile(folder / "vivace")

    def told(self, *arguments: str) -> str:
        done = CliRunner(env={"XDG_STATE_HOME": str(self.folder)}).invoke(stats, arguments)
        assert done.exit_code == 0, done.output
        return done.output


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def used(home: Home) -> Home:
    lately = Counts(keys=100, requests=40, offered=20, accepted=8, judged=8, kept=6)
    for _ in range(10):
        lately.answered(0.25, remembered=False)
    home.file.add(lately, this_day())
    home.file.add(Counts(keys=300, requests=60, offered=20, accepted=2), ago(3))
    home.file.add(Counts(keys=100, requests=100, offered=10), ago(30))
    return home


def ago(days: int) -> date:
    return this_day() - timedelta(days=days)


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("offered", ["20", "40", "50"]),
        ("accepted", ["8 (40%)", "10 (25%)", "10 (20%)"]),
        ("kept after 30 s", ["6 (75%)", "6 (75%)", "6 (75%)"]),
        ("requests per key", ["0.40", "0.25", "0.40"]),
    ],
)
def test_today_the_last_days_and_all_stand_side_by_side(
    used: Home, row: str, cells: list[str]
) -> None:
    [line] = [each for each in used.told().splitlines() if re.match(rf"{row} .*\d", each)]
    assert re.split(r"\s{2,}", line) == [row, *cells]


def test_it_says_what_is_counted_where_it_is_kept_and_how_it_is_deleted(used: Home) -> None:
    told = used.told()
    assert "editors do not tell what they showed" in told
    assert str(used.file.path) in told
    assert "vivace stats --delete" in told
    assert str(ago(30)) in told


def test_programs_have_every_day(used: Home) -> None:
    told = json.loads(used.told("--json"))
    assert list(told["days"]) == [each.isoformat() for each in (ago(30), ago(3), ago(0))]
    assert told["all"]["requests_per_key"] == 0.4
    assert told["days"][ago(0).isoformat()]["wait_p90_s"] == pytest.approx(0.25, rel=0.11)
    assert told["days"][ago(3).isoformat()]["wait_p90_s"] is None


def test_what_is_deleted_is_gone(used: Home) -> None:
    used.told("--delete")
    assert list(used.file.path.parent.iterdir()) == []
    assert "Nothing has been counted yet" in used.told()
    assert "Nothing has been counted yet" in used.told("--delete")
    assert json.loads(used.told("--json"))["days"] == {}
