"""``docs/chaos.md``: what many runs of a fleet came to, written by ``scripts/chaos fleet``."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from chaos.fleet.table import COLUMNS, Outcome, rows

__all__ = ["PAGE", "written"]

PAGE = Path(__file__).parents[2] / "docs" / "chaos.md"

_TEXT = """# A fleet with everything killed on purpose

This page is written by `scripts/chaos fleet --runs {runs}`. {made}

Two gateways, two engine nodes with scripted engines, PostgreSQL with a synchronous standby,
Valkey and HAProxy, each a process of its own on one machine, with a way of ours between every
two. Fifteen clients come in at HAProxy and at both gateways, over WebSocket, server-sent events
and by asking again and again; they steer, call tools, hang up, come back at another door, send
requests again under their keys, and delete. In the middle of that something is done to one part.
What everybody saw, what the engines were shown, what every gateway answers when all is calm, and
what is on record are then held against each other: [what must
hold](how/durability.md#how-it-is-tried). Times are scaled down: a gateway says every 0.2 s that
it lives and counts as gone after 0.6 s, a turn waits 1.5 s for its client.

A run counts if at least eight turns were open when the fault struck, and one of them was in the
state that is to be hit: *kill-gateway* is the death of a gateway that reads an answer from a
node, *freeze-gateway* one that sleeps until another has taken a turn of it, *lose-answer* a
commit whose answer never arrived. What did not count was tried again. Lines with the same number
are ways of one fault, which took turns.

{table}

*Resumes*: clients that came back for the rest of an answer. *Failovers*: times that an engine
went on for another. *Taken over*: turns that went to another gateway. *Pause*: of answers whose
gateway or node was lost, from the fault to the next word that nobody had seen; after a gateway for
clients that come back at once, after a node for those that were reading, but not for who reads
along through another gateway, and is told the rest when the answer has ended.

The engines are scripted, so that every word says where it comes from; in *kill-engine* they are
processes that play llama.cpp's server. One machine has one clock and one disk, and its networks
never fail by themselves: runs like these find faults, and do not prove that there are none.
"""


def written(outcomes: Sequence[Outcome], runs: int, path: Path = PAGE) -> None:
    lines = [_line(COLUMNS), _line(["---"] * len(COLUMNS)), *map(_line, rows(outcomes))]
    broken = sum(bool(each.violations) for each in outcomes)
    turns, hours = sum(each.turns for each in outcomes), sum(each.seconds for each in outcomes)
    made = (
        f"Last written at commit {_commit()}: {len(outcomes)} runs with {turns:,} turns in "
        f"{hours / 3600:.1f} hours, {broken or 'none'} of them broken."
    )
    path.write_text(_TEXT.format(runs=runs, made=made, table="\n".join(lines)))


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    made = subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=False)
    return made.stdout.strip() or "unknown"
