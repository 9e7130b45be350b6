"""Limits that several gateways share: the law as for one, and what is left of it without Valkey."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from tests.scheduling.limits_suite import Book, LimitsSuite
from tests.support.valkey import Valkey
from tests.support.waiting import PATIENCE_S
from vivace.counters.line import Line
from vivace.counters.valkey import SCRIPT, ValkeyLimiter
from vivace.scheduling.limits import Limits, Window

T = TypeVar("T")


class SharedBook:
    """Two gateways in turns, by a time of ours: used like a ledger."""

    def __init__(self, valkey: Valkey, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._now = 0.0
        self._turn = 0
        with valkey.client() as client:
            client.flushall()
        self._gateways = [
            ValkeyLimiter(
                Line(valkey.url, SCRIPT, in_time=PATIENCE_S), lease=1e9, clock=lambda: self._now
            )
            for _ in range(2)
        ]
        for each in self._gateways:
            self._run(each.open())
            assert each.shared

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def _next(self, now: float) -> ValkeyLimiter:
        self._now = now
        self._turn += 1
        return self._gateways[self._turn % 2]

    def charge(
        self,
        owner: str,
        tier: str,
        limits: Limits,
        *,
        input_tokens: int,
        output_tokens: int,
        now: float,
    ) -> Any:
        gateway = self._next(now)
        return self._run(
            gateway.charge(
                owner, tier, limits, input_tokens=input_tokens, output_tokens=output_tokens
            )
        )

    def settle(self, charge: Any, *, input_tokens: int, output_tokens: int, now: float) -> None:
        self._now = now
        self._run(charge.settle(input_tokens=input_tokens, output_tokens=output_tokens))

    def windows(self, owner: str, tier: str, limits: Limits, now: float) -> list[Window]:
        return self._run(self._next(now).windows(owner, tier, limits))

    def close(self) -> None:
        for each in self._gateways:
            assert each.losses == 0
            self._run(each.close())


class TestTwoGateways(LimitsSuite):
    @pytest.fixture
    def book(self, valkey: Valkey) -> Iterator[Callable[[], Book]]:
        made: list[SharedBook] = []

        def make() -> Book:
            for each in made:
                each.close()
            made[:] = [SharedBook(valkey, runner)]
            return made[0]

        with asyncio.Runner() as runner:
            yield make
            for each in made:
                each.close()
