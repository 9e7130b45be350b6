"""The real opencode CLI, kept from every host but the gateway under test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.files import ROOT

_PROGRAM = ROOT / "tests/clients/node_modules/opencode-linux-x64/bin/opencode"

# What would reach for the network; the catalogue of models is that of its making.
QUIET = {
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}


def program() -> Path:
    if not _PROGRAM.exists():
        pytest.skip("needs opencode, on Linux with an x64 processor: run scripts/install agents")
    return _PROGRAM
