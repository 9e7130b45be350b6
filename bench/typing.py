"""Completions while somebody types: what the engine reads per key, how soon a suggestion stands.

Edits of real commits are typed by a written model of a person (``_typist``). Ours is compared with
two ways that stand for others (``_completers``): *stable*, as llama.vim, and *sliding*, as
Continue; all with the same engine and room in the prompt, at the same moments, edit by edit in
turn.

reads   without a clock: each key's answer is awaited; tokens are what the engine says it read.
        Ours is the desk itself, which can be told what time it is.
clock   with one: keys come when the person types them; a pause lasts at least until the suggestion
        comes, at most 20 s. Ours is a real ``vivace lsp``. The person takes what they were going to
        type and nothing else; so that all ways see the same keys, it is counted as taken and typed
        all the same.

Needs the commits (scripts/commits), or the packages of the edit tasks (scripts/data).
"""  # noqa: A005

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from tokenizers import Tokenizer

from bench import _files
from bench._completers import Completer, InEditor, Ours, Sliding, Stable
from bench._editor import Editor
from bench._language_server import llamacpp
from bench._metered import Asked, Metered, Metering, Reckoned, Tokens
from bench._report import Report, percentile, ratio_of
from bench._server import served
from bench._typist import Habits, Moment, changes, moments
from bench.edit_runs.tasks import tasks_of
from bench.edits import commits, evenly
from vivace.completion.room import MOST
from vivace.desk.completing import Suggestion
from vivace.models import find

WAYS = ("ours", "stable", "sliding")
MODEL = "qwen2.5-coder-0.5b"
TYPED = (60, 600)
"""Characters that an edit brings, at least and at most."""
LONG = (MOST + 1_000, 4 * MOST)
"""Characters of the file: windows must have something to leave out."""
LONGEST_WAIT = 20.0
LONG_PAUSE = 1.5

SCRIPTED = """
version = 1
[server]
port = {port}
[store]
path = ":memory:"
[[engines]]
name = "scripted"
kind = "scripted"
model = "qwen2.5-coder-0.5b"
script = "script.toml"
rate = 400
prefill_rate = 20000
context = 8192
"""
SCRIPT = '[[replies]]\nthen = [{ do = "say", text = "value = self.value\\n" }]\n'

T = TypeVar("T")


def completer(
    way: str, server: Metering, path: str, clock: Callable[[], float], room: int
) -> Completer:
    """So that no way finds read what another one has read, each has a path of its own."""
    path = f"{way}/{path}"
    match way:
        case "ours":
            return Ours(server, "typing", path, room, clock)
        case "stable":
            return Stable(server, "typing", path, room)
        case _:
            return Sliding(server, "typing", path, room)


# -- without a clock ------------------------------------------------------------------------------


