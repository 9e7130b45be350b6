"""Frames: what is said is what is heard, newer words are skipped, and garbage is refused."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from vivace.conversation.deltas import (
    CallOpened,
    CallText,
    Finished,
    ReasoningDelta,
    TextDelta,
    Tokens,
)
from vivace.conversation.log import Begun, Failed, Jumped, Placed, Said, Stopped
from vivace.errors import LinkError
from vivace.link.frames import (
    MAX_AT_ONCE,
    MAX_CHUNKS,
    MAX_FRAME,
    MAX_MESSAGES,
    Attach,
    Beat,
    Broke,
    Chunk,
    Fenced,
    Found,
    Heard,
    Hello,
    Load,
    Loads,
    Log,
    Measure,
    Measured,
    NeedHistory,
    Offer,
    Piece,
    Reach,
    Refused,
    Run,
    Stop,
    Taken,
    Tallied,
    ToGateway,
    ToNode,
    Welcome,
    agreed,
    decode_to_gateway,
    decode_to_node,
    encode,
)
from vivace.link.pieces import PIECE, ByteBudget, Joiner, cut, frames_of
from vivace.protocol.items import FunctionCall, InputText, Message, Reasoning

RAW = Raw(msgspec.msgpack.encode({"any": [1, "thing"]}))
ITEMS = (
    Message(role="user", content="plain"),
    Message(id="msg_1", role="assistant", content=[InputText("part")], status="completed"),
    FunctionCall(call_id="c", name="f", arguments="{}"),
    Reasoning(summary=[]),
)
ENTRIES = (
    Placed(1, 2, 0.5),
    Begun(1, summary=True),
    Said(2, ReasoningDelta("hm", (7,))),
    Said(2, TextDelta("é\U0001f600", [], (1, 2))),
    Said(2, CallOpened("f", True, "space", "call_1", (3,))),
    Said(2, CallText("{}")),
    Stopped(3, "steer", "resp_2"),
    Failed(3, "code", "words"),
    Jumped(3),
    Said(4, Finished("length", Tokens(1, 2, 3, 4, 5, 6))),
)
TO_NODE: list[ToNode] = [
    Hello("gateway", (1, 2)),
    Run(1, "r", "t", 2, 3, "e", "o", 1.5, RAW, ITEMS, "base", 4, 5),
    Run(1, "r", "t", 2, 3, "e", "o", 1.5, RAW, created=b"{}", before=b"\x01", spent=Tokens(7)),
    Attach(1, "t", 2, 3, False, "r", 9),
    Heard((Reach(1, 2, 3), Reach(4, 5, 6))),
    Stop(1),
    Piece(1, True, b"\x00\xff"),
    Beat(),
]
TO_GATEWAY: list[ToGateway] = [
    Welcome(
        "n", "i", 1, (Offer("e", b"cards", 4, 1, "ids", 2.5), Offer("f", b"", 1, 0, "no", None))
    ),
    Taken(1),
    Found(1, "r", "e", 2, 3, b"{}", b"\x01\x02", Tokens(1, 2, 3, 4)),
    Refused(1, "why"),
    NeedHistory(1),
    Log((Chunk(1, 7, ENTRIES, Tallied(1, 2, 3, 4)), Chunk(2, 0, (), Tallied()))),
    Broke(1, "EngineDied", "words", 1.5, "always", Tallied(1)),
    Fenced(1),
    Loads((Load("e", True, 1, 2, 3),), 4),
    Piece(2, False, b""),
    Beat(),
]
Decode = Callable[[bytes], list[Any]]
BOTH: list[tuple[Decode, list[Any]]] = [(decode_to_node, TO_NODE), (decode_to_gateway, TO_GATEWAY)]


@pytest.mark.parametrize(("decode", "said"), BOTH)
def test_what_is_said_is_what_is_heard(decode: Decode, said: list[Any]) -> None:
    assert decode(encode(said)) == said


@pytest.mark.parametrize(("decode", "said"), BOTH)
def test_fields_of_a_newer_version_are_skipped(decode: Decode, said: list[Any]) -> None:
    newer = [[*each, {"new": [1]}, "field"] for each in msgspec.msgpack.decode(encode(said))]
    assert decode(msgspec.msgpack.encode(newer)) == said


def test_fields_that_an_older_version_leaves_out_have_their_default() -> None:
    hello, run, _, attach = msgspec.msgpack.decode(encode(TO_NODE))[:4]
    older = [run[:10], attach[:5], hello[:2]]
    assert decode_to_node(msgspec.msgpack.encode(older)) == [
        Run(1, "r", "t", 2, 3, "e", "o", 1.5, RAW),
        Attach(1, "t", 2, 3),
        Hello("gateway"),
    ]


@pytest.mark.parametrize(("decode", "said"), BOTH)
def test_a_frame_that_is_cut_short_is_refused(decode: Decode, said: list[Any]) -> None:
    frame = encode(said)
    for end in range(len(frame)):
        with pytest.raises(LinkError):
            decode(frame[:end])


@given(garbage=st.binary(max_size=200), at=st.integers(0, 10_000))
def test_garbage_is_refused_or_means_something(garbage: bytes, at: int) -> None:
    for decode, said in BOTH:
        frame = encode(said)
        middle = at % len(frame)
        for hostile in (garbage, frame[:middle] + garbage + frame[middle + len(garbage) :]):
            try:
                assert isinstance(decode(hostile), list)
            except LinkError as error:
                assert len(str(error)) < 200  # noqa: PT017 - either may happen


@pytest.mark.parametrize(
    "frame",
    [
        b"\x91" * 900_000,
        b"\x91\x9e\x01" + b"\x91" * 900_000,
        b"\x91\x92\x5b" + b"\x91" * 800_000 + b"\xc0",  # in a field that we do not know
        b"\xdd\xff\xff\xff\xff",
        b"\x91\x92\x03\xdd\xff\xff\xff\xff",
        b"\x91\xdf\xff\xff\xff\xff",
        b"\x91\x94\x5a\x01\xc2\xc6\xff\xff\xff\xff",
        b"",
        b"\xc0",
    ],
)
def test_deep_and_boastful_frames_cost_nothing(frame: bytes) -> None:
    for decode, _ in BOTH:
        tracemalloc.start()
        with pytest.raises(LinkError):
            decode(frame)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1_000_000


WORD = Said(0, TextDelta("x"))


@pytest.mark.parametrize(
    ("decode", "frame"),
    [
        (decode_to_gateway, [Beat()] * (MAX_MESSAGES + 1)),
        (decode_to_node, [Beat()] * (MAX_MESSAGES + 1)),
        (decode_to_gateway, [Log((Chunk(1, 0, (WORD,) * (MAX_AT_ONCE + 1), Tallied()),))]),
        (decode_to_gateway, [Log((Chunk(1, 0, (), Tallied()),) * (MAX_CHUNKS + 1))]),
        (decode_to_gateway, [Loads((Load("e", True, 1, 2, 3),) * 65, 4)]),
        (decode_to_gateway, [Welcome("n", "i", 1, (Offer("e", b"", 1, 0, "no", None),) * 65)]),
        (decode_to_gateway, [Welcome("n" * 257, "i", 1, ())]),
        (decode_to_gateway, [Welcome("\x1b[2J", "i", 1, ())]),
        (decode_to_gateway, [Welcome("n", "i", 1, (Offer("a\nb", b"", 1, 0, "no", None),))]),
        (decode_to_gateway, [Welcome("n", "i", 1, (Offer("e", b"x" * 20_000, 1, 0, "no", 1.0),))]),
        (decode_to_gateway, [Measured(1, (1,) * 65)]),
        (decode_to_gateway, [Log((Chunk(1, 0, (Said(0, TextDelta("", [[]])),), Tallied()),))]),
        (decode_to_node, [Hello("g" * 257)]),
        (decode_to_node, [Hello("g", (1,) * 17)]),
        (decode_to_node, [Measure(1, "e", "m", ((),) * 65)]),
    ],
)
def test_more_of_anything_than_an_end_ever_sends_is_refused(
    decode: Decode, frame: list[Any]
) -> None:
    with pytest.raises(LinkError):
        decode(encode(frame))


@pytest.mark.parametrize(("decode", "said"), BOTH)
def test_message_that_came_in_pieces_comes_alone(decode: Any, said: list[Any]) -> None:
    assert decode(encode(said[:1]), joined=True) == said[:1]
    with pytest.raises(LinkError):
        decode(encode(said[:2]), joined=True)


@pytest.mark.parametrize(
    "message",
    [
        Attach(1, "t", 1, -1),
        Run(1, "r", "t", 1, 1, "e", "o", 1.0, RAW, keep=-1),
        Run(1, "r", "t", 1, 1, "e", "o", 1.0, RAW, credit=-1),
        Run(1, "r", "t", 1, 1, "e", "o", float("nan"), RAW),
        Run(1, "r", "t", 1, 1, "e", "o", float("inf"), RAW),
        Run(1, "r", "t", 1, 1, "e", "o", 1.0, RAW, spent=Tokens(2**60)),
        Run(1, "r", "t", 1, 1, "e", "o", 1.0, RAW, cost=-1.0),
        Run(1, "r", "t", 1, 1, "e", "o", 1.0, RAW, cost=float("nan")),
        Run(1, "r", "t", 1, 1, "e", "o", 1.0, RAW, cost=float("inf")),
        Run(1, "r", "t", 1, 1, "e", "o", 1.0, RAW, first_token=float("nan")),
        Heard((Reach(1, -1, 1),)),
        Heard((Reach(1, 1, 1, free_bytes=-1),)),
    ],
)
def test_numbers_that_mean_nothing_are_refused(message: Any) -> None:
    with pytest.raises(LinkError):
        decode_to_node(encode([message]))


@pytest.mark.parametrize(
    "message",
    [
        Log((Chunk(1, 0, (Said(4, Finished("stop", Tokens(1, 2**63))),), Tallied()),)),
        Log((Chunk(1, 0, (), Tallied(2**63)),)),
        Broke(1, "EngineDied", "gone", None, "always", Tallied(output=2**63)),
    ],
)
def test_tokens_that_no_store_has_room_for_are_refused(message: Any) -> None:
    with pytest.raises(LinkError):
        decode_to_gateway(encode([message]))


def test_the_newest_version_that_both_speak_is_taken() -> None:
    assert agreed((1, 99)) == 1
    with pytest.raises(LinkError, match="upgrade"):
        agreed((99,))
    with pytest.raises(LinkError):
        agreed(())


class TestPieces:
    @given(size=st.integers(0, 3 * PIECE))
    def test_a_frame_comes_out_as_it_went_in(self, size: int) -> None:
        frame = bytes(range(256)) * (size // 256 + 1)
        joiner = Joiner()
        pieces = [decode_to_node(each)[0] for each in cut(1, frame)]
        assert all(len(each.data) <= PIECE for each in pieces)  # type: ignore[union-attr]
        came = [joiner.take(each) for each in pieces]  # type: ignore[arg-type]
        assert came[-1] == frame
        assert set(came[:-1]) <= {None}

    def test_frames_may_come_in_between_each_other(self) -> None:
        joiner = Joiner()
        assert joiner.take(Piece(1, True, b"a")) is None
        assert joiner.take(Piece(2, True, b"x")) is None
        assert joiner.take(Piece(1, False, b"b")) == b"ab"
        assert joiner.take(Piece(2, False, b"y")) == b"xy"

    def test_frames_that_never_end_are_refused(self) -> None:
        joiner = Joiner(largest=100)
        joiner.take(Piece(1, True, b"x" * 60))
        with pytest.raises(LinkError):
            joiner.take(Piece(1, True, b"x" * 60))

    def test_so_are_frames_without_number(self) -> None:
        joiner = Joiner()
        for number in range(16):
            joiner.take(Piece(number, True, b""))
        with pytest.raises(LinkError):
            joiner.take(Piece(16, True, b""))

    def test_what_is_whole_is_not_counted_any_more(self) -> None:
        joiner = Joiner(largest=100)
        for number in range(50):
            assert joiner.take(Piece(number, True, b"x" * 40)) is None
            assert joiner.take(Piece(number, False, b"x" * 40)) is not None

    def test_links_share_a_budget_and_the_one_that_holds_most_is_ended(self) -> None:
        ended: list[str] = []
        budget = ByteBudget(100)
        hoarder, other, third = (
            Joiner(1000, budget, lambda name=name: ended.append(name))  # type: ignore[misc]
            for name in ("hoarder", "other", "third")
        )
        hoarder.take(Piece(1, True, b"x" * 60))
        other.take(Piece(1, True, b"x" * 30))
        assert other.take(Piece(1, False, b"y" * 30)) == b"x" * 30 + b"y" * 30
        assert ended == ["hoarder"]
        third.take(Piece(1, True, b"x" * 90))
        with pytest.raises(LinkError):  # it is the one that holds most
            third.take(Piece(1, True, b"x" * 20))
        third.close()
        other.take(Piece(2, True, b"x" * 100))
        assert ended == ["hoarder"]


class TestFramesOf:
    @given(sizes=st.lists(st.integers(0, 3 * PIECE), max_size=12))
    def test_messages_come_in_their_order_in_frames_that_fit(self, sizes: list[int]) -> None:
        messages = [Refused(number, "x" * size) for number, size in enumerate(sizes)]
        came: list[Any] = []
        for frame in frames_of(messages):
            alone = len(frame) > PIECE
            came += decode_to_gateway(frame, joined=alone)
        assert came == messages

    def test_many_small_messages_are_cut_by_their_number(self) -> None:
        frames = [*frames_of([Beat()] * (2 * MAX_MESSAGES + 1))]
        assert [len(decode_to_gateway(each)) for each in frames] == [MAX_MESSAGES, MAX_MESSAGES, 1]

    def test_nothing_is_encoded_before_it_is_asked_for(self) -> None:
        """A thousand answers of a megabyte each, of one log, must not be a gigabyte."""
        found = Found(1, "r", "e", 2, 3, b"x" * 1_000_000, b"", Tokens())
        tracemalloc.start()
        for frame in frames_of([found] * 1000):
            assert len(frame) > 1_000_000
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 10_000_000

    def test_pieces_and_frames_fit_what_a_websocket_takes(self) -> None:
        pieces = [*cut(2**63, b"x" * (PIECE + 1))]
        assert max(map(len, pieces)) <= MAX_FRAME
        assert max(map(len, frames_of([Refused(1, "x")] * 50_000))) <= PIECE
