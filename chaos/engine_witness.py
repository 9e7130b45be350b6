"""What engines do, told where a gateway has them begin and stop: for whom, and what they are shown.
A gateway that imports this writes it to the file that ``CHAOS_WITNESS`` names.

It gets there as its ``sitecustomize`` (``chaos.processes``), so that what is served is what ships.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec

from chaos.history import Worked
from vivace.conversation.deltas import Delta
from vivace.engines.base import Engine, Work
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.engines.scripted import Recite, ScriptedEngine, _shown

__all__: list[str] = []

_incarnation = f"p{os.getpid()}"
_file = os.open(os.environ["CHAOS_WITNESS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _tell(worked: Worked) -> None:
    os.write(_file, msgspec.json.encode(worked) + b"\n")


def _watched(
    generate: Callable[[Any, Work], AsyncGenerator[Delta, None]],
) -> Callable[[Engine, Work], AsyncGenerator[Delta, None]]:
    async def watched(engine: Engine, work: Work) -> AsyncGenerator[Delta, None]:
        shown = tuple(Recite.text(_shown(work)).split()[1:])
        text = "" if work.said is None else work.said.text
        place = engine.name, _incarnation, work.id
        _tell(Worked(time.monotonic(), *place, "began", work.attempt, shown, text, work.generate))
        try:
            answer = generate(engine, work)
            try:
                async for delta in answer:
                    yield delta
            finally:
                await answer.aclose()
        finally:
            _tell(Worked(time.monotonic(), *place, "stopped", work.attempt))

    return watched


for _kind in (ScriptedEngine, LlamaCppEngine):
    _kind.generate = _watched(_kind.generate)  # type: ignore[assignment, method-assign]
