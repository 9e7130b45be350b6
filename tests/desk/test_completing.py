"""Suggestions at the cursor, over a connection that says what it is told to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support import virtual_time
from tests.support.server import RunningGateway
from tests.support.waiting import eventually, eventually_async
from vivace.client.errors import ClientError
from vivace.client.gap import Gap
from vivace.client.lanes import Lanes
from vivace.completion.neighbours import Neighbour
from vivace.completion.pace import Pace
from vivace.completion.room import LEAST, MOST
from vivace.desk.completing import Completing, Suggestion
from vivace.engines.scripted import Reply, Say, Stall

TEXT = "def add(a, b):\n|\n\n\nprint(add(1, 2))\n"


@dataclass
class Server:
    """Writes the same answer to everything, a character at a time."""

    says: str = "    return a + b\n\n\nprint"
    fails: str = ""
    between: float = 0.0
    asked: list[Gap] = field(default_factory=list)
    written: int = 0
    cancelled: int = 0
    reads_for_ever: bool = False
    has_tiers: bool = False
    then: str = ""
    """What follows, if something else does."""
    stops_behind: int = 1_000
    """Characters of what follows, behind which the engine is busy with others."""
    holds: bool = False
    """Whether it does so with what somebody waits for, too."""
    reads: asyncio.Event = field(default_factory=asyncio.Event)
    writes: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def fill(self, lane: str, gap: Gap) -> AsyncGenerator[str, None]:
        self.asked.append(gap)
        if self.fails:
            raise ClientError(self.fails, retry_after=30.0)
        try:
            if not gap.generate:
                self.reads.set()
                await asyncio.sleep(3600 * self.reads_for_ever)
                return
            self.writes.set()
            says = self.then if gap.fill.get("typed") else self.says
            for number, sign in enumerate(says):
                if (gap.background or self.holds) and number == self.stops_behind:
                    self.stopped.set()
                    await self.goes_on.wait()
                await asyncio.sleep(self.between)
                self.written += 1
                yield sign
        except (GeneratorExit, asyncio.CancelledError):
            self.cancelled += 1
            raise


def at(document: str) -> tuple[str, int]:
    return document.replace("|", "", 1), document.index("|")


def completing(server: Server) -> Completing:
    return Completing(server, "lane", "a.py")


def timed(server: Server) -> Completing:
    """On the time of the loop that runs."""
    return Completing(server, "lane", "a.py", clock=asyncio.get_running_loop().time)


def test_the_engine_is_stopped_as_soon_as_what_is_shown_is_there() -> None:
    server = Server()
    text, offset = at(TEXT)
    found = asyncio.run(completing(server).at(text, offset))
    assert found == Suggestion("    return a + b", offset, offset)
    assert server.written < len(server.says)
    assert server.cancelled == 1


def test_the_first_line_of_a_file_and_its_last_are_gaps_too() -> None:
    server = Server()
    asyncio.run(completing(server).at("", 0))
    assert server.asked[0].fill == {"prefix": "", "suffix": "", "path": "a.py"}


def test_a_key_that_fits_is_answered_from_memory() -> None:
    async def typed() -> Suggestion | None:
        desk = completing(server)
        await desk.at(*at(TEXT))
        return await desk.at(*at(TEXT.replace("|", "    retu|")))

    server = Server()
    found = asyncio.run(typed())
    assert found is not None
    assert found.text == "rn a + b"
    assert len(server.asked) == 1


def test_a_key_that_is_cancelled_while_it_replaces_another_is_answered_to_the_next() -> None:
    async def typed() -> Suggestion | None:
        desk = timed(server)
        first = asyncio.create_task(desk.at(*at(TEXT)))
        await virtual_time.elapse(0.02)
        second = asyncio.create_task(desk.at(*at("x = 1\n" + TEXT)))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([first, second])
        return await desk.at(*at("x = 1\n" + TEXT))

    server = Server(between=0.01)
    found = virtual_time.run(typed())
    assert found is not None
    assert found.text == "    return a + b"


def test_a_newer_key_replaces_an_older_one_and_only_the_newest_is_answered() -> None:
    async def typed() -> list[Suggestion | None]:
        desk = timed(server)
        first = asyncio.create_task(desk.at(*at(TEXT)))
        await virtual_time.elapse(0.01)
        second = asyncio.create_task(desk.at(*at("x = 1\n" + TEXT)))
        return [await first, await second]

    server = Server(between=0.001)
    older, newer = virtual_time.run(typed())
    assert older is None
    assert newer is not None
    assert server.cancelled == 2


@pytest.mark.parametrize(
    ("waited", "stops_behind", "shown"),
    [
        pytest.param(0.6, 14, "    total = a", id="a line"),
        pytest.param(0.4, 14, None, id="not at once"),
        pytest.param(0.6, 13, None, id="not half a line"),
    ],
)
def test_the_lines_that_are_there_are_shown_while_a_slow_engine_writes_the_rest(
    waited: float, stops_behind: int, shown: str | None
) -> None:
    async def typed() -> list[str | None]:
        now = 0.0
        desk = Completing(server, "lane", "a.py", clock=lambda: now)
        first = asyncio.create_task(desk.at(*at(TEXT)))
        await server.writes.wait()
        now = waited
        await server.stopped.wait()
        await virtual_time.elapse(0.01)
        early = first.result() if first.done() else None
        behind = TEXT.replace("|", f"{shown}|") if shown else TEXT
        second = asyncio.create_task(desk.at(*at(behind)))
        await asyncio.sleep(0)
        server.goes_on.set()
        return [each.text if each else None for each in (early, await second)]

    whole = "    total = a\n    total += b\n    return total"
    server = Server(
        says=f"{whole}\n\n\nprint", stops_behind=stops_behind, holds=True, between=0.001
    )
    early, later = virtual_time.run(typed())
    assert early == shown
    assert later == whole.removeprefix(shown or ""), "and behind them what was still to come"
    assert len(server.asked) == 1


def test_lines_that_leave_the_file_broken_wait_for_those_that_mend_it() -> None:
    async def typed() -> Suggestion | None:
        now = 0.0
        desk = Completing(server, "lane", "a.py", clock=lambda: now)
        first = asyncio.create_task(desk.at(*at("def add(a, b):\n|\n    return a\n")))
        await server.writes.wait()
        now = 1.0
        await server.stopped.wait()
        await virtual_time.elapse(0.01)
        assert not first.done()
        server.goes_on.set()
        return await first

    says = "    c = max(\n        a, b\n    )\n    return a\n\n"
    server = Server(says=says, stops_behind=13, holds=True, between=0.001)
    found = virtual_time.run(typed())
    assert found is not None
    assert found.text == "    c = max(\n        a, b\n    )"


def test_a_slow_engine_is_not_asked_the_same_over_and_over() -> None:
    async def typed() -> Suggestion | None:
        ticks = itertools.count(0, 30)
        desk = Completing(server, "lane", "a.py", clock=lambda: float(next(ticks)))
        return await desk.at(*at(TEXT.replace("|", "    x|")))

    server = Server()
    assert asyncio.run(typed()) is None
    assert len(server.asked) == 2, "as it comes, and with its beginning enforced"


def test_line_ends_stay_those_of_the_file() -> None:
    server = Server("    c = a\n    return c\n\n")
    text, offset = at(TEXT.replace("\n", "\r\n"))
    found = asyncio.run(completing(server).at(text, offset))
    assert found == Suggestion("    c = a\r\n    return c", offset, offset)
    assert "\r" not in str(server.asked)


def test_a_key_in_the_text_is_sent_nowhere() -> None:
    async def typed() -> None:
        assert desk.warm(*at(secret + TEXT)) is None
        assert await desk.at(*at(secret + TEXT)) is None

    server = Server()
    desk = completing(server)
    secret = "KEY = 'AKIA" + "ABCDEFGHIJKLMNOP'\n"
    asyncio.run(typed())
    assert not server.asked
    assert "an AWS key" in desk.status


@pytest.mark.parametrize("cut", [4, 12, 20])
def test_a_secret_that_the_cursor_stands_in_is_not_sent(cut: int) -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    server = Server("other\n")
    desk = completing(server)
    for _ in range(3):  # the later ones tell what an answer must begin with
        document = f"x = 1\nKEY = {secret[:cut]}|{secret[cut:]}"
        assert asyncio.run(desk.at(*at(document))) is None
    assert server.asked == []


def test_another_file_with_a_key_is_left_out() -> None:
    server = Server()
    desk = completing(server)
    secret = "KEY = 'AKIA" + "ABCDEFGHIJKLMNOP'\n"
    desk.beside([Neighbour("b.py", "b = 1\n"), Neighbour("c.py", secret)])
    assert asyncio.run(desk.at(*at(TEXT))) is not None
    assert server.asked[0].fill["files"] == [{"path": "b.py", "text": "b = 1"}]


def test_why_nothing_comes_is_told_in_the_status_and_gone_when_it_comes() -> None:
    async def typed() -> None:
        now = 0.0
        desk = Completing(server, "lane", "a.py", clock=lambda: now)
        assert await desk.at(*at(TEXT)) is None
        assert desk.status == "Too many requests."
        server.fails = ""
        now = 29.0
        assert await desk.at(*at(TEXT)) is None
        assert len(server.asked) == 1, "the server wants to be left alone for 30 seconds"
        now = 31.0
        assert await desk.at(*at(TEXT)) is not None
        assert desk.status == ""

    server = Server(fails="Too many requests.")
    asyncio.run(typed())


def test_who_is_cancelled_leaves_the_answer_to_the_next_key() -> None:
    async def typed() -> Suggestion | None:
        desk = timed(server)
        first = asyncio.create_task(desk.at(*at(TEXT)))
        await virtual_time.elapse(0.005)
        first.cancel()
        await asyncio.wait([first])
        return await desk.at(*at(TEXT.replace("|", "    r|")))

    server = Server(between=0.001)
    found = virtual_time.run(typed())
    assert found is not None
    assert len(server.asked) == 1


def test_nothing_runs_on_when_the_document_is_closed() -> None:
    async def closed() -> None:
        desk = timed(server)
        asked = asyncio.create_task(desk.at(*at(TEXT)))
        await virtual_time.elapse(0.005)
        await desk.close()
        assert await asked is None

    server = Server(between=0.01)
    virtual_time.run(closed())
    assert server.cancelled == 1


def test_a_document_that_is_closed_before_its_answer_began_can_be_asked_again() -> None:
    async def again() -> Suggestion | None:
        desk = completing(server)
        asked = asyncio.create_task(desk.at(*at(TEXT)))
        await asyncio.sleep(0)
        await desk.close()
        await asked
        return await desk.at(*at(TEXT))

    server = Server()
    assert asyncio.run(again()) is not None


# -- ahead of the keys ----------------------------------------------------------------------------


@dataclass
class Clock:
    """Goes on as it is told."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


