"""What became of runs of a fleet: each in a few figures, and all of a fault in a line."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from chaos.fleet.recovery import pauses
from chaos.fleet.service_faults import FAULTS
from chaos.history import Sent, Worked, load
from chaos.run import Run
from chaos.story import Story
from chaos.verdict import Word

__all__ = ["Outcome", "aligned", "kept_in", "line_of", "outcome_of", "rows", "summary"]

_FILE = "run.json"
COLUMNS = (
    *("#", "fault", "counted", "held", "broken", "did not count"),
    *("turns", "open at least", "resumes", "failovers", "taken over", "pause p50, p90, worst"),
)


class Outcome(Struct, frozen=True):
    """One run."""

    fault: str
    seed: str
    word: Word
    turns: int
    open: int
    """How many were, when the fault struck."""
    hit: int
    """How many of these were in the state that it was to hit."""
    resumes: int
    failovers: int
    """Times that an engine went on for another."""
    taken: int
    """Turns that went to another gateway."""
    pauses: list[float]
    """Of answers that lost their gateway or their node, until their next word."""
    violations: list[str]
    doubts: list[str]
    seconds: float


def outcome_of(run: Run) -> Outcome:
    """Read from its history, and kept beside it."""
    history = load(run.history)
    story = Story(history)
    sent = [entry.event for entry in history if isinstance(entry, Sent)]
    resumes = sum(isinstance(each, dict) and each["type"] == "response.resume" for each in sent)
    replays = sum(each.replays is not None for each in story.joined.values())
    work = (entry for entry in history if isinstance(entry, Worked) and entry.what == "began")
    outcome = Outcome(
        fault=run.fault,
        seed=run.seed,
        word=run.verdict.word,
        turns=run.turns,
        open=max(run.verdict.open.values(), default=0),
        hit=run.hit,
        resumes=resumes + replays,
        failovers=sum(entry.attempt > 1 for entry in work),
        taken=sum(row["epoch"] > 1 for row in story.rows.values()),
        pauses=pauses(story),
        violations=[f"{each.invariant}: {each.what}" for each in run.verdict.violations],
        doubts=run.verdict.doubts,
        seconds=run.seconds,
    )
    (run.history.parent / _FILE).write_bytes(msgspec.json.encode(outcome))
    return outcome


def kept_in(folder: Path) -> Outcome | None:
    """That of a run which was made before, if there is one in this folder."""
    path = folder / _FILE
    return msgspec.json.decode(path.read_bytes(), type=Outcome) if path.exists() else None


def line_of(one: Outcome) -> str:
    why = "; ".join(one.violations[:2] or one.doubts[:2])
    return (
        f"{one.fault:24}{one.word.value:9}{one.turns:5} turns{one.open:4} open{one.hit:4} hit"
        f"{one.resumes:5} resumed{one.failovers:4} moved{one.taken:4} taken  "
        f"{pause(one.pauses):22}{one.seconds:6.1f} s  {why}"
    )


def pause(seconds: Sequence[float]) -> str:
    if not seconds:
        return "-"
    ordered = sorted(seconds)
    ninth = ordered[min(len(ordered) - 1, round(0.9 * len(ordered)))]
    return f"{statistics.median(ordered):.2f}, {ninth:.2f}, {ordered[-1]:.2f} s"


def rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """A line for each fault, as ``COLUMNS`` says."""
    for name in sorted({each.fault for each in outcomes}, key=_place):
        mine = [each for each in outcomes if each.fault == name]
        counted = [each for each in mine if each.word is not Word.UNKNOWN]
        words = [each.word for each in mine]
        numbers = (
            len(counted),
            words.count(Word.HOLDS),
            words.count(Word.BROKEN),
            words.count(Word.UNKNOWN),
            sum(each.turns for each in counted),
            min((each.open for each in counted), default=0),
            sum(each.resumes for each in counted),
            sum(each.failovers for each in counted),
            sum(each.taken for each in counted),
        )
        row = str(FAULTS[name].row) if name in FAULTS else ""
        paused = [seconds for each in counted for seconds in each.pauses]
        yield (row, name, *map(str, numbers), pause(paused))


def _place(fault: str) -> tuple[int, str]:
    return FAULTS[fault].row if fault in FAULTS else 0, fault


def summary(outcomes: Sequence[Outcome]) -> str:
    """For a terminal."""
    return aligned([COLUMNS, *rows(outcomes)])


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Columns one below the other."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in table
    )
