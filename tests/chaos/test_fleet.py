"""Faults of a fleet: what each is to hit, which are tried, and what runs come to."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaos.doors import Doors
from chaos.fleet import command, page, table
from chaos.fleet.cell import At
from chaos.fleet.command import missing, sampled, ways_of
from chaos.fleet.defects import FLEET_DEFECTS
from chaos.fleet.service_faults import FAULTS
from chaos.fleet.stage import Scene
from chaos.fleet.table import Outcome, kept_in, rows, summary
from chaos.fleet.times import Times
from chaos.verdict import Word


class _Client:
    def __init__(self, name: str, reads: str | None, *, busy: bool = True) -> None:
        self.name, self.reads, self.busy = name, reads, busy

    def cut(self, back: int = 1) -> None:
        raise AssertionError("nobody is struck while somebody aims")


class _Cell:
    nodes: tuple[Any, ...] = ()
    times = Times()


def scene(*clients: _Client) -> Scene:
    return Scene(_Cell(), clients, random.Random(1))  # type: ignore[arg-type]


def turn(name: str, gateway: str = "gateway-1", node: str = "node-a", attempt: int = 1) -> At:
    return At(name, gateway, node, attempt, 1, False)


RUNS, WAITS = turn("resp_1"), turn("resp_2", node="")
LEFT = turn("resp_3", gateway="", node="node-b")


def test_there_is_one_for_each_row_and_no_two_have_a_name() -> None:
    assert {fault.row for fault in FAULTS.values()} == set(range(1, 17))
    assert all(name == fault.name for name, fault in FAULTS.items())


@pytest.mark.parametrize("name", [name for name in FAULTS if not name.startswith("cut-client")])
def test_none_strikes_while_no_engine_works(name: str) -> None:
    assert FAULTS[name].aim(scene(), [WAITS]) is None


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("kill-gateway", "gateway-1"),
        ("freeze-gateway", "gateway-1"),
        ("cut-from-store", "gateway-1"),
        ("lose-answer", "gateway-1"),
        ("kill-node", "node-a"),
        ("freeze-node", "node-a"),
        ("kill-postgres", "postgres"),
        ("kill-valkey", "valkey"),
    ],
)
def test_it_hits_the_turns_that_its_target_has(name: str, target: str) -> None:
    aim = FAULTS[name].aim(scene(), [RUNS, WAITS])
    assert aim is not None
    assert (aim.target, aim.turns) == (target, ("resp_1",))


@pytest.mark.parametrize("name", ["kill-gateway-and-node", "cut-link", "cut-link-one-way"])
def test_what_is_between_two_hits_only_what_both_have(name: str) -> None:
    aim = FAULTS[name].aim(scene(), [RUNS, WAITS, LEFT])
    assert aim is not None
    assert (aim.target, aim.also, aim.turns) == ("gateway-1", "node-a", ("resp_1",))
    assert FAULTS[name].aim(scene(), [WAITS, LEFT]) is None


def test_a_client_is_cut_off_while_it_reads_an_answer() -> None:
    aim = FAULTS["cut-client"].aim(
        scene(_Client("a", "resp_2"), _Client("b", None), _Client("c", "resp_1")), [RUNS, WAITS]
    )
    assert aim is not None
    assert (aim.target, aim.turns) == ("c", ("resp_1",))
    idle = scene(_Client("c", "resp_1", busy=False))
    assert FAULTS["cut-client"].aim(idle, [RUNS]) is None


def test_an_engine_is_killed_only_where_one_works() -> None:
    assert FAULTS["kill-engine"].aim(scene(), [RUNS]) is None


def test_a_sample_has_one_of_each_row() -> None:
    names = sampled(list(FAULTS), random.Random(3))
    assert [FAULTS[name].row for name in names] == list(range(1, 17))
    assert sampled(["none", "kill-node"], random.Random(3)) == ["none", "kill-node"]


def test_the_ways_of_one_fault_take_turns() -> None:
    ways = ways_of(["kill-node", "stall-valkey", "kill-valkey", "none"])
    assert ways == [("none",), ("kill-node",), ("stall-valkey", "kill-valkey")]
    assert len(ways_of(FAULTS)) == 16


def test_what_cannot_be_done_here_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "library", lambda: None)
    assert "libfaketime" in (missing(FAULTS["set-clock"]) or "")
    assert missing(FAULTS["kill-node"]) is None


def test_whoever_comes_takes_the_next_door() -> None:
    doors = Doors({"one": "u1", "two": "u2"}, first=3)
    assert [doors.next()[0] for _ in range(3)] == ["two", "one", "two"]


def test_every_defect_names_a_fault_that_shows_it_and_can_be_put_in() -> None:
    assert len(FLEET_DEFECTS) >= 6
    for defect in FLEET_DEFECTS.values():
        assert defect.shown_by in (*FAULTS, "none")
        assert defect.what
        for place, name, _ in defect.changes():
            assert hasattr(place, name), defect.name


# -- what runs come to ----------------------------------------------------------------------------


def outcome(word: Word, *, pauses: list[float] | None = None, opened: int = 9) -> Outcome:
    violations = ["I1 kept: gone"] if word is Word.BROKEN else []
    return Outcome(
        fault="kill-node",
        seed="1",
        word=word,
        turns=40,
        open=opened,
        hit=4,
        resumes=3,
        failovers=2,
        taken=1,
        pauses=pauses or [],
        violations=violations,
        doubts=[],
        seconds=12.0,
    )


def test_a_line_has_only_runs_that_counted() -> None:
    runs = [
        outcome(Word.HOLDS, pauses=[0.2, 0.4]),
        outcome(Word.BROKEN, pauses=[0.3], opened=8),
        outcome(Word.UNKNOWN, pauses=[9.0], opened=0),
    ]
    [line] = rows(runs)
    assert line == (
        *("7", "kill-node", "2", "1", "1", "1", "80", "8", "6", "4", "2", "0.30, 0.40, 0.40 s"),
    )
    assert "kill-node" in summary(runs)


def test_a_page_is_written_with_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "chaos.md"
    page.written([outcome(Word.HOLDS), outcome(Word.HOLDS)], 30, path)
    text = path.read_text()
    assert "--runs 30" in text
    assert "2 runs with 80 turns" in text
    assert "none of them broken" in text
    assert "| 7 | kill-node | 2 | 2 | 0 |" in text
    page.written([outcome(Word.BROKEN)], 30, path)
    assert "1 of them broken" in path.read_text()


def test_a_run_that_was_made_is_found_again(tmp_path: Path) -> None:
    assert kept_in(tmp_path) is None
    (tmp_path / table._FILE).write_bytes(msgspec.json.encode(outcome(Word.HOLDS)))
    assert kept_in(tmp_path) == outcome(Word.HOLDS)
