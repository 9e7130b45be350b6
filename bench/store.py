"""How long a turn's end waits to be stored, beside the forgetting of many old turns.

Turns are saved at a set rate, now with old ones being forgotten at the same time and now without.
The store runs in this process, as it does in the gateway's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import tempfile
import time
from argparse import Namespace
from itertools import chain
from pathlib import Path

from bench._report import Report, percentile
from vivace.store.base import StoredTurn
from vivace.store.sqlite import SqliteStore

_DAY = 86_400
_MOST = 3.0


def _turn(created_at: int, text: bytes) -> StoredTurn:
    return StoredTurn(
        id=f"resp_{os.urandom(16).hex()}",
        owner="me",
        previous_id=None,
        created_at=created_at,
        tokens=100,
        input=text[:500],
        response=text,
    )


async def _fill(store: SqliteStore, turns: int, now: int) -> None:
    text = os.urandom(1500)
    for start in range(0, turns, 2000):
        count = min(2000, turns - start)
        await asyncio.gather(*(store.save(_turn(now - i, text)) for i in range(count)))


async def _saves(store: SqliteStore, rate: int, seconds: float) -> list[float]:
    """Seconds each save took, asked for at a steady rate whether or not earlier ones are done."""
    text = os.urandom(4000)
    took: list[float] = []

    async def one() -> None:
        began = time.perf_counter()
        await store.save(_turn(int(time.time()), text))
        took.append(time.perf_counter() - began)

    async with asyncio.TaskGroup() as group:
        begin = time.perf_counter()
        for number in range(round(rate * seconds)):
            group.create_task(one())
            await asyncio.sleep(max(0.0, begin + number / rate - time.perf_counter()))
    return took


async def _measure(report: Report, folder: Path, options: Namespace) -> None:
    store = SqliteStore(folder / "vivace.db", max_age=_DAY, max_bytes=10**12)
    began = time.perf_counter()
    await _fill(store, options.turns, int(time.time()) - 2 * _DAY)
    report.say(f"{options.turns:,} turns of 2 kB written in", time.perf_counter() - began, "s")
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    for _ in range(options.pairs):
        alone.append(await _saves(store, options.rate, options.seconds))
        pruning = asyncio.create_task(store.prune(int(time.time())))
        beside.append(await _saves(store, options.rate, options.seconds))
        assert not pruning.done(), "there were too few turns to forget"
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)
    await store.close()
    report.spread("save, nothing to forget", [*chain(*alone)], "ms", 1000)
    report.spread("save, while old turns are forgotten", [*chain(*beside)], "ms", 1000)
    gone = options.turns + sum(map(len, alone + beside)) - _count(folder)
    report.say("turns forgotten per second", gone / (options.pairs * options.seconds))
    report.ratio_goal(
        "p99 of a save while turns are forgotten, beside that without",
        [percentile(samples, 0.99) for samples in beside],
        [percentile(samples, 0.99) for samples in alone],
        _MOST,
    )


def _count(folder: Path) -> int:
    with contextlib.closing(sqlite3.connect(folder / "vivace.db")) as db:
        return int(db.execute("SELECT count(*) FROM turns").fetchone()[0])


def main() -> None:
    report, options = Report.from_arguments(
        "store",
        "how long a turn's end waits for the store, beside the forgetting of old turns",
        turns=(200_000, "old turns"),
        rate=(100, "saves per second"),
        seconds=(5.0, "length of each measurement"),
        pairs=(12, "measurements with and without forgetting"),
    )
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(report, Path(folder), options))
    report.end()


if __name__ == "__main__":
    main()
