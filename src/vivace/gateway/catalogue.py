"""Which models there are: tiers, and the engines that answer for each."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from vivace.engines.base import Card, Engine
from vivace.errors import ConfigError, NotFound, Unavailable
from vivace.protocol import codex
from vivace.protocol.codec import encode
from vivace.protocol.events import Routing
from vivace.scheduling.tiers import AUTO, Ask, Tier, deserted, route

__all__ = ["Catalogue", "CodexModels", "Offer", "base_name"]


_MAX_GONE = 50
"""Models of nodes that are gone, which are refused in words of their own. A node that offers others
each time it comes would have a gateway remember them all."""
_SERVICE_TIERS = frozenset({"auto", "default", "flex", "priority", "scale"})
"""What ``service_tier`` says on OpenAI's own servers."""


def base_name(engine: str) -> str:
    """What tiers call it: ``coder`` for ``coder@a``, which is the ``coder`` of node ``a``."""
    return engine.partition("@")[0]


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
    """Engines may join and leave. A tier whose engines are all gone is still known, and refused in
    words of its own."""

    def __init__(
        self,
        engines: Iterable[Engine],
        tiers: Sequence[Tier] = (),
        stand_ins: Mapping[str, str] | None = None,
        *,
        grows: bool = False,
    ) -> None:
        """``stand_ins``: what answers for names with such a word in them. ``grows``: whether
        engines may join."""
        self.by_name = {engine.name: engine for engine in engines}
        self._own = tuple(self.by_name.values())
        self._configured = [replace(tier, grows=grows) for tier in tiers]
        self._grows = self._awaits = grows
        self._cards: dict[str, Card] = {}
        """Of tiers, as they are or were last."""
        self._tiers: dict[str, Tier] = {}
        self._offers: dict[str, Offer] = {}
        """Of tiers that have an engine now."""
        self._routed: dict[str, Tier] = {}
        """What ``auto`` chooses from: tiers that have an engine, or any if none has."""
        self._stand_ins = stand_ins or {}
        self.service_tiers = tuple(tier.name for tier in tiers if tier.name not in _SERVICE_TIERS)
        """Those that a request's ``service_tier`` can name: OpenAI's words keep their meaning, even
        where a tier is called so."""
        self._arrange()

    # -- who is there -----------------------------------------------------------------------------

    @property
    def engines(self) -> tuple[Engine, ...]:
        return tuple(self.by_name.values())

    @property
    def tiers(self) -> tuple[Tier, ...]:
        """All that were ever known, each with the engines it has now."""
        return tuple(self._tiers.values())

    @property
    def deserted(self) -> list[str]:
        """Tiers that have no engine."""
        return [name for name in self._tiers if name not in self._offers]

    def join(self, engine: Engine) -> None:
        """Raises why it cannot be offered; then nothing has changed."""
        self._check(engine)
        self._awaits = False
        self.by_name[engine.name] = engine
        self._arrange()

    def leave(self, name: str) -> None:
        if self.by_name.pop(name, None) is not None:
            self._arrange()

    def _check(self, engine: Engine) -> None:
        model = engine.cards[0].name
        for other in self.by_name.values():
            like = base_name(other.name) == base_name(engine.name) and other.name != engine.name
            if like and other.cards[0].name != model:
                raise ConfigError(
                    f"{engine.name} runs the model '{model}' and {other.name} runs "
                    f"'{other.cards[0].name}', though both are called "
                    f"'{base_name(engine.name)}'. Give engines with another model another name."
                )
        named = {name for tier in self._configured for name in tier.engines}
        taken = {AUTO, *(tier.name for tier in self._configured)}
        if base_name(engine.name) not in named and model in taken:
            raise ConfigError(
                f"{engine.name} runs the model '{model}', and that is the name of a tier which "
                f"does not have it. Add '{base_name(engine.name)}' to the engines of a tier, or "
                "give its model another name."
            )

    def _arrange(self) -> None:
        pools = {tier.name: self._pooled(tier) for tier in self._configured}
        pools.update(self._single())
        self._tiers = pools
        for tier in pools.values():
            if tier.engines:
                offer = self._offers[tier.name] = self._offer(tier)
                self._cards.pop(tier.name, None)  # what was here last is forgotten last
                self._cards[tier.name] = offer.card
            else:
                self._offers.pop(tier.name, None)
        routed = [pools[name] for name in ("fast", "deep") if self._is_configured(name)]
        there = [tier for tier in routed if tier.engines]
        self._routed = {tier.name: tier for tier in there or routed}
        self._default = next(iter(pools), None)
        vars(self).pop("for_codex", None)

    def _is_configured(self, name: str) -> bool:
        return any(tier.name == name for tier in self._configured)

    def _pooled(self, tier: Tier) -> Tier:
        """With the engines that it names: those of this process, and of each node."""
        names = sorted(self.by_name)  # gateways are of one mind about their order
        return replace(
            tier,
            engines=tuple(name for own in tier.engines for name in names if base_name(name) == own),
        )

    def _single(self) -> Iterator[tuple[str, Tier]]:
        """Engines in no tier are offered by their models: ours as they were configured, then those
        of nodes, also of nodes that are gone."""
        named = {name for tier in self._configured for name in tier.engines}
        models: dict[str, list[str]] = {}
        for engine in self.by_name.values():
            if base_name(engine.name) not in named:
                models.setdefault(engine.cards[0].name, []).append(engine.name)
        ours = [engine.cards[0].name for engine in self._own if engine.name not in named]
        gone = self._gone(models)
        for model in dict.fromkeys([*ours, *sorted({*models, *gone})]):
            engines = tuple(sorted(models.get(model, ())))
            yield model, Tier(name=model, engines=engines, grows=self._grows)

    def _gone(self, models: Mapping[str, object]) -> list[str]:
        """Models that only nodes had which are gone; the oldest of many are forgotten."""
        own = {engine.cards[0].name for engine in self._own}
        gone = [
            name
            for name in self._cards
            if not (name in models or name in own or self._is_configured(name))
        ]
        for name in gone[:-_MAX_GONE]:
            del self._cards[name]
            self._offers.pop(name, None)
        return gone[-_MAX_GONE:]

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

    # -- what there is ----------------------------------------------------------------------------

    @property
    def cards(self) -> list[Card]:
        """Of all whose engines were ever seen."""
        known = [self._cards[name] for name in self._tiers if name in self._cards]
        routed = {name: tier for name, tier in self._routed.items() if name in self._cards}
        if routed:
            context = min(self._cards[name].context for name in routed)
            filler = self._cards[route(Ask(fill=True), routed)[0].name]
            # Much effort is a reason for the deep tier, so its levels are those of auto.
            deep = self._cards["deep"] if "deep" in routed else filler
            auto = Card(AUTO, context, fills=filler.fills, efforts=deep.efforts, effort=deep.effort)
            known.append(auto)
        return known

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
        name = model or self._default
        return self._tiers.get(name) if name is not None else None

    def named(self, service_tier: str | None) -> str | None:
        """The tier of ours that a request's ``service_tier`` names, if it does."""
        return service_tier if service_tier in self.service_tiers else None

    def offer(self, model: str | None) -> Offer:
        """The tier of this name; without one, the first that was configured."""
        name = model or self._default
        found = self._offers.get(name) if name is not None else None
        if found is None:
            raise self._missing(model)
        return found

    def _missing(self, model: str | None) -> NotFound | Unavailable:
        tier = self.tier(model)
        if tier is not None:
            return deserted(tier.name)
        if self.routes(model):
            return deserted(AUTO)
        names = [*self._tiers, *([AUTO] if self._routed else [])]
        if self._awaits or not names:  # nodes will say what else there is
            return Unavailable(
                "No engine node is connected, so it is not known which models there are; try again "
                "in a moment. If it stays so, the log of this server says why.",
                code="engine_unavailable",
                retry_after=1,
            )
        near = difflib.get_close_matches(model or "", names, n=1)
        there = ", ".join(f"'{name}'" for name in names)
        advice = f"Did you mean '{near[0]}'?" if near else f"There are: {there}."
        return NotFound(
            f"The model '{model}' does not exist here. {advice}",
            code="model_not_found",
            param="model",
        )

    def stand_in(self, model: str | None) -> str | None:
        """What answers for a name by which clients of another maker ask; None is the default. One
        that is served here means itself, and one that means nothing here will not be found."""
        if self._serves(model):
            return model
        for word, name in self._stand_ins.items():
            if word.lower() in (model or "").lower():
                return name if self._serves(name) else None
        return None if (model or "").startswith("claude") else model

    def may_serve(self, model: str | None, service_tier: str | None) -> bool:
        """Return whether a request for these could be answered here, as far as is known: engine
        nodes that are not connected yet may offer more."""
        return self._serves(self.named(service_tier) or model) or self._awaits or not self._tiers

    def _serves(self, model: str | None) -> bool:
        return self.tier(model) is not None or self.routes(model)

    def routed(self, ask: Ask) -> tuple[Offer, Routing]:
        """The tier that ``auto`` means for this request."""
        tier, reason = route(ask, self._routed)
        return self.offer(tier.name), Routing(tier.name, reason)

    def routes(self, model: str | None) -> bool:
        return model == AUTO and bool(self._routed)