async def read_ahead(desk: Completing, document: str) -> None:
    """The cursor goes there, and all that is read for it is read."""
    if (reading := desk.warm(*at(document))) is not None:
        await asyncio.wait([reading])


def test_the_prompt_that_is_asked_is_the_one_that_was_read_ahead() -> None:
    async def typed() -> None:
        desk = completing(server)
        await read_ahead(desk, TEXT)
        await desk.at(*at(TEXT))

    server = Server()
    asyncio.run(typed())
    warmed, asked = server.asked
    assert replace(asked, generate=False) == warmed


def test_what_was_read_is_not_read_again_while_the_cursor_stays_in_the_gap() -> None:
    async def looked_at() -> None:
        desk = completing(server)
        for _ in range(3):
            await read_ahead(desk, TEXT)
        await desk.at(*at(TEXT))
        await read_ahead(desk, TEXT.replace("|", "    r|"))
        await read_ahead(desk, "x = 1\n" + TEXT)

    server = Server()
    asyncio.run(looked_at())
    assert [each.generate for each in server.asked] == [False, True, False]


def test_a_key_does_not_wait_for_what_is_read_ahead() -> None:
    async def typed() -> Suggestion | None:
        desk = completing(server)
        desk.warm(*at(TEXT))
        await server.reads.wait()
        return await desk.at(*at(TEXT))

    server = Server(reads_for_ever=True)
    assert asyncio.run(typed()) is not None
    assert server.cancelled == 2, "the reading, and the answer when all of it was there"


