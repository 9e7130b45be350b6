"""How much memory a key may make this process take, and all keys together: a ledger of bytes.

::

    held = memory.take(owner, "requests", size)   room for what must stay until it ends, or refused
    held = memory.note(owner, "links", size)      what is there already; never refused
    memory.keep(owner, name, let_go)              can be let go of when room is needed, oldest first

Bytes count for as long as their ``Held`` lives. Whatever takes the memory carries it, so what is
shared (the past of two conversations) counts once, and nothing that somebody still remembers can
fail to count. Sizes are told by whoever read or wrote the bytes; nothing is walked to find out.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from typing import Literal, get_args

from vivace.errors import RequestError, TooLarge, TooManyRequests, Unavailable

__all__ = ["Held", "Kind", "Memory"]

Kind = Literal["requests", "links", "records", "answers"]
"""Requests that wait or run; turns that can be continued; background events; answers over HTTP that
their clients have not taken yet."""

LetGo = Callable[[], object]


class Held:
    """Some bytes of an owner, counted until this is gone."""

    __slots__ = ("_kind", "_memory", "_owner", "size")

    def __init__(self, memory: Memory, owner: str, kind: Kind) -> None:
        self._memory = memory
        self._owner = owner
        self._kind = kind
        self.size = 0

    def resize(self, size: int) -> None:
        """It takes more now, or less; never refused."""
        self._memory.count(self._owner, self._kind, size - self.size)
        self.size = size

    def extend(self, size: int) -> None:
        """Take so much more; raises ``RequestError``, and takes nothing, where there is no room."""
        self._memory.check(self._owner, size, self.size)
        self.resize(self.size + size)

    def __del__(self) -> None:
        self._memory.returned.append((self._owner, self._kind, self.size))


class Memory:
    def __init__(self, total: int, per_owner: int) -> None:
        self.limit = total
        self._share = per_owner
        self._total = 0
        self._owners: dict[str, int] = {}
        self._kinds: dict[Kind, int] = dict.fromkeys(get_args(Kind), 0)
        self._kept: dict[str, OrderedDict[Hashable, LetGo]] = {}
        self._order: OrderedDict[tuple[str, Hashable], None] = OrderedDict()
        self.returned: deque[tuple[str, Kind, int]] = deque()
        """What is gone and not yet taken off: a collector may find it on any thread, at any time,
        so it only leaves a note here."""

    # -- what is there ----------------------------------------------------------------------------

    def take(self, owner: str, kind: Kind, size: int) -> Held:
        self.check(owner, size)
        held = Held(self, owner, kind)
        held.resize(size)
        return held

    def note(self, owner: str, kind: Kind, size: int) -> Held:
        held = Held(self, owner, kind)
        held.resize(size)
        self._make_room(owner, 0)
        return held

    def used(self, owner: str | None = None) -> int:
        """Of one owner, or of all."""
        self._collect()
        return self._total if owner is None else self._owners.get(owner, 0)

    def kinds(self) -> Mapping[Kind, int]:
        self._collect()
        return self._kinds

    # -- what can go ------------------------------------------------------------------------------

    def keep(self, owner: str, name: Hashable, let_go: LetGo) -> None:
        """From now on this is the newest that can be let go of."""
        kept = self._kept.setdefault(owner, OrderedDict())
        kept[name] = let_go
        kept.move_to_end(name)
        self._order[owner, name] = None
        self._order.move_to_end((owner, name))

    def forget(self, owner: str, name: Hashable) -> LetGo | None:
        """It is gone, or cannot be let go of any more."""
        kept = self._kept.get(owner)
        if kept is None or name not in kept:
            return None
        del self._order[owner, name]
        let_go = kept.pop(name)
        if not kept:
            del self._kept[owner]
        return let_go

    # -- inside -----------------------------------------------------------------------------------

    def check(self, owner: str, size: int, before: int = 0) -> None:
        """Make room for so much more, or refuse it; ``before``: what the same has taken already."""
        if before + size > self._share:
            raise TooLarge(
                f"This takes about {_megabytes(before + size)} of memory, and a key may take "
                f"{_megabytes(self._share)} here in all. Send less at a time."
            )
        self._make_room(owner, size)
        used = self._owners.get(owner, 0)
        if used + size > self._share:
            raise _over_share(used, size, self._share)
        if self._total + size > self.limit:
            raise Unavailable(
                "This server has no memory left for more requests; try again in a moment.",
                code="server_memory_full",
                retry_after=1,
            )

    def count(self, owner: str, kind: Kind, size: int) -> None:
        """For ``Held``."""
        self._total += size
        self._kinds[kind] += size
        self._owners[owner] = self._owners.get(owner, 0) + size
        if not self._owners[owner]:
            del self._owners[owner]

    def _collect(self) -> None:
        while self.returned:
            owner, kind, size = self.returned.popleft()
            self.count(owner, kind, -size)

    def _make_room(self, owner: str, size: int) -> None:
        """Let go of what can be read again or sent again: of the owner's own, if that is over its
        share, and of anybody's, if all is full."""
        self._collect()
        while self._owners.get(owner, 0) + size > self._share and owner in self._kept:
            self._let_go(owner, next(iter(self._kept[owner])))
        while self._total + size > self.limit and self._order:
            self._let_go(*next(iter(self._order)))

    def _let_go(self, owner: str, name: Hashable) -> None:
        let_go = self.forget(owner, name)
        if let_go is not None:
            let_go()
        self._collect()


def _over_share(used: int, size: int, share: int) -> RequestError:
    return TooManyRequests(
        f"Your requests, and the conversations open on your connections, take {_megabytes(used)} "
        f"of memory here. This takes {_megabytes(size)} more, and a key may take "
        f"{_megabytes(share)}. Wait until some have ended.",
        code="memory_limit_reached",
        retry_after=1,
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
