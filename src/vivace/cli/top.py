"""``vivace top``: what a gateway is doing, live, from the metrics that Prometheus reads.

Counters become rates and histograms become percentiles by the difference of two readings. Turns
are counted when they end, so the readings stand some seconds apart, however often we draw.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import click
import httpx2
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from vivace.cli import options
from vivace.cli.keyboard import keys
from vivace.cli.output import visible
from vivace.cli.top_fleet import fleet_tables
from vivace.client.errors import ClientError
from vivace.client.fleet import FleetSeen, beside, fleet
from vivace.client.get import Unanswered, get

if TYPE_CHECKING:  # drawing is for this command only; the others need not wait for its import
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = [
    "EngineRow",
    "History",
    "ModelRow",
    "Picture",
    "QueueRow",
    "Reading",
    "compute",
    "draw",
    "parse",
    "quantile",
    "top",
]

_WINDOW = 10.0
_MOST = 10_000
"""Figures; a gateway has some hundred."""
_COUNTS = ("_total", "_bucket")

Key = tuple[str, ...]
Series = tuple[str, frozenset[tuple[str, str]]]


# -- readings -------------------------------------------------------------------------------------


class Reading(Struct, frozen=True):
    """What the gateway had counted at one moment."""

    at: float
    samples: Mapping[Series, float] = {}

    def by(self, name: str, *labels: str) -> dict[Key, float]:
        """A metric for each value of these labels, as PromQL's ``sum by``."""
        sums: defaultdict[Key, float] = defaultdict(float)
        for (metric, given), value in self.samples.items():
            if metric == name:
                known = dict(given)
                sums[tuple(known.get(label, "") for label in labels)] += value
        return sums


def parse(text: str, at: float) -> Reading:
    """The gateway's own figures; an engine's stand there too, and vLLM's are many.

    What is no figure counts for nothing: whoever answers may not be a gateway.
    """
    ours = "\n".join([line for line in text.split("\n") if "vivace_" in line][:_MOST])
    try:
        families = list(text_string_to_metric_families(ours))
    except (ValueError, LookupError, AttributeError, TypeError):
        return Reading(at)
    return Reading(
        at,
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
            if math.isfinite(sample.value) and _is_bound(sample.labels.get("le", "0"))
        },
    )


def _is_bound(text: str) -> bool:
    """Whether this can be the bound of a bucket; infinity is one."""
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def restarted(before: Reading, after: Reading) -> bool:
    """Whether the gateway has begun anew in between: what can only grow has shrunk."""
    return any(
        after.samples.get(series, 0) < value
        for series, value in before.samples.items()
        if series[0].endswith(_COUNTS)
    )


class History:
    """The newest readings, as far back as figures are taken from."""

    def __init__(self, window: float = _WINDOW) -> None:
        self._window = window
        self._readings: list[Reading] = []

    def add(self, reading: Reading) -> None:
        known = self._readings
        if known and restarted(known[-1], reading):
            known = [Reading(known[-1].at)]
        recent = [one for one in known if reading.at - one.at <= self._window]
        self._readings = [*(recent or known[-1:]), reading]

    def picture(self) -> Picture:
        return compute(self._readings[0], self._readings[-1])


# -- figures --------------------------------------------------------------------------------------


class ModelRow(Struct, frozen=True):
    """Rates are per second, times in seconds; None where there was nothing to measure."""

    name: str
    running: int
    turns: float
    output: float
    input: float
    cached: float | None
    """The share of the input that had been computed before."""
    first_p50: float | None
    first_p90: float | None


class QueueRow(Struct, frozen=True):
    tier: str
    kind: str
    waiting: int
    wait_p90: float | None


class EngineRow(Struct, frozen=True):
    name: str
    up: bool
    running: int
    slots: int
    left_alone: bool = False
    """By its circuit breaker."""


class Picture(Struct, frozen=True):
    seconds: float
    """The time that rates and percentiles are of."""
    connections: int
    refused: Mapping[str, float]
    models: tuple[ModelRow, ...]
    queues: tuple[QueueRow, ...]
    engines: tuple[EngineRow, ...]


def compute(before: Reading, after: Reading) -> Picture:
    """Of a gateway that has begun anew in between, everything was counted since."""
    grown = _growth(before, after)
    elapsed = after.at - before.at
    seconds = elapsed or 1  # in no time nothing grows
    refused = grown.by("vivace_requests_refused_total", "code").items()
    return Picture(
        seconds=elapsed,
        connections=int(after.by("vivace_websocket_connections").get((), 0)),
        refused={code: count / seconds for (code,), count in refused if count},
        models=_models(after, grown, seconds),
        queues=_queues(after, grown),
        engines=_engines(after),
    )


