"""``vivace edit`` with a real small model: whatever it says, the file is never damaged."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.editing import SHOP
from tests.support.files import model_file
from tests.support.hub import CleanHome
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.alone


@pytest.fixture
def home(tmp_path: Path) -> CleanHome:
    return CleanHome(tmp_path, "http://127.0.0.1:9")


@pytest.fixture
def url(home: CleanHome) -> Iterator[str]:
    """A real ``vivace up``."""
    if importlib.util.find_spec("xllamacpp") is None and shutil.which("llama-server") is None:
        pytest.skip("needs llama.cpp: pip install 'vivace[llamacpp]'")
    model = model_file("qwen2.5-coder-0.5b")
    port, log = free_port(), home.folder / "up.log"
    options = ("--port", str(port), "--context", "4096", "--slots", "1")
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
            ready = "Ctrl-C ends it"
            eventually(lambda: ready in log.read_text() or process.poll() is not None, 240)
            assert ready in log.read_text(), log.read_text()
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.mark.timeout(600)
def test_a_real_model_edits_what_was_asked_or_nothing(home: CleanHome, url: str) -> None:
    project = home.folder / "project"
    project.mkdir()
    shop = project / "shop.py"
    shop.write_text(SHOP)
    ran = subprocess.run(
        home.command("edit", "--url", url, "shop.py", "--yes", "use a with statement in load()"),
        cwd=project,
        env=home.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "Traceback" not in ran.stderr, ran.stderr
    after = shop.read_text()
    if ran.returncode == 0:
        ast.parse(after)
        assert after != SHOP
        untouched = SHOP.index("def load")
        assert after[: after.index("def load")] == SHOP[:untouched]
    else:
        assert ran.returncode in (1, 3), ran.stderr
        assert after == SHOP
