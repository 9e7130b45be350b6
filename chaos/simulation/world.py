"""What a gateway takes from its surroundings, given to it by the seed: the time, ids, and none of
what takes real time."""

from __future__ import annotations

import gc
import random
import secrets
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from chaos.simulation.loop import VirtualLoop
from vivace.gateway import app

__all__ = ["surroundings"]

_EPOCH = 1_700_000_000
"""When it is, for those who ask for the date."""


@contextmanager
def surroundings(loop: VirtualLoop, seed: str) -> Iterator[None]:
    """Inside the block this process has the loop's time, and ids that the seed repeats."""
    ids = random.Random(f"ids of {seed}")
    clock = loop.time

    def date() -> float:
        return _EPOCH + clock()

    given: list[tuple[Any, str, Any]] = [
        (time, "monotonic", clock),
        (time, "perf_counter", clock),
        (time, "time", date),
        (time, "time_ns", lambda: int(date() * 1e9)),
        (secrets, "token_hex", lambda count=32: ids.randbytes(count).hex()),
        (uuid, "uuid4", lambda: uuid.UUID(int=ids.getrandbits(128), version=4)),
        (app, "gc", SimpleNamespace(collect=int, freeze=int)),
    ]
    taken = [(place, name, getattr(place, name)) for place, name, _ in given]
    collects = gc.isenabled()
    gc.disable()  # when something is collected is not the seed's
    try:
        for place, name, value in given:
            setattr(place, name, value)
        yield
    finally:
        for place, name, value in taken:
            setattr(place, name, value)
        if collects:
            gc.enable()
