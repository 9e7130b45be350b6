"""``scripts/chaos``: faults among clients at work, and what the record says of it."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from chaos.faults import FAULTS
from chaos.history import load
from chaos.rounds import excerpt
from chaos.run import Run, one_node
from chaos.verdict import Word, judge, worst

__all__ = ["main", "told"]

_NONE = "none"
_ALL = 10**9


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    commands = parser.add_subparsers(required=True)
    node = commands.add_parser("one-node", help="a gateway with its engine, on SQLite")
    node.add_argument("--check", action="store_true", help="exit with 1 unless all held")
    node.add_argument("--runs", type=int, default=1, help="of each fault (1)")
    node.add_argument("--seed", type=int, default=None)
    node.add_argument(
        "--faults",
        default=",".join([_NONE, *FAULTS]),
        help=f"some of {_NONE}, {', '.join(FAULTS)}; by commas (all)",
    )
    node.add_argument("--keys", action="store_true", help="ask again under idempotency keys")
    node.add_argument("--folder", type=Path, default=None, help="for histories and logs")
    node.set_defaults(do=_one_node)
    show = commands.add_parser("show", help="what a history tells of a response or a stream")
    show.add_argument("history", type=Path)
    show.add_argument("id", nargs="?")
    show.set_defaults(do=_show)
    given = parser.parse_args()
    return int(given.do(given))


def _one_node(given: argparse.Namespace) -> int:
    names = given.faults.split(",")
    unknown = [name for name in names if name != _NONE and name not in FAULTS]
    if unknown:
        print(f"no such fault: {', '.join(unknown)}; there are {', '.join([_NONE, *FAULTS])}")
        return 2
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    folder = given.folder or Path(tempfile.mkdtemp(prefix="vivace-chaos-"))
    print(f"seed {seed}; histories are in {folder}")
    runs: list[Run] = []
    for name in names:
        for number in range(given.runs):
            place = folder / f"{name}-{number}"
            own = f"{seed}/{name}/{number}"
            run = asyncio.run(one_node(place, own, FAULTS.get(name), keys=given.keys))
            runs.append(run)
            print(_line(run), flush=True)
    print(f"\n{told(runs)}")
    held = worst(run.verdict.word for run in runs) is Word.HOLDS
    return 1 if given.check and not held else 0


def _line(run: Run) -> str:
    verdict = run.verdict
    counts = Counter(violation.invariant for violation in verdict.violations)
    what = ", ".join(f"{name}: {count}" for name, count in counts.items())
    hit = len({name for names in verdict.hit.values() for name in names})
    why = "; ".join([what] if what else verdict.doubts)
    return (
        f"{run.fault:18}{verdict.word.value:9}{run.turns:5} turns{hit:4} hit"
        f"{run.seconds:7.1f} s  {why}"
    )


def told(runs: Sequence[Run]) -> str:
    """A line for each fault: how many runs held, were broken, or do not count, and what broke."""
    lines = [f"{'fault':18}{'runs':>5}{'held':>6}{'broken':>8}{'unknown':>9}  violations"]
    for fault in dict.fromkeys(run.fault for run in runs):
        mine = [run.verdict for run in runs if run.fault == fault]
        words = Counter(verdict.word for verdict in mine)
        broken = Counter(each.invariant for verdict in mine for each in verdict.violations)
        what = ", ".join(f"{name}: {count}" for name, count in sorted(broken.items()))
        lines.append(
            f"{fault:18}{len(mine):5}{words[Word.HOLDS]:6}{words[Word.BROKEN]:8}"
            f"{words[Word.UNKNOWN]:9}  {what or '-'}"
        )
    return "\n".join(lines)


def _show(given: argparse.Namespace) -> int:
    history = load(given.history)
    if given.id is not None:
        print(excerpt(history, [given.id], lines=_ALL))
        return 0
    verdict = judge(history)
    print(verdict.word.value)
    for violation in verdict.violations:
        print(f"  {violation.invariant}: {violation.what}")
    for doubt in verdict.doubts:
        print(f"  {doubt}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
