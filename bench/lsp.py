"""The language server as an editor meets it: keys, starts, idle minutes, cancels, a busy engine.

A real ``vivace lsp`` over standard input and output, before a real gateway. The engine plays
prepared answers (no model), so that what is measured is ours:

start    from its start to the answer to ``initialize``
memory   a key that is typed through a suggestion, in a file of 10,000 lines
request  a key that asks, beyond the same request to the engine itself, in the same file
idle     processor time and requests with 20 files open and nobody typing
cancel   from a key that replaces a request to the free slot of the engine
load     a key that asks, while the engine also writes a long answer for somebody else

With ``--engine llamacpp``, cancel and load are measured on Qwen2.5-Coder-0.5B instead, and with
``--engine vllm`` load alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from typing import Any, TypeVar

import psutil

from bench._cancel import read_on, replaced_on_llamacpp, replaced_on_script
from bench._editor import Answer, Buffer
from bench._hiccups import Span, watched
from bench._language_server import (
    ANSWER,
    GO_ON,
    MODEL,
    SUGGESTION,
    Gateway,
    begin_line,
    llamacpp,
    long_file,
    scripted,
    vllm,
)
from bench._report import Report, percentile
from bench._server import cpu, delayed
from bench._socket import Client
from vivace.client.gap import Gap
from vivace.client.lanes import Lanes
from vivace.conversation.deltas import TextDelta
from vivace.engines.base import Card, Work
from vivace.engines.scripted import Capacity, Reply, Say, Script, ScriptedEngine
from vivace.protocol.requests import Fill

T = TypeVar("T")

LINES = 10_000
RATE = 400
"""Tokens per second of the scripted engine, where nothing else is said."""
WINDOW = 6_000
"""Characters of a file in a prompt, about as the language server sends them."""
PARTS = {
    "scripted": "start,memory,request,idle,cancel,load",
    "llamacpp": "cancel,load",
    "vllm": "load",
}
OPEN_FILES = 20
SETTLED = 10.0
"""Seconds after the last key, before nobody is said to type."""
BETWEEN_KEYS = 0.03
WORDS = (" ", *("value + ", "offset * ", "total - ") * 3)
"""Typed at a place, each asked about with its last key. The first is in a new gap, which is more
often than people go elsewhere."""
SHARED = {"rate": 100, "growth": 0.2, "prefill_rate": 20_000, "patient_chunk": 64, "slots": 2}
"""An engine that reads, too, and takes a fifth longer where it works for two."""
LONGEST = 1800.0
"""Seconds that any part may take."""
LLAMACPP_BATCH = 2048
"""What llama.cpp reads at a stretch if it is not told."""


async def asking_keys(
    buffer: Buffer, dice: random.Random
) -> AsyncGenerator[tuple[int, Answer], None]:
    """Somebody types here and there; keys that ask, each with its number at its place."""
    while True:
        at = begin_line(buffer, dice)
        for number, word in enumerate(WORDS):
            buffer.replace(at, at, word[:-1])
            await asyncio.sleep(BETWEEN_KEYS)
            at += len(word)
            yield number, await buffer.press(at - 1, at - 1, word[-1:]).answer()
        buffer.replace(at, at, "total")  # what is left behind is right


def wanted(answer: Answer) -> Answer:
    if answer.suggestion is None or answer.late or not answer.suggestion.text.endswith(SUGGESTION):
        raise RuntimeError(f"the language server suggests {answer.suggestion}")
    return answer


def finished(work: Coroutine[Any, Any, T]) -> T:
    """What a measurement found; one that hangs fails."""
    return asyncio.run(asyncio.wait_for(work, LONGEST))


def limits(report: Report, what: str, samples: Sequence[float], *most: tuple[int, float]) -> None:
    """Goals in milliseconds, by percentile."""
    for share, limit in most:
        found = percentile(samples, share / 100) * 1000
        report.goal(
            f"{what}: p{share} at most {limit:g} ms", met=found <= limit, measured=f"{found:.1f}"
        )


# -- starts ---------------------------------------------------------------------------------------


async def starts(gateway: Gateway, count: int) -> list[tuple[float, float]]:
    """How long each took, and for how long of that something else had the core: a start is a second
    of work, and any other process on the machine is in its way."""
    found = []
    for _ in range(count):
        async with gateway.editor() as editor:
            found.append((editor.introduced_in, delayed(editor.pid)))
    return found


def start(report: Report, options: Any) -> None:
    with scripted(rate=RATE) as gateway:
        found = finished(starts(gateway, options.starts))
    worked = [wall - waited for wall, waited in found]
    report.spread("start: to the answer to initialize", [wall for wall, _ in found], "s")
    report.spread("start: of it waiting for a core", [waited for _, waited in found], "s")
    report.spread("start: the rest", worked, "s")
    half = percentile(worked, 0.5)
    report.goal("initialize within 1.5 s (p50)", met=half <= 1.5, measured=f"{half:.2f} s")


# -- keys -----------------------------------------------------------------------------------------


async def remembered(gateway: Gateway, count: int) -> list[Answer]:
    """Keys that type a suggestion through; some are taken back and typed again."""
    found: list[Answer] = []
    dice = random.Random(17)
    async with gateway.editor() as editor:
        buffer = editor.open(gateway.folder / "long.py", long_file(LINES))
        while len(found) < count:
            at = begin_line(buffer, dice)
            wanted(await buffer.press(at, at, " ").answer())
            at, typed, before = at + 1, 0, gateway.turns()
            for next_typed in (*range(1, 12), *range(10, 6, -1), *range(7, len(SUGGESTION))):
                new = SUGGESTION[typed:next_typed]
                pressed = buffer.press(at + min(typed, next_typed), at + typed, new)
                found.append(wanted(await pressed.answer()))
                typed = next_typed
                await asyncio.sleep(BETWEEN_KEYS)
            if gateway.turns() > before + 1:  # what follows the suggestion may be fetched meanwhile
                raise RuntimeError("a key was not answered from memory")
    return found


def memory(report: Report, options: Any) -> None:
    with scripted(rate=RATE) as gateway, watched() as hiccups:
        found = finished(remembered(gateway, options.keys))
    report.spread("memory: key to suggestion", [each.seconds for each in found], "ms", 1000)
    fair = report.fair(found, [each.span for each in found], hiccups)
    limits(report, "key from memory", [each.seconds for each in fair], (50, 5), (99, 20))


class Bare:
    """The engine itself, and the gateway before it, asked for what the language server asks."""

    def __init__(self, gateway: Gateway, text: str) -> None:
        capacity, script = Capacity(rate=RATE), Script((Reply(then=(Say(ANSWER),)),))
        self._engine = ScriptedEngine("bare", [Card(MODEL, 32_768)], script, capacity)
        self._lanes = Lanes(gateway.url)
        self._text = text

    def _around(self, at: int) -> Fill:
        before = max(0, at - WINDOW * 2 // 3)
        return Fill(prefix=self._text[before:at], suffix=self._text[at : at + WINDOW // 3])

    async def engine(self, at: int) -> Span:
        began, text = time.perf_counter(), ""
        work = Work(id="bare", model=MODEL, prompt=self._around(at))
        async with contextlib.aclosing(self._engine.generate(work)) as deltas:
            async for delta in deltas:
                text += delta.text if isinstance(delta, TextDelta) else ""
                if text == ANSWER:
                    break
        return began, time.perf_counter()

    async def gateway(self, at: int) -> Span:
        began, text = time.perf_counter(), ""
        fill = self._around(at)
        gap = Gap(fill={"prefix": fill.prefix, "suffix": fill.suffix}, max_tokens=160)
        async with contextlib.aclosing(self._lanes.fill("bare", gap)) as answer:
            async for delta in answer:
                text += delta
                if text == ANSWER:
                    break
        return began, time.perf_counter()

    async def close(self) -> None:
        await self._lanes.close()


Turn = tuple[Span, Span, Span]
"""Of the engine, the gateway and the language server."""


async def in_turns(gateway: Gateway, count: int) -> tuple[list[Turn], list[int]]:
    """With the number of each key in its gap."""
    found: list[Turn] = []
    numbers: list[int] = []
    text, dice = long_file(LINES), random.Random(17)
    bare = Bare(gateway, text)
    await bare.gateway(0)  # it connects
    async with gateway.editor() as editor:
        keys = asking_keys(editor.open(gateway.folder / "long.py", text), dice)
        wanted((await anext(keys))[1])  # it connects, too
        while len(found) < count:
            at = dice.randrange(len(text))
            engine, through = await bare.engine(at), await bare.gateway(at)
            number, answer = await anext(keys)
            found.append((engine, through, wanted(answer).span))
            numbers.append(number)
        await keys.aclose()
    await bare.close()
    return found, numbers


def seconds(span: Span) -> float:
    return span[1] - span[0]


def beyond(turn: Turn, which: int) -> float:
    return max(0.0, seconds(turn[which]) - seconds(turn[0]))


def request(report: Report, options: Any) -> None:
    with scripted(rate=RATE) as gateway, watched() as hiccups:
        found, numbers = finished(in_turns(gateway, options.keys))
    report.spread("request: the engine itself", [seconds(each[0]) for each in found], "ms", 1000)
    report.spread(
        "request: the gateway, beyond it", [beyond(each, 1) for each in found], "ms", 1000
    )
    for what, is_new in (("a gap that is known", False), ("a new one", True)):
        samples = [
            beyond(each, 2)
            for each, number in zip(found, numbers, strict=True)
            if (number == 0) is is_new
        ]
        report.spread(f"request: key to suggestion in {what}, beyond", samples, "ms", 1000)
    fair = report.fair(found, [(each[0][0], each[2][1]) for each in found], hiccups)
    samples = [beyond(each, 2) for each in fair]
    limits(report, "key to suggestion beyond the engine", samples, (50, 10), (99, 30))


# -- nobody types ---------------------------------------------------------------------------------


async def resting(gateway: Gateway, seconds: float) -> tuple[float, int, list[int]]:
    """Processor time, requests, and the memory before and after."""
    async with gateway.editor() as editor:
        process = psutil.Process(editor.pid)
        memory = [process.memory_info().rss]
        for number in range(OPEN_FILES):
            text = long_file(200 * (number % 10 + 1), 1000 * number)
            buffer = editor.open(gateway.folder / f"open{number}.py", text)
            at = begin_line(buffer, random.Random(number))
            wanted(await buffer.press(at, at, " ").answer())
        memory.append(process.memory_info().rss)
        await asyncio.sleep(SETTLED)
        used, turns = cpu(editor.pid), gateway.turns()
        await asyncio.sleep(seconds)
        return cpu(editor.pid) - used, gateway.turns() - turns, memory


def idle(report: Report, options: Any) -> None:
    with scripted(rate=RATE) as gateway:
        used, requests, memory = finished(resting(gateway, options.idle))
    started, opened = (each / 2**20 for each in memory)
    report.say("idle: memory when started", started, "MB")
    report.say(f"idle: memory with {OPEN_FILES} files open", opened, "MB")
    report.say(f"idle: processor time in {options.idle:g} s", used, "s")
    minute = used * 60 / options.idle
    report.goal(
        "nobody types: at most 0.3 s in a minute", met=minute <= 0.3, measured=f"{minute:.3f}"
    )
    report.goal("nobody types: no request", met=requests == 0, measured=str(requests))


# -- cancel ---------------------------------------------------------------------------------------


def cancel(report: Report, options: Any) -> None:
    if options.engine == "llamacpp":
        cancel_on_llamacpp(report, options)
        return
    with scripted(rate=RATE, slots=1) as gateway, watched() as hiccups:
        found = finished(replaced_on_script(gateway, options.cancels))
    report.spread("cancel: key to the free slot", [each.seconds for each in found], "ms", 1000)
    fair = report.fair(found, [each.span for each in found], hiccups)
    limits(report, "key to the free slot", [each.seconds for each in fair], (99, 20))


def cancel_on_llamacpp(report: Report, options: Any) -> None:
    for batch in (options.batch, LLAMACPP_BATCH):
        with llamacpp(slots=1, batch=batch) as gateway:
            if batch == options.batch:
                found = finished(replaced_on_llamacpp(gateway, options.cancels))
                taken = [each.seconds for each in found]
                report.spread("cancel: key to the free slot, llama.cpp", taken, "ms", 1000)
                limits(report, "key to the free slot of llama.cpp", taken, (50, 200))
            more = finished(read_on(gateway, options.prompt, options.prompts))
        told = f"{', '.join(map(str, more))} of {options.prompt} tokens"
        report.say(f"cancel: read all the same, batches of {batch}", told)
        if batch == options.batch:
            met = max(more) <= 2 * batch
            report.goal("at most two batches are read all the same", met=met, measured=told)


# -- a busy engine --------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def deep_generation(gateway: Gateway) -> AsyncIterator[None]:
    """Somebody else's long answer is written meanwhile, and another when it ends."""
    begun = asyncio.Event()
    writing = asyncio.create_task(_have_written(gateway, begun))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait([writing, waiting], return_when=asyncio.FIRST_COMPLETED)
    try:
        yield
    finally:
        waiting.cancel()
        if not writing.cancel():
            writing.result()  # why it is over


