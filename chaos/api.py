"""Requests made from ``docs/openapi.json`` against a real gateway: ``scripts/fuzz --api``.

schemathesis makes them, right ones and wrong ones, and looks at every answer: no status that is
not documented, none of 500 and above, the documented form, no way around the key.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from msgspec import Struct
from tests.support.http import bearer
from tests.support.process import Serve

__all__ = ["Asked", "run"]

_DOCUMENT = Path(__file__).parents[1] / "docs" / "openapi.json"
_OWNER = "alice"
_SCRIPT = '[[replies]]\nthen = [{ do = "say", text = " word", times = 20 }]\n'
_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "ignored_auth",
    "use_after_free",
)
_ENDPOINTS = 10
"""That take anything which can be made in many ways."""
_SYSTEMATIC = 2000
"""Requests that it takes to try every field by itself, before any that are random."""


class Asked(Struct):
    seed: int
    requests: int = 0
    failures: int = 0
    words: str = ""
    """What schemathesis says of the failures."""
    faults: list[str] = []
    """What the gateway logged as errors."""

    @property
    def held(self) -> bool:
        return not self.failures and not self.faults

    def told(self) -> str:
        lines = [self.words] if self.failures else []
        lines += ["the gateway logged errors:", *self.faults[:20]] if self.faults else []
        lines.append(f"seed {self.seed}: {self.requests} requests, {self.failures} failures")
        return "\n".join(lines)


def run(folder: Path, *, requests: int, seed: int) -> Asked:
    """At least so many, in as many goes as it takes; the last one is the first that fails."""
    asked = Asked(seed)
    with Serve(folder, _SCRIPT, rate=20_000, owners=[_OWNER]) as server:
        go = 0
        while asked.requests < requests and not asked.failures:
            systematic = go == 0 and requests >= _SYSTEMATIC
            examples = max(1, (requests - asked.requests) // _ENDPOINTS)
            _go(asked, server, folder, seed + go, examples, systematic=systematic)
            go += 1
        asked.faults = server.faults
    return asked


def _go(
    asked: Asked, server: Serve, folder: Path, seed: int, examples: int, *, systematic: bool
) -> None:
    report = folder / "schemathesis.json"
    report.unlink(missing_ok=True)
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", str(_DOCUMENT), "--no-color"),
        *("--url", server.url.removesuffix("/v1"), "--checks", ",".join(_CHECKS)),
        *("--max-examples", str(examples), "--seed", str(seed), "--warnings", "off"),
        *("--phases", "coverage,fuzzing,stateful" if systematic else "fuzzing,stateful"),
        *("--generation-database", "none", "--report-json-path", str(report)),
        *(part for name, value in bearer(_OWNER).items() for part in ("-H", f"{name}: {value}")),
    ]
    root = str(_DOCUMENT.parents[1])
    hooks = {"SCHEMATHESIS_HOOKS": "chaos.api_hooks", "PYTHONPATH": root}
    made = subprocess.run(
        command, cwd=folder, env={**os.environ, **hooks}, capture_output=True, text=True
    )
    if not report.exists():
        raise RuntimeError(f"schemathesis did not run:\n{made.stdout}{made.stderr}")
    found = json.loads(report.read_text())
    asked.requests += found["test_cases"]["generated"]
    asked.failures += found["test_cases"]["unique_failures"] + len(found["errors"])
    if asked.failures:
        asked.words = made.stdout
