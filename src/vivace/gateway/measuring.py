"""How long a conversation is to engines that are elsewhere, which have the tokenizer.

Bytes tell how many tokens a text has at most. Where that many fit, nobody is asked; else a node
counts as the engine would if it were here, before anyone hears of the turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from vivace.engines.base import QueueingEngine
from vivace.engines.messages import estimate_tokens, most_tokens
from vivace.errors import Unavailable
from vivace.gateway.catalogue import Catalogue, Offer
from vivace.gateway.dispatch import Dispatch
from vivace.protocol.items import Item
from vivace.scheduling.placement import Ring

__all__ = ["Measuring"]

_ASKED = 2
"""Nodes that are asked, one after the other."""


class Measuring:
    def __init__(self, catalogue: Catalogue, dispatch: Dispatch) -> None:
        self._catalogue = catalogue
        self._dispatch = dispatch

    def is_elsewhere(self, offer: Offer) -> bool:
        """Whether counting is not the affair of this gateway."""
        return self._dispatch.queueing(offer.engine) is not None

    async def lengths(
        self,
        offer: Offer,
        place: str,
        parts: Sequence[Sequence[Item]],
        known: int,
        *,
        refuses: bool,
    ) -> Sequence[int]:
        """Of each of the parts, which stand beside ``known`` tokens. ``refuses``: the turn is, if
        they do not fit, and that is not done by a guess."""
        guessed = [estimate_tokens(part) for part in parts]
        if known + most_tokens(sum(guessed)) < offer.card.context:
            return guessed
        if not any(each.counts for each in self._nodes(offer, place)):
            return guessed  # as they would if they were here
        told = await self.counted(offer, place, parts)
        if told is not None:
            return told
        if refuses and known + sum(guessed) >= offer.card.context:
            raise Unavailable(
                f"No engine node of '{offer.tier.name}' could say whether this conversation fits "
                "its model; try again in a moment.",
                code="engine_unavailable",
                retry_after=1,
            )
        return guessed

    async def counted(
        self, offer: Offer, place: str, parts: Sequence[Sequence[Item]]
    ) -> Sequence[int] | None:
        """By a node; None if none has answered."""
        able = (each for each in self._nodes(offer, place) if each.counts and each.healthy())
        for node in islice(able, _ASKED):
            told = await node.lengths(parts, offer.card.name)
            if told is not None:
                return told
        return None

    def _nodes(self, offer: Offer, place: str) -> Iterator[QueueingEngine]:
        """Each conversation asks in an order of its own: counting is work, too."""
        for name in Ring(dict.fromkeys(offer.tier.engines, 1)).order(place):
            engine = self._catalogue.by_name.get(name)
            queueing = self._dispatch.queueing(engine) if engine is not None else None
            if queueing is not None:
                yield queueing
