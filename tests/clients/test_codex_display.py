"""What the real Codex CLI shows of a gateway: its tiers, and what is left of its limits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.codex import Codex, Dialect
from tests.support.server import RunningGateway, configuration
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say

WEBSOCKET, HTTP = Dialect(websocket=True), Dialect(websocket=False)
pytestmark = pytest.mark.release

every_transport = pytest.mark.parametrize("dialect", [WEBSOCKET, HTTP], ids=str)

TIERS: list[dict[str, Any]] = [
    {"name": "usual", "engines": ["scripted"]},
    {"name": "fast", "engines": ["scripted"]},
    {"name": "deep", "engines": ["scripted"]},
]


def gateway(tiers: list[dict[str, Any]], *, port: int = 0) -> RunningGateway:
    config = configuration(tiers=tiers, engine={"model": "other"})
    return RunningGateway([Reply(then=(Say("Hello."),))], config=config, port=port)


@pytest.fixture
def tiered() -> Iterator[RunningGateway]:
    with gateway(TIERS) as running:
        yield running


def cards(running: RunningGateway) -> list[dict[str, Any]]:
    """The models as the gateway lists them for Codex."""
    asked = {"client_version": "0.166.0"}
    answer = running.http.get("/v1/models", params=asked, headers={"originator": "codex-tui"})
    listed: list[dict[str, Any]] = answer.json()["models"]
    return listed


def answered(running: RunningGateway, tier: str) -> float:
    registry = running.gateway.metrics.registry
    labels = {"model": tier, "status": "completed"}
    return registry.get_sample_value("vivace_turns_total", labels) or 0


@pytest.mark.parametrize(
    ("tier", "dialect"), [("fast", WEBSOCKET), ("fast", HTTP), ("deep", WEBSOCKET)], ids=str
)
def test_a_tier_is_a_command_and_answers_once_it_was_chosen(
    tiered: RunningGateway, tier: str, dialect: Dialect, tmp_path: Path
) -> None:
    codex = Codex(tmp_path, tiered.url, dialect, cards=cards(tiered))
    with codex.terminal("Good morning") as terminal:
        terminal.shows("Hello.")
        assert answered(tiered, "usual") > 0
        assert answered(tiered, tier) == 0

        terminal.type(f"/{tier}")
        terminal.shows(f"Answered by {tier}.")
        terminal.press("Enter")
        terminal.shows("Service tier set to")
        terminal.enter("And once more")

        eventually(lambda: answered(tiered, tier) > 0)


@every_transport
def test_editors_are_told_by_codex_how_much_of_a_limit_is_used(
    dialect: Dialect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = SimpleNamespace(monotonic=lambda: 1000.0)  # or what is used comes back
    monkeypatch.setattr("vivace.counters.local.time", stopped)
    # With a key, the terminal of 0.166.0 shows no limits, whatever it is sent.
    limited = [{"name": "usual", "engines": ["scripted"], "limits": {"requests_per_minute": 20}}]
    with gateway(limited) as running:
        codex = Codex(tmp_path, running.url, dialect, cards=cards(running))
        with codex.app_server() as server:
            thread = server.ask("thread/start")["thread"]["id"]
            words = [{"type": "text", "text": "Good morning"}]
            server.ask("turn/start", threadId=thread, input=words)
            told = server.until("account/rateLimits/updated")["params"]["rateLimits"]
            server.until("turn/completed")
    assert told["limitId"] == "usual"
    assert told["primary"]["usedPercent"] in (5, 10)  # without or with a warm-up
    assert told["primary"]["windowDurationMins"] == 1
    assert told["secondary"] is None


@every_transport
def test_models_that_have_changed_are_asked_for_again(dialect: Dialect, tmp_path: Path) -> None:
    """The server comes back with another tier, and a turn is all that Codex hears of it."""
    with ExitStack() as stack:
        with gateway(TIERS) as old:
            port = old.port
            codex = Codex(tmp_path, old.url, dialect, fetches=True, cards=cards(old))
            server = stack.enter_context(codex.app_server())
            assert "newest" not in str(server.ask("model/list"))
            thread = server.ask("thread/start")["thread"]["id"]
        with gateway([*TIERS, {"name": "newest", "engines": ["scripted"]}], port=port):
            words = [{"type": "text", "text": "Good morning"}]
            server.ask("turn/start", threadId=thread, input=words)
            server.until("turn/completed")
            assert "newest" in str(server.ask("model/list"))
