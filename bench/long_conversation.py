"""A conversation that grows to 128k tokens over one WebSocket: does a turn stay as cheap?

The scripted engine answers at once (a replayed answer, no model), so what is left is our own work
for a turn of a long conversation. Other programs can only add to that, so the quickest of many
turns is compared; the spread is printed beside it.
"""

from __future__ import annotations

import asyncio

from bench._report import Report
from bench._server import served_script
from bench._ways import OverWebSocket

_CHARACTERS_PER_TOKEN = 4


async def converse(port: int, tokens: int, turns: int) -> list[float]:
    """Seconds of each turn; the first carries most of the conversation."""
    way = OverWebSocket("long", port, "local-model", 100)
    opening = "A file of the project. " * ((tokens * _CHARACTERS_PER_TOKEN) // 23)
    times = [(await way.turn(opening)).wall]
    for turn in range(turns - 1):
        timing = await way.turn(f"Output {turn}: " + "line of output. " * 64)
        times.append(timing.wall)
    await way.close()
    return times


def main() -> None:
    report, options = Report.from_arguments(
        "long-conversation",
        "turns of a conversation of 128k tokens over one WebSocket (replayed answers)",
        turns=(20, "turns"),
        tokens=(122_000, "tokens of the first turn; the others add 256 each"),
        rounds=(20, "how often"),
    )
    with served_script("Understood.", rate=1e6, context=140_000) as (port, _):
        runs = [
            asyncio.run(converse(port, options.tokens, options.turns))
            for _ in range(options.rounds)
        ]
    for turn in (0, 1, options.turns // 2, options.turns - 1):
        report.spread(f"turn {turn + 1}", [run[turn] for run in runs], "ms", 1000)
    ratio = min(run[-1] for run in runs) / min(run[1] for run in runs)
    report.goal(
        "the last turn at most 1.3 of the second, the quickest of each",
        met=ratio <= 1.3,
        measured=f"{ratio:.2f}",
    )
    report.end()


if __name__ == "__main__":
    main()