def test_nothing_is_read_ahead_before_an_answer_is_there() -> None:
    async def moved() -> None:
        desk = completing(server)
        asked = asyncio.create_task(desk.at(*at(TEXT)))
        await server.writes.wait()
        assert desk.warm(*at("x = 1\n" + TEXT)) is None
        assert await asked is not None
        await server.reads.wait()

    server = Server(between=0.001)
    asyncio.run(moved())
    assert [each.generate for each in server.asked] == [True, False]
    assert server.asked[1].fill["prefix"].startswith("x = 1\n")


def test_when_nobody_types_for_a_while_what_was_typed_is_read_ahead_once() -> None:
    async def typed() -> None:
        clock = Clock()
        desk = Completing(server, "lane", "a.py", clock=clock)
        await desk.at(*at(TEXT))
        await desk.at(*at(TEXT.replace("|", "    total = a\n|")))
        for _ in range(60):
            clock.now += 1.0
            await read_ahead(desk, TEXT.replace("|", "    total = a\n|"))
        await desk.at(*at(TEXT.replace("|", "    total = a\n\n|")))

    server = Server()
    asyncio.run(typed())
    *_, ahead, after = server.asked
    assert [each.generate for each in server.asked].count(False) == 1
    assert ahead.fill["prefix"].endswith("    total = a\n")
    assert after.fill["prefix"] == ahead.fill["prefix"], "it stays the gap that was read"
    assert after.fill["typed"] == "\n"


