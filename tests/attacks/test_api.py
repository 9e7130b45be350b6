"""A few hundred requests of ``scripts/fuzz --api``: every answer is a documented one."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("schemathesis", reason="not installed; run scripts/install")

from chaos import api


def test_every_answer_is_documented_and_none_is_a_fault(tmp_path: Path) -> None:
    asked = api.run(tmp_path, requests=300, seed=14)
    assert asked.held, asked.told()
    assert asked.requests >= 300
