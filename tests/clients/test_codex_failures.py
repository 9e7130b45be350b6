"""The real Codex CLI: refused, it waits or compacts; a thread from elsewhere goes on; it asks for
the models."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.codex import AppServer, Codex, Dialect
from tests.support.server import MODEL, RunningGateway, configuration
from vivace.engines.scripted import Call, Reply, Say

pytestmark = pytest.mark.release

every_transport = pytest.mark.parametrize(
    "dialect", [Dialect(websocket=True), Dialect(websocket=False)], ids=str
)

# Enough for Codex's tools and instructions and one long text, but not for two. Codex believes in a
# context of 100,000 tokens, so that it would never compact by itself.
NARROW = {"context": 11_000, "rate": 50_000}
TALE = "Once upon a time there was a story without an end.\n" * 300
SUMMARY = Reply(then=(Say("A tale was told."),))
GO_ON = Reply(when="^And what now", then=(Say("Now we go on."),))


def said(server: AppServer, thread: str, text: str) -> dict[str, Any]:
    """A prompt, and how its turn ended."""
    server.ask("turn/start", threadId=thread, input=[{"type": "text", "text": text}])
    turn: dict[str, Any] = server.until("turn/completed")["params"]["turn"]
    return turn


@every_transport
def test_after_an_overflow_the_next_prompt_compacts_and_is_answered(
    dialect: Dialect, tmp_path: Path
) -> None:
    tell = json.dumps({"cmd": "yes 'once upon a time' | head -c 90000", "yield_time_ms": 30_000})
    replies = [Reply(when="^Read it$", then=(Call("exec_command", tell),)), GO_ON, SUMMARY]
    with RunningGateway(replies, config=configuration(engine=NARROW)) as gateway:
        with Codex(tmp_path, gateway.url, dialect).app_server() as server:
            thread = server.ask("thread/start")["thread"]["id"]
            full = said(server, thread, "Read it")
            assert full["status"] == "failed"
            assert full["error"]["codexErrorInfo"] == "contextWindowExceeded"

            answered = said(server, thread, "And what now?")

            assert answered["status"] == "completed", answered["error"]
            assert "Now we go on." in str(answered["items"])
        assert "error" not in gateway.witness.events


@every_transport
def test_a_long_thread_that_overflows_can_be_compacted_by_hand(
    dialect: Dialect, tmp_path: Path
) -> None:
    # After an overflow Codex takes for used what is left of its window beyond all it ever sent;
    # in a long thread that is little, and it is for the person to say /compact.
    replies = [Reply(when="^Tell me a tale$", then=(Say(TALE),)), GO_ON, SUMMARY]
    with RunningGateway(replies, config=configuration(engine=NARROW)) as gateway:
        with Codex(tmp_path, gateway.url, dialect).app_server() as server:
            thread = server.ask("thread/start")["thread"]["id"]
            for _ in range(2):
                assert said(server, thread, "Tell me a tale")["status"] == "completed"
            assert said(server, thread, "And what now?")["status"] == "failed"

            server.ask("thread/compact/start", threadId=thread)
            assert server.until("turn/completed")["params"]["turn"]["status"] == "completed"

            answered = said(server, thread, "And what now?")
            assert answered["status"] == "completed", answered["error"]
        assert "error" not in gateway.witness.events


@every_transport
def test_a_rate_limit_is_waited_out(
    dialect: Dialect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A request passes every six seconds, and the last has just been used up when Codex comes: no
    # time passes for the limit until then.
    tier = {"name": MODEL, "engines": ["scripted"], "limits": {"requests_per_minute": 10}}
    config = configuration(tiers=[tier], engine={"model": "other"})
    with RunningGateway([Reply(then=(Say("Hello."),))], config=config) as gateway:
        http, refused, began = gateway.http, gateway.witness.events, time.monotonic()

        def now() -> float:
            return time.monotonic() if "response.failed" in refused else began

        monkeypatch.setattr("vivace.counters.local.time", SimpleNamespace(monotonic=now))
        for _ in range(10):
            http.post("/v1/responses", json={"model": MODEL, "input": "Hi"})
        assert Codex(tmp_path, gateway.url, dialect).run("Say hello").answers == ["Hello."]
        # Its warm-up and its turn, and the turn once more: it did not try before it was told to.
        assert 1 <= gateway.witness.events.count("response.failed") <= 2
        assert "error" not in gateway.witness.events


@every_transport
def test_a_thread_that_began_elsewhere_goes_on(dialect: Dialect, tmp_path: Path) -> None:
    shell = {"type": "exec", "command": ["ls"], "timeout_ms": 1000}
    past = [
        {"type": "compaction", "encrypted_content": "gAAAA-of-another-server"},
        {"type": "web_search_call", "status": "completed", "action": {"type": "search"}},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA-of-another-server"},
        {"type": "local_shell_call", "call_id": "c", "status": "completed", "action": shell},
        {"type": "function_call_output", "call_id": "c", "output": "cobalt.txt"},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
        {
            "type": "agent_message",
            "author": "root",
            "recipient": "helper",
            "content": [{"type": "input_text", "text": "Look at the tests."}],
        },
    ]
    with RunningGateway([GO_ON]) as gateway:
        with Codex(tmp_path, gateway.url, dialect).app_server() as server:
            thread = server.ask("thread/start")["thread"]["id"]
            server.ask("thread/inject_items", threadId=thread, items=past)
            for _ in range(2):
                answered = said(server, thread, "And what now?")
                assert answered["status"] == "completed", answered["error"]
                assert "Now we go on." in str(answered["items"])
        metrics = gateway.http.get("/metrics").text
        for kind in ("compaction", "web_search_call", "image_generation_call"):
            assert f'vivace_items_skipped_total{{type="{kind}"}}' in metrics


def test_the_list_of_models_comes_from_the_server(gateway: RunningGateway, tmp_path: Path) -> None:
    codex = Codex(tmp_path, gateway.url, Dialect(websocket=True), fetches=True)
    with codex.app_server() as server:
        listed = server.ask("model/list")["data"]
    (ours,) = [model for model in listed if model["model"] == MODEL]
    assert ours["description"] == "Served by Vivace."
