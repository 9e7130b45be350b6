"""One seed: machines, clients and what befalls them, and the history that this makes."""

from __future__ import annotations

import asyncio
import logging
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chaos.history import Calm, Entry, Note, Printed, Started, Struck, created_in
from chaos.simulation.clients import Background, Client
from chaos.simulation.gateway import Machine, configured
from chaos.simulation.loop import VirtualLoop, in_life
from chaos.simulation.store import Database
from chaos.simulation.talker import Talker
from chaos.simulation.world import surroundings

__all__ = ["play"]

_OWNERS = ("alice", "bob")
_LONGEST = 90.0
"""Seconds of made-up time after which all must be calm."""
_SETTLING = 15
"""Seconds in which those that nobody comes back for must have ended."""
_SHARED = Path("/dev/shm")


def play(seed: str) -> list[Entry]:
    """What this seed makes happen; the same, byte for byte, whenever it is asked."""
    history: list[Entry] = []
    database = Database()
    loop = VirtualLoop()
    folder = Path(tempfile.mkdtemp(prefix="vivace-", dir=_SHARED if _SHARED.is_dir() else None))
    asyncio.set_event_loop(loop)
    try:
        with surroundings(loop, seed), _heard() as words:
            try:
                loop.run_until_complete(_Play(seed, history, loop, database, folder).run())
                history.append(Printed(loop.time(), "gateways", "\n".join(words)))
            finally:
                loop.close()
    finally:
        asyncio.set_event_loop(None)
        shutil.rmtree(folder)
    return history


class _Play:
    def __init__(
        self,
        seed: str,
        history: list[Entry],
        loop: VirtualLoop,
        database: Database,
        folder: Path,
    ) -> None:
        self._dice = dice = random.Random(seed)
        self._history = history
        self._note: Note = history.append
        self._loop = loop
        self._database = database
        pair = dice.random() < 0.5
        config = configured(shared=pair, rate=dice.choice([8, 20]), burst=dice.choice([1, 3]))
        places = ["a", "b"] if pair else ["a"]
        self._faults = [self._crash, self._crash, self._kill_engine, self._freeze]
        if pair:
            self._faults += [self._isolate, self._ghost, self._lose_store]
        self._machines = [
            Machine(name, config, self._database, None if pair else folder, self._note, dice, loop)
            for name in places
        ]

    async def run(self) -> None:
        self._note(Started(self._loop.time()))
        for machine in self._machines:
            await machine.start()
        clients = self._clients()
        tasks = [
            self._loop.create_task(client.run(self._dice.randint(1, 2)), context=in_life(None))
            for client in clients
        ]
        troubles = self._loop.create_task(self._trouble(), context=in_life(None))
        async with asyncio.timeout(_LONGEST):
            await asyncio.gather(*tasks)
            await troubles
            await self._calm()
        await self._look(clients)

    def _clients(self) -> list[Client]:
        kinds: list[type[Client]] = [Talker, Background, Talker]
        made = []
        for number, kind in enumerate(kinds):
            owner = _OWNERS[number % 2]
            made.append(kind(self._note, self._machines, owner, f"{owner}{number}", self._dice))
        return made

    # -- what befalls them ------------------------------------------------------------------------

    async def _trouble(self) -> None:
        for _ in range(self._dice.choice([0, 1, 1, 2, 3])):
            await asyncio.sleep(self._dice.uniform(0.1, 1.5))
            machine = self._dice.choice(self._machines)
            await self._dice.choice(self._faults)(machine)

    async def _crash(self, machine: Machine) -> None:
        """Somewhere in what it is about to do; it is started again."""
        life = machine.life
        if not machine.up or life is None:
            return
        if self._dice.random() < 0.5:
            life.writes = self._dice.randint(1, 10)
        else:
            life.fuse = self._dice.randint(1, 300)
        for _ in range(40):
            if life.over:
                break
            await asyncio.sleep(0.05)
        life.end()
        if self._dice.random() < 0.2:  # again, while it comes back
            while (next_ := machine.life) is life:
                await asyncio.sleep(0.01)
            assert next_ is not None
            next_.fuse = self._dice.randint(1, 100)

    async def _kill_engine(self, machine: Machine) -> None:
        engines, life = machine.engines, machine.life
        engine = self._dice.choice(engines)
        begin = self._loop.time()
        if life is not None and not life.over:
            in_life(life).run(engine.die, "The engine was killed.")
        await asyncio.sleep(self._dice.uniform(0.1, 2))
        if life is not None and not life.over:
            self._loop.create_task(engine.start(), context=in_life(life))
        self._note(Struck(begin, self._loop.time(), "kill-engine", machine.name))

    async def _freeze(self, machine: Machine) -> None:
        await self._frozen(machine, self._dice.uniform(0.1, 2))

    async def _isolate(self, machine: Machine) -> None:
        """Nobody reaches it, and it stands still until another takes it for dead; it only comes to
        itself to write what it has to, and dies."""
        life, begin = machine.life, self._loop.time()
        if life is None or life.over or not machine.up:
            return
        machine.isolate()
        await self._frozen(machine, self._dice.uniform(4, 6.5))
        self._note(Struck(begin, self._loop.time(), "isolate-gateway", machine.name))
        await asyncio.sleep(self._dice.uniform(0.1, 3))
        life.end()

    async def _ghost(self, machine: Machine) -> None:
        """It stands still until another takes it for dead, and goes on as if nothing had been, with
        the clients that it had."""
        await self._frozen(machine, self._dice.uniform(4, 6.5))

    async def _frozen(self, machine: Machine, seconds: float) -> None:
        life, begin = machine.life, self._loop.time()
        if life is not None and not life.over:
            life.frozen = True
            await asyncio.sleep(seconds)
            self._loop.thaw(life)
            self._note(Struck(begin, self._loop.time(), "freeze-gateway", machine.name))

    async def _lose_store(self, machine: Machine) -> None:
        begin = self._loop.time()
        self._database.away = True
        await asyncio.sleep(self._dice.uniform(0.1, 2))
        self._database.away = False
        await asyncio.sleep(1)
        self._note(Struck(begin, self._loop.time(), "lose-store", "store"))

    # -- its end ----------------------------------------------------------------------------------

    async def _calm(self) -> None:
        """When everybody had time to find out, and nothing is under way."""
        for machine in self._machines:
            while not machine.up:
                if machine.life is not None:
                    machine.life.fuse = 0
                await asyncio.sleep(0.1)
            assert machine.life is not None
            machine.life.fuse = 0
        for _ in range(_SETTLING):
            await asyncio.sleep(1)
            if not self._database.open_turns() and not any(self._figures().values()):
                break
        await asyncio.sleep(1)
        living = tuple(machine.holder for machine in self._machines)
        self._note(Calm(self._loop.time(), self._figures(), living))

    def _figures(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        for machine in self._machines:
            figures |= machine.figures()
        return figures

    async def _look(self, clients: Sequence[Client]) -> None:
        asking = {client.owner: client for client in clients}
        for name, owner in created_in(self._history).items():
            client = asking[owner]
            for machine in self._machines:
                await client.call("GET", f"/v1/responses/{name}", at=machine)
        for table in self._database.tables(self._loop.time()):
            self._note(table)


class _Listener(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.INFO)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@contextmanager
def _heard() -> Iterator[list[str]]:
    """What gateways log inside the block, which nobody else gets to see."""
    lines: list[str] = []
    logger, listener = logging.getLogger("vivace"), _Listener(lines)
    before = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(listener)
    try:
        yield lines
    finally:
        logger.removeHandler(listener)
        logger.level, logger.propagate = before
