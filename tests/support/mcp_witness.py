"""An MCP server without tools that notes in a file that it was started: ``mcp_witness.py FILE``."""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    Path(sys.argv[1]).write_text("started")
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        version = asked.get("params", {}).get("protocolVersion", "2025-06-18")
        known = {
            "initialize": {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "witness", "version": "0"},
            },
            "tools/list": {"tools": []},
        }
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": known.get(asked["method"], {})}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
