"""``scripts/chaos loops``: real clients, whose gateway is killed at every fifth turn."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
from pathlib import Path
from typing import Any

import pytest

from chaos.fleet.services import Services, with_services
from chaos.fleet.times import Times
from chaos.loops.run import CLIENTS, loops
from chaos.loops.script import TURNS
from chaos.loops.table import line_of, problems, summary

__all__ = ["add_to"]

_RATE = 60
"""Tokens a second: an answer takes one."""


def add_to(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "loops", help=f"OpenAI's SDK and Codex through a fleet, {TURNS} turns each"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if something is broken")
    parser.add_argument("--runs", type=int, default=1, help="loops of each client (1)")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument(
        "--only", metavar="CLIENT", default=",".join(CLIENTS), help="some of %(default)s; by commas"
    )
    parser.add_argument(
        "--no-keys", action="store_true", help="the SDK sends none: what these are for"
    )
    parser.add_argument("--folder", type=Path, default=None, help="for logs and what engines did")
    parser.add_argument(
        "--slower", type=float, default=1, help="so many times, on a machine that is busy (1)"
    )
    parser.set_defaults(do=_loops)


def _loops(given: argparse.Namespace) -> int:
    names = given.only.split(",")
    unknown = [name for name in names if name not in CLIENTS]
    if unknown:
        print(f"no such client: {', '.join(unknown)}; there are {', '.join(CLIENTS)}")
        return 2
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    folder = given.folder or Path(tempfile.mkdtemp(prefix="vivace-chaos-loops-"))
    print(f"seed {seed}; logs are in {folder}")
    plan = names * given.runs
    try:
        return with_services(lambda services: _runs(given, services, folder, str(seed), plan))
    except pytest.skip.Exception as error:
        print(f"This takes Codex: {error}")
        return 2


def _runs(
    given: argparse.Namespace, services: Services, folder: Path, seed: str, plan: list[str]
) -> int:
    outcomes = asyncio.run(
        loops(
            folder,
            seed,
            services,
            plan,
            times=Times.shipped(_RATE, given.slower),
            keys=not given.no_keys,
            told=lambda one: print(line_of(one), flush=True),
        )
    )
    print(f"\n{summary(outcomes)}")
    broken = any(any(problems(one)) for one in outcomes)
    return 1 if given.check and broken else 0
