"""Where something of a turn goes on record, and how a gateway is told to die there.

Who wants it to leaves a file in its folder; the gateway's hooks (``chaos.point_hooks``) look for it
whenever they come to a point, and leave another one as they die. What ships knows of none of this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

__all__ = ["Armed", "Met", "arm", "armed_in", "disarm", "met_in", "tell_met"]

_ARMED, _MET = "armed.json", "met.json"


class Armed(Struct, frozen=True):
    point: str
    when: Literal["before", "after"]
    """It is on record."""
    act: Literal["die", "lose"] = "die"
    """Dies, or says that it failed."""
    skip: int = 0
    """How many times it comes to the point unharmed."""


class Met(Struct, frozen=True):
    at: float
    about: str
    """The response."""


def arm(folder: Path, armed: Armed) -> None:
    (folder / _MET).unlink(missing_ok=True)
    _write(folder / _ARMED, armed)


def disarm(folder: Path) -> None:
    (folder / _ARMED).unlink(missing_ok=True)


def armed_in(folder: Path) -> Armed | None:
    try:
        return msgspec.json.decode((folder / _ARMED).read_bytes(), type=Armed)
    except FileNotFoundError:
        return None


def tell_met(folder: Path, met: Met) -> None:
    """From now on nobody is in danger there."""
    disarm(folder)
    _write(folder / _MET, met)


def met_in(folder: Path) -> Met | None:
    path = folder / _MET
    return msgspec.json.decode(path.read_bytes(), type=Met) if path.exists() else None


def _write(path: Path, value: Struct) -> None:
    """All of it at once, for whoever looks meanwhile."""
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(value))
    beside.replace(path)
