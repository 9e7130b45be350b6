"""``scripts/chaos simulate``: seeds of the simulation, and what is found in shipped code with a
fault of ours in it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from chaos.defects import DEFECTS
from chaos.simulation.clients import HAS_KEYS
from chaos.simulation.simulate import one, simulate

__all__ = ["add_to"]

_ALL = "all"


def add_to(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "simulate", help="shipped gateways in made-up time, by seeds"
    )
    parser.add_argument("--seeds", type=int, default=500, help="how many (500)")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them (0)")
    parser.add_argument(
        "--defect",
        choices=[*DEFECTS, _ALL],
        metavar="NAME",
        help=f"put a fault into the code: {', '.join(DEFECTS)}; or {_ALL}, one after the other",
    )
    parser.add_argument("--processes", type=int, default=0, help="(one for each core)")
    parser.add_argument("--folder", type=Path, default=None, help="for the history of one seed")
    parser.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 if a seed is broken; with a defect, if none is",
    )
    parser.set_defaults(do=_simulate)


def _simulate(given: argparse.Namespace) -> int:
    seeds = range(given.first, given.first + given.seeds)
    if given.defect is not None:
        names = [given.defect] if given.defect != _ALL else _can_be_found()
        found = [_seek(name, seeds, given.processes) for name in names]
        return 1 if given.check and not all(found) else 0
    if given.folder is not None and len(seeds) == 1:
        one(seeds[0], folder=given.folder)
        print(f"its history is in {given.folder}")
    done = simulate(seeds, processes=given.processes)
    print(done.told())
    return 1 if given.check and done.broken else 0


def _can_be_found() -> list[str]:
    """Without keys none is used twice."""
    return [name for name in DEFECTS if HAS_KEYS or name != "key-not-unique"]


def _seek(name: str, seeds: range, processes: int) -> bool:
    """Whether it is found, at the first seed that shows it."""
    done = simulate(seeds, name, processes=processes, until=1)
    if not done.broken:
        print(f"{name:30} not found in {done.seeds} seeds", flush=True)
        return False
    first = done.broken[0]
    what = first.verdict.violations[0]
    print(f"{name:30} seed {first.seed:<5} {what.invariant}: {what.what}", flush=True)
    return True
