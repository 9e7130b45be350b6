"""One asked-for turn, and what a session decides about it."""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from vivace.conversation.chain import Link
from vivace.conversation.steering import Accepted
from vivace.errors import RequestError
from vivace.protocol.events import Event
from vivace.protocol.items import Item
from vivace.protocol.requests import CreateResponse

__all__ = [
    "Decision",
    "Fetch",
    "Recall",
    "Refuse",
    "Resent",
    "Say",
    "Start",
    "Stop",
    "StopHow",
    "Ticket",
    "id_after",
]

StopHow = Literal[
    "interrupt", "cancel", "disconnect", "revoke", "steer", "end_thinking", "fault", "taken"
]
"""``fault``: something of ours went wrong; ``taken``: another gateway has it."""


class Ticket:
    """One asked-for turn on its way through the session."""

    __slots__ = (
        "carried",
        "ends_thinking",
        "follower",
        "id",
        "input",
        "lane",
        "line",
        "parent",
        "past",
        "request",
        "resent",
        "retells",
        "running",
        "sealed",
        "steers",
        "successor_id",
        "withdrawn",
    )

    def __init__(
        self,
        response_id: str,
        lane: str | None,
        request: CreateResponse,
        line: frozenset[str] = frozenset(),
    ) -> None:
        self.id = response_id
        self.lane = lane
        self.request = request
        self.parent: Link | None = None
        self.resent = 0
        """How many items of the request stand in the past already: the client said them again."""
        self.past: list[Item] = []
        self.input: tuple[Item, ...] = ()
        self.running = False
        self.line = line
        """Steered responses that this one succeeds: who steers or interrupts those means this."""
        self.carried: list[Accepted] = []
        """Steers that this turn applies."""
        self.steers: list[Accepted] = []
        """Steers that wait for its end."""
        self.successor_id: str | None = None
        self.sealed = False
        """It is ending, and what follows it by itself is decided."""
        self.follower: Ticket | None = None
        """The turn that its steers have made."""
        self.withdrawn = False
        """Interrupted or cancelled: nothing follows it by itself."""
        self.ends_thinking: bool | None = None
        """Whether its engine can end its thinking; None before it has one."""
        self.retells = False
        """Its request was sent before: it only tells of the turn of that time."""

    @property
    def background(self) -> bool:
        """Whether it goes on when its client leaves."""
        return bool(self.request.body.background) and not self.retells

    @property
    def waits(self) -> bool:
        """Whether it goes on for a while when its client is gone."""
        return self.request.waits and not self.background and not self.retells

    @property
    def waiting(self) -> list[Accepted]:
        """Steers that no turn has been begun for."""
        return [*self.steers, *(self.follower.carried if self.follower else ())]

    def answers_to(self, response_id: str) -> bool:
        return response_id == self.id or response_id in self.line


_TIME = len("resp_") + 12
"""Characters of a response's id that tell when it began."""


def id_after(response_id: str) -> str:
    """The id of what a steer makes of a turn. It follows from the turn's, so that who takes this
    over makes what its client was told. It tells the time of the first of them."""
    made = blake2b(f"after {response_id}".encode(), digest_size=10)
    return f"{response_id[:_TIME]}{made.hexdigest()}"


class Resent(Struct, frozen=True):
    """A conversation that is sent whole: it goes on from this turn, behind so many of its items."""

    link: Link
    items: int


class Say(Struct, frozen=True):
    """Send this event."""

    event: Event


class Refuse(Struct, frozen=True):
    """Tell the client why this turn will not be, in the form that it understands."""

    ticket: Ticket
    error: RequestError


class Fetch(Struct, frozen=True):
    """Look for the ticket's parent among the stored turns, then call ``found``."""

    ticket: Ticket
    response_id: str


class Recall(Struct, frozen=True):
    """Look whether the ticket's request was sent before, by its key. Call ``is_new`` if it was not;
    else ``retells``, and ``retold`` when that is done."""

    ticket: Ticket


class Start(Struct, frozen=True):
    """Run this turn, then call ``settle`` (or ``refuse`` if it cannot be begun)."""

    ticket: Ticket


class Stop(Struct, frozen=True):
    """End this running turn at the next token, or behind its open item; it still settles. Or
    (``end_thinking``) end only its thinking: the turn goes on with its answer.

    The receipt is for the client, and goes out when the engine has been told.
    """

    ticket: Ticket
    how: StopHow
    receipt: Event | None = None
    at_item_end: bool = False


Decision = Say | Refuse | Recall | Fetch | Start | Stop
