"""A language server whose completions and rules are read from scripts: ``python -m
tests.lsp.scripted``."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vivace.completion.neighbours import Neighbour
from vivace.desk.completing import Suggestion
from vivace.findings.rule import read_rules
from vivace.findings.rule_set import RuleSet
from vivace.logs import log_without_code
from vivace.lsp.address import Address
from vivace.lsp.documents import Document
from vivace.lsp.server import Server, serve


@dataclass(frozen=True)
class Line:
    behind: str
    """What stands before the cursor."""
    text: str
    covers: int = 0
    after: float = 0.0
    status: str = ""
    fails: bool = False


class Scripted:
    def __init__(self, script: list[Line]) -> None:
        self.status = ""
        self.reachable = True
        self.neighbours: list[str] = []
        self._script = script
        self._newest = 0

    def beside(self, neighbours: Sequence[Neighbour]) -> None:
        self.neighbours = [f"{each.path}: {each.text[: each.offset]}|" for each in neighbours]

    async def at(self, text: str, offset: int) -> Suggestion | None:
        self._newest += 1
        mine = self._newest
        for line in self._script:
            if text[:offset].endswith(line.behind):
                for _ in range(int(line.after * 100)):
                    await asyncio.sleep(0.01)
                    if mine != self._newest:
                        return None
                if line.fails:
                    raise ValueError(text)
                self.status = line.status
                shown = line.text.format(neighbours=", ".join(self.neighbours))
                return Suggestion(shown, offset, offset + line.covers) if shown else None
        return None

    def warm(self, text: str, offset: int) -> None:
        """There is nothing to read ahead."""

    async def close(self) -> None:
        self._newest += 1


def main() -> None:
    log_without_code(logging.DEBUG)
    script = [Line(**each) for each in json.loads(os.environ["SCRIPT"])]

    def completer(document: Document) -> Scripted:
        return Scripted(script)

    def rules(*_: object) -> RuleSet:
        return RuleSet.of(read_rules(os.environ["RULES"], "RULES"))

    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    address = Address(os.environ.get("VIVACE_URL", "http://127.0.0.1:9/v1"))
    server = Server(address, Path(os.environ["STATE"]), completer, rules)
    asyncio.run(serve(server, stdin, stdout))


if __name__ == "__main__":
    main()