async def _have_written(gateway: Gateway, begun: asyncio.Event) -> None:
    asked = f"{long_file(100)}\nExplain all of this in very many words. {GO_ON}"
    async with Client.at(gateway.port) as client:
        while True:
            await client.send("create", input=asked, store=False, max_output_tokens=2000)
            kind = ""
            while kind not in ("response.completed", "response.incomplete"):
                kind = str((await client.event())["type"])
                if kind in ("error", "response.failed"):
                    raise RuntimeError(f"the gateway says {kind}")
                if kind == "response.output_text.delta":
                    begun.set()


async def beside(gateway: Gateway, rounds: int) -> tuple[list[float], list[float]]:
    """Keys in gaps that are known, alone and beside a long answer, in turns."""
    alone: list[float] = []
    loaded: list[float] = []
    async with gateway.editor() as editor:
        keys = asking_keys(
            editor.open(gateway.folder / "load.py", long_file(400)), random.Random(17)
        )
        for _ in range(rounds):
            alone += await _known(keys)
            async with deep_generation(gateway):
                loaded += await _known(keys)
        await keys.aclose()
    return alone, loaded


async def _known(keys: AsyncIterator[tuple[int, Answer]]) -> list[float]:
    answers = [await anext(keys) for _ in WORDS]
    return [answer.seconds for number, answer in answers if number and answer.suggestion]


