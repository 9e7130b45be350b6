"""Whether drafts from repeated text pay on this machine: measured once for each model."""

from __future__ import annotations

import json
from pathlib import Path

from vivace.cli.places import state_root
from vivace.client.connection import ClientError, open_connection

__all__ = ["COPIED", "gain_of", "measure", "remember", "worth_it"]

_LEAST = 1.1
_CODE = """def area(width: float, height: float) -> float:
    if width < 0 or height < 0:
        raise ValueError("a side cannot be negative")
    return width * height


def volume(width: float, height: float, depth: float) -> float:
    if depth < 0:
        raise ValueError("a depth cannot be negative")
    return area(width, height) * depth
"""
COPIED = f"Repeat this code exactly, and nothing else.\n```python\n{_CODE}```"


def worth_it(gain: float | None) -> bool:
    """Until it was measured, they are."""
    return gain is None or gain >= _LEAST


def gain_of(weights: Path) -> float | None:
    """How many times faster copied code was with drafts, when it was measured here."""
    return _gains().get(_name(weights))


def remember(weights: Path, gain: float) -> None:
    path = _path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**_gains(), _name(weights): gain}) + "\n", "utf-8")


async def measure(url: str, question: str, before: float) -> float | None:
    """The speed of copied code, in terms of that of ``question``, which was ``before`` tokens a
    second and is measured again: one of the two may have met a busy machine. None when it fails."""
    try:
        copied = await _speed(url, COPIED, 64)
        after = await _speed(url, question, 32)
    except ClientError:
        return None
    return copied / max(before, after) if copied else None


async def _speed(url: str, question: str, tokens: int) -> float:
    """In tokens a second; 0 of an answer that is too short to tell."""
    async with open_connection(url) as connection:
        body = {"max_output_tokens": tokens, "temperature": 0, "store": False}
        async for _ in connection.turn(input=question, **body):
            pass
        return connection.figures.tokens_per_second or 0.0


def _path() -> Path:
    return state_root() / "drafts.json"


def _name(weights: Path) -> str:
    return f"{weights.name}, {weights.stat().st_size} bytes"


def _gains() -> dict[str, float]:
    """What cannot be read was never measured."""
    try:
        gains: dict[str, float] = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return gains