@dataclass
class Clock:
    """Passes only by what the person waits."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


class Reading(Struct, frozen=True):
    """What was asked at a moment, and what the engine read for it."""

    asked: list[Asked]
    tokens: Tokens

    @property
    def warms(self) -> bool:
        return any(each.warming for each in self.asked)


async def replay(
    way: str, server: Metering, path: str, keys: Sequence[Moment], room: int
) -> list[Reading]:
    """Moment by moment."""
    clock, found = Clock(), list[Reading]()
    completing = completer(way, server, f"reads/{path}", clock, room)
    for moment in keys:
        number, before = len(server.asked), await server.tokens()
        act = completing.arrived if moment.jumped else completing.at
        await act(moment.text, moment.offset)
        found.append(Reading(server.asked[number:], (await server.tokens()).since(before)))
        clock.now += moment.wait
    await completing.close()
    return found


@dataclass
class Reads:
    """Of all edits, moment by moment."""

    keys: int = 0
    by_way: dict[str, list[Reading]] = field(default_factory=dict)
    settled: list[bool] = field(default_factory=list)
    """Whether ours read no new window there."""

    def add(self, keys: Sequence[Moment], readings: dict[str, list[Reading]]) -> None:
        self.keys += sum(not moment.jumped for moment in keys)
        for way, found in readings.items():
            self.by_way.setdefault(way, []).extend(found)
        at_key = [not moment.jumped for moment in keys]
        known = settled(readings["ours"]) if "ours" in readings else at_key
        self.settled += [a and b for a, b in zip(at_key, known, strict=True)]

    def per_key(self, way: str) -> float:
        return sum(each.tokens.read for each in self.by_way[way]) / self.keys

    def when_settled(self, way: str) -> float:
        pairs = zip(self.by_way[way], self.settled, strict=True)
        kept = [each.tokens.read for each, is_settled in pairs if is_settled]
        return sum(kept) / max(1, len(kept))


def settled(found: Sequence[Reading]) -> list[bool]:
    """Whether each reads no window but the one that the last one read."""
    known: tuple[str, str] | None = None
    result = []
    for reading in found:
        windows = [each.window for each in reading.asked]
        result.append(set(windows) <= {known} and not reading.warms)
        known = windows[-1] if windows else known
    return result


def tell_reads(report: Report, reads: Reads) -> None:
    report.say("reads: keys", reads.keys)
    for way, found in reads.by_way.items():
        asked = [each for each in found if each.asked and not each.warms]
        requests = sum(len(each.asked) for each in asked)
        prompts = [each.tokens.prompts / len(each.asked) for each in asked]
        report.say(f"{way}: tokens read per key, all counted", reads.per_key(way))
        report.say(f"{way}: and where ours had its window", reads.when_settled(way))
        report.say(f"{way}: requests per key", requests / reads.keys)
        report.spread(f"{way}: tokens of a prompt", prompts, "tokens")
        read = [float(each.tokens.read) for each in asked]
        report.spread(f"{way}: read at a key that asks", read, "tokens")
    if {"ours", "stable"} <= reads.by_way.keys():
        for what, count, most in (
            ("with warm-ups and new anchors", reads.per_key, 5),
            ("without them", reads.when_settled, 10),
        ):
            part = count("ours") / max(1e-9, count("stable"))
            report.goal(
                f"reads at most 1/{most} of stable, {what}",
                met=part <= 1 / most,
                measured=f"{part:.3f} (1/{1 / max(1e-9, part):.1f})",
            )


# -- with a clock ---------------------------------------------------------------------------------


class Pause(Struct):
    seconds: float
    suggested: float | None = None
    """Seconds from the last key to the suggestion."""
    saved: int = 0
    """Keys, where the person took it."""
    in_vain: int = 0
    """Characters that were shown and not taken."""

    @property
    def in_time(self) -> bool:
        return self.suggested is not None and self.suggested <= self.seconds


@dataclass
class Typed:
    keys: int = 0
    requests: int = 0
    pauses: list[Pause] = field(default_factory=list)
    unfit: int = 0

    def add(self, other: Typed) -> None:
        self.keys += other.keys
        self.requests += other.requests
        self.pauses += other.pauses
        self.unfit += other.unfit


def fits(suggestion: Suggestion, moment: Moment) -> bool:
    """Whether it goes on from the cursor and takes no more than the editor's own signs away."""
    text, offset, start, end = moment.text, moment.offset, suggestion.start, suggestion.end
    return (
        start <= offset <= end
        and suggestion.text.startswith(text[start:offset])
        and moment.closers.startswith(text[offset:end])
    )


def taken(suggestion: Suggestion, moment: Moment) -> str:
    """What of the text to come it brings; nothing unless all of it is to come."""
    new = suggestion.text[moment.offset - suggestion.start :]
    return new if fits(suggestion, moment) and moment.going.startswith(new) else ""


def keys_in(text: str) -> int:
    return len(re.sub(r"\n[ \t]+", "\n", text))


class Typing:
    """One edit, typed with one way beside it."""

    def __init__(self, completing: Completer) -> None:
        self.found = Typed()
        self._completing = completing
        self._now: Moment | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._taken: dict[int, int] = {}
        """By place, how far it was written by what was taken."""

    async def type(self, keys: Sequence[Moment]) -> Typed:
        for moment in keys:
            self._now = moment
            since = time.perf_counter()
            if moment.jumped:
                self._start(self._completing.arrived(moment.text, moment.offset))
            else:
                self.found.keys += 1
                asking = self._start(self._ask(moment))
                if moment.pauses:
                    await self._pause(moment, asking)
            await asyncio.sleep(max(0.0, since + moment.wait - time.perf_counter()))
        await self._completing.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.found.requests = self._completing.requests
        return self.found

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask(self, moment: Moment) -> Suggestion | None:
        suggestion = await self._completing.at(moment.text, moment.offset)
        if suggestion is not None and (moment is not self._now or not fits(suggestion, moment)):
            self.found.unfit += 1
        return suggestion

    async def _pause(self, moment: Moment, asking: asyncio.Task[Suggestion | None]) -> None:
        pause, since = Pause(moment.wait), time.perf_counter()
        await asyncio.wait([asking], timeout=LONGEST_WAIT)
        suggestion = asking.result() if asking.done() else None
        self.found.pauses.append(pause)
        if suggestion is None:
            return
        pause.suggested = time.perf_counter() - since
        if moment.written < self._taken.get(moment.place, 0):
            return
        if new := taken(suggestion, moment):
            pause.saved = keys_in(new) - 1
            self._taken[moment.place] = moment.written + len(new)
        else:
            pause.in_vain = len(suggestion.text) - (moment.offset - suggestion.start)


