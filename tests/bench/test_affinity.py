"""The benchmark of affinity, on a few turns: it sees where turns ran, and judges by that."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from contextlib import ExitStack

import pytest
from bench._fleet import Span
from bench._report import Report
from bench.affinity import NODES, WAYS, Turn, Way, at_home, fleet, home, in_rounds, judge, stayed


def test_where_turns_ran_and_what_they_found_cached_tell_the_same() -> None:
    with ExitStack() as stack:
        there = fleet(stack)
        options = Namespace(conversations=1, turns=3, at_once=1)
        done = asyncio.run(in_rounds([each.port for each in there.gateways], options))
        worked = there.worked()
    (first,) = done[WAYS[0]].conversations
    assert worked[first[0].id][0].node == home(first), "nothing else was to do then"
    for way in WAYS:
        (talk,) = done[way].conversations
        seen: set[str] = set()
        for turn in talk:
            (span,) = worked[turn.id]
            assert (turn.cached > 0) == (span.node in seen), "a node caches what it has read"
            assert 0 < turn.prefilled <= turn.read
            seen.add(span.node)
        assert done[way].read == done["one"].read, "the ways are the same work"


def run_of(turns: int, away: int, prefilled: int) -> tuple[Way, dict[str, list[Span]]]:
    """A conversation with so many turns elsewhere than at home."""
    talk = [Turn(f"resp_{number}", 1000, 1000 - prefilled) for number in range(turns)]
    its = home(talk)
    other = next(node for node in NODES if node != its)
    places = [other if number < away else its for number in range(turns)]
    worked = {turn.id: [Span(place, 0.0, 1.0)] for turn, place in zip(talk, places, strict=True)}
    return Way([talk]), worked


@pytest.mark.parametrize(
    ("away", "prefilled", "missed"), [(0, 100, 0), (5, 110, 0), (6, 100, 1), (0, 111, 1)]
)
def test_goals_are_missed_by_turns_elsewhere_and_by_tokens_read_again(
    away: int, prefilled: int, missed: int
) -> None:
    report = Report("affinity", check=True, path=None)
    done = dict.fromkeys(WAYS, run_of(100, away, 100)[0])
    done["two"], worked = run_of(100, away, prefilled)
    judge(report, done, worked)
    assert len(report.missed) == missed


def test_a_turn_that_was_begun_at_home_and_ended_elsewhere_was_not_at_home() -> None:
    way, worked = run_of(2, 0, 100)
    worked["resp_1"].append(Span("elsewhere", 1.0, 2.0))
    assert at_home(way, worked) == 1
    assert stayed(way, worked) == (0, 1)
