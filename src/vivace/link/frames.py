"""What gateways and engine nodes say to each other, over one WebSocket for each pair.

::

    gateway                                    node
    Hello ───────────────────────────────────► one version that both speak, or the end
          ◄─────────────────────────────────── Welcome
    Run ─────────────────────────────────────► Taken, Refused or NeedHistory
          ◄─────────────────────────────────── Log, one for all streams of an engine's step
    Heard ───────────────────────────────────► what the gateway has, and how much more it takes
    Stop, Attach ────────────────────────────► Fenced, where another holds the turn by now
    Measure ─────────────────────────────────► Measured, to nodes whose offers say so
          ◄─────────────────────────────────── Found, to who takes the turn of another gateway
    Drain ───────────────────────────────────► how far that is, to all, with Load
    Beat ────────────────────────────────────► and the same from the node, with Load

A frame is a list of messages, each an array in MessagePack. Readers skip fields that they do not
know at the end of a message, so fields are only ever added, behind the others, with a default.
Messages that a version does not have are never sent to who speaks it only.

A message that is too large goes in pieces (``pieces.py``), so that none waits long behind another.

Neither end trusts the other with its memory. Counts and lengths are bounded by the types below,
which MessagePack checks before it makes anything of an array; what a stream may hold is granted in
entries and bytes (``flow.py``). Only what stems from a client of the gateway, as a conversation
does, has no bound here: a client could end a link by it, with the answers of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from vivace.conversation.deltas import Tokens
from vivace.conversation.log import Entry
from vivace.errors import Blame, LinkError
from vivace.protocol.items import Item
from vivace.units import Name

__all__ = [
    "MAX_AT_ONCE",
    "MAX_CHUNKS",
    "MAX_FRAME",
    "MAX_MESSAGES",
    "SUBPROTOCOL",
    "VERSIONS",
    "WINDOW",
    "WINDOW_BYTES",
    "Attach",
    "Beat",
    "Broke",
    "Chunk",
    "Drain",
    "Fenced",
    "Found",
    "Heard",
    "Hello",
    "Load",
    "Loads",
    "Log",
    "Measure",
    "Measured",
    "NeedHistory",
    "Offer",
    "Piece",
    "Reach",
    "Refused",
    "Run",
    "Stage",
    "Stop",
    "Taken",
    "Tallied",
    "ToGateway",
    "ToNode",
    "Welcome",
    "agreed",
    "decode_to_gateway",
    "decode_to_node",
    "encode",
]

SUBPROTOCOL = "vivace-link.1"
VERSIONS = (1, 2)
"""Which we speak; the one before the newest stays in here for as long as fleets have it.

1: the first.
2: Drain.
"""
MAX_FRAME = 65_536
"""Bytes of a WebSocket message; both ends cut what is larger (``pieces.py``)."""
MAX_MESSAGES = 1024
"""Messages in a frame. One of 64 KB may hold 20,000, which is more work than fits between two
events of other streams."""
MAX_AT_ONCE = 128
"""Entries of one stream in a message."""
MAX_CHUNKS = 512
"""Streams in a message. A message that is full of both takes 10 ms to decode."""
_MAX_ENGINES = 64
_MAX_NAME = 256
_MAX_CARDS = 16_384
_MAX_VERSIONS = 16
_MAX_PARTS = 64
Kind = Literal["interactive", "agent", "background"]
"""How urgent it is, as in ``scheduling/queue.py``."""
Stage = Literal[0, 1, 2]
"""0: the node takes work. 1: it takes no more, and who waits there goes elsewhere. 2: what it has
begun with goes elsewhere, too."""
WINDOW = 256
"""Entries that a stream may hold which its reader has not taken."""
WINDOW_BYTES = 1_000_000
"""Bytes (``flow.weight``) of such entries; an entry that begins below this may be larger."""

Count = Annotated[int, Meta(ge=0, le=2**53)]
NodeName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.:/\-]*\Z", max_length=_MAX_NAME)]
EngineName = Annotated[Name, Meta(max_length=_MAX_NAME)]
Patience = Annotated[float, Meta(ge=0, le=86_400)]


class _Message(Struct, frozen=True, array_like=True, gc=False):
    """As it goes over the wire."""


# -- both -----------------------------------------------------------------------------------------


class Piece(_Message, frozen=True, tag=90):
    """Of a frame that is too large to go at once; the last has no ``more``."""

    number: Count
    """The frame's, on this link and in this direction."""
    more: bool
    data: bytes


class Beat(_Message, frozen=True, tag=91):
    """Said when there is nothing else to say."""


