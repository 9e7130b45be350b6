"""Whether this machine runs on its battery, as far as the system tells."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["Battery"]

_SUPPLIES = Path("/sys/class/power_supply")  # Linux, and Windows' WSL
_EVERY_S = 30.0


class Battery:
    """Asked at every key, it looks only now and then."""

    def __init__(
        self, supplies: Path = _SUPPLIES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._supplies = supplies
        self._clock = clock
        self._looked = float("-inf")
        self._in_use = False

    @property
    def in_use(self) -> bool:
        """False where nobody knows."""
        if self._clock() - self._looked >= _EVERY_S:
            self._looked = self._clock()
            self._in_use = self._is_drained()
        return self._in_use

    def _is_drained(self) -> bool:
        """Some battery is, and not only a mouse's; a full one on the mains says something else."""
        try:
            supplies = list(self._supplies.iterdir())
        except OSError:
            return False
        return any(
            _read(each / "type") == "Battery"
            and _read(each / "scope") != "Device"
            and _read(each / "status") == "Discharging"
            for each in supplies
        )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
