"""``scripts/chaos``: faults among clients at work, and what the record says of it."""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.support.postgres import Postgres

from chaos.defects import DEFECTS
from chaos.faults import FAULTS, GROUPS, chosen
from chaos.fleet.command import add_to as add_fleet
from chaos.fleet.picture import add_to as add_picture
from chaos.history import load
from chaos.loops.command import add_to as add_loops
from chaos.run import Run, one_node
from chaos.simulation.command import add_to as add_simulation
from chaos.stage import BOTH, POSTGRES, Fault
from chaos.tale import tale
from chaos.verdict import Word, judge, worst

__all__ = ["main", "told"]

_NONE = "none"
_EACH = "all"
_IN_ONE_NODE = [name for name, each in DEFECTS.items() if each.shown_by is not None]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__)
    commands = parser.add_subparsers(required=True)
    node = commands.add_parser("one-node", help="a gateway with its engines")
    node.add_argument("--check", action="store_true", help="exit with 1 if something is broken")
    node.add_argument("--runs", type=int, default=1, help="of each fault (1)")
    node.add_argument("--sample", action="store_true", help="a few minutes: one of each group")
    node.add_argument("--seed", type=int, default=None)
    node.add_argument(
        "--faults",
        default=",".join([_NONE, *GROUPS]),
        help=f"groups ({', '.join(GROUPS)}), {_NONE}, or some of {', '.join(FAULTS)}; by commas",
    )
    node.add_argument("--store", choices=BOTH, default=None, help="on which store (on both)")
    node.add_argument("--keys", action="store_true", help="ask again under idempotency keys")
    node.add_argument(
        "--defect",
        choices=[*_IN_ONE_NODE, _EACH],
        metavar="NAME",
        help="put a fault into the gateway's code and see whether it is found, in --runs at most: "
        f"{', '.join(_IN_ONE_NODE)}; or {_EACH}, one after the other",
    )
    node.add_argument("--folder", type=Path, default=None, help="for histories and logs")
    node.set_defaults(do=_one_node)
    add_fleet(commands)
    add_loops(commands)
    add_picture(commands)
    add_simulation(commands)
    show = commands.add_parser("show", help="what a history tells of a response or a stream")
    show.add_argument("history", type=Path)
    show.add_argument("id", nargs="?")
    show.set_defaults(do=_show)
    given = parser.parse_args()
    return int(given.do(given))


def _one_node(given: argparse.Namespace) -> int:
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    stores = BOTH if given.store is None else [given.store]
    try:
        plan = list(_plan(given.faults.split(","), stores))
    except KeyError as error:
        print(f"no such fault: {error}; there are {', '.join([_NONE, *GROUPS, *FAULTS])}")
        return 2
    if given.sample:
        plan = _sample(plan, random.Random(seed))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="vivace-chaos-"))
    print(f"seed {seed}; histories are in {folder}")
    if given.defect is not None:
        names = _IN_ONE_NODE if given.defect == _EACH else [given.defect]
        found = [_seek(name, folder, seed, given.runs) for name in names]
        return 1 if given.check and not all(found) else 0
    runs: list[Run] = []
    with ExitStack() as stack:
        postgres = None
        if any(store == POSTGRES for _, store in plan):
            postgres = Postgres()
            stack.callback(postgres.stop)
        for number in range(given.runs):
            for fault, store in plan:
                name = fault.name if fault else _NONE
                place = folder / f"{name}-{store}-{number}"
                server = postgres if store == POSTGRES else None
                own = f"{seed}/{name}/{number}"
                runs.append(asyncio.run(one_node(place, own, fault, server, keys=given.keys)))
                print(_line(runs[-1]), flush=True)
    print(f"\n{told(runs)}")
    broken = worst(run.verdict.word for run in runs) is Word.BROKEN
    return 1 if given.check and broken else 0


def _seek(name: str, folder: Path, seed: int, runs: int) -> bool:
    """Whether a fault of ours in the shipped code is found, at the first run that shows it."""
    fault = FAULTS.get(DEFECTS[name].shown_by or _NONE)
    for number in range(runs):
        place, own = folder / f"{name}-{number}", f"{seed}/{name}/{number}"
        keys = name == "key-not-unique"
        run = asyncio.run(one_node(place, own, fault, keys=keys, defect=name))
        if run.verdict.word is Word.BROKEN:
            what = run.verdict.violations[0]
            print(f"{name:30} run {number + 1}  {what.invariant}: {what.what}", flush=True)
            return True
    print(f"{name:30} not found in {runs} runs", flush=True)
    return False


_Planned = tuple[Fault | None, str]


def _plan(names: Sequence[str], stores: Sequence[str]) -> Iterator[_Planned]:
    for name in names:
        faults: Sequence[Fault | None] = [None] if name == _NONE else chosen([name])
        for fault in faults:
            yield from ((fault, each) for each in stores if fault is None or each in fault.stores)


def _sample(plan: Sequence[_Planned], dice: random.Random) -> list[_Planned]:
    """One of each group, and a death on either side of a barrier: enough to see that all of it
    still works, in the time that a check may take."""
    groups: dict[str, list[_Planned]] = {}
    for fault, store in plan:
        if fault is not None:
            side = fault.name.split("-")[1] if fault.group == "barriers" else ""
            groups.setdefault(fault.group + side, []).append((fault, store))
    return [dice.choice(group) for group in groups.values()]


def _line(run: Run) -> str:
    verdict = run.verdict
    counts = Counter(violation.invariant for violation in verdict.violations)
    what = ", ".join(f"{name}: {count}" for name, count in counts.items())
    why = "; ".join([what] if what else verdict.doubts)
    return (
        f"{run.fault:26}{run.store:10}{verdict.word.value:9}{run.turns:5} turns{run.hit:4} hit"
        f"{run.seconds:7.1f} s  {why}"
    )


def told(runs: Sequence[Run]) -> str:
    """A line for each fault: how many runs counted since it struck, how many of them held or were
    broken, how many turns were open at least, and how many runs do not count."""
    columns = f"{'counted':>9}{'held':>6}{'broken':>8}{'open':>6}{'did not count':>15}"
    lines = [f"{'fault':26}{'store':9}{columns}  violations"]
    for fault, store in dict.fromkeys((run.fault, run.store) for run in runs):
        mine = [run for run in runs if (run.fault, run.store) == (fault, store)]
        words = Counter(run.verdict.word for run in mine)
        counted = [run for run in mine if run.verdict.counts]
        least = min((run.hit for run in counted), default=0)
        broken = Counter(each.invariant for run in mine for each in run.verdict.violations)
        what = ", ".join(f"{name}: {count}" for name, count in sorted(broken.items()))
        lines.append(
            f"{fault:26}{store:9}{len(counted):9}{words[Word.HOLDS]:6}{words[Word.BROKEN]:8}"
            f"{least:6}{words[Word.UNKNOWN]:15}  {what or '-'}"
        )
    return "\n".join(lines)


def _show(given: argparse.Namespace) -> int:
    history = load(given.history)
    if given.id is not None:
        print(tale(history, given.id))
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