# -- to a node ------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag=0):
    gateway: Annotated[str, Meta(max_length=_MAX_NAME)]
    """This run of this gateway."""
    versions: Annotated[tuple[int, ...], Meta(max_length=_MAX_VERSIONS)] = VERSIONS


class Run(_Message, frozen=True, tag=1):
    """Work on this."""

    stream: Count
    """Its name on this link, chosen by the gateway and never used again there."""
    run: str
    """Its name on the node, chosen at random: sent again after the link broke, it is the same."""
    turn: str
    epoch: Count
    """How many gateways have held the turn, this one among them."""
    attempt: Count
    engine: str
    owner: str
    patience: Patience
    """Seconds for which it goes on without a gateway that holds it."""
    work: Raw
    """The rest of what an engine is given (``engines/remote_work.py``)."""
    items: tuple[Item, ...] = ()
    """The conversation, or what follows the beginning below."""
    base: str = ""
    """The run that was shown that beginning, to this owner."""
    keep: Count = 0
    """How many of its items that are."""
    credit: Count = WINDOW
    """How many entries the node may send before it hears of more room."""
    kind: Kind = "interactive"
    conversation: str = ""
    cost: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    """Weighted tokens that it is expected to take."""
    begun: bool = False
    """Whether it was taken before, by an engine or on record: it is not refused for coming late."""
    summary: bool = False
    """Whether the answer is the conversation in short."""
    created: bytes = b""
    """The response as it was created, where the record of the turn has it otherwise."""
    before: bytes = b""
    """The log of the turn up to here, which the node keeps for who takes the turn over."""
    spent: Tokens = Tokens()
    """What that has taken."""
    tier: str = ""
    """What its client asked for: others that wait for the same are before it."""
    queue: Count = 256
    """How many may wait before it; with more it is refused."""
    first_token: Annotated[float, Meta(ge=0)] | None = None
    """Seconds for which it may wait; if that would take longer, it is refused."""
    free_bytes: Count | None = None
    """Bytes that the gateway takes: the node begins no entry once it has sent so many. None from
    a gateway that does not count them."""


class Attach(_Message, frozen=True, tag=2):
    """Read what a node says of a turn, and hold it if told so."""

    stream: Count
    turn: str
    epoch: Count
    start: Count
    """The number of the first entry that is wanted."""
    holds: bool = True
    run: str = ""
    """Which run of it; without one, the newest."""
    credit: Count = WINDOW
    free_bytes: Count | None = None
    """Bytes that the reader has room for (see ``Run``), from the first entry that is wanted."""


class Reach(_Message, frozen=True):
    """How far the gateway is with a stream."""

    stream: Count
    entries: Count
    """All of it before this one is here."""
    credit: Count
    """The node may send up to this one, and not it."""
    told: int = -1
    """The number of the last event that the holder has told of the turn: others may be told up to
    there."""
    free_bytes: Count | None = None
    """Bytes that the reader has room for (see ``Run``), from the first entry that is missing."""


class Heard(_Message, frozen=True, tag=3):
    streams: tuple[Reach, ...]


class Stop(_Message, frozen=True, tag=4):
    """Nobody wants more of it."""

    stream: Count


class Drain(_Message, frozen=True, tag=5):
    """Take no more work, or take it again. For nodes that speak version 2."""

    on: bool
    seconds: Patience | None = None
    """For which what has begun may stay; without, as the node is set up."""


class Measure(_Message, frozen=True, tag=7):
    """How long is this? Asked before a turn is, where its gateway cannot tell whether it fits."""

    number: Count
    """Of the question, on this link."""
    engine: str
    model: str
    parts: Annotated[tuple[tuple[Item, ...], ...], Meta(max_length=_MAX_PARTS)]


# -- to a gateway ---------------------------------------------------------------------------------


class Offer(_Message, frozen=True):
    """An engine of a node."""

    name: EngineName
    cards: Annotated[bytes, Meta(max_length=_MAX_CARDS)]
    slots: Count
    reserved: Count
    continues: Literal["ids", "text", "no"]
    silence: float | None
    """Seconds for which it may have work and do none of it; None if that is its own affair."""
    counts: bool = False
    """Whether it can be asked how long something is, and knows better than by its bytes."""


class Welcome(_Message, frozen=True, tag=10):
    node: NodeName
    incarnation: str
    """This run of the node: what another has said is not known to it."""
    version: int
    offers: Annotated[tuple[Offer, ...], Meta(max_length=_MAX_ENGINES)]
    stage: Stage = 0


class Taken(_Message, frozen=True, tag=11):
    """An engine has it."""

    stream: Count


class Refused(_Message, frozen=True, tag=12):
    """There is no such turn here, or no such engine."""

    stream: Count
    message: str


