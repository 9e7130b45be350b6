"""How good suggestions are, by the tests that pass once they are accepted.

``cut``: HumanEval's single lines, each cut at a seeded random character, as if the person had come
so far. Three ways ask the same llama.cpp, greedily and in turn: with the typed part before the
suffix, as others do; behind it, so that the next key only adds to the prompt; and behind it with
its last piece held back for the model to write, and enforced if it does not.

``editor``: these lines, the same ones not begun, and random spans, as an editor gets them from a
real language server; beside the bare engine with the model's own template, which is told nothing
of lines. What is handed out is looked at by a checker of its own (``_offered``).
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct

from bench import _files, fim
from bench._editor import Editor
from bench._offered import foreign_indentation, repeats_what_follows, taken
from bench._report import Report, wilson
from bench._server import served
from vivace.completion.healing import held_back
from vivace.desk.completing import Suggestion

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


# -- in the editor --------------------------------------------------------------------------------


class Place(Struct, frozen=True):
    """A file as the person has it, with the cursor in it."""

    task: dict[str, Any]
    kind: str
    text: str
    offset: int

    @property
    def raw(self) -> str:
        """The model's own template, with the typed part where the model learned it to be."""
        before, behind = self.text[: self.offset], self.text[self.offset :]
        return f"<|fim_prefix|>{before}<|fim_suffix|>{behind}<|fim_middle|>"


LINES, CUTS, SPANS = "lines", "lines that are begun", "spans"


def places(gaps: Sequence[Cut], spans: Sequence[dict[str, Any]]) -> list[Place]:
    found = []
    for gap in gaps:
        begun = gap.task["prompt"] + gap.typed
        found += [
            Place(gap.task, LINES, gap.task["prompt"] + gap.suffix, len(gap.task["prompt"])),
            Place(gap.task, CUTS, begun + gap.suffix, len(begun)),
        ]
    for task in spans:
        found.append(Place(task, SPANS, task["prompt"] + task["suffix"], len(task["prompt"])))
    return found


def holds(task: dict[str, Any], text: str) -> bool:
    """Whether the task's test passes with the whole file."""
    return fim.passes({**task, "prompt": text, "suffix": ""}, "")


class Judged(Struct, frozen=True):
    place: Place
    found: Suggestion | None
    ours: bool
    bare: bool


async def offered(editor: Editor, folder: Path, number: int, place: Place) -> Suggestion | None:
    """What the person is shown behind the last key before the cursor."""
    text, at = place.text, place.offset
    buffer = editor.open(folder / f"task_{number}.py", text[: at - 1] + text[at:])
    answer = await buffer.press(at - 1, at - 1, text[at - 1]).answer()
    buffer.close()
    return answer.suggestion


async def in_editor(url: str, bare: httpx2.Client, every: Sequence[Place]) -> list[Judged]:
    judged = []
    at_once = {"timing": "always"}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Editor.started(folder, url, completion=at_once) as editor:
            for number, place in enumerate(every):
                found = await offered(editor, folder, number, place)
                text = taken(place.text, found) if found is not None else place.text
                stop = [] if place.kind == SPANS else ["\n"]
                body = {"prompt": place.raw, "max_tokens": 160, "stop": stop}
                raw = await asyncio.to_thread(fim.complete, bare, body)
                filled = place.text[: place.offset] + raw + place.text[place.offset :]
                passed = holds(place.task, text), holds(place.task, filled)
                judged.append(Judged(place, found, *passed))
                shown = f"\r  {number + 1} of {len(every)} places"
                print(shown, end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return judged


def tell_of_editor(report: Report, judged: Sequence[Judged]) -> None:
    for kind in (LINES, CUTS, SPANS):
        some = [each for each in judged if each.place.kind == kind]
        if not some:
            continue
        shown = sum(each.found is not None for each in some)
        ours, bare = sum(each.ours for each in some), sum(each.bare for each in some)
        report.say(f"{kind}: a suggestion was shown", f"{shown} of {len(some)}")
        _, _, high = difference([each.ours for each in some], [each.bare for each in some])
        what = f"{kind}: right as often as the bare engine's"
        met = ours >= bare if len(some) >= 100 else high >= 0
        report.goal(what, met=met, measured=f"{ours} against {bare} of {len(some)}")
    handed = [(each.place.text, each.found) for each in judged if each.found is not None]
    for what, fault in FAULTS.items():
        faulty = sum(fault(text, found) for text, found in handed)
        report.goal(
            f"suggestions {what}: none", met=not faulty, measured=f"{faulty} of {len(handed)}"
        )


FAULTS = {
    "that repeat what follows": repeats_what_follows,
    "with indentation that the file has not": foreign_indentation,
}


def _tasks(name: str, count: int) -> list[dict[str, Any]]:
    """So many, from all of the set."""
    with gzip.open(_files.data(name), "rt") as lines:
        every = [json.loads(line) for line in lines]
    return every[:: max(1, len(every) // count)][:count]


def main() -> None:
    report, options = Report.from_arguments(
        "completion-quality",
        "HumanEval lines and spans, Qwen2.5-Coder-0.5B on llama.cpp",
        "xllamacpp",
        parts=("cut,editor", "which of them"),
        tasks=(200, "how many lines; half as many spans"),
        seed=(17, "of the cuts"),
        sample=(False, "a quarter of the tasks"),
    )
    count = max(1, options.tasks // (4 if options.sample else 1))
    dice = random.Random(options.seed)
    gaps = [cut(task, dice) for task in _tasks("humaneval-single-line", count)]
    report.say("tasks, seed", f"{len(gaps)}, {options.seed}")
    weights = _files.model("qwen2.5-coder-0.5b")
    report.say("model", weights.name)
    with served(fim.CONFIG.format(path=weights)) as (port, process):
        url = f"http://127.0.0.1:{port}"
        if "cut" in options.parts:
            gateway = httpx2.Client(base_url=url, timeout=300)
            tell(report, gaps, measure(lambda body: fim.complete(gateway, body), gaps))
        if "editor" in options.parts:
            every = places(gaps, _tasks("humaneval-random-span", max(1, count // 2)))
            engine = fim.bare_server(process.pid)
            tell_of_editor(report, asyncio.run(in_editor(f"{url}/v1", engine, every)))
    report.end()


if __name__ == "__main__":
    main()
