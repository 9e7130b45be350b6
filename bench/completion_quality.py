"""Where the typed part of a line goes in the prompt, by the tests that then pass.

HumanEval's single lines, each cut at a seeded random character, as if the person had come so far.
Three ways ask the same llama.cpp, greedily and in turn: with the typed part before the suffix, as
others do; behind it, so that the next key only adds to the prompt; and behind it with its last
piece held back for the model to write, and enforced if it does not. A line is right when the
task's own test passes.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import httpx2
from msgspec import Struct

from bench import _files, fim
from bench._report import Report, wilson
from bench._server import served
from vivace.completion.healing import held_back

BEFORE, LAST, HEALED = "before the suffix", "last, not healed", "last, healed"
ENOUGH, LARGE = 200, 700
"""So many tasks can tell a difference of 6 points, and of 3; fewer only what is beyond doubt."""


class Cut(Struct, frozen=True):
    """A task whose line was typed up to here."""

    task: dict[str, Any]
    typed: str

    @property
    def suffix(self) -> str:
        """As an editor has it: the line that is being typed has its end already."""
        return "\n" + str(self.task["suffix"])


def cut(task: dict[str, Any], dice: random.Random) -> Cut:
    line = task["canonical_solution"].rstrip("\n")
    return Cut(task, line[: dice.randrange(1, max(2, len(line)))])


class Asked(Struct, frozen=True):
    line: str
    """All of it, the typed part included; nothing where no answer fitted."""
    enforced: bool = False


Complete = Callable[[dict[str, Any]], str]


def before(complete: Complete, gap: Cut) -> Asked:
    prompt = gap.task["prompt"] + gap.typed
    return Asked(gap.typed + complete({"prompt": prompt, "suffix": gap.suffix}))


def last(complete: Complete, gap: Cut) -> Asked:
    asked = {"prompt": gap.task["prompt"], "suffix": gap.suffix, "typed": gap.typed}
    return Asked(gap.typed + complete(asked))


def healed(complete: Complete, gap: Cut) -> Asked:
    held = held_back(gap.typed)
    told = gap.typed.removesuffix(held)
    asked = {"prompt": gap.task["prompt"], "suffix": gap.suffix, "typed": told}
    free = complete(asked)
    if free.startswith(held):
        return Asked(told + free)
    forced = complete({**asked, "starts_with": held})
    return Asked(told + forced if forced.startswith(held) else "", enforced=True)


WAYS: dict[str, Callable[[Complete, Cut], Asked]] = {BEFORE: before, LAST: last, HEALED: healed}


def difference(ours: Sequence[bool], theirs: Sequence[bool]) -> tuple[float, float, float]:
    """Of two shares counted on the same tasks, with its interval of 95%."""
    more = sum(mine and not its for mine, its in zip(ours, theirs, strict=True))
    fewer = sum(its and not mine for mine, its in zip(ours, theirs, strict=True))
    number = len(ours)
    middle = (more - fewer) / number
    reach = 1.96 * math.sqrt(max(0.0, more + fewer - (more - fewer) ** 2 / number)) / number
    return middle, middle - reach, middle + reach


def measure(complete: Complete, gaps: Sequence[Cut]) -> dict[str, list[tuple[Asked, bool]]]:
    found: dict[str, list[tuple[Asked, bool]]] = {way: [] for way in WAYS}
    names = list(WAYS)
    for number, gap in enumerate(gaps):
        for way in names[number % 3 :] + names[: number % 3]:
            asked = WAYS[way](complete, gap)
            found[way].append((asked, bool(asked.line) and fim.passes(gap.task, asked.line)))
        print(f"\r  {number + 1} of {len(gaps)} tasks", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def tell(report: Report, gaps: Sequence[Cut], found: dict[str, list[tuple[Asked, bool]]]) -> None:
    number = len(gaps)
    for way, answers in found.items():
        right = sum(passed for _, passed in answers)
        low, high = wilson(right, number)
        report.say(f"right, {way}", f"{right} of {number} (95% interval {low:.0%} to {high:.0%})")
        pairs = zip(answers, gaps, strict=True)
        same = sum(
            asked.line.rstrip() == gap.task["canonical_solution"].rstrip()
            for (asked, _), gap in pairs
        )
        report.say(f"the very line, {way}", f"{same} of {number}")
    again = sum(asked.enforced for asked, _ in found[HEALED])
    none = sum(not asked.line for asked, _ in found[HEALED])
    report.say("healed: beginnings that were enforced", f"{again} of {number}")
    report.say("healed: lines for which nothing fitted", f"{none} of {number}")
    least = -0.03 if number >= LARGE else -0.06
    theirs = [passed for _, passed in found[BEFORE]]
    for way in (LAST, HEALED):
        middle, low, high = difference([passed for _, passed in found[way]], theirs)
        told = f"{100 * middle:+.1f} points (95% interval {100 * low:+.1f} to {100 * high:+.1f})"
        if way == HEALED:
            wanted, met = (
                ("above", low > least) if number >= ENOUGH else ("not below", high > least)
            )
            what = f"healed is no worse: interval {wanted} {100 * least:.0f} points"
            report.goal(what, met=met, measured=told)
        else:
            report.say("not healed, against before the suffix", told)


def main() -> None:
    report, options = Report.from_arguments(
        "completion-quality",
        "HumanEval lines cut at a random character, Qwen2.5-Coder-0.5B on llama.cpp",
        "xllamacpp",
        tasks=(200, "how many tasks"),
        seed=(17, "of the cuts"),
        sample=(False, "a quarter of the tasks"),
    )
    count = max(1, options.tasks // (4 if options.sample else 1))
    with gzip.open(_files.data("humaneval-single-line"), "rt") as lines:
        every = [json.loads(line) for line in lines]
    dice = random.Random(options.seed)
    gaps = [cut(task, dice) for task in every[:: max(1, len(every) // count)][:count]]
    report.say("tasks, seed", f"{len(gaps)}, {options.seed}")
    with served(fim.CONFIG.format(path=_files.model("qwen2.5-coder-0.5b"))) as (port, _):
        gateway = httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=300)
        found = measure(lambda body: fim.complete(gateway, body), gaps)
    tell(report, gaps, found)
    report.end()


if __name__ == "__main__":
    main()
