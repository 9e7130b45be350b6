"""docs/reference and docs/openapi.json: written from the code, so that they cannot go stale.

They are committed, so that a reviewer sees them change; ``scripts/check`` says when they did not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.references import api, commands, configuration, errors, metrics, openapi, websocket

ROOT = Path(__file__).parents[1]

REFERENCES: Mapping[str, Callable[[], str]] = {
    "docs/openapi.json": openapi.text,
    "docs/reference/configuration.md": configuration.text,
    "docs/reference/vivace.toml": configuration.example,
    "docs/reference/vivace.schema.json": configuration.schema_text,
    "docs/reference/commands.md": commands.text,
    "docs/reference/errors.md": errors.text,
    "docs/reference/api.md": api.text,
    "docs/reference/websocket.md": websocket.text,
    "docs/reference/metrics.md": metrics.text,
}
"""Each file, and what it has to say."""


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: scripts/reference [--check]", file=sys.stderr)
        return 2
    stale = [name for name, text in REFERENCES.items() if _read(root / name) != text()]
    for name in stale:
        if arguments:
            print(f"{name} is not what the code says: run scripts/reference", file=sys.stderr)
        else:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(REFERENCES[name](), "utf-8")
            print(f"{name} is written anew")
    return 1 if stale and arguments else 0


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
