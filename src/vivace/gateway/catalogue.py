"""Which models there are, and which engine answers for each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from vivace.engines.base import Card, Engine
from vivace.errors import NotFound, Unavailable

__all__ = ["Catalogue"]


class Catalogue:
    def __init__(self, engines: Iterable[Engine]) -> None:
        self.engines = tuple(engines)
        self._by_model = {
            card.name: (engine, card) for engine in self.engines for card in engine.cards
        }
        self._default = next(iter(self._by_model))

    @property
    def cards(self) -> list[Card]:
        return [card for _, card in self._by_model.values()]

    @property
    def ready(self) -> bool:
        return all(engine.healthy() for engine in self.engines)

    def find(self, model: str | None) -> tuple[Engine, Card]:
        """The engine and card for a model's name; without one, the first that was configured."""
        found = self._by_model.get(model or self._default)
        if found is None:
            near = difflib.get_close_matches(model or "", self._by_model, n=1)
            advice = f"Did you mean '{near[0]}'?" if near else f"There are: {self._names()}."
            raise NotFound(
                f"The model '{model}' does not exist here. {advice}",
                code="model_not_found",
                param="model",
            )
        engine, card = found
        if not engine.healthy():
            raise Unavailable(
                f"The engine for '{card.name}' is not running; try again in a moment.",
                code="engine_unavailable",
                retry_after=1,
            )
        return engine, card

    def _names(self) -> str:
        return ", ".join(f"'{name}'" for name in self._by_model)