def test_a_timer_has_it_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def typed() -> None:
        desk = completing(server)
        await desk.at(*at(TEXT))
        await desk.at(*at(TEXT.replace("|", "    total = a\n|")))
        await server.reads.wait()

    monkeypatch.setattr("vivace.completion.session._IDLE", 0.05)
    server = Server()
    asyncio.run(typed())
    assert not server.asked[-1].generate


@pytest.mark.parametrize("why", ["pauses", "paused", "quiet", "refused"])
def test_nothing_is_read_ahead_for_who_wants_rest(why: str) -> None:
    async def moved() -> None:
        clock, paused = Clock(), False
        pace = Pace("pauses" if why == "pauses" else "auto")
        desk = Completing(
            server, "lane", "a.py", clock=clock, pace=pace, unasked=lambda: not paused
        )
        paused = why == "paused"
        if why == "quiet":
            await desk.at(*at(TEXT))
        if why == "refused":
            await read_ahead(desk, TEXT)
        server.asked.clear()
        clock.now += 29.0
        await read_ahead(desk, "x = 1\n" + TEXT)

    server = Server(fails="Too many requests." if why in ("quiet", "refused") else "")
    asyncio.run(moved())
    assert not server.asked


def test_a_refusal_of_what_nobody_asked_for_is_told_to_nobody_and_keeps_no_key_waiting() -> None:
    async def typed() -> Suggestion | None:
        desk = completing(server)
        await read_ahead(desk, TEXT)
        server.fails = ""
        assert desk.status == ""
        return await desk.at(*at(TEXT))

    server = Server(fails="Too many requests.")
    assert asyncio.run(typed()) is not None


def test_nothing_is_read_ahead_of_a_document_that_was_closed() -> None:
    async def closed() -> None:
        clock = Clock()
        desk = Completing(server, "lane", "a.py", clock=clock)
        await desk.at(*at(TEXT))
        await desk.at(*at(TEXT.replace("|", "    total = a\n|")))
        desk.warm(*at("x = 1\n" + TEXT))
        await server.reads.wait()
        await desk.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    server = Server(reads_for_ever=True)
    asyncio.run(closed())


# -- what follows a suggestion --------------------------------------------------------------------

HEAD = TEXT.replace("|", "    if a:|")
"""What stands there when the suggestion is taken."""


def following(**more: Any) -> Server:
    """Suggests the head of a block, and then its body."""
    return Server("    if a:\n\n", then=":\n        return b\n    x", has_tiers=True, **more)


async def suggested(server: Server) -> tuple[Completing, Clock]:
    """Somebody has read a suggestion for a second."""
    clock = Clock()
    desk = Completing(server, "lane", "a.py", clock=clock)
    desk.pace.answered(0.1)
    assert await desk.at(*at(TEXT)) is not None
    clock.now += 1.0
    return desk, clock


def test_what_follows_a_suggestion_is_there_when_it_is_taken() -> None:
    async def taken() -> Suggestion | None:
        desk, _ = await suggested(server)
        await read_ahead(desk, TEXT)
        return await desk.at(*at(HEAD))

    server = following()
    found = asyncio.run(taken())
    assert found is not None
    assert found.text == "\n        return b"
    _, follows = server.asked
    assert (follows.fill["typed"], follows.background) == ("    if a", True)
    assert follows.body()["service_tier"] == "flex"