async def type_with(
    way: str, server: Metered, path: str, keys: Sequence[Moment], room: int
) -> Typed:
    path = f"clock/{path}"
    if way != "ours":
        return await Typing(completer(way, server, path, time.monotonic, room)).type(keys)
    with tempfile.TemporaryDirectory() as folder:
        # Like the others, without a delay of its own.
        at_once = {"timing": "always", "characters": room}
        async with Editor.started(Path(folder), server.url, completion=at_once) as editor:
            opened = InEditor.opened(editor, Path(folder, path), keys[0].text, server)
            return await Typing(await opened).type(keys)


def tell_typed(report: Report, found: dict[str, Typed]) -> None:
    for way, typed in found.items():
        times = [each.suggested for each in typed.pauses if each.suggested is not None]
        long = [each for each in typed.pauses if each.seconds >= LONG_PAUSE]
        took = [each for each in typed.pauses if each.saved]
        vain = [each.in_vain for each in typed.pauses if each.in_vain]
        report.say(f"{way}: keys, pauses", f"{typed.keys}, {len(typed.pauses)}")
        if times:
            report.spread(f"{way}: last key to suggestion", times, "s")
        in_time = sum(each.in_time for each in long)
        report.say(f"{way}: in time, of pauses of {LONG_PAUSE} s", f"{in_time} of {len(long)}")
        report.say(f"{way}: requests per key", typed.requests / max(1, typed.keys))
        report.say(f"{way}: keys saved", sum(each.saved for each in took), f"by {len(took)} taken")
        report.say(f"{way}: offered in vain", len(vain), f"times, {sum(vain)} characters")
        report.say(f"{way}: suggestions that did not fit", typed.unfit)
    if "ours" in found:
        judge_typed(report, found["ours"], found.get("stable"))


def judge_typed(report: Report, ours: Typed, stable: Typed | None) -> None:
    report.goal("suggestions that do not fit: 0", met=ours.unfit == 0, measured=str(ours.unfit))
    share = ours.requests / max(1, ours.keys)
    report.goal("at most 0.5 requests per key", met=share <= 0.5, measured=f"{share:.2f}")
    long = [each.in_time for each in ours.pauses if each.seconds >= LONG_PAUSE]
    if long:
        part = sum(long) / len(long)
        report.goal(
            f"in time in 70% of pauses of {LONG_PAUSE} s or more",
            met=part >= 0.7,
            measured=f"{part:.0%} (n={len(long)})",
        )
    if stable is None:
        return
    saved = [sum(each.saved for each in typed.pauses) for typed in (ours, stable)]
    report.goal(
        "no fewer keys saved than with stable",
        met=saved[0] >= saved[1],
        measured=f"{saved[0]} against {saved[1]}",
    )
    both = [
        (mine.suggested, its.suggested)
        for mine, its in zip(ours.pauses, stable.pauses, strict=True)
        if mine.suggested is not None and its.suggested is not None
    ]
    if both:
        mine, its = zip(*both, strict=True)
        _, low, high = ratio_of(mine, its)
        part = percentile(mine, 0.5) / max(1e-9, percentile(its, 0.5))
        report.goal(
            "p50 to the suggestion at most 1/3 of stable",
            met=low <= 1 / 3,
            measured=f"{part:.2f} (95% interval {low:.2f} to {high:.2f}, {len(both)} pairs)",
        )


# -- the run --------------------------------------------------------------------------------------


