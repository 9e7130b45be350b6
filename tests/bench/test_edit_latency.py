"""The same task by every way in turn, timed up to the applied edit."""

from __future__ import annotations

import asyncio

from bench._edit_engine import Endpoint
from bench.edit_latency import measure

from tests.bench.edit_runs.cache_task import BOUNDARY, RENAME
from tests.support.server import MODEL, RunningGateway
from vivace.engines.scripted import Reply, Say


def test_edits_are_timed_at_the_desk_and_plainly(gateway: RunningGateway) -> None:
    rewritten = Reply(when=r"\Attl_cache.py:", then=(Say(f"```python\n{BOUNDARY.reference}```"),))
    gateway.engine.play([rewritten, Reply(then=(Say("no idea"),))])
    endpoint = Endpoint(gateway.url.removesuffix("/v1"), MODEL)
    found = asyncio.run(measure(endpoint, [BOUNDARY], ["rewrite", "vivace"], 1))
    [plain], [ours] = found["rewrite"], found["vivace"]
    assert plain.right
    assert plain.first_hunk is not None
    assert 0 < plain.first_hunk <= plain.ended
    assert not ours.applied
    assert ours.steps > 0


def test_edits_that_need_no_model_are_left_out(gateway: RunningGateway) -> None:
    endpoint = Endpoint(gateway.url.removesuffix("/v1"), MODEL)
    found = asyncio.run(measure(endpoint, [RENAME], ["rewrite", "vivace"], 1))
    assert found == {"rewrite": [], "vivace": []}
