"""What a node knows: what is bounded, and what is refused."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw
from msgspec.structs import replace

from tests.support.counting import instructions
from vivace.conversation.deltas import Finished, TextDelta, Tokens
from vivace.conversation.log import Said
from vivace.errors import LinkError
from vivace.link.frames import (
    WINDOW,
    Attach,
    Broke,
    Chunk,
    Fenced,
    Found,
    Heard,
    Load,
    Log,
    Reach,
    Refused,
    Run,
    Stop,
    Tallied,
    Welcome,
)
from vivace.link.gateway_end import GatewayEnd
from vivace.link.histories import Histories, size_of
from vivace.link.node_end import Begin, Halt, NodeEnd
from vivace.protocol.items import Message

NOTHING = Raw(msgspec.msgpack.encode(None))


def run(stream: int, name: str = "", turn: str = "") -> Run:
    name = name or f"r{stream}"
    return Run(stream, name, turn or f"t{stream}", 1, 1, "e", "o", 2.0, NOTHING)


def node(**settings: int) -> NodeEnd:
    end = NodeEnd(**settings)
    end.joined("p")
    return end


def begin(end: NodeEnd, asked: Run) -> None:
    [begun] = end.received("p", asked, 0.0)
    assert isinstance(begun, Begin)


def finish(end: NodeEnd, name: str, text: str = "x", now: float = 0.0) -> None:
    entries = (Said(0, TextDelta(text)), Said(0, Finished("stop", Tokens())))
    end.said(name, entries, Tallied(), now)
    end.outgoing("p")


def test_stops_that_crossed_the_end_are_bounded_and_hide_no_other() -> None:
    end = node()
    for stream in range(1, 12_000):
        begin(end, run(stream))
        finish(end, f"r{stream}")
        assert not list(end.received("p", Stop(stream), 0.0))
    assert len(end._peers["p"].gone) <= 1_000
    list(end.received("p", Stop(20_000), 0.0))
    assert not list(end.received("p", run(20_000), 0.0)), "it was stopped before it came"


def test_two_streams_of_one_number_are_refused() -> None:
    end = node()
    begin(end, run(1))
    with pytest.raises(LinkError):
        list(end.received("p", run(1, "other"), 0.0))
    with pytest.raises(LinkError):
        list(end.received("p", Attach(1, "t1", 1, 0), 0.0))


def test_a_run_whose_log_had_no_room_is_not_run_again() -> None:
    end = node(max_bytes=1000)
    begin(end, run(1))
    finish(end, "r1", "x" * 2000)
    assert not list(end.tick(1.0))
    end.lost("p", 1.0)
    end.joined("p")
    assert not list(end.received("p", run(1), 1.0))
    assert isinstance(end.outgoing("p")[0], Refused)
    assert not list(end.tick(100.0))
    assert not end._forgotten


def test_an_old_log_that_somebody_reads_is_kept_for_them() -> None:
    end = node(max_bytes=1000)
    begin(end, run(1))
    end.joined("slow")
    list(end.received("slow", Attach(1, "t1", 1, 0, holds=False, credit=1), 0.0))
    finish(end, "r1", "x" * 2000)
    end.outgoing("slow")
    list(end.tick(1.0))
    assert end._logs
    end.lost("slow", 1.0)
    list(end.tick(1.0))
    assert not end._logs


def test_looking_at_thousands_of_logs_costs_what_it_does_for_ten() -> None:
    def cost(logs: int) -> int:
        end = node()
        for stream in range(1, logs + 1):
            begin(end, run(stream))
            finish(end, f"r{stream}")
        return instructions(lambda: list(end.tick(1.0)))

    assert cost(5_000) == cost(10)


def test_a_run_that_nobody_holds_halts_and_stays_readable() -> None:
    end = node()
    begin(end, run(1))
    end.said("r1", (Said(0, TextDelta("so far")),), Tallied(), 0.0)
    end.lost("p", 1.0)
    assert not list(end.tick(2.9))
    assert list(end.tick(3.0)) == [Halt("r1")]
    end.joined("q")
    list(end.received("q", Attach(7, "t1", 2, 0), 4.0))
    taken, log, broke = end.outgoing("q")
    assert taken == Found(7, "r1", "e", 1, 1, b"", b"", Tokens())
    assert log.chunks[0].entries == (Said(0, TextDelta("so far")),)  # type: ignore[union-attr]
    assert isinstance(broke, Broke)
    assert not list(end.tick(5.0)), "it halts once"


def test_a_ghost_is_fenced() -> None:
    end = node()
    begin(end, run(1))
    end.joined("q")
    list(end.received("q", Attach(1, "t1", 2, 0), 0.0))
    end.said("r1", (Said(0, TextDelta("x")),), Tallied(), 0.0)
    assert end.outgoing("p")[1:] == [Fenced(1)]
    list(end.received("p", Attach(2, "t1", 1, 0), 0.0))
    assert end.outgoing("p") == [Fenced(2)]


def test_who_takes_a_turn_over_has_its_newest_run_and_all_that_went_before() -> None:
    end = node()
    begin(end, run(1))
    later = replace(run(2), turn="t1", attempt=2, created=b"{}", before=b"log", spent=Tokens(3, 4))
    assert [type(each) for each in end.received("p", later, 0.0)] == [Halt, Begin]
    end.said("r2", (Said(0, TextDelta("x")),), Tallied(), 0.0)
    end.outgoing("p")
    end.joined("q")
    there = GatewayEnd()
    stream, wanted = there.attach("t1", 2)
    list(end.received("q", wanted, 0.0))
    end.said("r2", (Said(0, TextDelta("y")),), Tallied(), 0.0)
    for message in end.outgoing("q"):
        there.received(message)
    assert stream.found == Found(1, "r2", "e", 2, 1, b"{}", b"log", Tokens(3, 4))
    assert [*stream.entries] == [Said(0, TextDelta("x")), Said(0, TextDelta("y"))]
    assert end.outgoing("p") == [Fenced(2)]


def test_who_takes_a_turn_over_asks_again_when_the_link_broke_before_the_answer() -> None:
    there = GatewayEnd()
    welcome = Welcome("n", "incarnation", 1, ())
    there.welcomed(welcome)
    stream, wanted = there.attach("t1", 2)
    assert there.welcomed(welcome) == ([], [wanted])
    there.received(Found(1, "r2", "e", 1, 0, b"", b"", Tokens()))
    there.received(Log((Chunk(1, 0, (Said(0, TextDelta("x")),), Tallied()),)))
    _, [again] = there.welcomed(welcome)
    assert again == Attach(1, "t1", 2, 1, True, "r2", credit=WINDOW - 1)
    assert there.stop(stream) == Stop(1)


def test_who_only_looks_at_a_turn_takes_it_from_nobody() -> None:
    end = node()
    begin(end, run(1))
    end.outgoing("p")
    end.joined("q")
    looks, wanted = GatewayEnd().attach("t1", 0, holds=False)
    list(end.received("q", wanted, 0.0))
    assert isinstance(end.outgoing("q")[0], Found)
    assert not list(end.received("q", Stop(looks.run.stream), 0.0))
    end.said("r1", (Said(0, TextDelta("x")),), Tallied(), 0.0)
    assert [type(each) for each in end.outgoing("p")] == [Log]


def test_who_only_reads_hears_how_far_the_holder_has_told_also_without_more_words() -> None:
    end, there = node(), GatewayEnd()
    begin(end, run(1))
    end.said("r1", (Said(0, TextDelta("x")), Said(0, TextDelta("y"))), Tallied(), 0.0)
    end.outgoing("p")
    end.joined("q")
    reads, wanted = there.attach("t1", 0, holds=False)
    list(end.received("q", wanted, 0.0))

    def hear(entries: int, told: int) -> tuple[int, int]:
        list(end.received("p", Heard((Reach(1, entries, WINDOW, told),)), 0.0))
        for message in end.outgoing("q"):
            there.received(message)
        return reads.heard, reads.told

    assert hear(1, 4) == (1, 4)
    assert hear(1, 5) == (1, 5)
    assert hear(2, 3) == (2, 5)  # it was said in another order
    assert end.outgoing("q") == []


class TestHistories:
    def test_they_are_bounded_by_turns_items_and_bytes(self) -> None:
        item = Message(role="user", content="x" * 1000)
        for bounds in ((5, 10**6, 10**9), (10**6, 5, 10**9), (10**6, 10**6, 5_500)):
            histories = Histories(*bounds)
            for turn in range(100):
                histories.keep("o", f"t{turn}", (item,), f"r{turn}", size_of((item,)))
            assert len(histories._shown) == 5
            assert histories.find("o", "t99") is not None
            assert histories.find("o", "t1") is None

    def test_one_owner_never_finds_anothers(self) -> None:
        histories = Histories()
        histories.keep("o", "t", (Message(role="user", content="x"),), "r", 1)
        assert histories.find("p", "t") is None

    def test_a_turn_that_was_shown_twice_is_continued_from_what_this_gateway_sent(self) -> None:
        """Two gateways show a node one turn with other items: each means its own."""
        end = node()
        end.joined("q")
        links = {"p": GatewayEnd(), "q": GatewayEnd()}
        said = {peer: Message(role="user", content=f"by {peer}") for peer in links}
        more = Message(role="user", content="more")
        for number, (peer, link) in enumerate(links.items(), 1):
            shown = Run(0, f"r{peer}", "t", 1, number, "e", "o", 2.0, NOTHING, (said[peer],))
            list(end.received(peer, link.run(shown, None)[1], 0.0))
        for peer, link in links.items():
            items = (said[peer], more)
            asked = Run(0, f"s{peer}", f"u{peer}", 1, 1, "e", "o", 2.0, NOTHING, items)
            sent = link.run(asked, "t")[1]
            assert sent.items == (more,)
            [begun] = end.received(peer, sent, 0.0)
            assert isinstance(begun, Begin)
            assert begun.items == (said[peer], more)


def test_what_is_turned_away_counts_among_what_the_node_has_seen() -> None:
    end, gateway = node(), GatewayEnd()
    gateway.welcomed(Welcome("n", "i", 2, ()))
    _, sent = gateway.run(run(0, "r1", "t1"), None)
    end.turn_away("p", sent, "It takes no more work.")
    stream, again = gateway.run(run(0, "r2", "t2"), None)
    begin(end, again)
    end.stands([Load("e", True, 1, 0, 4)], 1)
    for message in end.outgoing("p"):
        gateway.received(message)
    assert gateway.running("e") == 1, "the node has told of it already"
    assert gateway.stage == 1
    assert stream.gone is None
