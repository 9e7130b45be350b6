from __future__ import annotations

from pathlib import Path

import pytest

from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(root)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def journal(workspace: Workspace, state: Path) -> Journal:
    return Journal(workspace, state)
