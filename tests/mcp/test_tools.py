"""The tools' schemas and words as they go over the wire: agents depend on every one of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from mcp_types import Tool

from vivace.mcp.server import offered

SCHEMAS = Path(__file__).parent / "schemas"


@pytest.mark.parametrize("tool", offered(), ids=lambda tool: tool.name)
def test_a_tool_is_what_it_was(tool: Tool) -> None:
    """To change one on purpose: VIVACE_WRITE_SCHEMAS=1 pytest tests/mcp/test_tools.py"""
    said = tool.model_dump(by_alias=True, mode="json", exclude_none=True)
    kept = SCHEMAS / f"{said['name']}.json"
    if os.environ.get("VIVACE_WRITE_SCHEMAS"):
        kept.write_text(json.dumps(said, indent=2) + "\n")
    assert said == json.loads(kept.read_text())


def test_no_schema_is_left_of_a_tool_that_is_gone() -> None:
    assert {path.stem for path in SCHEMAS.iterdir()} == {tool.name for tool in offered()}
