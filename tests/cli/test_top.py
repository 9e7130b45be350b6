"""``vivace top``: its figures as plain values, and the view as a person meets it."""

from __future__ import annotations

import bisect
import io
import json
import math
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from rich.console import Console

from tests.support.commands import run_command
from tests.support.http import RESPONSES, key, keys
from tests.support.hub import CleanHome
from tests.support.ports import free_port
from tests.support.server import MODEL, RunningGateway, configuration
from tests.support.socket import Socket
from tests.support.waiting import PATIENCE_S
from vivace.cli.top import (
    EngineRow,
    History,
    ModelRow,
    Picture,
    QueueRow,
    Reading,
    compute,
    draw,
    parse,
    quantile,
)

NOWHERE = "http://127.0.0.1:9"
BOUNDS = (0.1, 0.5, 1.0, 5.0)
METRICS = {
    "vivace_websocket_connections",
    "vivace_turns_running",
    "vivace_turns_total",
    "vivace_requests_refused_total",
    "vivace_tokens_total",
    "vivace_first_token_seconds",
    "vivace_turn_seconds",
    "vivace_queue_length",
    "vivace_queue_wait_seconds",
    "vivace_engine_running",
    "vivace_engine_slots",
    "vivace_engine_circuit_open",
    "vivace_engine_up",
}


# -- figures --------------------------------------------------------------------------------------


