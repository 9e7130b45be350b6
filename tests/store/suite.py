"""What every store promises, whatever store it is.

A test module plugs a store in by a subclass of ``StoreSuite`` that overrides ``opened`` and
``elapse``.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.store import NOW, Open, asked, ending, new, rid, steer, stored, using
from tests.support.waiting import PATIENCE_S
from vivace.errors import StoreError
from vivace.store.base import (
    Accepted,
    Done,
    Ended,
    Fenced,
    Key,
    KeyReused,
    NotOpen,
    Order,
    Ordered,
    SteersGone,
    Store,
    StoredResponse,
    StoredTurn,
    Taken,
    TurnRecord,
    TurnStat,
    UnknownParent,
)

DAY, WEEK = 86_400.0, 7 * 86_400.0
"""Seconds that only ``elapse`` makes pass: no machine is so busy."""

KEY = Key(key="k", request_hash=b"one body")
OTHER = Key(key="k", request_hash=b"another body")


async def record(store: Store, label: str, owner: str = "me") -> TurnRecord:
    found = await store.find(rid(label), owner)
    assert found is not None
    return found


async def ended(store: Store, *labels: str) -> None:
    """A conversation of these turns, all of them ended."""
    before: str | None = None
    for label in labels:
        assert await store.accept(new(label, before)) == Accepted(rid(label))
        assert await store.end(ending(label)) == Ended()
        before = label


async def state(order: Awaitable[Order | None]) -> str | None:
    found = await order
    return None if found is None else found.state


class StoreSuite:
    @pytest.fixture
    def opened(self) -> Open:
        raise NotImplementedError

    async def elapse(self, store: Any, seconds: float) -> None:
        """Make what ``store`` has on record older, as if ``seconds`` had passed."""
        raise NotImplementedError

    # -- turns recorded whole ---------------------------------------------------------------------

    def test_what_was_saved_is_loaded_whole(self, opened: Open, tmp_path: Path) -> None:
        saved = stored("a", "b")

        async def check(store: Store) -> None:
            await store.save(saved)
            assert await store.load(rid("a"), "me") == saved
            assert await store.load(rid("b"), "me") is None

        using(opened(tmp_path), check)

    def test_any_bytes_any_owner_and_any_count_are_kept(self, opened: Open, tmp_path: Path) -> None:
        odd = StoredTurn(
            id=rid("odd"),
            owner="é'\"; --",
            previous_id=None,
            created_at=NOW,
            tokens=2**40,
            input=bytes(range(256)),
            response=b"",
        )

        async def check(store: Store) -> None:
            await store.save(odd)
            assert await store.load(odd.id, odd.owner) == odd

        using(opened(tmp_path), check)

    def test_a_turn_does_not_exist_for_others(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.save(stored("a"))
            assert await store.load(rid("a"), "you") is None
            assert await store.find(rid("a"), "you") is None
            assert await store.chain(rid("a"), "you") is None
            assert await store.weight(rid("a"), "you") == 0
            assert not await store.delete(rid("a"), "you")
            assert await store.load(rid("a"), "me") is not None

        using(opened(tmp_path), check)

    def test_a_chain_never_leads_into_what_is_not_ones_own(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.save(stored("theirs", owner="you"))
            await store.save(stored("mine", "theirs"))
            assert await store.chain(rid("mine"), "me") is None

        using(opened(tmp_path), check)

    def test_a_chain_is_told_from_its_beginning(self, opened: Open, tmp_path: Path) -> None:
        turns = [stored(str(number), str(number - 1) if number else None) for number in range(50)]

        async def check(store: Store) -> None:
            for each in reversed(turns):
                await store.save(each)
            assert await store.chain(rid("49"), "me") == turns
            assert await store.chain(rid("10"), "me") == turns[:11]
            sizes = [len(each.input) + len(each.response) for each in turns]
            assert await store.weight(rid("49"), "me") == sum(sizes)
            assert await store.weight(rid("10"), "me") == sum(sizes[:11])

        using(opened(tmp_path), check)

    def test_a_chain_with_a_gap_is_no_chain(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            for each in (stored("a"), stored("b", "a"), stored("c", "b")):
                await store.save(each)
            assert await store.delete(rid("b"), "me")
            assert await store.chain(rid("c"), "me") is None
            assert await store.chain(rid("a"), "me") == [stored("a")]

        using(opened(tmp_path), check)

    def test_saving_again_replaces(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.save(stored("a", size=1))
            await store.save(stored("a", size=2))
            assert await store.load(rid("a"), "me") == stored("a", size=2)

        using(opened(tmp_path), check)

    def test_what_is_deleted_is_gone_and_deleted_once(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.save(stored("a"))
            assert await store.delete(rid("a"), "me")
            assert not await store.delete(rid("a"), "me")
            assert await store.load(rid("a"), "me") is None

        using(opened(tmp_path), check)

    # -- accept -----------------------------------------------------------------------------------

    def test_an_accepted_turn_is_on_record_and_open(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            turn = new("a", background=True)
            assert await store.accept(turn) == Accepted(turn.id)
            assert await record(store, "a") == TurnRecord(
                id=turn.id,
                owner="me",
                previous_id=None,
                root_id=turn.id,
                epoch=1,
                attempt=1,
                holder="g1",
                engine=None,
                said=None,
                request=turn.request,
                input=turn.input,
                status=None,
                response=b"",
                cuts=None,
                tokens=0,
                background=True,
                broken=False,
                parked_until=None,
                created_at=NOW,
            )
            assert await store.load(turn.id, "me") is None
            assert await store.chain(turn.id, "me") is None

        using(opened(tmp_path), check)

    def test_accepting_again_changes_nothing(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            for _ in range(2):
                assert await store.accept(new("a")) == Accepted(rid("a"))
            await store.end(ending("a"))
            assert await store.accept(new("a")) == Accepted(rid("a"))
            assert (await record(store, "a")).status == "completed"

        using(opened(tmp_path), check)

    def test_a_parent_must_be_ones_own_and_have_ended(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            assert await store.accept(new("b", "a")) == UnknownParent("unknown")
            await store.accept(new("a"))
            assert await store.accept(new("b", "a")) == UnknownParent("open")
            await store.end(ending("a"))
            assert await store.accept(new("b", "a", owner="you")) == UnknownParent("unknown")
            assert await store.accept(new("b", "a")) == Accepted(rid("b"))
            assert (await record(store, "b")).root_id == rid("a")
            assert await store.find(rid("b"), "you") is None

        using(opened(tmp_path), check)

    def test_a_turn_that_was_saved_whole_can_be_followed(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.save(stored("a"))
            assert await store.accept(new("b", "a")) == Accepted(rid("b"))
            await store.end(ending("b"))
            chain = await store.chain(rid("b"), "me")
            assert [each.id for each in chain or ()] == [rid("a"), rid("b")]

        using(opened(tmp_path), check)

    def test_what_follows_a_deleted_turn_cannot_be_followed(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await ended(store, "a", "b", "c", "d")
            await store.delete(rid("b"), "me")
            assert [(await record(store, each)).broken for each in "acd"] == [False, True, True]
            assert await store.accept(new("e", "b")) == UnknownParent("unknown")
            assert await store.accept(new("e", "c")) == UnknownParent("broken")
            assert await store.accept(new("e", "d")) == UnknownParent("broken")
            assert await store.accept(new("e", "a")) == Accepted(rid("e"))

        using(opened(tmp_path), check)

    def test_deleting_breaks_all_branches_below_it_however_often_they_were_broken(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await ended(store, "a", "b", "c", "d")
            await asyncio.gather(*(store.accept(new(f"c{n}", "b")) for n in range(20)))
            await store.accept(new("e", "d"))
            for gone in ("c", "a", "b"):
                assert await store.delete(rid(gone), "me")
            below = ["d", "e", *(f"c{n}" for n in range(20))]
            assert all([(await record(store, each)).broken for each in below])

        using(opened(tmp_path), check)

    # -- keys -------------------------------------------------------------------------------------

    def test_a_key_stands_for_one_turn(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            assert await store.find_key(KEY, "me") is None
            assert await store.accept(new("a", key=KEY)) == Accepted(rid("a"))
            assert await store.accept(new("a", key=KEY)) == Accepted(rid("a"))
            assert await store.accept(new("b", key=KEY)) == Accepted(rid("a"))
            assert await store.accept(new("b", key=OTHER)) == KeyReused(rid("a"))
            assert await store.find_key(KEY, "me") == rid("a")
            assert await store.find_key(OTHER, "me") == KeyReused(rid("a"))
            assert await store.find_key(KEY, "you") is None
            assert await store.find(rid("b"), "me") is None
            assert await store.accept(new("b", owner="you", key=OTHER)) == Accepted(rid("b"))

        using(opened(tmp_path), check)

    def test_a_key_stands_for_its_turn_whatever_became_of_that_or_its_parent(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await ended(store, "a")
            assert await store.accept(new("b", "a", key=KEY)) == Accepted(rid("b"))
            await store.delete(rid("a"), "me")
            assert await store.accept(new("c", "a", key=KEY)) == Accepted(rid("b"))
            await store.delete(rid("b"), "me")
            assert await store.accept(new("c", key=KEY)) == Accepted(rid("b"))
            assert await store.find(rid("c"), "me") is None

        using(opened(tmp_path), check)

    def test_a_refused_turn_does_not_use_its_key_up(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            assert await store.accept(new("b", "a", key=KEY)) == UnknownParent("unknown")
            assert await store.accept(new("b", key=OTHER)) == Accepted(rid("b"))

        using(opened(tmp_path), check)

    def test_an_expired_key_is_new_again(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a", key=replace(KEY, seconds=DAY)))
            assert await store.find_key(KEY, "me") == rid("a")
            await self.elapse(store, WEEK)
            assert await store.find_key(KEY, "me") is None
            assert await store.accept(new("b", key=OTHER)) == Accepted(rid("b"))
            assert await store.accept(new("c", key=OTHER)) == Accepted(rid("b"))
            assert await store.accept(new("c", key=KEY)) == KeyReused(rid("b"))

        using(opened(tmp_path), check)

    def test_two_at_once_with_one_key_are_one_turn(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            labels = [str(number) for number in range(8)]
            answers = await asyncio.gather(*(store.accept(new(each, key=KEY)) for each in labels))
            assert len(set(answers)) == 1
            found = [await store.find(rid(each), "me") for each in labels]
            assert [each.id for each in found if each] == [answers[0].turn_id]  # type: ignore[union-attr]

        using(opened(tmp_path), check)

    def test_of_many_that_replace_an_expired_key_at_once_one_does_and_no_other_body_runs(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("old", key=replace(KEY, seconds=DAY)))
            await self.elapse(store, WEEK)
            asked = [new(str(each), key=OTHER if each % 2 else KEY) for each in range(16)]
            answers = await asyncio.gather(*(store.accept(each) for each in asked))
            found = [each.id for each in asked if await store.find(each.id, "me")]
            assert len(found) == 1
            winner = next(each for each in asked if each.id == found[0])
            for turn, answer in zip(asked, answers, strict=True):
                same = turn.key == winner.key
                assert answer == (Accepted(winner.id) if same else KeyReused(winner.id))

        using(opened(tmp_path), check)

    # -- attempts, parking, ends ------------------------------------------------------------------

    def test_an_attempt_is_recorded_with_what_was_said(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            for _ in range(2):
                assert await store.attempt(rid("a"), 1, 3, "e2", b"said") == Done()
            found = await record(store, "a")
            assert (found.attempt, found.engine, found.said) == (3, "e2", b"said")
            assert await store.attempt(rid("a"), 1, 2, "e1", b"late") == Fenced()
            assert await store.attempt(rid("a"), 2, 4, "e1", b"early") == Fenced()
            assert await store.attempt(rid("b"), 1, 2, "e1", b"") == Fenced()
            assert await record(store, "a") == found

        using(opened(tmp_path), check)

    def test_who_lost_a_turn_leaves_what_was_said_to_who_took_it(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            assert await store.leave(rid("a"), 1, b"mine") == Fenced()
            assert isinstance(await store.take(rid("a"), 1, "other", 0), Taken)
            assert await store.leave(rid("a"), 2, b"early") == Fenced()
            assert await store.leave(rid("a"), 1, b"left") == Done()
            assert await store.leave(rid("a"), 1, b"again") == Fenced()
            assert (await record(store, "a")).said == b"left"
            assert isinstance(await store.take(rid("a"), 2, "third", 0), Taken)
            assert await store.leave(rid("a"), 1, b"late") == Fenced()
            assert await store.attempt(rid("a"), 3, 2, "", b"") == Done()
            assert await store.leave(rid("a"), 2, b"next") == Done()
            assert await store.end(ending("a", epoch=3)) == Ended()
            assert await store.leave(rid("a"), 2, b"over") == Fenced()

        using(opened(tmp_path), check)

    def test_a_turn_is_parked_and_taken_out_again(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            assert await store.park(rid("a"), 1, 60) == Done()
            until = (await record(store, "a")).parked_until
            assert until is not None
            assert until > NOW
            assert await store.park(rid("a"), 1, 60 + WEEK) == Done()
            later = (await record(store, "a")).parked_until
            assert later is not None
            assert DAY < later - until < 2 * WEEK
            assert await store.park(rid("a"), 2, 60) == Fenced()
            assert await store.park(rid("a"), 1, None) == Done()
            assert (await record(store, "a")).parked_until is None

        using(opened(tmp_path), check)

    def test_an_ended_turn_has_all_of_its_end(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.attempt(rid("a"), 1, 2, "e", b"said")
            assert await store.end(ending("a")) == Ended()
            found = await record(store, "a")
            assert (found.status, found.response, found.cuts, found.tokens) == (
                "completed",
                b"response of a",
                b"cuts",
                7,
            )
            assert (found.holder, found.said, found.request) == (None, None, b"request of a")
            assert await store.load(rid("a"), "me") == StoredTurn(
                id=rid("a"),
                owner="me",
                previous_id=None,
                created_at=NOW,
                tokens=7,
                input=b"input of a",
                response=b"response of a",
            )

        using(opened(tmp_path), check)

    def test_sizes_and_the_response_of_a_turn_are_told_without_its_input(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            sizes = TurnStat(status=None, input_bytes=10, response_bytes=0, cuts_bytes=None)
            assert await store.stat(rid("a"), "me") == sizes
            assert await store.response(rid("a"), "me") is None
            await store.end(ending("a"))
            sizes = TurnStat(status="completed", input_bytes=10, response_bytes=13, cuts_bytes=4)
            assert await store.stat(rid("a"), "me") == sizes
            ended = StoredResponse(status="completed", response=b"response of a", cuts=b"cuts")
            assert await store.response(rid("a"), "me") == ended

            await store.save(stored("b", size=5))
            sizes = TurnStat(status="recorded", input_bytes=5, response_bytes=5, cuts_bytes=None)
            assert await store.stat(rid("b"), "me") == sizes
            found = await store.response(rid("b"), "me")
            assert found == StoredResponse(status="recorded", response=b"rrrrr", cuts=None)

            for turn, owner in ((rid("a"), "you"), (rid("c"), "me")):
                assert await store.stat(turn, owner) is None
                assert await store.response(turn, owner) is None

        using(opened(tmp_path), check)

    def test_a_turn_ends_once_and_only_its_own_end_may_be_repeated(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            for _ in range(3):
                assert await store.end(ending("a", by="me")) == Ended()
            assert await store.end(ending("a", by="other")) == Fenced()
            assert await store.attempt(rid("a"), 1, 2, "e", b"") == Fenced()
            assert await store.take(rid("a"), 1, "g2") == Fenced()
            assert await store.end(ending("nothing")) == Fenced()

        using(opened(tmp_path), check)

    # -- holders ----------------------------------------------------------------------------------

    def test_whoever_takes_a_turn_fences_who_held_it(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            taken = await store.take(rid("a"), 1, "g2")
            assert isinstance(taken, Taken)
            assert (taken.turn.epoch, taken.turn.holder) == (2, "g2")
            assert taken.turn == await record(store, "a")
            assert await store.take(rid("a"), 1, "g2") == taken
            assert await store.take(rid("a"), 1, "g3") == Fenced()
            assert await store.end(ending("a", 1)) == Fenced()
            assert await store.end(ending("a", 2)) == Ended()

        using(opened(tmp_path), check)

    def test_of_twenty_takes_at_once_one_wins(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            taken = await asyncio.gather(*(store.take(rid("a"), 1, f"g{n}") for n in range(20)))
            (winner,) = [each for each in taken if isinstance(each, Taken)]
            assert (await record(store, "a")).holder == winner.turn.holder
            assert taken.count(Fenced()) == 19

        using(opened(tmp_path), check)

    def test_an_end_and_a_take_at_once_leave_one_of_them(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            for label in map(str, range(20)):
                await store.accept(new(label))
                end, take = await asyncio.gather(
                    store.end(ending(label)), store.take(rid(label), 1, "g2")
                )
                found = await record(store, label)
                if isinstance(take, Taken):
                    assert (end, found.status, found.holder) == (Fenced(), None, "g2")
                else:
                    assert (end, found.status) == (Ended(), "completed")

        using(opened(tmp_path), check)

    def test_turns_of_who_does_not_beat_are_orphans(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            for holder in ("g1", "g2"):
                await store.beat(holder)
                await store.accept(new(holder, holder=holder))
            await store.accept(new("never seen", holder="g3", background=True))
            assert [each.id for each in await store.orphans("g1", DAY)] == [rid("never seen")]
            (orphan,) = await store.orphans("g1", DAY)
            assert (orphan.owner, orphan.epoch, orphan.background) == ("me", 1, True)
            await self.elapse(store, WEEK)
            await store.beat("g1")
            assert await store.orphans("g3", 2 * WEEK) == []
            orphans = {each.id for each in await store.orphans("g3", DAY)}
            assert orphans == {rid("g2")}
            await store.end(ending("g2"))
            assert await store.orphans("g3", DAY) == []
            assert len(await store.orphans("nobody", -1, limit=1)) == 1
            others = await store.orphans("nobody", -1, but=[rid("never seen"), rid("g2")])
            assert [each.id for each in others] == [rid("g1")]

        using(opened(tmp_path), check)

    # -- orders -----------------------------------------------------------------------------------

    def test_open_orders_are_those_of_these_turns_that_are_not_settled(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            order = steer("s", "a")
            for _ in range(2):
                assert await store.order(order) == Ordered("s")
            for label in ("b", "c"):
                await store.accept(new(label))
                await store.order(steer(f"s of {label}", label))
            await store.order(asked("t", "a"))
            await store.end(ending("c"))
            assert await store.open_orders([]) == []
            found = await store.open_orders([rid("c"), rid("a"), rid("nobody's")])
            assert found == [order, asked("t", "a")]
            assert await store.find_order("s", "me") == order
            assert await store.find_order("s", "you") is None

        using(opened(tmp_path), check)

    def test_who_holds_a_turn_decides_about_what_another_asks_and_says_so_once(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            for name in ("s", "t"):
                assert await store.order(asked(name, "a")) == Ordered(name)
            found = [each.id for each in await store.asked_of("g1")]
            assert found == ["s", "t"]
            assert await store.asked_of("g2") == []
            for _ in range(2):
                claimed = await store.claim("s", "me", "g1")
                assert claimed == replace(asked("s", "a"), state="accepted")
            await store.reply("s", "me", b"yes")
            await store.reply("s", "me", b"no", "returned")
            answered = replace(asked("s", "a"), state="accepted", reply=b"yes")
            assert await store.find_order("s", "me") == answered
            await store.claim("t", "me", "g1")
            await store.reply("t", "me", b"too many", "returned")
            returned = await store.find_order("t", "me")
            assert returned is not None
            assert (returned.state, returned.reply) == ("returned", b"too many")
            assert await store.asked_of("g1") == []
            assert await store.order(steer("s", "a")) == Ordered("s")  # as its holder records it

        using(opened(tmp_path), check)

    def test_what_was_taken_back_is_not_accepted_and_what_was_accepted_not_taken_back(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            for name in ("s", "t", "u"):
                await store.order(asked(name, "a"))
            assert await state(store.withdraw("s", "me")) == "returned"
            assert await state(store.claim("s", "me", "g1")) == "returned"
            assert await state(store.claim("t", "me", "g1")) == "accepted"
            assert await state(store.withdraw("t", "me")) == "accepted"
            assert await state(store.claim("u", "me", "g2")) == "asked"  # which does not hold it
            for number in range(20):
                name = f"v{number}"
                await store.order(asked(name, "a", kind="interrupt"))
                both = await asyncio.gather(
                    state(store.claim(name, "me", "g1")), state(store.withdraw(name, "me"))
                )
                assert set(both) in ({"accepted"}, {"done"})

        using(opened(tmp_path), check)

    def test_what_is_asked_of_a_turn_that_ends_or_is_deleted_goes_back(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.order(asked("s", "a"))
            await store.order(asked("c", "a", kind="cancel"))
            assert await store.end(ending("a")) == Ended(("s",))
            assert await state(store.find_order("s", "me")) == "returned"
            assert await state(store.find_order("c", "me")) == "done"
            assert await store.order(asked("t", "a")) == NotOpen(ended=True)
            await store.accept(new("b"))
            await store.order(asked("u", "b"))
            await store.reply("u", "me", b"words")
            assert await store.delete(rid("b"), "me")
            gone = await store.find_order("u", "me")
            assert gone is not None
            assert (gone.state, gone.input, gone.reply) == ("returned", None, None)

        using(opened(tmp_path), check)

    def test_the_words_of_an_order_are_forgotten_once_it_is_settled(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            for label in ("a", "b"):
                await store.accept(new(label))
            for name in ("kept", "refused", "short"):
                await store.order(asked(name, "a"))
            await store.order(steer("waits", "b"))
            await store.end(ending("b", pending=("waits",)))
            await store.reply("refused", "me", b"x" * 5000, "returned")
            await store.reply("short", "me", b"no", "returned")
            await store.prune(NOW)
            fresh = await store.find_order("refused", "me")
            assert fresh is not None
            assert fresh.reply == b"x" * 5000  # whoever asked may still read it
            await self.elapse(store, DAY)
            await store.prune(NOW)
            words = {}
            for name in ("kept", "refused", "short", "waits"):
                found = await store.find_order(name, "me")
                assert found is not None
                words[name] = found.input, found.reply
            assert words == {
                "kept": (asked("kept", "a").input, b""),
                "refused": (None, None),
                "short": (None, b"no"),
                "waits": (None, None),
            }
            assert await state(store.find_order("refused", "me")) == "returned"
            assert await state(store.find_order("waits", "me")) == "pending"

        using(opened(tmp_path, max_age=30 * DAY), check)

    def test_what_is_asked_moves_with_its_turn(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.order(asked("s", "a"))
            await store.take(rid("a"), 1, "g2")
            assert [each.id for each in await store.asked_of("g2")] == ["s"]
            assert await store.asked_of("g1") == []
            assert await state(store.claim("s", "me", "g1")) == "asked"

        using(opened(tmp_path), check)

    def test_an_open_turn_is_found_by_its_id_and_by_that_of_the_one_that_was_steered(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            [found] = await store.open_turns(rid("a"), "me")
            assert (found.id, found.epoch, found.holder) == (rid("a"), 1, "g1")
            assert (found.request, found.silent) == (b"request of a", None)
            assert await store.open_turns(rid("a"), "you") == []
            await store.beat("g1")
            await self.elapse(store, WEEK)
            [found] = await store.open_turns(rid("a"), "me")
            assert found.silent is not None
            assert DAY < found.silent < 2 * WEEK
            await store.beat("g1")
            [found] = await store.open_turns(rid("a"), "me")
            assert found.silent is not None
            assert 0 <= found.silent < DAY
            await store.order(steer("s", "a"))
            following = new("b", "a", applied=("s",))
            assert await store.end(ending("a", successor=following)) == Ended()
            assert [each.id for each in await store.open_turns(rid("a"), "me")] == [rid("b")]
            assert await store.held("g1") == {rid("b"): 1}
            assert await store.held("g2") == {}
            assert await store.may_be_continued(rid("a"), "me")
            assert not await store.may_be_continued(rid("b"), "me")
            assert not await store.may_be_continued(rid("a"), "you")
            await store.end(ending("b"))
            assert await store.may_be_continued(rid("b"), "me")
            await store.delete(rid("a"), "me")
            assert not await store.may_be_continued(rid("b"), "me")

        using(opened(tmp_path), check)

    def test_a_gateway_knows_whether_it_has_company(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.beat("g1")
            assert not await store.company("g1", DAY)
            assert await store.company("g2", DAY)
            await self.elapse(store, WEEK)
            assert await store.company("g2", 2 * WEEK)
            assert not await store.company("g2", DAY)

        using(opened(tmp_path), check)

    def test_nobody_takes_a_turn_from_a_holder_that_lives(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.beat("g1")
            assert await store.take(rid("a"), 1, "g2", DAY) == Fenced()
            await self.elapse(store, WEEK)
            assert await store.take(rid("a"), 1, "g2", 2 * WEEK) == Fenced()
            assert isinstance(await store.take(rid("a"), 1, "g2", DAY), Taken)
            again = await store.take(rid("a"), 1, "g2", 2 * WEEK)  # its answer was lost
            assert isinstance(again, Taken)
            assert isinstance(await store.take(rid("a"), 2, "g3", DAY), Taken)  # g2 never beat

        using(opened(tmp_path), check)

    def test_only_an_open_turn_of_ones_own_takes_orders(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            assert await store.order(steer("s", "a")) == NotOpen(ended=False)
            await store.accept(new("a"))
            assert await store.order(steer("s", "a", owner="you")) == NotOpen(ended=False)
            await store.end(ending("a"))
            assert await store.order(steer("s", "a")) == NotOpen(ended=True)
            assert await store.find_order("s", "me") is None

        using(opened(tmp_path), check)

    def test_what_a_holder_accepts_is_fenced_when_another_has_the_turn(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            assert await store.order(steer("s", "a"), epoch=1) == Ordered("s")
            assert isinstance(await store.take(rid("a"), 1, "g2"), Taken)
            assert await store.order(steer("t", "a"), epoch=1) == Fenced()
            assert await store.order(steer("s", "a"), epoch=1) == Ordered("s")
            assert await store.order(steer("u", "a"), epoch=2) == Ordered("u")
            assert await store.find_order("t", "me") is None

        using(opened(tmp_path), check)

    def test_an_order_under_a_key_is_one_order(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            assert await store.order(steer("s", "a"), KEY) == Ordered("s")
            assert await store.order(steer("t", "a"), KEY) == Ordered("s")
            assert await store.order(steer("t", "a"), OTHER) == KeyReused("s")
            assert [each.id for each in await store.open_orders([rid("a")])] == ["s"]

        using(opened(tmp_path), check)

    def test_an_end_comes_with_its_successor_and_the_steers_that_made_it(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            for label in ("s", "t", "u"):
                await store.order(steer(label, "a"))
            stop = Order(id="stop", turn_id=rid("a"), owner="me", kind="interrupt")
            await store.order(stop)
            successor = new("b", "a", applied=("s",))
            end = ending("a", successor=successor, pending=("u",))
            for _ in range(2):
                assert await store.end(end) == Ended(("t",))
            followed = await record(store, "b")
            assert (followed.previous_id, followed.root_id) == (rid("a"), rid("a"))
            assert (followed.status, followed.holder) == (None, "g1")
            states = {each: await store.find_order(each, "me") for each in ("s", "t", "u", "stop")}
            assert {name: found.state for name, found in states.items() if found} == {
                "s": "applied",
                "t": "returned",
                "u": "pending",
                "stop": "done",
            }
            assert states["s"] is not None
            assert states["s"].applied_by == rid("b")

        using(opened(tmp_path), check)

    def test_a_fenced_end_makes_no_successor_and_touches_no_steer(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.order(steer("s", "a"))
            await store.take(rid("a"), 1, "g2")
            end = ending("a", successor=new("b", "a", applied=("s",)))
            assert await store.end(end) == Fenced()
            assert await store.find(rid("b"), "me") is None
            assert await store.find_order("s", "me") == steer("s", "a")

        using(opened(tmp_path), check)

    def test_a_steer_that_went_back_is_applied_by_nobody(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.order(steer("s", "a"))
            assert await store.mark("s", "you", "returned") is None
            for _ in range(2):
                found = await store.mark("s", "me", "returned")
                assert found is not None
                assert found.state == "returned"
            end = ending("a", successor=new("b", "a", applied=("s",)))
            assert await store.end(end) == SteersGone()
            assert (await record(store, "a")).status is None
            assert await store.find(rid("b"), "me") is None

        using(opened(tmp_path), check)

    def test_a_pending_steer_is_applied_by_one_later_turn(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.order(steer("s", "a"))
            await store.end(ending("a", pending=("s",)))
            for _ in range(2):
                assert await store.accept(new("b", "a", applied=("s",))) == Accepted(rid("b"))
            assert await store.accept(new("c", "a", applied=("s",))) == SteersGone()
            assert await store.find(rid("c"), "me") is None
            found = await store.mark("s", "me", "returned")
            assert found is not None
            assert (found.state, found.applied_by) == ("applied", rid("b"))

        using(opened(tmp_path), check)

    def test_an_order_and_an_end_at_once_leave_no_order_open(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            for label in map(str, range(20)):
                await store.accept(new(label))
                answer, end = await asyncio.gather(
                    store.order(steer(f"s{label}", label)), store.end(ending(label))
                )
                found = await store.find_order(f"s{label}", "me")
                if isinstance(answer, Ordered):
                    assert found is not None
                    assert (found.state, end) == ("returned", Ended((f"s{label}",)))
                else:
                    assert (answer, found, end) == (NotOpen(ended=True), None, Ended())

        using(opened(tmp_path), check)

    def test_deleting_an_open_turn_fences_its_holder_and_gives_its_steers_back(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            await store.accept(new("a"))
            await store.order(steer("s", "a"))
            assert await store.delete(rid("a"), "me")
            assert await store.end(ending("a")) == Fenced()
            found = await store.find_order("s", "me")
            assert found is not None
            assert (found.state, found.input) == ("returned", None)

        using(opened(tmp_path), check)

    def test_a_delete_and_a_child_at_once_leave_no_child_that_can_be_followed(
        self, opened: Open, tmp_path: Path
    ) -> None:
        async def check(store: Store) -> None:
            for n in range(20):
                await ended(store, f"a{n}", f"b{n}")
                child, gone = await asyncio.gather(
                    store.accept(new(f"c{n}", f"b{n}")), store.delete(rid(f"a{n}"), "me")
                )
                assert gone
                if isinstance(child, Accepted):
                    assert (await record(store, f"c{n}")).broken
                else:
                    assert child == UnknownParent("broken")

        using(opened(tmp_path), check)

    # -- many, and none ---------------------------------------------------------------------------

    def test_many_may_use_it_at_the_same_time(self, opened: Open, tmp_path: Path) -> None:
        turns = [stored(str(number)) for number in range(500)]

        async def check(store: Store) -> None:
            await asyncio.gather(*(store.save(each) for each in turns))
            assert await asyncio.gather(*(store.load(each.id, "me") for each in turns)) == turns

        using(opened(tmp_path), check)

    def test_someone_who_gives_up_waiting_harms_nobody(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            labels = [str(number) for number in range(50)]
            tasks = [asyncio.create_task(store.accept(new(each))) for each in labels]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert await store.find(rid("49"), "me") is not None
            for each in labels:
                assert await store.accept(new(each)) == Accepted(rid(each))

        using(opened(tmp_path), check)

    def test_a_store_that_works_is_in_no_trouble(self, opened: Open, tmp_path: Path) -> None:
        async def check(store: Store) -> None:
            await store.save(stored("a"))
            with contextlib.suppress(StoreError):
                await store.load("\ud800", "me")  # the fault of whoever asked
            assert store.trouble is None
            await store.save(stored("b"))

        using(opened(tmp_path), check)

    def test_a_closed_store_says_so_instead_of_keeping_one_waiting(
        self, opened: Open, tmp_path: Path
    ) -> None:
        store = opened(tmp_path)

        async def check() -> None:
            await store.close()
            with pytest.raises(StoreError):
                await asyncio.wait_for(store.load(rid("a"), "me"), PATIENCE_S)

        asyncio.run(check())
