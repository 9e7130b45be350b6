"""``scripts/chaos fleet``: all that may happen to a fleet, many times."""

from __future__ import annotations

import argparse
import asyncio
import random
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chaos.fleet.clocks import library
from chaos.fleet.defects import FLEET_DEFECTS
from chaos.fleet.page import PAGE, written
from chaos.fleet.run import fleet
from chaos.fleet.service_faults import FAULTS
from chaos.fleet.services import Services, with_services
from chaos.fleet.stage import FleetFault
from chaos.fleet.table import Outcome, kept_in, line_of, outcome_of, summary
from chaos.fleet.times import Times
from chaos.verdict import Word

__all__ = ["add_to", "missing", "sampled", "ways_of"]

_NONE, _EACH = "none", "all"
_FULL = 30
"""Runs of each fault from which on the page is written."""


def add_to(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "fleet", help="gateways, engine nodes, PostgreSQL with a standby, Valkey and a balancer"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if something is broken")
    parser.add_argument(
        "--runs", type=int, default=1, help="that count, of each fault in all its ways (1)"
    )
    parser.add_argument("--sample", action="store_true", help="five minutes: one of each kind")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--only",
        metavar="FAULT",
        default=None,
        help=f"some of {', '.join([_NONE, *FAULTS])}; by commas",
    )
    parser.add_argument(
        "--defect",
        choices=[*FLEET_DEFECTS, _EACH],
        metavar="NAME",
        help="put a fault into the code and see whether it is found, in --runs at most: "
        f"{', '.join(FLEET_DEFECTS)}; or {_EACH}, one after the other",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=None,
        help="for histories and logs; runs that are in it already, of this seed, are not repeated",
    )
    parser.add_argument(
        "--slower", type=float, default=1, help="so many times, on a machine that is busy (1)"
    )
    parser.add_argument(
        "--write", action="store_true", help=f"the page, though there are fewer than {_FULL} runs"
    )
    parser.add_argument("--keep", action="store_true", help="also the histories of runs that held")
    parser.set_defaults(do=_fleet)


def _fleet(given: argparse.Namespace) -> int:
    names = given.only.split(",") if given.only else list(FAULTS)
    unknown = [name for name in names if name not in (_NONE, *FAULTS)]
    if unknown:
        print(f"no such fault: {', '.join(unknown)}; there are {', '.join([_NONE, *FAULTS])}")
        return 2
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    if given.sample:
        names = sampled(names, random.Random(seed))
    folder = given.folder or Path(tempfile.mkdtemp(prefix="vivace-chaos-fleet-"))
    print(f"seed {seed}; histories are in {folder}")
    if given.defect is not None:
        return with_services(lambda services: _defects(given, services, folder, seed))
    return with_services(lambda services: _runs(given, services, folder, seed, names))


def _runs(
    given: argparse.Namespace, services: Services, folder: Path, seed: int, names: Sequence[str]
) -> int:
    outcomes: list[Outcome] = []
    skipped = _skipped(names)
    names = [name for name in names if name not in skipped]
    counted = dict.fromkeys(ways_of(names), 0)
    for number in range(2 * given.runs):  # what does not count is tried once more
        for ways in counted:
            if counted[ways] >= given.runs:
                continue
            name = ways[number % len(ways)]
            place = folder / f"{name}-{number}"
            one = kept_in(place) or _one(place, f"{seed}/{name}/{number}", name, services, given)
            outcomes.append(one)
            counted[ways] += one.word is not Word.UNKNOWN
            print(line_of(one), flush=True)
    print(f"\n{summary(outcomes)}")
    full = not (given.sample or given.only or skipped) and given.runs >= _FULL
    if full or given.write:
        written(outcomes, given.runs)
        print(f"\nwritten to {PAGE}")
    short = [name for ways, count in counted.items() if count < given.runs for name in ways]
    if short:
        print(f"\nfewer than {given.runs} counted: {', '.join(short)}")
    broken = any(each.word is Word.BROKEN for each in outcomes)
    return 1 if given.check and (broken or short) else 0


def _skipped(names: Iterable[str]) -> list[str]:
    skipped = []
    for name in names:
        why = missing(FAULTS.get(name))
        if why is not None:
            skipped.append(name)
            print(f"{name:24}skipped: {why}", flush=True)
    return skipped


def missing(fault: FleetFault | None) -> str | None:
    """What this machine has not that the fault takes, and how it is had."""
    if fault is not None and fault.clocks and library() is None:
        return "libfaketime is not installed: apt-get install faketime"
    return None


def sampled(names: Sequence[str], dice: random.Random) -> list[str]:
    """One of each fault: those that come in several ways take turns by chance."""
    return [dice.choice(ways) for ways in ways_of(names)]


def ways_of(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Those of one fault together: a link that is cut, in one direction only, delayed, broken."""
    kinds: dict[int, list[str]] = {}
    for name in names:
        kinds.setdefault(FAULTS[name].row if name in FAULTS else 0, []).append(name)
    return [tuple(ways) for _, ways in sorted(kinds.items())]


def _one(
    place: Path, seed: str, name: str, services: Services, given: argparse.Namespace
) -> Outcome:
    if place.exists():  # of a run that was interrupted
        shutil.rmtree(place)
    times = Times.stretched(given.slower)
    one = outcome_of(asyncio.run(fleet(place, seed, FAULTS.get(name), services, times=times)))
    if one.word is Word.HOLDS and not given.keep:
        _tidy(place)
    return one


def _tidy(place: Path) -> None:
    """What nobody will look at: hundreds of runs would be gigabytes."""
    for path in place.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "run.json":
            path.unlink()


def _defects(given: argparse.Namespace, services: Services, folder: Path, seed: int) -> int:
    names = list(FLEET_DEFECTS) if given.defect == _EACH else [given.defect]
    found = [_seek(name, services, folder, seed, given) for name in names]
    print(f"\n{sum(found)} of {len(found)} found")
    return 1 if given.check and not all(found) else 0


def _seek(
    name: str, services: Services, folder: Path, seed: int, given: argparse.Namespace
) -> bool:
    """Whether a fault of ours in the shipped code is found, at the first run that shows it."""
    fault = FAULTS.get(FLEET_DEFECTS[name].shown_by or _NONE)
    times = Times.stretched(given.slower)
    for number in range(given.runs):
        place, own = folder / f"{name}-{number}", f"{seed}/{name}/{number}"
        run = asyncio.run(fleet(place, own, fault, services, times=times, defect=name))
        if run.verdict.word is Word.BROKEN:
            what = run.verdict.violations[0]
            print(f"{name:30} run {number + 1}  {what.invariant}: {what.what}", flush=True)
            return True
    print(f"{name:30} not found in {given.runs} runs", flush=True)
    return False
