"""Engines behind a link: all that the others must do, and links that break."""

from __future__ import annotations

import pytest

from tests.engines.linked import LinkedRig
from tests.engines.suite import EngineSuite, Rig
from tests.engines.test_scripted import ScriptedRig


class TestScriptedEngineOnANode(EngineSuite):
    @pytest.fixture
    def rig(self) -> Rig:
        return LinkedRig(ScriptedRig())
