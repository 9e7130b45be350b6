"""How long a word to a turn takes that another gateway holds: found by looking, and by a wake-up.

Turns that run at one gateway are cancelled at another, which shares its PostgreSQL; the same where
a Valkey lets them wake each other, the two ways in turns. Both servers are started for it here.
"""

from __future__ import annotations

import tempfile
import time
from argparse import Namespace
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import httpx
from tests.support.postgres import Postgres
from tests.support.process import Serve
from tests.support.valkey import Valkey

from bench._report import Report, percentile

_SCRIPT = '[[replies]]\nthen = [{ do = "say", text = " word", times = 1000000 }]\n'
_OWN, _LOOKING, _WOKEN = "at its own", "found by looking", "woken by Valkey"
_MOST = 0.5
"""Of the median by looking, that one with a wake-up may take."""

Pair = tuple[httpx.Client, httpx.Client]


def _pair(stack: ExitStack, folder: Path, url: str, fleet: dict[str, str]) -> Pair:
    clients = []
    for number in range(2):
        place = folder / str(number)
        place.mkdir(parents=True)
        tables = {"store": {"url": url}, "fleet": fleet}
        server = Serve(place, _SCRIPT, rate=50, tables=tables, patience=120)
        clients.append(stack.enter_context(stack.enter_context(server).http()))
    one, other = clients
    return one, other


def _cancelled(one: httpx.Client, other: httpx.Client) -> float:
    """Seconds for a turn of the one, asked for at the other."""
    body = {"input": "go on", "background": True, "store": True}
    response = one.post("/v1/responses", json=body).raise_for_status().json()
    time.sleep(0.15)  # it is on record, and its gateway looks at nothing just now
    began = time.perf_counter()
    ended = other.post(f"/v1/responses/{response['id']}/cancel").raise_for_status().json()
    took = time.perf_counter() - began
    assert ended["status"] == "cancelled", ended["status"]
    return took


def _measure(report: Report, pairs: dict[str, Pair], options: Namespace) -> None:
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.cancels):
        for way, pair in pairs.items():
            times[way].append(_cancelled(*pair))
    for way, seconds in times.items():
        report.spread(f"a cancel, {way}", seconds, "ms", 1e3)
    own, looking, woken = (percentile(times[way], 0.5) for way in (_OWN, _LOOKING, _WOKEN))
    share = (woken - own) / (looking - own)
    report.goal(
        f"what it takes longer than at its own gateway: by a wake-up at most {_MOST:g} of that by "
        "looking, at the median",
        met=share <= _MOST,
        measured=f"{share:.2f}",
    )


def main() -> None:
    report, options = Report.from_arguments(
        "orders",
        "how long a cancel takes whose turn another gateway holds",
        "asyncpg",
        "redis",
        cancels=(50, "of each way"),
    )
    with ExitStack() as stack:
        postgres, valkey = Postgres(), Valkey()
        stack.callback(postgres.stop)
        stack.callback(valkey.stop)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pairs = {
            _LOOKING: _pair(stack, folder / "looking", postgres.database(), {}),
            _WOKEN: _pair(stack, folder / "woken", postgres.database(), {"valkey": valkey.url}),
        }
        pairs[_OWN] = pairs[_LOOKING][0], pairs[_LOOKING][0]
        _measure(report, pairs, options)
    report.end()


if __name__ == "__main__":
    main()
