"""What must hold of every history, whatever clients and faults did. The one place that says so.

Each invariant is a pure function from what a history tells to what is wrong with it. The numbers
are names for talking about them:

- **I0 answered**: whatever a client says is answered exactly once, and never by a fault of ours.
- **I1 kept**: a response that was to be kept and was not deleted can be had when all is calm, from
  every gateway, and has ended; one that was deleted can neither be had nor continued. Where several
  gateways share a store, none fails because a gateway or a node is gone.
- **I2 one end**: every response ends once, and everybody who sees the end sees the same one.
- **I3 one text**: a response's numbers go up by one, but for a declared jump; a number means one
  event, whoever reads it; deltas joined are the text that is told at the end, and that is the
  output.
- **I4 once per key**: one idempotency key of an owner gives one response; another body under it is
  refused, and nothing runs.
- **I5 steers**: an accepted steer is applied by exactly one response or handed back exactly once,
  never both; one that was refused is applied by none.
- **I6 order**: on a lane one response runs at a time, and a successor follows the steered one.
- **I7 context**: an engine is shown the conversation: all of it, in order, once, and nothing else;
  one that goes on for another is shown what was said too, and goes on right there.
- **I8 no ghosts**: when all is calm, nothing runs, waits or holds a slot, no engine works for a
  response that has ended, and no open one belongs to a gateway that is gone.
- **I9 limits**: in any t seconds a key gets at most limit · (1 + t/60) requests through, at all
  gateways together, and one limit more for each time that what they count in was lost.
- **I10 owners**: nobody sees, continues, stops or deletes what belongs to another key, and neither
  a log nor what gateways count in has words of a prompt or an answer.

What is assumed: one clock stamps all entries; every request has a tag and every steer has words
that nothing else has; what was called and never came back may or may not have happened; what
happens while a fault is in effect may be refused or broken off, and I0 does not mind. Each response
has one writer at a time and a life that only goes forward, so that one pass over what was seen of
it decides. What nobody looked at is not judged here: ``chaos.verdict`` says when that is too much.

I9 does not know yet of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chaos.history import Entry
from chaos.invariants.answered import answered
from chaos.invariants.context import context
from chaos.invariants.ends import one_end
from chaos.invariants.found import Found, Violation
from chaos.invariants.ghosts import no_ghosts
from chaos.invariants.kept import kept
from chaos.invariants.limits import limits
from chaos.invariants.once import once
from chaos.invariants.order import order
from chaos.invariants.owners import owners
from chaos.invariants.steers import steers
from chaos.invariants.texts import one_text
from chaos.story import Story

__all__ = ["INVARIANTS", "Violation", "check"]

INVARIANTS: dict[str, Callable[[Story], Found]] = {
    "I0 answered": answered,
    "I1 kept": kept,
    "I2 one end": one_end,
    "I3 one text": one_text,
    "I4 once per key": once,
    "I5 steers": steers,
    "I6 order": order,
    "I7 context": context,
    "I8 no ghosts": no_ghosts,
    "I9 limits": limits,
    "I10 owners": owners,
}


def check(history: Sequence[Entry]) -> list[Violation]:
    story = Story(history)
    return [
        Violation(name, what, about)
        for name, invariant in INVARIANTS.items()
        for what, about in invariant(story)
    ]
