"""What is left of a client's limits, in the forms in which clients show it.

Everyone gets headers. Codex gets its own beside them, and over a WebSocket, which has none, events.
Of each tier it is told under the tier's name and not under ``codex``: what stands there it takes
for a plan that someone pays for, warns of at three quarters, and advises another model at nine
tenths. Limits here are of a minute, and give back all of it within one. So of a tier that is itself
called ``codex`` it is told nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from vivace.protocol.events import CodexEvent, CodexMetadata, CodexRateLimits, CodexWindow
from vivace.scheduling.limits import Window, headers

__all__ = ["Shown", "for_codex", "for_everyone"]

_ETAG = "x-models-etag"
_PLAN = "codex"
_NO_WORD = re.compile(r"[^a-z0-9]+")


class Shown(Struct, frozen=True):
    headers: dict[str, str]
    events: Sequence[CodexEvent] = ()


def for_everyone(windows: Sequence[Window]) -> Shown:
    return Shown(headers(windows))


def for_codex(tier: str, windows: Sequence[Window], etag: str, now: int) -> Shown:
    """``etag``: of the models, so that Codex asks for them again when they are others."""
    rates = {
        place: CodexWindow(
            used_percent=round(window.used * 100, 1),
            window_minutes=1,
            reset_at=now + round(window.seconds),
        )
        for place, window in zip(("primary", "secondary"), windows, strict=False)
    }
    told = {_ETAG: etag}
    events: list[CodexEvent] = [CodexMetadata(headers=dict(told))]
    word = _NO_WORD.sub("-", tier.lower()).strip("-")
    if rates and word != _PLAN:
        events.append(CodexRateLimits(limit_name=tier, rate_limits=rates))
        told |= _rate_headers(f"x-{word}", tier, rates)
    return Shown(headers(windows) | told, events)


def _rate_headers(family: str, tier: str, rates: dict[str, CodexWindow]) -> dict[str, str]:
    told = {f"{family}-limit-name": tier}
    for place, window in rates.items():
        told[f"{family}-{place}-used-percent"] = str(window.used_percent)
        told[f"{family}-{place}-window-minutes"] = str(window.window_minutes)
        told[f"{family}-{place}-reset-at"] = str(window.reset_at)
    return told
