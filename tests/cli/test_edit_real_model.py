"""``vivace edit`` with a real small model: whatever it says, the file is never damaged."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests.support.editing import SHOP
from tests.support.hub import CleanHome
from tests.support.up import SAID_ALL, Up, real_model

pytestmark = [pytest.mark.release, pytest.mark.alone, pytest.mark.timeout(1800)]


def test_edit_by_a_real_model_is_what_was_asked_or_nothing(tmp_path: Path) -> None:
    home = CleanHome(tmp_path, "http://127.0.0.1:9")
    project = home.folder / "project"
    project.mkdir()
    shop = project / "shop.py"
    shop.write_text(SHOP)
    options = ("--context", "4096", "--slots", "1", "--no-drafts")
    with Up(home, "--model", str(real_model()), *options) as up:
        up.says(SAID_ALL)
        asked = ("shop.py", "--yes", "use a with statement in load()")
        ran = subprocess.run(
            home.command("edit", "--url", up.url, *asked),
            cwd=project,
            env=home.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
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
