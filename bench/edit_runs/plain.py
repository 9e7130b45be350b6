"""The plain prompts: one try, with the old text as the draft, and the answer at its word."""

from __future__ import annotations

from bench._edit_arms import PLAIN, room
from bench._edit_engine import Endpoint, TooLong
from bench.edit_runs.results import Done
from bench.edit_runs.tasks import Task
from bench.edit_sets.syntax import Span

__all__ = ["plainly"]


def plainly(task: Task, arm: str, endpoint: Endpoint) -> Done:
    trying = PLAIN[arm](task)
    regions = None if trying.region is None else (Span(*trying.region),)
    try:
        reply = endpoint.ask(trying.items, trying.prediction, room(trying.prediction))
    except TooLong as error:
        codes = ("cannot be asked",)
        return Done(task.text, 0.0, 0, 0, why=str(error), codes=codes, regions=regions)
    trying.feed(reply.text)
    found = trying.finish(complete=reply.complete)
    return Done(
        text=task.text if found.text is None else found.text,
        seconds=reply.seconds,
        tokens=reply.tokens,
        requests=1,
        why=found.why,
        codes=(found.code,) if found.code else (),
        regions=regions,
    )
