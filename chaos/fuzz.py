"""Random clients against a real gateway: ``scripts/fuzz [--seconds N] [--dawdling] [--api N]``."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

from tests.support.http import bearer
from tests.support.process import Serve

from chaos import api
from chaos.processes import custom_site
from chaos.rounds import Outcome, play
from chaos.workload import SCRIPT, TIERS

__all__ = ["main", "run", "told"]

_OWNERS = ("alice", "bob")


def run(
    folder: Path,
    *,
    seed: int,
    seconds: float = 0,
    rounds: int | None = None,
    dawdling: bool = False,
) -> Outcome:
    """Play against a gateway of its own, whose files and broken histories stay in ``folder``.

    ``rounds``: how many, whatever time they take. ``dawdling``: whatever it would share with other
    gateways takes its time.
    """
    engine = {"slots": 12, "reserved": 2}  # few enough that turns have to wait
    tables = {"tiers": TIERS}
    with Serve(
        folder,
        SCRIPT,
        rate=1500,
        engine=engine,
        owners=_OWNERS,
        tables=tables,
        environment=custom_site(folder, "chaos.dawdling") if dawdling else {},
    ) as server:
        playing = play(
            server.url.removesuffix("/v1"),
            {owner: bearer(owner) for owner in _OWNERS},
            seconds=seconds,
            seed=seed,
            folder=folder,
            rounds=rounds,
        )
        outcome = asyncio.run(playing)
        outcome.faults = server.faults
        return outcome


def told(outcome: Outcome) -> str:
    """What was played and what went wrong, for a person."""
    lines = [f"seed {outcome.seed}, {outcome.rounds} rounds"]
    lines += [f"{count:9,}  {what}" for what, count in sorted(outcome.totals.items())]
    for broken in outcome.broken:
        lines.append(f"\nround {broken.round} of seed {outcome.seed}; all of it: {broken.kept}")
        lines += [f"  {each.invariant}: {each.what}" for each in broken.violations[:20]]
        for about, excerpt in broken.excerpts.items():
            lines += [f"\n-- {about}", excerpt]
    lines += ["\nthe gateway logged errors:", *outcome.faults[:20]] if outcome.faults else []
    wrong = sum(len(broken.violations) for broken in outcome.broken)
    lines.append(f"\n{wrong} violations" if wrong else "\nno violation")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="of random events (600)")
    parser.add_argument(
        "--api",
        type=int,
        nargs="?",
        const=5000,
        metavar="REQUESTS",
        help="rather make so many HTTP requests from docs/openapi.json (5000)",
    )
    parser.add_argument(
        "--dawdling", action="store_true", help="its store, limits and records take their time"
    )
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="vivace-fuzz-"))
    if given.api:
        asked = api.run(folder, requests=given.api, seed=given.seed)
        print(asked.told())
        return 0 if asked.held else 1
    outcome = run(folder, seconds=given.seconds, seed=given.seed, dawdling=given.dawdling)
    print(told(outcome))
    return 0 if outcome.held else 1


if __name__ == "__main__":
    sys.exit(main())