def _growth(before: Reading, after: Reading) -> Reading:
    start = {} if restarted(before, after) else before.samples
    return Reading(
        after.at,
        {
            series: value - start.get(series, 0)
            for series, value in after.samples.items()
            if series[0].endswith(_COUNTS)
        },
    )


def _models(after: Reading, grown: Reading, seconds: float) -> tuple[ModelRow, ...]:
    running = after.by("vivace_turns_running", "model")
    turns = grown.by("vivace_turns_total", "model")
    tokens = grown.by("vivace_tokens_total", "model", "kind")
    first = _buckets(grown, "vivace_first_token_seconds", "model")
    rows = []
    for key in sorted({*running, *turns}):
        read, cached, written = (
            tokens.get((*key, kind), 0) for kind in ("input", "cached", "output")
        )
        rows.append(
            ModelRow(
                name=key[0],
                running=int(running.get(key, 0)),
                turns=turns.get(key, 0) / seconds,
                output=written / seconds,
                input=read / seconds,
                cached=cached / read if read else None,
                first_p50=quantile(0.5, first.get(key, {})),
                first_p90=quantile(0.9, first.get(key, {})),
            )
        )
    return tuple(rows)


def _queues(after: Reading, grown: Reading) -> tuple[QueueRow, ...]:
    """In the gateway's order, which puts first who is served first."""
    waiting = after.by("vivace_queue_length", "tier", "kind")
    waits = _buckets(grown, "vivace_queue_wait_seconds", "tier", "kind")
    return tuple(
        QueueRow(
            tier,
            kind,
            int(waiting.get((tier, kind), 0)),
            quantile(0.9, waits.get((tier, kind), {})),
        )
        for tier, kind in dict.fromkeys((*waiting, *waits))
    )


def _engines(after: Reading) -> tuple[EngineRow, ...]:
    up = after.by("vivace_engine_up", "engine")
    running = after.by("vivace_engine_running", "engine")
    slots = after.by("vivace_engine_slots", "engine")
    left_alone = after.by("vivace_engine_circuit_open", "engine")
    return tuple(
        EngineRow(
            key[0],
            bool(up[key]),
            int(running.get(key, 0)),
            int(slots.get(key, 0)),
            bool(left_alone.get(key, 0)),
        )
        for key in sorted(up)
    )


def _buckets(grown: Reading, name: str, *labels: str) -> dict[Key, dict[float, float]]:
    """A histogram for each value of these labels."""
    found: defaultdict[Key, dict[float, float]] = defaultdict(dict)
    for (*key, bound), count in grown.by(f"{name}_bucket", *labels, "le").items():
        found[tuple(key)][float(bound)] = count
    return found


def quantile(share: float, buckets: Mapping[float, float]) -> float | None:
    """As Prometheus' ``histogram_quantile``: within a bucket, values are taken as spread evenly.

    ``buckets`` says how many values are not above each bound; the last bound is infinite.
    """
    bounds = sorted(buckets)
    if len(bounds) < 2 or not buckets[bounds[-1]]:
        return None
    rank = share * buckets[bounds[-1]]
    lower, below = 0.0, 0.0
    for bound in bounds[:-1]:
        if buckets[bound] >= rank:
            return lower + (bound - lower) * (rank - below) / (buckets[bound] - below)
        lower, below = bound, buckets[bound]
    return lower  # it is above all bounds, and nobody knows how far


# -- drawing --------------------------------------------------------------------------------------


def draw(
    picture: Picture,
    url: str,
    watched: float = 0,
    trouble: str = "",
    seen: FleetSeen | None = None,
) -> RenderableType:
    """``watched`` is for how long, in seconds; ``trouble`` is why there are no newer figures;
    ``seen`` is who else is there."""
    from rich.console import Group

    parts: list[RenderableType] = [_header(picture, url, watched, trouble), ""]
    if picture.models:
        parts.append(_model_table(picture.models))
    else:
        parts.append("No turn has run yet.")
    if picture.queues:
        parts += ["", _queue_table(picture.queues)]
    if picture.engines:
        parts += ["", _engine_table(picture.engines)]
    for table in fleet_tables(seen or FleetSeen()):
        parts += ["", table]
    return Group(*parts)


def _header(picture: Picture, url: str, watched: float, trouble: str) -> Text:
    from rich.text import Text

    connections = "connection" if picture.connections == 1 else "connections"
    refused = [f"{visible(code)} {_rate(rate)}/s" for code, rate in sorted(picture.refused.items())]
    since = timedelta(seconds=int(watched))
    return Text.assemble(
        (visible(url), "bold"),
        f" · watched for {since} · figures of the last {picture.seconds:.0f} s\n",
        f"{picture.connections} {connections} · ",
        (f"refused: {', '.join(refused)}", "yellow") if refused else "nothing refused",
        (f"\n{visible(trouble)}", "bold red") if trouble else "",
    )


