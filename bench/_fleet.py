"""A fleet for a benchmark: PostgreSQL, engine nodes and gateways, each in processes of its own.

The engines are scripted ones, and write down when they begin and end to work on a turn, by a clock
that all processes of a machine share (``chaos.engine_witness``). What is served is what ships.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.history import Worked, load
from chaos.processes import custom_site
from tests.support.nodes import KEYED, EngineProcess
from tests.support.postgres import Postgres
from tests.support.process import Serve

ENGINE = "coder"
"""What each node calls its engine: at gateways it is ``coder@NODE``."""
GATEWAYS = 2
_PATIENCE = 120
"""Seconds in which a process must be ready, on a machine that has other work, too."""


@dataclass(frozen=True)
class Span:
    """An engine's work on a turn, by ``time.monotonic``."""

    node: str
    began: float
    ended: float


class Fleet:
    """``with ExitStack() as stack: fleet = Fleet(stack, ...)``: the nodes, then two gateways."""

    def __init__(
        self,
        stack: ExitStack,
        nodes: Sequence[str],
        script: str,
        *,
        engine: Mapping[str, object],
        tables: Mapping[str, Any],
        owners: Sequence[str] = (),
        valkey: str | None = None,
    ) -> None:
        """``engine`` adds to each node's engine, ``tables`` to the gateways' configuration."""
        self._stack = stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self._owners = owners
        postgres = Postgres()
        stack.callback(postgres.stop)
        self._nodes = [self._node(name, script, engine) for name in nodes]
        for node in self._nodes:
            stack.enter_context(node)
        fleet: dict[str, object] = {"engines": [node.url for node in self._nodes]}
        if valkey is not None:
            fleet["valkey"] = valkey
        self._tables = {
            "engines": [],
            "store": {"url": postgres.database()},
            "fleet": fleet,
            **tables,
        }
        self.gateways = [self._gateway(number) for number in range(GATEWAYS)]
        for gateway in self.gateways:
            self._enter(gateway)

    def _place(self, name: str) -> Path:
        # vivace: ignore[python-path-from-parameter] a name of the benchmark
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def _node(self, name: str, script: str, engine: Mapping[str, object]) -> EngineProcess:
        place = self._place(name)
        witness = {"CHAOS_WITNESS": str(self._witness(name))}
        return EngineProcess(
            self._folder,
            name,
            script,
            engine={"name": ENGINE, **engine},
            environment=custom_site(place, "chaos.engine_witness") | witness,
            patience=_PATIENCE,
        )

    def _witness(self, node: str) -> Path:
        return self._place(node) / "work.jsonl"

    # -- gateways ---------------------------------------------------------------------------------

    def _gateway(self, number: int, port: int | None = None) -> Serve:
        return Serve(
            self._place(f"gateway-{number}"),
            owners=self._owners,
            tables=self._tables,
            environment=KEYED,
            patience=_PATIENCE,
            port=port,
        )

    def _enter(self, gateway: Serve) -> None:
        """Returns when it knows all nodes."""
        self._stack.enter_context(gateway)
        owner = self._owners[0] if self._owners else None
        deadline = time.monotonic() + _PATIENCE
        while gateway.metric("vivace_engine_up", owner) < len(self._nodes):
            assert time.monotonic() < deadline, f"a node is missing:\n{gateway.log}"
            time.sleep(0.1)

    def kill(self, number: int) -> float:
        """As ``kill -9``; returns when it was, by ``time.monotonic``."""
        process = self.gateways[number].process
        killed = time.monotonic()
        process.kill()
        process.wait()
        return killed

    def replace(self, number: int) -> None:
        """Another one at the address of one that was killed."""
        self.gateways[number] = self._gateway(number, self.gateways[number].port)
        self._enter(self.gateways[number])

    @property
    def losses(self) -> int:
        """How often gateways could not count together any more."""
        owner = self._owners[0] if self._owners else None
        return int(sum(each.metric("vivace_limits_losses_total", owner) for each in self.gateways))

    # -- engines ----------------------------------------------------------------------------------

    def worked(self) -> dict[str, list[Span]]:
        """What was done for each response, by its id, once all that was begun has ended."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            spans: dict[str, list[Span]] = defaultdict(list)
            goes_on = [node.name for node in self._nodes if not self._read(node.name, spans)]
            if not goes_on:
                return spans
            assert time.monotonic() < deadline, f"engines work on: {goes_on}"
            time.sleep(0.1)

    def _read(self, node: str, spans: dict[str, list[Span]]) -> bool:
        """Whether all has ended there."""
        began: dict[tuple[str, int], float] = {}
        witness = self._witness(node)
        for entry in load(witness) if witness.exists() else ():
            assert isinstance(entry, Worked)
            work = entry.response, entry.attempt
            if entry.what == "began":
                began[work] = entry.at
            else:
                spans[entry.response].append(Span(node, began.pop(work), entry.at))
        return not began
