"""A node that keeps no rule: its link ends, and nothing it says is kept beyond what was granted."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from vivace.conversation.deltas import Finished, TextDelta, Tokens
from vivace.conversation.log import Entry, Said
from vivace.errors import LinkError
from vivace.link.frames import (
    WINDOW,
    Attach,
    Chunk,
    Fenced,
    Found,
    Log,
    NeedHistory,
    Run,
    Taken,
    Tallied,
    Welcome,
)
from vivace.link.gateway_end import GatewayEnd, Stream
from vivace.protocol.items import Message

NOTHING = Raw(msgspec.msgpack.encode(None))
WORD = Said(0, TextDelta("x"))
END = Said(0, Finished("stop", Tokens()))
OLD, NEW = (Message(role="user", content=each) for each in ("old", "new"))


def gateway(**settings: int) -> GatewayEnd:
    end = GatewayEnd(**settings)
    end.welcomed(Welcome("n", "i", 2, ()))
    return end


def ask(end: GatewayEnd, turn: str = "t", *items: Message, parent: str = "") -> tuple[Stream, Run]:
    return end.run(Run(0, f"r{turn}", turn, 1, 1, "e", "o", 2.0, NOTHING, items), parent)


def say(end: GatewayEnd, stream: Stream, *entries: Entry, first: int | None = None) -> None:
    start = stream.heard if first is None else first
    end.received(Log((Chunk(stream.run.stream, start, entries, Tallied()),)))


def test_node_that_exceeds_its_credit_loses_its_link() -> None:
    end = gateway(window=10)
    stream, _ = ask(end)
    say(end, stream, *[WORD] * 10)
    with pytest.raises(LinkError, match="more of an answer"):
        say(end, stream, WORD)
    assert len(stream.entries) == 10


def test_node_that_sends_more_bytes_than_it_was_granted_loses_its_link() -> None:
    end = gateway(window_bytes=1000)
    stream, _ = ask(end)
    large = Said(0, TextDelta("x" * 990))
    say(end, stream, large)
    with pytest.raises(LinkError, match="more of an answer"):
        say(end, stream, large)


def test_conversation_is_sent_whole_once_for_each_stream() -> None:
    end = gateway()
    ask(end, "parent", OLD)
    stream, sent = ask(end, "child", OLD, NEW, parent="parent")
    assert sent.items == (NEW,)
    _, [again] = end.received(NeedHistory(stream.run.stream))
    assert isinstance(again, Run)
    assert again.items == (OLD, NEW)
    with pytest.raises(LinkError, match="sent whole"):
        end.received(NeedHistory(stream.run.stream))


def test_conversation_that_went_whole_at_first_is_not_sent_again() -> None:
    end = gateway()
    stream, _ = ask(end, "t", OLD)
    with pytest.raises(LinkError, match="sent whole"):
        end.received(NeedHistory(stream.run.stream))


def test_conversation_is_not_asked_for_of_a_run_that_has_begun_or_is_not_ours() -> None:
    end = gateway()
    ask(end, "parent", OLD)
    begun, _ = ask(end, "child", OLD, NEW, parent="parent")
    end.received(Taken(begun.run.stream))
    read, _ = end.attach("another", 1)
    end.received(Found(read.run.stream, "r", "e", 1, 0, b"", b"", Tokens()))
    for stream in (begun, read):
        with pytest.raises(LinkError, match="sent whole"):
            end.received(NeedHistory(stream.run.stream))


def test_after_a_break_a_conversation_that_was_sent_whole_is_not_asked_for() -> None:
    end = gateway()
    ask(end, "parent", OLD)
    stream, _ = ask(end, "child", OLD, NEW, parent="parent")
    _, messages = end.welcomed(Welcome("n", "i", 2, ()))
    assert stream.whole in messages
    with pytest.raises(LinkError, match="sent whole"):
        end.received(NeedHistory(stream.run.stream))


@pytest.mark.parametrize("said", [(END, WORD), (WORD, END, END)])
@pytest.mark.parametrize("at_once", [True, False])
def test_nothing_follows_the_end_of_an_answer(said: tuple[Entry, ...], at_once: bool) -> None:
    end = gateway()
    stream, _ = ask(end)
    first, last = ((), said) if at_once else (said[:-1], said[-1:])
    say(end, stream, *first)
    with pytest.raises(LinkError, match="after its end"):
        say(end, stream, *last)


def test_what_was_said_before_may_be_said_again_also_behind_the_end() -> None:
    end = gateway()
    stream, _ = ask(end)
    say(end, stream, WORD, END)
    say(end, stream, WORD, END, first=0)
    assert [*stream.entries] == [WORD, END]


def test_what_is_said_of_a_stream_that_is_gone_is_not_kept() -> None:
    end = gateway()
    fenced, _ = ask(end, "t1")
    stopped, _ = ask(end, "t2")
    end.received(Fenced(fenced.run.stream))
    end.stop(stopped)
    for stream in (fenced, stopped):
        say(end, stream, *[WORD] * (WINDOW + 1))
        assert not stream.entries


def test_run_is_named_once_and_only_where_that_was_asked() -> None:
    end = gateway()
    asked, _ = ask(end)
    read, _ = end.attach("another", 1)
    found = Found(read.run.stream, "r", "e", 1, 0, b"", b"", Tokens())
    end.received(found)
    for stream in (asked, read):
        with pytest.raises(LinkError, match="named a run"):
            end.received(msgspec.structs.replace(found, stream=stream.run.stream))


def test_attach_after_a_break_grants_what_is_free() -> None:
    end = gateway(window=10, window_bytes=1000)
    stream, _ = ask(end)
    end.received(Taken(stream.run.stream))
    say(end, stream, *[Said(0, TextDelta("x" * 136))] * 4)
    stream.take()
    _, [again] = end.welcomed(Welcome("n", "i", 2, ()))
    assert again == Attach(stream.run.stream, "t", 1, 4, True, "rt", 7, 400)