class Server:
    """What a gateway counts, without the gateway."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.connections = self.gauge("vivace_websocket_connections")
        self.running = self.gauge("vivace_turns_running", "model")
        self.turns = self.counter("vivace_turns", "model", "status")
        self.refused = self.counter("vivace_requests_refused", "code")
        self.tokens = self.counter("vivace_tokens", "model", "kind")
        self.first = self.histogram("vivace_first_token_seconds", "model")
        self.waiting = self.gauge("vivace_queue_length", "tier", "kind")
        self.waits = self.histogram("vivace_queue_wait_seconds", "tier", "kind")
        self.engine_running = self.gauge("vivace_engine_running", "engine")
        self.engine_slots = self.gauge("vivace_engine_slots", "engine")
        self.engine_up = self.gauge("vivace_engine_up", "engine")
        self.engine_circuit_open = self.gauge("vivace_engine_circuit_open", "engine")

    def gauge(self, name: str, *labels: str) -> Gauge:
        return Gauge(name, "", labels, registry=self.registry)

    def counter(self, name: str, *labels: str) -> Counter:
        return Counter(name, "", labels, registry=self.registry)

    def histogram(self, name: str, *labels: str) -> Histogram:
        return Histogram(name, "", labels, buckets=BOUNDS, registry=self.registry)

    def read(self, at: float) -> Reading:
        return parse(generate_latest(self.registry).decode(), at)

    def turn(self, first: float = 0.2, output: int = 10, status: str = "completed") -> None:
        self.turns.labels("small", status).inc()
        self.first.labels("small").observe(first)
        for kind, count in (("input", 100), ("cached", 75), ("output", output)):
            self.tokens.labels("small", kind).inc(count)


def test_rates_and_percentiles_are_of_what_happened_between_two_readings() -> None:
    server = Server()
    server.turn(first=4)
    before = server.read(10)
    for status in ("completed", "failed"):
        server.turn(first=0.2, status=status)
    server.refused.labels("rate_limit_exceeded").inc()
    server.running.labels("small").set(3)
    server.connections.set(7)
    picture = compute(before, server.read(14))
    assert picture.seconds == 4
    assert picture.connections == 7
    assert picture.refused == {"rate_limit_exceeded": 0.25}
    (row,) = picture.models
    assert row == ModelRow("small", 3, 0.5, 5, 50, 0.75, row.first_p50, row.first_p90)
    assert row.first_p50 == pytest.approx(0.3)
    assert row.first_p90 == pytest.approx(0.46)


def test_queues_and_engines_are_shown_as_they_are_now() -> None:
    server = Server()
    before = server.read(0)
    server.waiting.labels("fast", "interactive").set(2)
    server.waiting.labels("fast", "agent").set(3)
    server.waits.labels("fast", "interactive").observe(0.05)
    server.engine_up.labels("gpu").set(1)
    server.engine_running.labels("gpu").set(5)
    server.engine_slots.labels("gpu").set(8)
    server.engine_up.labels("cpu").set(0)
    server.engine_up.labels("rented").set(1)
    server.engine_circuit_open.labels("rented").set(1)
    picture = compute(before, server.read(1))
    first, second = picture.queues
    assert first == QueueRow("fast", "interactive", 2, first.wait_p90)
    assert first.wait_p90 == pytest.approx(0.09)
    assert second == QueueRow("fast", "agent", 3, None)
    assert picture.engines == (
        EngineRow("cpu", False, 0, 0),
        EngineRow("gpu", True, 5, 8),
        EngineRow("rented", True, 0, 0, left_alone=True),
    )


def test_nothing_is_shown_of_what_the_gateway_does_not_count() -> None:
    one = parse("vivace_websocket_connections 1\n", 0)
    assert compute(one, one) == Picture(0, 1, {}, (), (), ())


def test_where_nothing_happened_there_is_no_percentile_and_no_share() -> None:
    server = Server()
    server.turn()
    (row,) = compute(server.read(0), server.read(1)).models
    assert row == ModelRow("small", 0, 0, 0, 0, None, None, None)


def test_the_metrics_of_an_engine_are_left_alone() -> None:
    text = '# TYPE vllm:turns counter\nvllm:turns{a="b"} 5\nnonsense\nvivace_turns_running 1\n'
    assert [name for name, _ in parse(text, 0).samples] == ["vivace_turns_running"]


firsts = st.lists(st.floats(0, 10), max_size=20)


@given(old=firsts, new=firsts, same=st.booleans())
def test_a_gateway_that_begins_anew_never_gives_a_figure_below_nothing(
    old: Sequence[float], new: Sequence[float], same: bool
) -> None:
    server = Server()
    for first in old:
        server.turn(first)
    before = server.read(0)
    after = server if same else Server()
    for first in new:
        after.turn(first)
    for row in compute(before, after.read(1)).models:
        assert 0 <= row.turns <= len(new)
        assert row.output == row.turns * 10
        assert row.cached in (None, 0.75)
        for time in (row.first_p50, row.first_p90):
            assert time is None or 0 <= time <= BOUNDS[-1]
        if same or len(new) < len(old):
            assert row.turns == len(new)


def test_a_history_counts_from_the_oldest_reading_in_its_window() -> None:
    server, history = Server(), History(window=10)
    for second in range(30):
        server.turn(output=second)
        history.add(server.read(second))
    picture = history.picture()
    assert picture.seconds == 10
    assert picture.models[0].turns == 1
    assert picture.models[0].output == pytest.approx(24.5)


def test_a_history_keeps_two_readings_however_far_apart() -> None:
    server, history = Server(), History(window=10)
    history.add(server.read(0))
    server.turn()
    history.add(server.read(100))
    assert history.picture().models[0].turns == 0.01


def test_a_history_does_not_forget_that_the_gateway_began_anew() -> None:
    """Even when it has counted more since than it had before."""
    old, new, history = Server(), Server(), History(window=10)
    for _ in range(2):
        old.turn()
    history.add(old.read(0))
    new.turn()
    history.add(new.read(1))
    for _ in range(5):
        new.turn()
    history.add(new.read(2))
    assert history.picture().models[0].turns == 3


@given(st.lists(st.floats(0, 10), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_lies_in_the_bucket_of_the_value_it_stands_for(
    values: list[float], share: float
) -> None:
    bounds = (*BOUNDS, math.inf)
    buckets = {bound: float(sum(value <= bound for value in values)) for bound in bounds}
    true = sorted(values)[math.ceil(share * len(values)) - 1]
    found = quantile(share, buckets)
    assert found is not None
    bucket = bisect.bisect_left(BOUNDS, true)
    if bucket == len(BOUNDS):
        assert found == BOUNDS[-1]
    else:
        assert (0, *BOUNDS)[bucket] <= found <= BOUNDS[bucket] + 1e-9


# Worked out by hand from the rules in Prometheus' documentation.
@pytest.mark.parametrize(
    ("share", "buckets", "expected"),
    [
        (0.5, {}, None),
        (0.5, {math.inf: 4}, None),
        (0.5, {1: 0, math.inf: 0}, None),
        (0.5, {1: 4, math.inf: 4}, 0.5),
        (0.5, {1: 0, 3: 4, math.inf: 4}, 2),
        (0.9, {1: 5, 3: 10, math.inf: 10}, 2.6),
        (0.9, {1: 5, 3: 5, math.inf: 10}, 3),
    ],
)
def test_percentiles_are_those_of_prometheus(
    share: float, buckets: dict[float, float], expected: float | None
) -> None:
    assert quantile(share, buckets) == pytest.approx(expected)


# -- the picture ----------------------------------------------------------------------------------


def drawn(picture: Picture, trouble: str = "") -> list[str]:
    console = Console(file=io.StringIO(), width=80, markup=False, highlight=False, record=True)
    console.print(draw(picture, "http://server/v1", 3725, trouble))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


@pytest.mark.parametrize(
    "text",
    [
        'vivace_turns_running{model="m"} NaN',
        'vivace_engine_slots{engine="e"} +Inf',
        'vivace_first_token_seconds_bucket{model="m",le="soon"} 1',
        'vivace_first_token_seconds_bucket{model="m",le="NaN"} 1',
        'vivace_x{a="\\',
        "vivace_{{{{ 1",
        'vivace_turns{model="m"',
    ],
)
def test_what_is_no_figure_counts_for_nothing(text: str) -> None:
    assert parse(text, 1.0).samples == {}
    assert compute(parse("", 0.0), parse(text, 1.0)).models == ()


@given(st.text())
def test_whatever_a_server_says_can_be_drawn(text: str) -> None:
    hostile = parse("\n".join(f"vivace_{line}" for line in text.split("\n")), 1.0)
    assert drawn(compute(Reading(0.0), hostile))


def test_no_name_steers_the_terminal() -> None:
    name = "\x1b]52;c;QQ==\x07\x9b2J\u202e"
    rows = (ModelRow(name, 1, 1, 1, 1, None, None, None),)
    hostile = Picture(
        seconds=10,
        connections=1,
        refused={name: 1},
        models=rows,
        queues=(QueueRow(name, name, 1, None),),
        engines=(EngineRow(name, True, 1, 1),),
    )
    console = Console(file=io.StringIO(), width=80, markup=False, highlight=False, record=True)
    console.print(draw(hostile, "http://server/v1", 1, f"trouble {name}"))
    shown = console.export_text()
    assert shown.count("]52;c;QQ==") == 6
    assert not set(shown) & {"\x1b", "\x07", "\x9b", "\u202e"}


def test_the_picture_says_it_all_in_eighty_columns() -> None:
    lines = drawn(
        Picture(
            seconds=10,
            connections=1,
            refused={"rate_limit_exceeded": 0.25, "invalid_value": 1},
            models=(
                ModelRow("qwen2.5-coder-32b[q4]", 3, 12.25, 1234.5, 98765.4, 0.875, 0.0423, 1.26),
                ModelRow("idle", 0, 0, 0, 0, None, None, None),
            ),
            queues=(QueueRow("fast", "interactive", 2, 0.5), QueueRow("fast", "agent", 0, None)),
            engines=(
                EngineRow("gpu", True, 5, 8),
                EngineRow("cpu", False, 0, 0),
                EngineRow("rented", True, 1, 4, left_alone=True),
            ),
        )
    )
    assert lines[0] == "http://server/v1 · watched for 1:02:05 · figures of the last 10 s"
    assert lines[1] == "1 connection · refused: invalid_value 1.0/s, rate_limit_exceeded 0.2/s"
    assert "qwen2.5-coder-32b[q4] 3 12.2 1,234 98,765 88% 42 ms 1.3 s" in lines
    assert "idle 0 0.0 0.0 0.0 - - -" in lines
    assert "fast interactive 2 500 ms" in lines
    assert "fast agent 0 -" in lines
    assert any(re.fullmatch("gpu up 5/8 [━╸╺]+", line) for line in lines)
    assert "cpu down 0" in lines
    assert any(re.fullmatch("rented left alone 1/4 [━╸╺]+", line) for line in lines)


def test_a_quiet_server_is_a_picture_too() -> None:
    lines = drawn(Picture(0, 0, {}, (), (), ()), trouble="No server answers.")
    assert lines[1:] == [
        "0 connections · nothing refused",
        "No server answers.",
        "",
        "No turn has run yet.",
    ]


# -- one picture ----------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> CleanHome:
    return CleanHome(tmp_path, NOWHERE)


def top(
    home: CleanHome, url: str, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it in a pipe, in this process."""
    command = ("top", "--url", url, "--every", "0.2", *arguments)
    return run_command(*command, folder=home.folder, environment=home.environment | environment)


