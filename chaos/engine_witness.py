"""What scripted engines do, told by themselves: for whom they work, what they are shown, when they
stop. A gateway that imports this writes it to the file that ``CHAOS_WITNESS`` names.

It gets there as its ``sitecustomize`` (``chaos.processes``), so that what is served is what ships.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator

import msgspec

from chaos.history import Worked
from vivace.conversation.deltas import Delta
from vivace.engines.base import Work
from vivace.engines.scripted import Recite, ScriptedEngine, _shown

__all__: list[str] = []

_generate = ScriptedEngine.generate
_incarnation = f"p{os.getpid()}"
_file = os.open(os.environ["CHAOS_WITNESS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _tell(worked: Worked) -> None:
    os.write(_file, msgspec.json.encode(worked) + b"\n")


async def _watched(engine: ScriptedEngine, work: Work) -> AsyncGenerator[Delta, None]:
    shown = tuple(Recite.text(_shown(work)).split()[1:])
    said = getattr(work, "said", None)
    text = "" if said is None else said.text
    place = engine.name, _incarnation, work.id
    _tell(Worked(time.monotonic(), *place, "began", work.attempt, shown, text))
    answer = _generate(engine, work)
    try:
        async for delta in answer:
            yield delta
    finally:
        await answer.aclose()
        _tell(Worked(time.monotonic(), *place, "stopped", work.attempt))


ScriptedEngine.generate = _watched  # type: ignore[assignment, method-assign]
