"""Has a gateway tell whenever it loses what all gateways count in: that may be for a moment, of
which it logs nothing, and lets more requests through all the same.

It gets there as its ``sitecustomize`` (``chaos.processes``), and writes to ``CHAOS_WITNESS``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from chaos.history import Lost
from vivace.counters.line import Line

__all__: list[str] = []

_lose = Line._lose  # noqa: SLF001 - nobody else knows


def _lost(self: Line, why: str) -> None:
    told = msgspec.json.encode(Lost(time.monotonic(), f"p{os.getpid()}"))
    with Path(os.environ["CHAOS_WITNESS"]).open("ab") as file:
        file.write(told + b"\n")
    _lose(self, why)


Line._lose = _lost  # type: ignore[method-assign]  # noqa: SLF001
