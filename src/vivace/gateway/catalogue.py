"""Which models there are: tiers, and the engines that answer for each."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from vivace.engines.base import Card, Engine
from vivace.errors import NotFound
from vivace.protocol import codex
from vivace.protocol.codec import encode
from vivace.protocol.events import Routing
from vivace.scheduling.tiers import AUTO, Ask, Tier, route

__all__ = ["Catalogue", "CodexModels", "Offer"]


_SERVICE_TIERS = frozenset({"auto", "default", "flex", "priority", "scale"})
"""What ``service_tier`` says on OpenAI's own servers."""


class Offer(Struct, frozen=True):
    """A tier as a client meets it."""

    tier: Tier
    card: Card
    engine: Engine
    """The first of its pool: they are of one mind about how long a text is."""


class CodexModels(Struct, frozen=True):
    """The models in the form of Codex's own catalogue."""

    body: bytes
    etag: str


class Catalogue:
    def __init__(
        self,
        engines: Iterable[Engine],
        tiers: Sequence[Tier] = (),
        stand_ins: Mapping[str, str] | None = None,
    ) -> None:
        """``stand_ins``: what answers for names with such a word in them."""
        self.engines = tuple(engines)
        self.by_name = {engine.name: engine for engine in self.engines}
        pooled = {name for tier in tiers for name in tier.engines}
        single = [
            Tier(name=engine.cards[0].name, engines=(engine.name,))
            for engine in self.engines
            if engine.name not in pooled
        ]
        self.tiers = (*tiers, *single)
        self._offers = {tier.name: self._offer(tier) for tier in self.tiers}
        self._routed = {tier.name: tier for tier in tiers if tier.name in ("fast", "deep")}
        self._default = next(iter(self._offers))
        self._stand_ins = stand_ins or {}
        self.service_tiers = tuple(tier.name for tier in tiers if tier.name not in _SERVICE_TIERS)
        """Those that a request's ``service_tier`` can name: OpenAI's words keep their meaning, even
        where a tier is called so."""

    def _offer(self, tier: Tier) -> Offer:
        pool = [self.by_name[name] for name in tier.engines]
        # Whichever engine of the pool takes a turn, it must fit.
        cards = [engine.cards[0] for engine in pool]
        first = cards[0]
        card = Card(
            tier.name,
            min(card.context for card in cards),
            first.owned_by,
            all(card.fills for card in cards),
            tuple(each for each in first.efforts if all(each in card.efforts for card in cards)),
            first.effort,
            all(card.ends_thinking for card in cards),
        )
        return Offer(tier, card, pool[0])

    @property
    def cards(self) -> list[Card]:
        cards = [offer.card for offer in self._offers.values()]
        if self._routed:
            context = min(self._offers[name].card.context for name in self._routed)
            filler, _ = self.routed(Ask(fill=True))
            fills = filler.card.fills
            # Much effort is a reason for the deep tier, so its levels are those of auto.
            deep = self._offers["deep"].card if "deep" in self._routed else filler.card
            cards.append(Card(AUTO, context, fills=fills, efforts=deep.efforts, effort=deep.effort))
        return cards

    @cached_property
    def for_codex(self) -> CodexModels:
        models = [
            codex.card(
                card.name,
                card.context,
                place,
                self.service_tiers,
                efforts=card.efforts,
                effort=card.effort,
            )
            for place, card in enumerate(self.cards, 1)
        ]
        body = encode({"models": models})
        return CodexModels(body, f'"{hashlib.sha256(body).hexdigest()[:16]}"')

    def card(self, model: str) -> Card:
        named = next((card for card in self.cards if card.name == model), None)
        return named or self.offer(model).card

    def tier(self, model: str | None) -> Tier | None:
        """The tier of this name, if it is one."""
        found = self._offers.get(model or self._default)
        return found.tier if found is not None else None

    def named(self, service_tier: str | None) -> str | None:
        """The tier of ours that a request's ``service_tier`` names, if it does."""
        return service_tier if service_tier in self.service_tiers else None

    def offer(self, model: str | None) -> Offer:
        """The tier of this name; without one, the first that was configured."""
        found = self._offers.get(model or self._default)
        if found is None:
            names = [card.name for card in self.cards]
            near = difflib.get_close_matches(model or "", names, n=1)
            there = ", ".join(f"'{name}'" for name in names)
            advice = f"Did you mean '{near[0]}'?" if near else f"There are: {there}."
            raise NotFound(
                f"The model '{model}' does not exist here. {advice}",
                code="model_not_found",
                param="model",
            )
        return found

    def stand_in(self, model: str | None) -> str | None:
        """What answers for a name by which clients of another maker ask; None is the default. One
        that is served here means itself, and one that means nothing here will not be found."""
        if self._serves(model):
            return model
        for word, name in self._stand_ins.items():
            if word.lower() in (model or "").lower():
                return name if self._serves(name) else None
        return None if (model or "").startswith("claude") else model

    def _serves(self, model: str | None) -> bool:
        return self.tier(model) is not None or self.routes(model)

    def routed(self, ask: Ask) -> tuple[Offer, Routing]:
        """The tier that ``auto`` means for this request."""
        tier, reason = route(ask, self._routed)
        return self._offers[tier.name], Routing(tier.name, reason)

    def routes(self, model: str | None) -> bool:
        return model == AUTO and bool(self._routed)