def texts_of(data: str) -> Iterator[dict[str, Any]]:
    """Files before and after an edit: commits, or the references of a set of edit tasks."""
    if data not in ("tuning", "everyday"):
        yield from commits(Path(data))
        return
    with tasks_of(data) as tasks:
        for task in tasks:
            if task.reference is not None:
                named = {"commit": task.id, "path": task.path}
                yield {**named, "before": task.text, "after": task.reference}


def chosen(data: str, count: int) -> list[dict[str, Any]]:
    """Evenly among the edits that bring enough to type, in files that are long enough."""
    fitting = [
        edit
        for edit in texts_of(data)
        if LONG[0] <= len(edit["after"]) <= LONG[1]
        and TYPED[0] <= characters(edit["before"], edit["after"]) <= TYPED[1]
    ]
    return evenly(fitting, count)


def characters(before: str, after: str) -> int:
    """How many are typed."""
    return sum(len(change.new) for change in changes(before, after)[0])


@contextlib.asynccontextmanager
async def server_of(engine: str) -> AsyncIterator[Metering]:
    if engine == "reckoned":
        known = find(MODEL)
        assert known is not None
        assert known.fim is not None
        tokenizer = Tokenizer.from_file(str(_files.vllm_model() / "tokenizer.json"))
        yield Reckoned(tokenizer, known.fim)
        return
    with contextlib.ExitStack() as stack:
        if engine == "scripted":
            port, _ = stack.enter_context(served(SCRIPTED, script_toml=SCRIPT))
        else:
            port = stack.enter_context(llamacpp(slots=1)).port
        server = Metered(port, MODEL)
        try:
            yield server
        finally:
            await server.close()


async def run(options: Any, edits: Sequence[dict[str, Any]]) -> tuple[Reads, dict[str, Typed]]:
    ways = [way for way in WAYS if way in options.ways.split(",")]
    room = options.room
    reads, found = Reads(), {way: Typed() for way in ways}
    async with server_of(options.engine) as server:
        began = time.perf_counter()
        for number, edit in enumerate(edits):
            if options.minutes and time.perf_counter() - began > 60 * options.minutes:
                break
            dice = random.Random(f"{options.seed} {edit['commit']} {edit['path']}")
            typed = moments(edit["before"], edit["after"], dice)
            keys = list(islice(typed, options.keys or None))
            turn = ways[number % len(ways) :] + ways[: number % len(ways)]
            if "reads" in options.parts:
                seen = {way: await replay(way, server, edit["path"], keys, room) for way in turn}
                reads.add(keys, seen)
            if "clock" in options.parts:
                assert isinstance(server, Metered)
                for way in turn:
                    found[way].add(await type_with(way, server, edit["path"], keys, room))
            print(f"\r  {number + 1} of {len(edits)} edits", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return reads, found


def main() -> None:
    report, options = Report.from_arguments(
        "typing",
        "completions at each key of typed commits, beside two ways of others",
        "xllamacpp",
        "tokenizers",
        parts=("reads,clock", "which of them"),
        ways=(",".join(WAYS), "which ways"),
        engine=("llamacpp", "or scripted (to try this out), or reckoned (reads alone, no engine)"),
        data=(
            str(_files.commits()),
            "commits to type, as scripts/commits collects them; or tuning, everyday: edit tasks",
        ),
        edits=(24, "how many commits are typed"),
        keys=(0, "no more keys and jumps of each; 0 is all"),
        room=(MOST, "characters of a file in a prompt, for all ways"),
        seed=(17, "of the person"),
        sample=(False, "a quarter of the edits"),
        minutes=(0, "no further edit after so many minutes; 0 for no end"),
    )
    if options.engine == "reckoned":
        options.parts = "reads"
    edits = chosen(options.data, max(1, options.edits // (4 if options.sample else 1)))
    weights = _files.model(MODEL).name if options.engine == "llamacpp" else MODEL
    report.say("engine", f"{options.engine}, {weights}, {options.room} characters of a file")
    report.say("edits, seed", f"{len(edits)}, {options.seed}")
    report.say("habits", ", ".join(f"{name} {value:.3g}" for name, value in habits()))
    reads, found = asyncio.run(run(options, edits))
    if reads.keys:
        tell_reads(report, reads)
    if "clock" in options.parts:
        tell_typed(report, found)
    report.end()


def habits() -> list[tuple[str, float]]:
    person = Habits()
    return [(name, getattr(person, name)) for name in person.__struct_fields__]


if __name__ == "__main__":
    main()