def complaint(ran: subprocess.CompletedProcess[str]) -> str:
    """What a person reads when it cannot be done."""
    assert "Traceback" not in ran.stderr, ran.stderr
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.startswith("vivace: ")
    return ran.stderr


def test_one_picture_shows_what_a_gateway_did_in_the_meantime(
    gateway: RunningGateway, home: CleanHome
) -> None:
    command = home.command("top", "--url", gateway.url, "--once")
    with (
        Socket(gateway.url),
        subprocess.Popen(
            command, env=home.environment, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        while process.poll() is None:
            gateway.http.post(RESPONSES, json={"input": "Hello"}).raise_for_status()
            assert gateway.http.post(RESPONSES, json={"input": "", "model": "none"}).is_error
        assert process.stdout is not None
        shown = process.stdout.read()
    assert process.returncode == 0
    assert gateway.url in shown
    assert "1 connection ·" in shown
    assert re.search(r"refused: \w+ [\d.]+/s", shown)
    row = re.search(rf"{MODEL} +\d+ +([\d.]+) +([\d,.]+) +([\d,.]+) +\d+% +\d+ ms +\d+ ms", shown)
    assert row, shown
    assert all(float(rate.replace(",", "")) > 0 for rate in row.groups())
    assert "\x1b" not in shown


def test_what_is_piped_is_one_picture_too(gateway: RunningGateway, home: CleanHome) -> None:
    ran = top(home, gateway.url)
    assert ran.returncode == 0, ran.stderr
    assert "0 connections · nothing refused" in ran.stdout


# -- what can be in the way -----------------------------------------------------------------------


def test_without_a_server_it_says_how_to_start_one(home: CleanHome) -> None:
    said = complaint(top(home, f"http://127.0.0.1:{free_port()}/v1"))
    assert "vivace up" in said
    assert "--url" in said


@pytest.mark.parametrize("option", [(), ("--key", "wrong")], ids=["no key", "wrong key"])
def test_a_server_that_wants_a_key_leads_to_the_option(
    home: CleanHome, option: tuple[str, ...]
) -> None:
    with RunningGateway(config=configuration(keys=keys("alice"))) as gateway:
        said = complaint(top(home, gateway.url, *option))
        assert "--key" in said
        assert "VIVACE_KEY" in said


def test_the_right_key_opens_the_door(home: CleanHome) -> None:
    with RunningGateway(config=configuration(keys=keys("alice"))) as gateway:
        assert top(home, gateway.url, VIVACE_KEY=key("alice")).returncode == 0


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Leave standard error to the command."""


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[str]:
    """The address of some other server, which has the files of the folder."""
    handler = partial(_Silent, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    "metrics",
    [None, "up 1\n", "<html>", 'vivace_turns{model="'],
    ids=["none", "other", "page", "cut"],
)
def test_a_server_without_our_metrics_is_said(
    home: CleanHome, elsewhere: str, metrics: str | None
) -> None:
    if metrics is not None:
        (home.folder / "metrics").write_text(metrics)
    said = complaint(top(home, elsewhere))
    assert f"{elsewhere}/metrics" in said
    assert "no metrics of Vivace" in said


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/behind/v1"])
def test_the_metrics_are_looked_for_beside_the_api(
    home: CleanHome, elsewhere: str, end: str
) -> None:
    folder = home.folder / "behind" if "behind" in end else home.folder
    folder.mkdir(exist_ok=True)
    (folder / "metrics").write_text("vivace_websocket_connections 42\n")
    assert "42 connections" in top(home, elsewhere + end).stdout


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8765/v1", "ftp://127.0.0.1/v1", "nonsense", "http://a:b/v1"]
)
def test_what_is_no_address_is_said(home: CleanHome, address: str) -> None:
    assert "http://HOST:PORT/v1" in complaint(top(home, address))


def test_a_proxy_for_the_world_is_not_asked_about_this_machine(
    gateway: RunningGateway, home: CleanHome
) -> None:
    ran = top(home, gateway.url, http_proxy=NOWHERE, all_proxy=NOWHERE)
    assert ran.returncode == 0, ran.stderr


# -- in a terminal --------------------------------------------------------------------------------


@contextmanager
def terminal(home: CleanHome, url: str) -> Iterator[pexpect.spawn[str]]:
    program, *arguments = home.command("top", "--url", url, "--every", "0.2")
    plain: Any = home.environment | {"TERM": "xterm"}
    child = pexpect.spawn(program, arguments, env=plain, encoding="utf-8", timeout=PATIENCE_S)
    try:
        yield child
    finally:
        child.close(force=True)


@pytest.mark.parametrize("end", ["q", "\x03"], ids=["q", "ctrl-c"])
def test_the_view_follows_the_gateway_until_it_is_ended(
    gateway: RunningGateway, home: CleanHome, end: str
) -> None:
    with terminal(home, gateway.url) as child:
        child.expect_exact("0 connections")
        child.expect_exact("No turn has run yet.")
        with Socket(gateway.url):
            child.expect_exact("1 connection ·")
            gateway.http.post(RESPONSES, json={"input": "Hello"}).raise_for_status()
            child.expect_exact(MODEL)
        child.expect_exact("0 connections")
        child.send("x")  # no key but one ends it
        child.expect_exact("watched for 0:00:01")
        child.send(end)
        child.expect_exact("\x1b[?1049l")  # the screen is as it was
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0


def test_the_view_outlives_the_gateway(home: CleanHome) -> None:
    with RunningGateway() as old:
        port, url = old.port, old.url
        old.http.post(RESPONSES, json={"input": "Hello"}).raise_for_status()
        with terminal(home, url) as child:
            child.expect_exact(MODEL)
            old.stop()
            child.expect_exact("No server answers")
            with RunningGateway(port=port):
                child.expect_exact("No turn has run yet.")
            child.send("q")
            child.expect(pexpect.EOF)
            child.wait()
            assert child.exitstatus == 0


# -- the dashboard --------------------------------------------------------------------------------

DASHBOARD = Path(__file__).parents[2] / "deploy/grafana/vivace.json"


def expressions(part: Any) -> Iterator[str]:
    """All that Grafana asks of Prometheus."""
    if isinstance(part, dict):
        for name, value in part.items():
            if name in ("expr", "query", "definition") and isinstance(value, str):
                yield value
            yield from expressions(value)
    elif isinstance(part, list):
        for value in part:
            yield from expressions(value)


def test_the_dashboard_asks_for_every_metric_of_ours_and_for_no_other() -> None:
    asked = " ".join(expressions(json.loads(DASHBOARD.read_text())))
    names = {name.removesuffix("_bucket") for name in re.findall(r"\bvivace_\w+", asked)}
    assert names == METRICS


def test_the_dashboard_works_with_any_data_source_and_its_panels_lie_side_by_side() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert board["schemaVersion"] >= 39
    assert board["templating"]["list"][0]["type"] == "datasource"
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        assert panel["fieldConfig"]["defaults"]["unit"]
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