def test_what_follows_is_left_at_once_by_who_types_something_else() -> None:
    async def typed() -> None:
        desk, _ = await suggested(server)
        desk.warm(*at(TEXT))
        await server.stopped.wait()
        cancelled = server.cancelled
        assert await desk.at(*at(TEXT.replace("|", "    if|"))) is not None
        assert server.cancelled == cancelled, "it goes on while it fits"
        await desk.at(*at(TEXT.replace("|", "    for x in|")))
        assert server.cancelled > cancelled
        assert not server.asked[-1].background, (
            "what is typed was asked about, and waited for nobody"
        )

    server = following(stops_behind=0)
    asyncio.run(typed())


@pytest.mark.parametrize("begun", [True, False])
def test_who_takes_a_suggestion_waits_for_what_follows_only_if_it_is_being_written(
    begun: bool,
) -> None:
    async def taken() -> Suggestion | None:
        desk, _ = await suggested(server)
        desk.warm(*at(TEXT))
        await server.stopped.wait()
        asking = asyncio.create_task(desk.at(*at(HEAD)))
        await asyncio.sleep(0)
        if begun:
            server.goes_on.set()
        return await asking

    server = following(stops_behind=4 if begun else 0)
    found = asyncio.run(taken())
    assert found is not None
    assert found.text == "\n        return b"
    assert len(server.asked) == (2 if begun else 3)


@pytest.mark.parametrize("why", ["no tiers", "slow", "pauses", "paused", "quick"])
def test_what_follows_is_not_asked_where_that_does_not_pay(why: str) -> None:
    async def shown() -> None:
        server.has_tiers = why != "no tiers"
        desk, clock = await suggested(server)
        if why == "slow":
            for _ in range(20):
                desk.pace.answered(3.0)
        if why == "pauses":
            desk.pace = Pace("pauses")
            desk.pace.answered(0.1)
        if why == "paused":
            desk.unasked = lambda: False
        if why == "quick":
            clock.now -= 0.9
        await read_ahead(desk, TEXT)

    server = following()
    asyncio.run(shown())
    assert len(server.asked) == 1


def test_a_timer_has_what_follows_asked() -> None:
    async def shown() -> None:
        desk = completing(server)
        assert await desk.at(*at(TEXT)) is not None
        await server.stopped.wait()
        await desk.close()

    server = following(stops_behind=0)
    asyncio.run(shown())
    assert server.asked[-1].background


def test_on_a_server_that_is_busy_with_what_follows_a_key_goes_before(
    gateway: RunningGateway,
) -> None:
    gateway.engine.play(
        [Reply(when="    if a$", then=(Stall(3600),)), Reply(then=(Say("    if a:\n\n"),))]
    )

    async def typed() -> None:
        lanes = Lanes(gateway.url)
        desk = Completing(lanes, "lane", "a.py")
        assert await desk.at(*at(TEXT)) is not None
        await eventually_async(lambda: gateway.engine.running() == 1)
        assert await desk.at(*at("x = 1\n" + TEXT)) is not None
        await desk.close()
        await lanes.close()

    asyncio.run(typed())
    eventually(lambda: gateway.engine.running() == 0)


@pytest.mark.parametrize(("tick", "characters"), [(5.0, LEAST), (0.001, MOST)])
def test_how_much_of_a_file_is_sent_follows_how_fast_the_engine_reads(
    tick: float, characters: int
) -> None:
    long = "".join(f"value_{n} = {n}\n" for n in range(2_000))
    ticks = itertools.count()
    desk = Completing(Server(), "lane", "a.py", clock=lambda: next(ticks) * tick)
    asyncio.run(desk.at(long, len(long)))
    assert desk.room.characters == characters


def test_an_engine_that_was_left_while_it_read_tells_nothing_of_its_speed() -> None:
    async def typed() -> None:
        desk.warm(long, 0)
        await server.reads.wait()
        server.reads_for_ever = False
        await desk.at(long, len(long))

    long = "".join(f"value_{n} = {n}\n" for n in range(2_000))
    server = Server(reads_for_ever=True)
    desk = completing(server)
    before = desk.room.characters
    asyncio.run(typed())
    assert desk.room.characters == before
