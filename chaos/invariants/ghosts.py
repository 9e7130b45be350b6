"""I8: when all is calm, nothing runs, waits or holds a slot, for nobody."""

from __future__ import annotations

from chaos.history import Process, Worked
from chaos.invariants.found import Found
from chaos.story import Story

__all__ = ["no_ghosts"]


def no_ghosts(story: Story) -> Found:
    if story.calm is None:
        return
    for name, value in story.calm.figures.items():
        if value:
            yield f"{name} is {value:g} though all is calm", ()
    for work in _unfinished(story, story.calm.at):
        what = f"{work.engine} still works for {work.response} (attempt {work.attempt})"
        yield f"{what} though all is calm", (work.response,)
    for name, row in story.rows.items():
        holder = row.get("holder")
        if row["status"] is None and holder not in story.calm.living and not row.get("parked"):
            yield f"{name} is open, and its holder {holder} is gone", (name,)


def _unfinished(story: Story, calm: float) -> list[Worked]:
    """What engines had begun by then, had not stopped, and did not die with."""
    gone = {e.incarnation for e in story.history if isinstance(e, Process) and not e.up}
    begun: dict[tuple[str, str, int], Worked] = {}
    for work in story.work:
        place = work.incarnation, work.response, work.attempt
        if work.at > calm or work.incarnation in gone:
            continue
        if work.what == "began":
            begun[place] = work
        else:
            begun.pop(place, None)
    return list(begun.values())
