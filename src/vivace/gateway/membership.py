"""Engines that come and go while the gateway runs: all who must know of it are told here.

An engine of a node is called ``coder@a``: tiers name it ``coder``, and mean that of every node. One
that leaves takes nothing more. What it has is its own to end: it lets it finish, or fails it, and
then it goes on elsewhere.
"""

from __future__ import annotations

import logging
from typing import cast

from vivace.engines.base import Engine, QueueingEngine
from vivace.gateway.catalogue import Catalogue
from vivace.gateway.dispatch import Dispatch
from vivace.gateway.listening import Listening
from vivace.scheduling.scheduler import Room

__all__ = ["Membership"]

log = logging.getLogger("vivace.engines")


class Membership:
    def __init__(self, catalogue: Catalogue, dispatch: Dispatch, listening: Listening) -> None:
        self._catalogue = catalogue
        self._dispatch = dispatch
        self._listening = listening

    def join(self, engine: Engine, room: Room, silence: float | None = None) -> None:
        """It is ready, and turns that wait for its like are given to it before this returns. One of
        the same name that is still here is replaced. ``silence``: seconds after which it counts as
        dead; without, its own time limits are enough.

        Raises ``ConfigError`` if it cannot be offered beside the others; then nothing has changed.
        """
        before = self._catalogue.by_name.get(engine.name)
        self._catalogue.join(engine)
        if before is not None and before is not engine and before.healthy():
            log.warning(
                "%s is here twice: if its node was not just started anew, two nodes have one name; "
                "give each its own (node.name)",
                engine.name,
            )
        self._listening.join(engine.name, silence)
        queueing = cast("QueueingEngine", engine) if room.queues else None
        self._dispatch.join(engine.name, room, self._catalogue.tiers, queueing)
        log.info("%s is here: %s, %d slots", engine.name, engine.cards[0].name, room.slots)

    def clear(self, engine: Engine, *, begun: bool) -> None:
        """It is drained: what waits for it goes elsewhere, and what it has ``begun`` with too."""
        self._listening.clear(engine.name, begun=begun)

    def leave(self, engine: Engine) -> None:
        """It takes no new turns. Nothing happens if it is not here, or another has its name: a link
        may be found broken after its node has come back over a new one."""
        name = engine.name
        if self._catalogue.by_name.get(name) is not engine:
            return
        self._catalogue.leave(name)
        self._dispatch.leave(name, self._catalogue.tiers)
        self._listening.leave(name)
        log.info("%s is gone", name)
