"""The parts of the link's benchmark, on a few turns: they measure what they say they do."""

from __future__ import annotations

import asyncio

import pytest
from bench._link_stops import PLAYED, stops
from bench._linked import Played, alone, embedded, node, on_a_node, says
from bench._report import Report
from bench.link import Server, Streamed, Turn, judge_rates, steps, streamed, turns, undisturbed

from bench import _link_stops


def test_turns_are_timed_on_a_gateway_with_an_engine_and_on_one_with_a_node() -> None:
    played = Played(1e9, (says(5),))
    with embedded(played) as (port, pid), on_a_node(played) as (linked, its, there):
        servers = {"old": Server(port, (pid,)), "new": Server(linked, (its, there.process.pid))}
        done = asyncio.run(turns(servers, 2))
        for found in done.values():
            assert len(found) == 2
            assert all(0 < each.first <= each.end for each in found)
        run = streamed(linked, its, 4, 5)
        assert run.rate > 0
        assert run.cost > 0
        assert run.joined >= 1


@pytest.mark.parametrize("large", [False, True])
def test_a_stop_is_timed_from_the_gateway_to_the_engine(large: bool) -> None:
    with node(PLAYED, notes=True) as there:
        done = asyncio.run(stops(there, 3, large))
    assert len(done) == 3
    assert all(each.stopped > 0 for each in done)


def test_a_steer_is_timed_beside_prompts_that_arrive() -> None:
    with on_a_node(PLAYED, notes=True) as (port, _, there), _link_stops.large_prompts(port, 20):
        done = asyncio.run(_link_stops.steers(port, there, 2))
    assert all(each.stopped > 0 and each.receipt > 0 for each in done)


def test_the_engine_alone_tells_its_cost() -> None:
    with alone(1e9, 50) as bare:
        bare.begin(4)
        assert bare.cost() > 0


def test_each_token_of_a_step_is_paid_for() -> None:
    assert all(cost > 0 for cost in steps(3).values())


def test_pairs_in_which_somebody_waited_for_a_core_do_not_count() -> None:
    calm, disturbed = Turn(1.0, 2.0, 0.0), Turn(9.0, 9.0, 5.0)
    done = {"old": [calm, calm, disturbed], "new": [calm, disturbed, calm]}
    assert undisturbed(done) == {"old": [1.0], "new": [1.0]}


def test_a_node_that_is_slower_than_allowed_is_a_goal_missed() -> None:
    for rate, missed in ((100.0, 0), (90.0, 1)):
        report = Report("link", check=True, path=None)
        judge_rates(report, {"old": [Streamed(100.0, 1, 1)] * 5, "new": [Streamed(rate, 1, 1)] * 5})
        assert len(report.missed) == missed
