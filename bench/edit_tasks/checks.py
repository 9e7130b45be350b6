"""Whether an edited file does what was asked: the questions of a task, put one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bench.edit_sets.schema import Look, OldCheck
from bench.edit_sets.syntax import text_of
from bench.edit_tasks.running import run
from bench.edit_tasks.source import Source

__all__ = ["faults"]


def faults(check: OldCheck, source: Source) -> Iterator[str]:
    """What does not hold; what only looks comes first, for it costs least."""
    for word in check.gone:
        if source.uses(word):
            yield f"{word} is still used"
    for look in check.looks:
        yield from _code_faults(look, source)
        yield from _node_faults(look, source)
        if look.documented:
            yield from _comment_faults(look, source)
    if check.program is not None and (said := run(source, check.program, check.prelude)):
        yield said


def _code_faults(look: Look, source: Source) -> Iterator[str]:
    name, code = look.within, source.code(look.within)
    if look.has is not None and not re.search(look.has, code):
        yield f"{name} lacks {look.has}"
    if look.lacks is not None:
        if not code:
            yield f"{name} is gone"
        elif re.search(look.lacks, code):
            yield f"{name} still has {look.lacks}"


def _node_faults(look: Look, source: Source) -> Iterator[str]:
    name, kinds = look.within, source.kinds(look.within)
    if look.has_node is not None and look.has_node not in kinds:
        yield f"{name} has no {look.has_node}"
    if look.lacks_nodes:
        if not kinds:
            yield f"{name} is gone"
        elif still := [kind for kind in look.lacks_nodes if kind in kinds]:
            yield f"{name} still has {', '.join(still)}"


def _comment_faults(look: Look, source: Source) -> Iterator[str]:
    name, node = look.within, source.definition(look.within)
    before = node.prev_sibling if node is not None else None
    if node is None or before is None or before.type != "comment":
        yield f"no comment stands before {name}"
    elif before.end_point.row + 1 < node.start_point.row:
        yield f"the comment before {name} is not about it"
    elif not any(word in text_of(before).lower() for word in look.documented):
        yield f"the comment before {name} says nothing of it"
