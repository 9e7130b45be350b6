"""I9: in any t seconds a key gets at most limit · (1 + t/60) requests through, and one limit more
for each time that what counts for all gateways was lost."""

from __future__ import annotations

from collections import defaultdict
from math import ceil

from chaos.history import Lost
from chaos.invariants.found import Found
from chaos.story import Story

__all__ = ["limits"]

_MINUTE = 60.0
_SLACK = 1.0
"""Of a limit: what rounding may let through."""


def limits(story: Story) -> Found:
    """A turn is charged between its request and its ``created``: those whose both lie in a span
    of time were all charged in it."""
    struck = sum(fault.loses == "limits" for fault in story.faults)
    lost = sum(isinstance(entry, Lost) for entry in story.history)
    passed: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for life in story.lives.values():
        asked = story.creates.get(life.tag or "")
        if asked and asked.body.get("model") in story.started.limits and not life.succeeds:
            passed[life.owner, asked.body["model"]].append((asked.at, life.at))
    for (owner, model), spans in passed.items():
        limit = story.started.limits[model]
        # Each time that one gateway counts alone it gives out its share once more.
        more = max(struck * limit, lost * ceil(limit / story.started.gateways))
        for begin, _ in spans:
            inside = sorted(end for start, end in spans if start >= begin)
            for count, end in enumerate(inside, 1):
                if count > limit * (1 + (end - begin) / _MINUTE) + more + _SLACK:
                    seconds = f"{end - begin:.1f} seconds"
                    yield f"{owner} got {count} turns of {model} through in {seconds}", (owner,)
                    return
