"""The real Claude Code CLI and a real model, brought together by our own command."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.claude_code import environment, program
from tests.support.files import model_file
from tests.support.process import Serve
from vivace.cli.connect import connect

pytestmark = [pytest.mark.release, pytest.mark.alone]

MODEL = "qwen2.5-coder-0.5b"
PATIENCE = 300
"""Seconds for the answer on a machine that is small and busy."""

# Without these it begins with about 12,000 tokens, which a small machine reads for minutes.
SHORT = ("--tools", "", "--system-prompt", "You are a kind assistant. Answer in one sentence.")


@pytest.mark.timeout(PATIENCE + 200)
def test_claude_code_connected_by_our_command_gets_an_answer_from_a_real_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if importlib.util.find_spec("xllamacpp") is None and shutil.which("llama-server") is None:
        pytest.skip("needs llama.cpp: pip install 'vivace[llamacpp]'")
    claude, model = program(), model_file(MODEL)
    engine = {"name": "local", "kind": "llamacpp", "model": MODEL, "path": str(model)}
    variables = environment(tmp_path)
    with Serve(tmp_path, engine=engine | {"context": 16_384, "slots": 1}, patience=120) as server:
        done = CliRunner(env={**variables, "CLAUDE_CONFIG_DIR": None}).invoke(
            connect, ["claude", "--url", server.url, "--write", "--yes"]
        )
        assert done.exception is None, done.output
        settings = tmp_path / ".claude/vivace.json"
        began = time.perf_counter()
        ran = subprocess.run(
            [claude, "--settings", settings, "-p", "Say hello.", *SHORT, "--output-format", "json"],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        took = time.perf_counter() - began
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    told = json.loads(ran.stdout)
    with capsys.disabled():
        sys.stdout.write(f"\nClaude Code had its answer after {took:.0f} s: {told['result']!r}\n")
    assert told["result"].strip()
    assert 0 < told["usage"]["output_tokens"] < 500
