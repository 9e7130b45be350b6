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
    WINDOW_BYTES,
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
    Taken,
    Tallied,
    Welcome,
    encode,
)
from vivace.link.gateway_end import GatewayEnd
from vivace.link.histories import Histories, size_of
from vivace.link.node_end import Begin, Halt, NodeEnd
from vivace.link.pieces import PIECE
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
    end = node(max_bytes=3000)
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
    end = node(max_bytes=3000)
    begin(end, run(1))
    end.joined("slow")
    list(end.received("slow", Attach(1, "t1", 1, 0, holds=False, credit=1), 0.0))
    finish(end, "r1", "x" * 1200)
    end.outgoing("slow")
    list(end.tick(1.0))
    assert end._logs
    end.lost("slow", 1.0)
    list(end.tick(1.0))
    assert not end._logs


def test_logs_that_their_readers_do_not_take_are_bounded() -> None:
    end = node(max_bytes=3000)
    end.joined("slow")
    told = 0
    for stream in range(1, 20):
        begin(end, run(stream))
        list(end.received("slow", Attach(stream, f"t{stream}", 1, 0, holds=False, credit=1), 0.0))
        finish(end, f"r{stream}", "x" * 500)
        list(end.tick(1.0))
        told += sum(isinstance(each, Broke) for each in end.outgoing("slow"))
    assert end._bytes <= 2 * 3000
    assert told == 19 - len(end._logs)
    assert len(end._peers["slow"].reading) == len(end._logs)


def test_log_whose_reader_has_taken_nothing_for_a_minute_gives_room() -> None:
    end = node(max_bytes=3000)
    begin(end, run(1))
    end.joined("slow")
    list(end.received("slow", Attach(1, "t1", 1, 0, holds=False, credit=1), 0.0))
    finish(end, "r1", "x" * 1200)
    for now in (30.0, 59.0):
        list(end.tick(now))
        assert end._logs
    list(end.received("slow", Heard((Reach(1, 1, 1),)), 59.0))  # no more room than before
    list(end.tick(60.0))
    assert not end._logs


def test_run_is_refused_while_prompts_and_logs_fill_the_memory() -> None:
    items = (Message(role="user", content="x" * 1000),)
    end = node(max_open_bytes=10_000)
    for stream in range(1, 4):
        begin(end, replace(run(stream), items=items))
    assert not list(end.received("p", replace(run(4), items=items), 0.0))
    refused = end.outgoing("p")[-1]
    assert isinstance(refused, Broke)
    assert (refused.stream, refused.kind) == (4, "EngineBusy")
    finish(end, "r1")
    begin(end, replace(run(5), items=items))


def test_what_gateways_give_with_a_run_counts_as_memory() -> None:
    end = node(max_open_bytes=4000)
    for part in ({"created": b"x" * 4000}, {"before": b"x" * 4000}):
        assert not list(end.received("p", replace(run(len(end.outgoing("p"))), **part), 0.0))
    work = Raw(msgspec.msgpack.encode("x" * 4000))
    assert not list(end.received("p", replace(run(9), work=work), 0.0))
    assert end._open_bytes == 0


def test_runs_that_are_open_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vivace.link.node_end._MAX_OPEN_RUNS", 10)
    end = node()
    for stream in range(1, 11):
        begin(end, run(stream))
    assert not list(end.received("p", run(11), 0.0))
    assert isinstance(end.outgoing("p")[-1], Broke)
    finish(end, "r1")
    begin(end, run(12))


def test_attempts_at_one_turn_are_bounded() -> None:
    """Each is looked at when another comes."""
    end = node()
    for stream in range(1, 102):
        list(end.received("p", replace(run(stream, turn="t"), attempt=stream), 0.0))
    assert len(end._logs) == 100
    assert isinstance(end.outgoing("p")[-1], Broke)


def test_runs_that_came_to_nothing_count_as_memory() -> None:
    end = node(max_bytes=100_000)
    for stream in range(1, 1000):
        begin(end, run(stream))
        end.broke(f"r{stream}", Broke(0, "EngineAbsent", "no such engine", None, "never"), 0.0)
        end.outgoing("p")
        list(end.tick(0.0))
    assert len(end._logs) <= 50


def test_streams_of_a_link_are_bounded() -> None:
    end = node()
    for number in range(1, 51):
        begin(end, run(number))
    for stream in range(51, 10_001):
        list(end.received("p", Attach(stream, f"t{1 + stream % 50}", 1, 0, holds=False), 0.0))
    with pytest.raises(LinkError, match="10,000 streams"):
        list(end.received("p", Attach(10_001, "t1", 1, 0, holds=False), 0.0))


