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

from tests.support.waiting import eventually_async
from vivace.completion.neighbours import Neighbour
from vivace.desk.completing import Suggestion
from vivace.findings.rule import read_rules
from vivace.findings.rule_set import RuleSet
from vivace.logs import log_without_code
from vivace.lsp.address import Address
from vivace.lsp.documents import Document
from vivace.lsp.server import Server, serve

NOWHERE = "http://127.0.0.1:9/v1"
"""An address at which nothing answers."""


@dataclass(frozen=True)
class Line:
    behind: str
    """What stands before the cursor."""
    text: str
    covers: int = 0
    turns: int = 0
    """Turns of the event loop before the answer."""
    gate: str = ""
    """A file without its ending: ``.begun`` is made at the question, and the answer comes when
    there is ``.open`` or a newer question."""
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
                if line.gate:
                    await self._wait_at(line.gate, mine)
                for _ in range(line.turns):
                    await asyncio.sleep(0)
                if mine != self._newest:
                    return None
                if line.fails:
                    raise ValueError(text)
                self.status = line.status
                shown = line.text.format(neighbours=", ".join(self.neighbours))
                return Suggestion(shown, offset, offset + line.covers) if shown else None
        return None

    async def _wait_at(self, gate: str, mine: int) -> None:
        Path(f"{gate}.begun").touch()
        is_open = Path(f"{gate}.open").exists
        await eventually_async(lambda: mine != self._newest or is_open())

    def warm(self, text: str, offset: int) -> None:
        """There is nothing to read ahead."""

    async def close(self) -> None:
        self._newest += 1


def make_server(script: list[Line], rules: str, address: Address, state: Path) -> Server:
    def completer(document: Document) -> Scripted:
        return Scripted(script)

    def load(*_: object) -> RuleSet:
        return RuleSet.of(read_rules(rules, "RULES"))

    return Server(address, state, completer, load)


def main() -> None:
    log_without_code(logging.DEBUG)
    script = [Line(**each) for each in json.loads(os.environ["SCRIPT"])]
    address = Address(os.environ.get("VIVACE_URL", NOWHERE))
    server = make_server(script, os.environ.get("RULES", ""), address, Path(os.environ["STATE"]))
    asyncio.run(serve(server, sys.stdin.buffer, sys.stdout.buffer))


if __name__ == "__main__":
    main()
