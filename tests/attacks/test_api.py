"""Requests of ``scripts/fuzz --api``: every answer is a documented one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("schemathesis", reason="not installed; run scripts/install")

from chaos import api


@pytest.mark.parametrize("requests", [10, pytest.param(300, marks=pytest.mark.release)])
def test_every_answer_is_documented_and_none_is_a_fault(tmp_path: Path, requests: int) -> None:
    asked = api.run(tmp_path, requests=requests, seed=14)
    assert asked.held, asked.told()
    assert asked.requests >= requests
