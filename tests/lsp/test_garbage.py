"""Garbage is collected while nobody types."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from tests.support import virtual_time
from vivace.lsp import garbage
from vivace.lsp.garbage import Garbage


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def walks() -> int:
    return int(gc.get_stats()[2]["collections"])


def make(count: int) -> list[list[None]]:
    return [[None] for _ in range(count)]


def test_no_walk_through_everything_while_somebody_types_and_one_when_they_pause() -> None:
    async def type_and_pause() -> None:
        collector, kept = Garbage(), list[list[list[None]]]()
        collector.wait_for_pauses()
        young, middle, _ = gc.get_threshold()
        gc.collect()
        before = walks()
        for _ in range(30):
            collector.typed()
            kept.append(make(young * middle))
        assert walks() == before
        await asyncio.sleep(2 * garbage._PAUSE_S)
        assert walks() == before + 1

    virtual_time.run(type_and_pause())


def test_a_pause_in_which_there_is_nothing_to_collect_costs_nothing() -> None:
    async def pause() -> None:
        collector = Garbage()
        gc.collect()
        before = walks()
        collector.typed()
        await asyncio.sleep(2 * garbage._PAUSE_S)
        assert walks() == before

    virtual_time.run(pause())


def test_somebody_who_never_pauses_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "_LONGEST_WAIT", 20)
    Garbage().wait_for_pauses()
    young, middle, longest = gc.get_threshold()
    gc.collect()
    before, kept = walks(), [make(young * middle) for _ in range(2 * longest)]
    assert walks() > before, len(kept)
