from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import Serve

Serving = Callable[..., Serve]
"""Takes what ``Serve`` takes after its folder; all of one test share the folder, and the store."""

SCRIPT = """
[[replies]]
when = "endless"
then = [{ do = "say", text = " word", times = 10000000 }]
[[replies]]
when = "long"
then = [{ do = "say", text = " word", times = 400 }]
[[replies]]
when = "stall"
then = [{ do = "say", text = "begin" }, { do = "stall", seconds = 3600 }]
[[replies]]
when = "fail"
then = [{ do = "say", text = "begin" }, { do = "fail" }]
[[replies]]
when = "call"
then = [{ do = "call", name = "look", text = "{}" }]
"""
"""What the engine plays unless a test brings its own; anything else gets one short sentence."""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serving]:
    with ExitStack() as running:

        def start(script: str = SCRIPT, **settings: Any) -> Serve:
            return running.enter_context(Serve(tmp_path, script, **settings))

        yield start