class Found(_Message, frozen=True, tag=18):
    """Instead of ``Taken``, to who did not know which run it wants: this is the newest."""

    stream: Count
    run: str
    engine: str
    attempt: Count
    entries: Count
    """How many there are by now."""
    created: bytes
    before: bytes
    spent: Tokens
    """All of these as they were sent with the run."""


class NeedHistory(_Message, frozen=True, tag=13):
    """The beginning is not known here any more: send all of it."""

    stream: Count


class Tallied(_Message, frozen=True):
    """What the engine knows of what it has taken so far."""

    input: Count = 0
    cached: Count = 0
    output: Count = 0
    steps: Count = 0


class Chunk(_Message, frozen=True):
    """Some entries of a log, one behind the other."""

    stream: Count
    first: Count
    entries: Annotated[tuple[Entry, ...], Meta(max_length=MAX_AT_ONCE)]
    tally: Tallied
    told: int = -1
    """To who only reads: up to which event its holder has told."""


class Log(_Message, frozen=True, tag=14):
    chunks: Annotated[tuple[Chunk, ...], Meta(max_length=MAX_CHUNKS)]


class Broke(_Message, frozen=True, tag=15):
    """The engine did not finish it; behind everything that it said."""

    stream: Count
    kind: str
    message: str
    retry_after: float | None
    blame: Blame
    tally: Tallied = Tallied()
    code: str = ""
    """What its client is told, where too many wait there already, or it would wait too long."""
    seconds: float = 0.0
    """How long that would be."""


class Fenced(_Message, frozen=True, tag=16):
    """Another gateway holds the turn by now."""

    stream: Count


class Load(_Message, frozen=True):
    engine: str
    healthy: bool
    running: Count
    waiting: Count
    slots: Count


class Loads(_Message, frozen=True, tag=17):
    """How things stand with the engines of a node."""

    loads: Annotated[tuple[Load, ...], Meta(max_length=_MAX_ENGINES)]
    seen: Count
    """How many runs of this link are in there."""
    stage: Stage = 0


class Measured(_Message, frozen=True, tag=19):
    number: Count
    tokens: Annotated[tuple[Count, ...], Meta(max_length=_MAX_PARTS)]
    """Of each part; none if they could not be counted."""


ToNode = Hello | Run | Attach | Heard | Stop | Drain | Measure | Piece | Beat
ToGateway = (
    Welcome
    | Taken
    | Found
    | Refused
    | NeedHistory
    | Log
    | Broke
    | Fenced
    | Loads
    | Measured
    | Piece
    | Beat
)

_encoder = msgspec.msgpack.Encoder()
_to_node: msgspec.msgpack.Decoder[list[ToNode]] = msgspec.msgpack.Decoder(
    Annotated[list[ToNode], Meta(max_length=MAX_MESSAGES)]
)
_one_to_node: msgspec.msgpack.Decoder[list[ToNode]] = msgspec.msgpack.Decoder(
    Annotated[list[ToNode], Meta(max_length=1)]
)
_to_gateway: msgspec.msgpack.Decoder[list[ToGateway]] = msgspec.msgpack.Decoder(
    Annotated[list[ToGateway], Meta(max_length=MAX_MESSAGES)]
)
_one_to_gateway: msgspec.msgpack.Decoder[list[ToGateway]] = msgspec.msgpack.Decoder(
    Annotated[list[ToGateway], Meta(max_length=1)]
)


def encode(messages: Sequence[ToNode] | Sequence[ToGateway]) -> bytes:
    """Return the messages as one frame, however large."""
    return _encoder.encode(messages)


def decode_to_node(frame: bytes, *, joined: bool = False) -> list[ToNode]:
    """Return the messages of a frame. One that was ``joined`` from pieces has one message only."""
    try:
        return (_one_to_node if joined else _to_node).decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LinkError(f"A gateway said what cannot be read: {type(error).__name__}.") from None


def decode_to_gateway(frame: bytes, *, joined: bool = False) -> list[ToGateway]:
    """Return the messages of a frame. One that was ``joined`` from pieces has one message only."""
    try:
        return (_one_to_gateway if joined else _to_gateway).decode(frame)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LinkError(f"A node said what cannot be read: {type(error).__name__}.") from None


def agreed(versions: tuple[int, ...]) -> int:
    """The newest version that both speak."""
    both = set(versions) & set(VERSIONS)
    if not both:
        raise LinkError(
            f"The gateway speaks versions {versions} of the link and this node {VERSIONS}: "
            "upgrade the older of them, one version at a time."
        )
    return max(both)
