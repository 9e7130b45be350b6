"""``/readyz`` and ``/metrics`` tell the truth about what runs beside the requests."""

from __future__ import annotations

import pytest

from tests.support.server import RunningGateway
from tests.support.waiting import eventually
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
