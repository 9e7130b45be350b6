"""Counts that last: of several processes, by day, and no more than are wanted."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.waiting import eventually_async
from vivace.desk.counts import Counts
from vivace.desk.usage import Usage, UsageFile
from vivace.errors import ConfigError

DAY = date(2026, 11, 16)

ADDING = """
import sys
from datetime import date
from pathlib import Path
from vivace.desk.counts import Counts
from vivace.desk.usage import UsageFile
for _ in range(50):
    UsageFile(Path(sys.argv[1])).add(Counts(keys=1, waits={3: 1}), date(2026, 11, 16))
"""


def test_nothing_is_known_before_anything_was_counted(tmp_path: Path) -> None:
    assert UsageFile(tmp_path / "none").days() == {}


def test_processes_do_not_lose_each_others_counts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ADDING, str(tmp_path)]
    for each in [subprocess.Popen(command) for _ in range(4)]:
        assert each.wait() == 0
    [counts] = UsageFile(tmp_path).days().values()
    assert (counts.keys, counts.waits) == (200, {3: 200})
    assert [path.name for path in tmp_path.iterdir()] == ["completions.json"]


def test_each_day_has_its_row_and_old_ones_go(tmp_path: Path) -> None:
    file = UsageFile(tmp_path)
    for passed in range(100):
        file.add(Counts(offered=1), DAY + timedelta(days=passed))
    days = list(file.days())
    assert len(days) == 90
    assert (days[0], days[-1]) == (DAY + timedelta(days=10), DAY + timedelta(days=99))


def test_a_file_that_cannot_be_read_is_told_of_and_begun_anew(tmp_path: Path) -> None:
    file = UsageFile(tmp_path)
    file.path.write_text("{")
    with pytest.raises(ConfigError, match="vivace stats --delete"):
        file.days()
    file.add(Counts(kept=1), DAY)
    assert file.days()[DAY] == Counts(kept=1)


def test_what_is_counted_is_written_soon_and_the_rest_at_the_end(tmp_path: Path) -> None:
    file = UsageFile(tmp_path)

    async def counted() -> None:
        often = Usage(file, every=0.01, day=lambda: DAY)
        often.counts.keys += 1
        often.soon()
        await eventually_async(file.path.exists)
        seldom = Usage(file, every=600, day=lambda: DAY)
        seldom.counts.keys += 10
        seldom.soon()
        await seldom.close()
        await often.close()

    asyncio.run(counted())
    assert file.days()[DAY] == Counts(keys=11)


def test_who_counted_nothing_writes_nothing(tmp_path: Path) -> None:
    async def rested() -> None:
        usage = Usage(UsageFile(tmp_path))
        usage.soon()
        await usage.close()

    asyncio.run(rested())
    assert list(tmp_path.iterdir()) == []


def test_there_is_nothing_in_it_but_numbers(tmp_path: Path) -> None:
    file = UsageFile(tmp_path)
    file.add(Counts(keys=1, waits={3: 1}), DAY)
    kept = json.loads(file.path.read_bytes())
    assert kept == {"days": {"2026-11-16": {"keys": 1, "waits": {"3": 1}}}}
