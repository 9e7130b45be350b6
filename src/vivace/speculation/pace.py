"""How many drafted tokens are worth an engine's while, by what its steps have cost so far.

A step costs a fixed time (reading the weights) and a little for every token in it. A drafted token
is worth its price while the chance that it holds exceeds what its time would bring otherwise. So
drafts are long where the old text is being copied, short where they have failed, and shorter the
more requests share the step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["Pace"]

_MEMORY = 0.98
"""What a step's measurement weighs after the next one."""
_GUESS = 1 / 80
"""Before anything was measured: what a token costs, of the fixed cost of a step."""
_APART = 64
"""The guess counts as two measurements, of steps that differ by so many tokens."""
_OUTLIER = 3.0
_ROUNDS = 4


class Pace:
    def __init__(self) -> None:
        self._count = self._tokens = self._seconds = self._squares = self._products = 0.0

    def step(self, tokens: int, seconds: float) -> None:
        """A step with so many tokens took so long."""
        seconds = max(seconds, 1e-6)
        if self._count:
            fixed, each = self.cost()
            seconds = min(seconds, _OUTLIER * (fixed + each * tokens))
        self._count = self._count * _MEMORY + 1
        self._tokens = self._tokens * _MEMORY + tokens
        self._seconds = self._seconds * _MEMORY + seconds
        self._squares = self._squares * _MEMORY + tokens * tokens
        self._products = self._products * _MEMORY + tokens * seconds

    def cost(self) -> tuple[float, float]:
        """Seconds of a step, and of each token in it: the line through what was measured."""
        if not self._count:
            return 1.0, _GUESS
        tokens, seconds = self._tokens / self._count, self._seconds / self._count
        guess = seconds * _GUESS / (1 + tokens * _GUESS)
        spread = self._squares - self._count * tokens * tokens
        together = self._products - self._count * tokens * seconds
        prior = _APART * _APART / 2
        each = max(0.0, (together + guess * prior) / (spread + prior))
        each = min(each, seconds / max(tokens, 1.0))
        return max(seconds - each * tokens, seconds * 0.01), each

    def lengths(self, chances: Sequence[float], others: int, most: int) -> list[int]:
        """How many tokens to draft for each request, given the chance that one of its holds.

        ``others`` requests share the step without a draft. Dinkelbach's way to the best ratio:
        take the rate of a plan as the price, plan again at that price.
        """
        fixed, each = self.cost()
        plan = [most] * len(chances)
        for _ in range(_ROUNDS):
            written = others + sum(map(_expected, chances, plan))
            taken = fixed + each * (others + len(plan) + sum(plan))
            price = each * written / taken
            plan = [_length(chance, price, most) for chance in chances]
        return plan


def _expected(chance: float, length: int) -> float:
    """How many tokens a step writes, on average, with a draft of this length."""
    return (1 - chance ** (length + 1)) / (1 - chance)


def _length(chance: float, price: float, most: int) -> int:
    """Up to the token whose chance is its price; one at least, to learn when things change."""
    if price <= 0:
        return most
    if price >= 1:
        return min(1, most)
    return max(min(1, most), min(most, int(math.log(price) / math.log(chance))))
