"""What loops come to: a line for each client, and what does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from chaos.fleet.table import aligned
from chaos.loops.killing import KILLS
from chaos.loops.script import TURNS

__all__ = ["COLUMNS", "Outcome", "line_of", "problems", "rows", "summary"]

COLUMNS = ("client", "loops", "turns", "kills", "finished", "run twice", "retries")


class Outcome(Struct, frozen=True):
    """One loop."""

    client: str
    keyed: bool
    """Whether every request had an idempotency key."""
    turns: int
    kills: int
    twice: int
    """Answers that an engine began a second time."""
    retries: int
    why: str
    """What was wrong with its end, if something was."""
    seconds: float


def problems(one: Outcome) -> Iterator[str]:
    """What does not hold, in a sentence each."""
    if one.why:
        yield one.why
    elif one.turns < TURNS or (one.keyed and one.turns > TURNS):
        yield f"engines were asked for {one.turns} turns instead of {TURNS}"
    if one.kills < KILLS:
        yield f"only {one.kills} gateways were killed instead of {KILLS}"
    if one.keyed and one.twice:
        yield f"{one.twice} turns were run twice, though every request had a key"


def line_of(one: Outcome) -> str:
    told = "; ".join(problems(one)) or "holds"
    return (
        f"{one.client:26}{one.turns:4} turns{one.kills:3} kills{one.twice:4} run twice"
        f"{one.retries:4} retries{one.seconds:7.1f} s  {told}"
    )


def rows(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, ...]]:
    """A line for each client, as ``COLUMNS`` says."""
    for name in dict.fromkeys(each.client for each in outcomes):
        mine = [each for each in outcomes if each.client == name]
        numbers = (
            len(mine),
            sum(each.turns for each in mine),
            sum(each.kills for each in mine),
            sum(not each.why for each in mine),
            sum(each.twice for each in mine),
            sum(each.retries for each in mine),
        )
        yield (name, *map(str, numbers))


def summary(outcomes: Sequence[Outcome]) -> str:
    """For a terminal."""
    return aligned([COLUMNS, *rows(outcomes)])
