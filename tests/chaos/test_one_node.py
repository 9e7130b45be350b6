"""Runs of ``scripts/chaos one-node``: clients come back, and what was promised is looked at."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import pytest
from chaos.__main__ import told
from chaos.faults import FAULTS
from chaos.history import Process, Saw, Table, Worked, load
from chaos.invariants import Violation
from chaos.run import Run, one_node
from chaos.verdict import Verdict, Word
from msgspec.structs import replace

pytestmark = pytest.mark.alone


def test_without_a_fault_everything_holds_and_everything_was_looked_at(tmp_path: Path) -> None:
    run = asyncio.run(one_node(tmp_path / "run", str(secrets.randbelow(10**6)), None))
    assert run.verdict.word is Word.HOLDS, run.verdict
    history = load(run.history)
    seen = {entry.event["type"] for entry in history if isinstance(entry, Saw)}
    assert {"response.created", "response.completed"} <= seen
    assert {entry.what for entry in history if isinstance(entry, Worked)} == {"began", "stopped"}
    [turns] = [entry for entry in history if isinstance(entry, Table) and entry.name == "turns"]
    assert turns.rows


def test_a_client_that_comes_back_twice_at_once_breaks_nothing(tmp_path: Path) -> None:
    seed = str(secrets.randbelow(10**6))
    run = asyncio.run(one_node(tmp_path / "run", seed, FAULTS["cut-client-twice"]))
    assert run.verdict.word is Word.HOLDS, run.verdict
    assert all(run.verdict.hit.values())


def test_a_gateway_that_is_killed_loses_nothing_that_it_accepted(tmp_path: Path) -> None:
    seed = str(secrets.randbelow(10**6))
    run = asyncio.run(one_node(tmp_path / "run", seed, FAULTS["kill-gateway"]))
    lives = [entry.up for entry in load(run.history) if isinstance(entry, Process)]
    assert lives == [True, False, True, False]
    assert all(run.verdict.hit.values())
    assert run.verdict.violations == []


def test_a_table_says_what_held_and_what_does_not_count(tmp_path: Path) -> None:
    held = Run("1", "kill", Verdict(Word.HOLDS), 9, 1.0, tmp_path)
    harmless = replace(held, verdict=Verdict(Word.UNKNOWN, doubts=["it hit nothing"]))
    broken = replace(held, verdict=Verdict(Word.BROKEN, [Violation("I1 kept", "gone")]))
    line = told([held, harmless, broken]).splitlines()[1].split()
    assert line == ["kill", "3", "1", "1", "1", "I1", "kept:", "1"]