def shared(options: Any) -> contextlib.AbstractContextManager[Gateway]:
    """Before an engine that works for two at once."""
    match options.engine:
        case "llamacpp":
            return llamacpp(slots=2, batch=options.batch)
        case "vllm":
            return vllm()
        case _:
            return scripted(**SHARED)


def load(report: Report, options: Any) -> None:
    with shared(options) as gateway:
        alone, loaded = finished(beside(gateway, options.rounds))
    report.spread("load: key to suggestion, alone", alone, "ms", 1000)
    report.spread("load: beside a long answer", loaded, "ms", 1000)
    part = percentile(loaded, 0.9) / percentile(alone, 0.9)
    if options.engine != "scripted":
        report.say("load: p90 beside it, of alone", part)
    else:
        report.goal("p90 beside it at most 1.5 of alone", met=part <= 1.5, measured=f"{part:.2f}")


def main() -> None:
    report, options = Report.from_arguments(
        "lsp",
        "the language server before a gateway",
        "pygls",
        "lsprotocol",
        parts=("", f"which of {PARTS['scripted']}"),
        engine=("scripted", "or llamacpp, for cancel and load, or vllm, for load"),
        starts=(12, "starts of the language server"),
        keys=(600, "keys of memory and of request"),
        idle=(60.0, "seconds in which nobody types"),
        cancels=(200, "requests that are replaced"),
        rounds=(12, "of nine keys, alone and loaded"),
        batch=(512, "tokens that llama.cpp reads at a stretch, as ours is set up"),
        prompt=(2000, "tokens of a prompt that llama.cpp reads when it is not wanted any more"),
        prompts=(5, "how many of them"),
    )
    replayed = " (a replayed answer, no model)" if options.engine == "scripted" else ""
    report.say("engine", f"{options.engine}{replayed}")
    chosen = (options.parts or PARTS[options.engine]).split(",")
    for part in (start, memory, request, idle, cancel, load):
        if part.__name__ in chosen:
            part(report, options)
    report.end()


if __name__ == "__main__":
    main()
