"""How long a turn's end waits to be stored, beside the forgetting of many old turns.

Turns are saved at a set rate, now with old ones being forgotten at the same time and now without,
until all old ones are gone. The store runs in this process, as it does in the gateway's.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
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


async def _beside(
    store: SqliteStore, pruning: asyncio.Task[int], rate: int, seconds: float
) -> list[float]:
    """As above, but while old turns are forgotten; shorter when there are no more."""
    took: list[float] = []
    end = time.perf_counter() + seconds
    while not pruning.done() and time.perf_counter() < end:
        took += await _saves(store, rate, 0.5)
    return took


async def _measure(report: Report, folder: Path, turns: int, rate: int, seconds: float) -> None:
    store = SqliteStore(folder / "vivace.db", max_age=_DAY, max_bytes=10**12)
    began = time.perf_counter()
    await _fill(store, turns, int(time.time()) - 2 * _DAY)
    report.say(f"{turns:,} turns of 2 kB written in", time.perf_counter() - began, "s")
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    spent = 0.0
    while True:
        alone.append(await _saves(store, rate, seconds))
        pruning = asyncio.create_task(store.prune(int(time.time())))
        began = time.perf_counter()
        beside.append(await _beside(store, pruning, rate, seconds))
        spent += time.perf_counter() - began
        if pruning.done():
            break
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)
    await store.close()
    report.spread("save, nothing to forget", [*chain(*alone)], "ms", 1000)
    report.spread("save, while old turns are forgotten", [*chain(*beside)], "ms", 1000)
    report.say(f"{turns:,} turns forgotten in", spent, "s")
    report.ratio_goal(
        "p99 of a save while turns are forgotten, beside that without",
        [percentile(samples, 0.99) for samples in beside],
        [percentile(samples, 0.99) for samples in alone],
        _MOST,
    )


def main() -> None:
    report, options = Report.from_arguments(
        "store",
        "how long a turn's end waits for the store, beside the forgetting of old turns",
        turns=(200_000, "old turns"),
        rate=(100, "saves per second"),
        seconds=(5.0, "length of each measurement"),
    )
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_measure(report, Path(folder), options.turns, options.rate, options.seconds))
    report.end()


if __name__ == "__main__":
    main()
