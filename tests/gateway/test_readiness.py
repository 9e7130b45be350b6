"""``/readyz`` and ``/metrics`` tell the truth about what runs beside the requests."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.process import Serve
from tests.support.server import RunningGateway
from tests.support.waiting import PATIENCE_S, eventually
from vivace.errors import StoreError


def test_a_task_that_failed_is_not_ready_until_it_runs_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = True

    async def prune(*_: object) -> int:
        if broken:
            raise StoreError("The disk is gone.")
        return 0

    running = RunningGateway()
    monkeypatch.setattr(running.gateway.archive, "prune", prune)
    with running, running.http as http:
        eventually(lambda: http.get("/readyz").status_code == 503)
        assert "pruning" in http.get("/readyz").text
        assert 'vivace_task_up{task="pruning"} 0.0' in http.get("/metrics").text
        assert 'vivace_task_up{task="keys"} 1.0' in http.get("/metrics").text
        broken = False
        eventually(lambda: http.get("/readyz").status_code == 200)
        assert 'vivace_task_up{task="pruning"} 1.0' in http.get("/metrics").text
        assert 'vivace_task_restarts_total{task="pruning"} 0.0' not in http.get("/metrics").text


def test_an_engine_that_died_is_named(gateway: RunningGateway) -> None:
    with gateway.http as http:
        assert http.get("/readyz").text == "ready\n"
        gateway.engine.die("Gone.")
        answer = http.get("/readyz")
    assert answer.status_code == 503
    assert answer.text == f"{gateway.engine.name} has died\n"


@pytest.mark.skipif(sys.platform == "win32", reason="the engine is played by a script for sh")
def test_while_an_engine_loads_it_says_so_and_can_be_ended(tmp_path: Path) -> None:
    server = serve_with_llama(tmp_path, "sleep 3600")
    try:
        eventually(lambda: status(server) == (503, "slow is loading its model\n"))
        asked = httpx.post(f"{server.url}/responses", json={"input": "x"})
        assert asked.status_code == 503
        assert asked.json()["error"]["code"] == "engine_unavailable"
        assert httpx.get(f"{server.url[:-3]}/healthz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == -signal.SIGTERM
    finally:
        server.process.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="the engine is played by a script for sh")
def test_an_engine_that_cannot_be_started_ends_the_server_with_the_reason(tmp_path: Path) -> None:
    server = serve_with_llama(tmp_path, "echo error: no such model; exit 1")
    assert server.process.wait(PATIENCE_S) == 1
    assert "could not load" in server.log
    assert "no such model" in server.log
    assert "Traceback" not in server.log


def serve_with_llama(folder: Path, does: str) -> Serve:
    """With a llama.cpp that does this instead of loading a model."""
    program = folder / "bin" / "llama-server"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    engine = {"name": "slow", "kind": "llamacpp", "model": "m", "path": "m.gguf"}
    return Serve(folder, engine=engine, environment={"PATH": f"{program.parent}:/usr/bin:/bin"})


def status(server: Serve) -> tuple[int, str]:
    try:
        answer = httpx.get(f"{server.url[:-3]}/readyz")
    except httpx.TransportError:
        return 0, ""
    return answer.status_code, answer.text
