"""How soon an answer takes another direction, and what that costs the engine.

First on the scripted engine at 1,000 tokens/s (a replayed answer, no model): how long from the
client's steer to the receipt, which goes out when the engine has been stopped, and how many tokens
still come. Then on vLLM with a real model, in turn: an answer steered in its middle, a warm request
with an equally long new tail, and the same redirect done the old way (hang up, and send the whole
history in a new HTTP request).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

from bench import _files
from bench._hiccups import Hiccups, Span, watched
from bench._http import LeanHttp
from bench._peers import MODEL, serve_vivace
from bench._report import ENOUGH, Report, percentile, ratio_of
from bench._server import served_script
from bench._socket import Client, Event

BLOCK = 32
PARTIAL = 6
"""Tokens of an answer before it is redirected."""
TAIL = "No, wait. Answer in French instead, and use only one short sentence for it."
ASK = "Question {}: explain in many words what the following program does."


class Redirecting(Client):
    """A client that takes no refusal."""

    async def read(self) -> Event:
        event = await self.event()
        if event["type"] in ("error", "response.failed", "response.steer.failed"):
            raise RuntimeError(json.dumps(event)[:500])
        return event

    async def until(self, kind: str) -> Event:
        while (event := await self.read())["type"] != kind:
            pass
        return event

    async def until_end(self) -> Event:
        """The response as it ended, by itself or at its limit."""
        ends = ("response.completed", "response.incomplete")
        while (event := await self.read())["type"] not in ends:
            pass
        response: Event = event["response"]
        return response

    async def deltas(self, count: int) -> list[float]:
        times = []
        for _ in range(count):
            await self.until("response.output_text.delta")
            times.append(time.perf_counter())
        return times


# -- the scripted engine --------------------------------------------------------------------------


@dataclass(frozen=True)
class Redirect:
    """One steer: seconds to its receipt, and tokens that came after it was sent."""

    receipt: float
    tokens: int
    span: Span
    """From the question on: what a client has not read by then comes after the steer, too."""


async def redirects(port: int, count: int) -> list[Redirect]:
    done = []
    async with Redirecting.at(port) as client:
        for _ in range(count):
            began = await client.send("create", input="go", store=False)
            created = await client.until("response.created")
            await client.deltas(20)
            target = created["response"]["id"]
            sent = await client.send("steer", previous_response_id=target, input="elsewhere")
            tokens, receipt = 0, 0.0
            while (event := await client.read())["type"] != "response.incomplete":
                tokens += event["type"] == "response.output_text.delta"
                if event["type"] == "response.steer.accepted":
                    receipt = time.perf_counter() - sent
            done.append(Redirect(receipt, tokens, (began, time.perf_counter())))
            successor = await client.until("response.created")
            await client.send("interrupt", response_id=successor["response"]["id"])
            await client.until("response.incomplete")
    return done


ROUNDS = 4
"""On a machine that stands still most of the time it is measured so often, to have fair samples."""


def scripted(report: Report, count: int) -> None:
    done: list[Redirect] = []
    hiccups = Hiccups()
    with served_script(" word", times=100_000, rate=1000) as (port, _):
        for _ in range(ROUNDS):
            with watched() as seen:
                done += asyncio.run(redirects(port, count))
            hiccups.spans += seen.spans
            if len(hiccups.outside(done, [each.span for each in done])) >= min(ENOUGH, count):
                break
    receipts = [each.receipt for each in done]
    report.spread("1,000 tok/s: from steer to the engine's stop", receipts, "ms", 1000)
    report.spread("1,000 tok/s: tokens after the steer", [float(each.tokens) for each in done], "")
    fair = report.fair(done, [each.span for each in done], hiccups)
    stopped = percentile([each.receipt for each in fair], 0.99) * 1000
    report.goal("engine stopped within 20 ms (p99)", met=stopped <= 20, measured=f"{stopped:.1f}")
    most = max(each.tokens for each in fair)
    report.goal("at most 25 tokens after the steer", met=most <= 25, measured=f"{most}")


# -- the real engine ------------------------------------------------------------------------------


class Real:
    """One conversation of some 2,000 tokens, told again for every question."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.steps: list[float] = []
        self.tail = 0
        """Tokens that closing the answer and saying the tail add."""
        self.context = "\n".join(
            f"def function_{n}(value):\n    return value * {n} + {n + 1}" for n in range(100)
        )

    def question(self, number: int) -> list[Event]:
        text = f"{self.context}\n{ASK.format(number)}"
        return [{"role": "user", "content": text}]

    def settings(self, tokens: int) -> dict[str, Any]:
        return {"model": MODEL, "temperature": 0, "store": False, "max_output_tokens": tokens}

    async def steered(self, client: Redirecting, number: int) -> tuple[float, Event]:
        """Seconds from the steer to the first redirected token, and the redirected response."""
        await client.send("create", input=self.question(number), **self.settings(PARTIAL + 2))
        created = await client.until("response.created")
        times = await client.deltas(PARTIAL)
        self.steps += [later - earlier for earlier, later in itertools.pairwise(times)]
        target = created["response"]["id"]
        sent = await client.send("steer", previous_response_id=target, input=TAIL)
        await client.until("response.created")
        (first,) = await client.deltas(1)
        return first - sent, await client.until_end()

    async def warm(self, client: Redirecting, number: int) -> tuple[float, Event]:
        """The same tail behind an answer that has ended, as long as the steered one."""
        await client.send("create", input=self.question(number), **self.settings(PARTIAL))
        done = await client.until_end()
        tail = {"input": [{"role": "user", "content": TAIL}], "previous_response_id": done["id"]}
        sent = await client.send("create", **tail, **self.settings(PARTIAL))
        (first,) = await client.deltas(1)
        response = await client.until_end()
        spoken = done["usage"]["input_tokens"] + done["usage"]["output_tokens"]
        self.tail = response["usage"]["input_tokens"] - spoken
        return first - sent, response

    async def old_way(self, number: int) -> float:
        """Hang up, then send everything that was said in a new request."""
        said: list[str] = []
        async with contextlib.aclosing(self.stream(self.question(number), PARTIAL + 2)) as texts:
            async for text in texts:
                said.append(text)
                if len(said) == PARTIAL:
                    break
            started = time.perf_counter()
        history = [
            *self.question(number),
            {"role": "assistant", "content": "".join(said)},
            {"role": "user", "content": TAIL},
        ]
        first = 0.0
        async with contextlib.aclosing(self.stream(history, PARTIAL)) as texts:
            async for _ in texts:
                first = time.perf_counter() - started
                break
        return first

    async def stream(self, items: list[Event], tokens: int) -> AsyncGenerator[str, None]:
        http = LeanHttp(self.port)
        body = {"input": items, "stream": True, **self.settings(tokens)}
        try:
            async for data in http.post("/v1/responses", json.dumps(body).encode()):
                if b"response.output_text.delta" in data:
                    yield json.loads(data)["delta"]
        finally:
            await http.close()


