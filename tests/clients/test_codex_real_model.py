"""The real Codex CLI and a real model, brought together by our own commands and nothing else."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.codex import Transcript
from tests.support.files import ROOT, model_file
from tests.support.hub import CleanHome
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.release, pytest.mark.alone]

CODEX = ROOT / "tests/clients/node_modules/.bin/codex"
CONTEXT = 16_384
"""Codex begins with over five thousand tokens of tools and instructions."""
PATIENCE = 600
"""Seconds for the answer: a small machine reads a prompt of that size for minutes."""


@contextmanager
def up(home: CleanHome, model: Path) -> Iterator[str]:
    """``vivace up`` until the block ends; yields its address."""
    port = free_port()
    log = home.folder / "up.log"
    options = ("--port", str(port), "--context", str(CONTEXT), "--slots", "1")
    with (
        log.open("w") as out,
        subprocess.Popen(
            home.command("up", "--model", str(model), *options),
            cwd=home.folder,
            env=home.environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            ended = "Ctrl-C ends it"
            eventually(lambda: ended in log.read_text() or process.poll() is not None, 240)
            assert ended in log.read_text(), log.read_text()
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.mark.timeout(PATIENCE + 400)
def test_codex_connected_by_our_command_gets_an_answer_from_a_real_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not CODEX.exists():
        pytest.skip("needs the Codex CLI: run scripts/install codex")
    if importlib.util.find_spec("xllamacpp") is None and shutil.which("llama-server") is None:
        pytest.skip("needs llama.cpp: pip install 'vivace[llamacpp]'")
    model = model_file("qwen2.5-coder-0.5b")
    home = CleanHome(tmp_path, "http://127.0.0.1:9")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    with up(home, model) as url:
        subprocess.run(
            home.command("connect", "codex", "--url", url, "--write", "--yes"),
            env=home.environment,
            capture_output=True,
            check=True,
        )
        began = time.perf_counter()
        ran = subprocess.run(
            [
                str(CODEX),
                *("--profile", "vivace", "exec", "--skip-git-repo-check", "--json"),
                "Say hello in one short sentence. Do not use any tools.",
            ],
            cwd=workspace,
            env=home.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        took = time.perf_counter() - began
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    transcript = Transcript(events)
    usage = next(event["usage"] for event in events if event["type"] == "turn.completed")
    with capsys.disabled():
        sys.stdout.write(f"\nCodex had its answer after {took:.0f} s: {usage}\n")
    assert any(answer.strip() for answer in transcript.answers), ran.stdout
