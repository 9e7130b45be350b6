"""Runs of ``scripts/chaos one-node``: clients come back, and what was promised is looked at."""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path

import pytest
from chaos.__main__ import told
from chaos.barriers import DieAt
from chaos.faults import FAULTS
from chaos.history import Process, Saw, Table, Worked, load
from chaos.invariants import Violation
from chaos.points import met_in
from chaos.run import Run, one_node
from chaos.stage import Stage
from chaos.verdict import Verdict, Word
from msgspec.structs import replace

log = logging.getLogger(__name__)


def any_seed() -> str:
    """Return another seed each time, which a failure shows with what was logged."""
    seed = str(secrets.randbelow(10**6))
    log.warning("seed %s", seed)
    return seed


@pytest.mark.release
def test_without_a_fault_everything_holds_and_everything_was_looked_at(tmp_path: Path) -> None:
    run = asyncio.run(one_node(tmp_path / "run", any_seed(), None))
    assert run.verdict.word is Word.HOLDS, run.verdict
    history = load(run.history)
    seen = {entry.event["type"] for entry in history if isinstance(entry, Saw)}
    assert {"response.created", "response.completed"} <= seen
    assert {entry.what for entry in history if isinstance(entry, Worked)} == {"began", "stopped"}
    [turns] = [entry for entry in history if isinstance(entry, Table) and entry.name == "turns"]
    assert turns.rows


@pytest.mark.release
def test_a_client_that_comes_back_twice_at_once_breaks_nothing(tmp_path: Path) -> None:
    run = asyncio.run(one_node(tmp_path / "run", any_seed(), FAULTS["cut-client-twice"]))
    assert run.verdict.word is Word.HOLDS, run.verdict
    assert all(run.verdict.hit.values())


def test_a_gateway_that_is_killed_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    run = asyncio.run(one_node(tmp_path / "run", "1", FAULTS["kill-gateway"]))
    lives = [entry.up for entry in load(run.history) if isinstance(entry, Process)]
    assert lives == [True, False, True, False]
    assert all(run.verdict.hit.values())
    assert run.verdict.violations == []


@pytest.mark.release
def test_a_fault_in_the_code_of_the_gateway_is_found(tmp_path: Path) -> None:
    run = asyncio.run(one_node(tmp_path / "run", "1", None, defect="place-kept"))
    assert {each.invariant for each in run.verdict.violations} == {"I8 no ghosts"}


@pytest.mark.release
def test_a_gateway_that_dies_at_a_barrier_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    run = asyncio.run(one_node(tmp_path / "run", any_seed(), FAULTS["die-after-end"]))
    assert run.verdict.violations == []
    assert met_in(tmp_path / "run") is not None
    assert all(run.verdict.hit.values())


@pytest.mark.release
def test_an_engine_that_is_killed_takes_no_turn_with_it(tmp_path: Path) -> None:
    run = asyncio.run(one_node(tmp_path / "run", any_seed(), FAULTS["kill-engine"]))
    assert run.verdict.violations == []
    work = [entry for entry in load(run.history) if isinstance(entry, Worked)]
    assert any(entry.said for entry in work), "no engine went on for another"


@pytest.mark.release
def test_a_fault_that_meets_nothing_does_not_count(tmp_path: Path) -> None:
    class Nowhere(DieAt):
        def fits(self, stage: Stage) -> bool:
            stage.gateway.patience = 0.5
            return True

    run = asyncio.run(one_node(tmp_path / "run", any_seed(), Nowhere("no-such-point", "before")))
    assert run.verdict.word is Word.UNKNOWN
    assert "TimeoutError" in run.verdict.doubts[0]


def test_a_table_says_what_counted_held_and_did_not_count(tmp_path: Path) -> None:
    hit = {"kill of gateway": ["resp_1", "resp_2"]}
    held = Run("1", "kill", "sqlite", Verdict(Word.HOLDS, hit=hit), 9, 1.0, tmp_path)
    harmless = replace(held, verdict=Verdict(Word.UNKNOWN, doubts=["it hit nothing"]))
    violations = [Violation("I1 kept", "gone")]
    broken = replace(held, verdict=Verdict(Word.BROKEN, violations, hit=hit))
    elsewhere = replace(held, store="postgres")
    first, second = told([held, harmless, broken, elsewhere]).splitlines()[1:]
    assert first.split() == ["kill", "sqlite", "2", "1", "1", "2", "1", "I1", "kept:", "1"]
    assert second.split() == ["kill", "postgres", "1", "1", "0", "2", "0", "-"]
