"""The clock of a gateway, which can be set while it runs: by libfaketime, if that is installed."""

from __future__ import annotations

from pathlib import Path

__all__ = ["Clock", "library"]

_PLACES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib/faketime/libfaketimeMT.so.1")


def library() -> Path | None:
    found = (path for place in _PLACES for path in Path("/").glob(place.lstrip("/")))
    return next(found, None)


class Clock:
    """Only what time it is: how long something takes is counted as ever."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.set(0)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": "0.1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: float) -> None:
        """So much before or behind the others."""
        beside = self._path.with_suffix(".new")
        beside.write_text(f"{seconds:+g}")
        beside.replace(self._path)
