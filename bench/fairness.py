"""Limits and fairness of keys that ask two gateways at once, with Valkey and two engine nodes.

Engines are scripted and replay an answer; no model is involved. Every key has its clients at both
gateways, half at each. Valkey (or Redis: VIVACE_VALKEY_SERVER=redis-server) and PostgreSQL are
started for it on this machine.

limits  four keys ask for more than they may, each of a tier with another limit: requests, input
        tokens and output tokens a minute, and concurrency. In any t seconds at most limit * (1 +
        t/60) may be charged; a turn is charged between its request and its response.created, and
        its tokens are those of its usage. How many turns of a key run at once the engines say. When
        a gateway loses Valkey it may give out its share once more; that is counted, and told
share   eight keys with as many requests open as they need to use their share; then one of them has
        50 times as many open. What each of the others gets, in output tokens, of what it gets while
        all are alike, in the same seconds each, the two in turns
kill    keys that use up their concurrency at one gateway, which is killed (kill -9): seconds until
        Valkey counts none of their turns any more, times as they ship. These turns are kept, and go
        on at the other gateway
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from tests.support.valkey import Valkey

from bench._keys_killed import kill
from bench._keys_limits import limits
from bench._keys_shares import share
from bench._report import Report
from bench._server import raise_file_limit

_PARTS: dict[str, Callable[[Report, Valkey, Namespace], None]] = {
    "limits": limits,
    "share": share,
    "kill": kill,
}


def main() -> None:
    report, options = Report.from_arguments(
        "fairness",
        "limits and fairness of keys that ask two gateways at once (scripted engines)",
        "redis",
        "asyncpg",
        "websockets",
        parts=(",".join(_PARTS), "which parts"),
        seconds=(25.0, "for which keys ask for more than they may"),
        clients=(4, "of each of these keys at each gateway"),
        shared=(12.0, "seconds of a measurement of fairness"),
        rounds=(2, "of these, with all alike and with one that sends more"),
        kills=(2, "of a gateway"),
    )
    raise_file_limit()
    report.say("load of the machine, per minute", f"{os.getloadavg()[0]:.1f}")
    valkey = Valkey()
    try:
        with valkey.client() as client:
            told: Any = client.info("server")
        name = "valkey" if "valkey_version" in told else "redis"
        report.say("server", told.get("valkey_version") or told["redis_version"], name)
        for part in options.parts.split(","):
            _PARTS[part](report, valkey, options)
    finally:
        valkey.stop()
    report.say("load of the machine at the end", f"{os.getloadavg()[0]:.1f}")
    report.end()


if __name__ == "__main__":
    main()