def _model_table(rows: Iterable[ModelRow]) -> Table:
    table = _table("model")
    speeds = ("turns/s", "output\ntok/s", "input\ntok/s")
    for title in ("running", *speeds, "cached", "first\np50", "first\np90"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(
            visible(row.name),
            str(row.running),
            _rate(row.turns),
            _rate(row.output),
            _rate(row.input),
            "-" if row.cached is None else f"{row.cached:.0%}",
            _time(row.first_p50),
            _time(row.first_p90),
        )
    return table


def _queue_table(rows: Iterable[QueueRow]) -> Table:
    table = _table("queue", "class")
    for title in ("waiting", "wait p90"):
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(visible(row.tier), visible(row.kind), str(row.waiting), _time(row.wait_p90))
    return table


def _engine_table(rows: Iterable[EngineRow]) -> Table:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    table = _table("engine", "")
    table.add_column("running", justify="right")
    table.add_column()
    for row in rows:
        bar = ProgressBar(
            row.slots, row.running, width=20, complete_style="green", finished_style="yellow"
        )
        table.add_row(
            visible(row.name),
            Text.assemble(_state(row)),
            f"{row.running}/{row.slots}" if row.slots else str(row.running),
            bar if row.slots else "",
        )
    return table


def _state(row: EngineRow) -> tuple[str, str]:
    if not row.up:
        return "down", "bold red"
    return ("left alone", "yellow") if row.left_alone else ("up", "green")


def _table(*titles: str) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        table.add_column(title, overflow="fold")  # two names may differ at their ends only
    return table


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


# -- the command ----------------------------------------------------------------------------------


@click.command()
@options.url
@options.key
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="How often to look.",
)
@click.option("--once", is_flag=True, help="Print one picture and end, as when piped.")
def top(url: str, key: str | None, every: float, once: bool) -> None:
    """Watch a server: turns, speed, queues and engines; other gateways, and engine nodes.

    Speeds and times are of the last ten seconds and count a turn when it ends. q or Ctrl-C ends
    the view.
    """
    asyncio.run(_show(url, key, every, once or not sys.stdout.isatty()))


async def _show(url: str, key: str | None, every: float, once: bool) -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False, emoji=False)
    await (_print if once else _watch)(console, _Server(url, beside(url, "/metrics"), key), every)


class _Server:
    def __init__(self, url: str, address: httpx2.URL, key: str | None) -> None:
        self.url = url
        self._address = address
        self._key = key
        self.fleet = FleetSeen()
        """As it was when the figures were read."""

    async def read(self) -> Reading:
        try:
            answer = await get(self._address, self._key)
        except Unanswered:
            raise ClientError(
                f"No server answers at {self.url}. Start one with 'vivace up', or name another "
                "with --url."
            ) from None
        if answer.status == 401:
            raise ClientError(
                f"The server at {self.url} wants a key (401); give it with --key or in VIVACE_KEY."
            )
        reading = parse(answer.text, time.monotonic())
        if answer.status != 200 or not reading.samples:
            raise ClientError(
                f"{self._address} answers with {answer.status} and no metrics of Vivace. Is "
                "--url the address of a Vivace server?"
            )
        with contextlib.suppress(ClientError):  # one of an older version has the figures only
            self.fleet = await fleet(self.url, self._key)
        return reading


async def _print(console: Console, server: _Server, every: float) -> None:
    before = await server.read()
    await asyncio.sleep(every)
    picture = compute(before, await server.read())
    console.print(draw(picture, server.url, every, seen=server.fleet))


async def _watch(console: Console, server: _Server, every: float) -> None:
    from rich.live import Live

    watching = asyncio.current_task()
    assert watching is not None
    began = time.monotonic()
    history = History()

    def typed(key: str) -> None:
        if key in "qQ":
            watching.cancel()  # as Ctrl-C does

    with contextlib.suppress(asyncio.CancelledError), keys(typed):
        history.add(await server.read())  # what is wrong from the start is said without a view
        trouble = ""
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                watched = time.monotonic() - began
                shown = draw(history.picture(), server.url, watched, trouble, server.fleet)
                live.update(shown, refresh=True)
                await asyncio.sleep(every)
                try:
                    history.add(await server.read())
                    trouble = ""
                except ClientError as error:
                    trouble = str(error)