def test_readers_of_a_log_are_bounded() -> None:
    end = node()
    begin(end, run(1))
    for stream in range(2, 259):
        list(end.received("p", Attach(stream, "t1", 1, 0, holds=False), 0.0))
    assert [each for each in end.outgoing("p") if isinstance(each, Refused)] == [
        Refused(258, "Too many read the log of this turn.")
    ]


def test_gateway_that_asks_and_takes_no_answer_loses_its_link() -> None:
    end = node()
    for stream in range(20_000):
        list(end.received("p", Attach(stream, "unknown", 1, 0), 0.0))
    with pytest.raises(LinkError, match="none of the answers"):
        list(end.received("p", Attach(20_000, "unknown", 1, 0), 0.0))


def test_log_that_is_too_long_to_take_over_is_not_sent() -> None:
    end = node()
    begin(end, replace(run(1), before=b"x" * 33_000_000))
    end.outgoing("p")
    list(end.received("p", Attach(2, "t1", 2, 0), 0.0))
    [refused] = end.outgoing("p")
    assert isinstance(refused, Refused)


def test_what_engines_said_at_once_goes_out_in_messages_that_fit_a_frame() -> None:
    """A frame of all that waits would be larger than any that a gateway takes."""
    end = node()
    word = Said(0, TextDelta("x" * 1000))
    for stream in range(1, 201):
        begin(end, replace(run(stream), credit=10_000))
        end.said(f"r{stream}", [word] * 100, Tallied(), 0.0)
    came: dict[int, int] = {}
    while end.waiting():
        messages = end.outgoing("p")
        logs = [each for each in messages if isinstance(each, Log)]
        assert sum(len(encode([each])) for each in logs) < 2_000_000
        for log in logs:
            assert len(encode([log])) <= PIECE
            for chunk in log.chunks:
                assert chunk.first == came.get(chunk.stream, 0)
                came[chunk.stream] = chunk.first + len(chunk.entries)
    assert came == dict.fromkeys(range(1, 201), 100)


def test_engine_waits_while_its_reader_has_bytes_enough() -> None:
    end = node()
    begin(end, replace(run(1), free_bytes=1000))
    for _ in range(2):
        assert end.may_go_on("r1")
        end.said("r1", [Said(0, TextDelta("x" * 500))], Tallied(), 0.0)
    assert not end.may_go_on("r1")
    list(end.received("p", Heard((Reach(1, 2, WINDOW, free_bytes=100),)), 0.0))
    assert end.may_go_on("r1")


def test_engine_that_says_more_than_a_run_may_have_is_told_so() -> None:
    end = node()
    begin(end, run(1))
    assert end.said("r1", [Said(0, TextDelta("x"))], Tallied(), 0.0)
    assert not end.said("r1", [Said(0, TextDelta("x" * 5_000_000))], Tallied(), 0.0)
    assert end._bytes < 3000


@pytest.mark.parametrize(
    "asked",
    [
        run(1, "r9", "t9"),
        Attach(1, "t9", 9, 0, run="r9"),
        Attach(1, "t1", 9, 0),
        Attach(1, "t9", 2**62, 0, credit=2**62),
    ],
)
def test_gateway_learns_nothing_of_turns_that_it_cannot_name(asked: Run | Attach) -> None:
    end = node()
    begin(end, run(7, "secret", "resp_secret"))
    end.said("secret", [Said(0, TextDelta("x"))], Tallied(), 0.0)
    end.outgoing("p")
    end.joined("hostile")
    list(end.received("hostile", asked, 0.0))
    list(end.received("hostile", Stop(7), 0.0))
    list(end.received("hostile", Heard((Reach(7, 2**62, 2**62, 2**62, 2**62),)), 0.0))
    assert [type(each) for each in end.outgoing("hostile")] in ([Taken], [Refused])
    end.said("secret", [Said(0, TextDelta("y"))], Tallied(), 0.0)
    assert [type(each) for each in end.outgoing("p")] == [Log], "its holder has it still"


def test_run_that_was_sent_again_under_another_turn_is_the_one_that_it_was() -> None:
    """A gateway that knows a run, and not its turn, is fenced as with any low epoch."""
    end = node()
    begin(end, replace(run(1), epoch=3))
    end.outgoing("p")
    end.joined("q")
    assert not list(end.received("q", replace(run(1, "r1", "another"), epoch=2), 0.0))
    assert end.outgoing("q") == [Fenced(1)]
    assert end.outgoing("p") == []


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
    assert again == Attach(1, "t1", 2, 1, True, "r2", WINDOW - 1, WINDOW_BYTES - 65)
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