def computed(response: Event) -> float:
    usage = response["usage"]
    return float(usage["input_tokens"] - usage["input_tokens_details"]["cached_tokens"])


async def compare(report: Report, port: int, pairs: int) -> None:
    real = Real(port)
    steered, warm, old, again = [], [], [], []
    async with Redirecting.at(port) as client:
        for number in range(-2, pairs):  # the first two fill the cache
            one, redirected = await real.steered(client, number)
            two, continued = await real.warm(client, number)
            three = await real.old_way(number)
            if number >= 0:
                steered.append(one)
                warm.append(two)
                old.append(three)
                again.append(computed(redirected))
            print(f"  pair {number + 1} of {pairs}", end="\r", flush=True)
    length = continued["usage"]["input_tokens"]
    step = statistics.median(real.steps)
    report.say("conversation", length, "tokens")
    report.say("one decode step, median", step * 1000, "ms")
    report.spread("vLLM: from steer to the first redirected token", steered, "ms", 1000)
    report.spread("vLLM: warm request, equally long tail", warm, "ms", 1000)
    report.spread("vLLM: the old way, hang up and send all", old, "ms", 1000)
    report.spread("vLLM: prompt tokens computed for a redirect", again, "")
    ratio, low, high = ratio_of(steered, [each + step for each in warm])
    report.goal(
        "steer to redirected token: at most 1.30 of a warm first token and one step",
        met=low <= 1.3,
        measured=f"{ratio:.2f} (95% interval {low:.2f} to {high:.2f}, {pairs} pairs)",
    )
    most = BLOCK + real.tail
    report.goal(
        f"tokens computed again: at most one block, closing and tail ({most})",
        met=max(again) <= most,
        measured=f"{max(again):.0f}",
    )
    ratio, low, high = ratio_of(steered, old)
    report.say("of the old way's time", f"{ratio:.2f} (95% interval {low:.2f} to {high:.2f})")


def main() -> None:
    report, options = Report.from_arguments(
        "steer",
        "redirecting an answer: the scripted engine (a replayed answer), then vLLM on CPU",
        "websockets",
        steers=(300, "steers of the scripted engine"),
        pairs=(50, "pairs on the real engine; 0 leaves it out"),
        python=(str(_files.vllm_python()), "a Python that has vLLM"),
    )
    scripted(report, options.steers)
    if options.pairs:
        port = free_port()
        with (
            tempfile.TemporaryDirectory() as folder,
            serve_vivace(options.python, _files.vllm_model(), port, Path(folder)),
        ):
            asyncio.run(compare(report, port, options.pairs))
    report.end()


if __name__ == "__main__":
    main()
