"""What checks are made of: each looks at the edited file and returns what is wrong, or None."""

from __future__ import annotations

import re

from bench.edit_tasks.running import run
from bench.edit_tasks.source import Source
from bench.edit_tasks.task import Check

__all__ = ["documented", "gone", "has", "has_node", "lacks", "lacks_node", "runs"]


def runs(assertions: str, before: str = "") -> Check:
    """The file runs with these assertions behind it."""

    def check(source: Source) -> str | None:
        return run(source, assertions, before)

    return check


def has(name: str | None, pattern: str) -> Check:
    """The code of a definition (of the file, if None) matches; comments do not count."""

    def check(source: Source) -> str | None:
        found = re.search(pattern, source.code(name))
        return None if found else f"{name or 'the file'} lacks {pattern}"

    return check


def lacks(name: str | None, pattern: str) -> Check:
    def check(source: Source) -> str | None:
        code = source.code(name)
        if not code:
            return f"{name} is gone"
        return f"{name or 'the file'} still has {pattern}" if re.search(pattern, code) else None

    return check


def has_node(name: str, kind: str) -> Check:
    """The syntax tree of a definition has such a node."""

    def check(source: Source) -> str | None:
        return None if kind in source.kinds(name) else f"{name} has no {kind}"

    return check


def lacks_node(name: str, *kinds: str) -> Check:
    def check(source: Source) -> str | None:
        here = source.kinds(name)
        if not here:
            return f"{name} is gone"
        still = [kind for kind in kinds if kind in here]
        return f"{name} still has {', '.join(still)}" if still else None

    return check


def gone(word: str) -> Check:
    """The name is used nowhere any more."""

    def check(source: Source) -> str | None:
        return f"{word} is still used" if source.uses(word) else None

    return check


def documented(name: str, *words: str) -> Check:
    """A comment stands directly before the definition, and holds one of these words."""

    def check(source: Source) -> str | None:
        node = source.definition(name)
        before = node.prev_sibling if node is not None else None
        if node is None or before is None or before.type != "comment":
            return f"no comment stands before {name}"
        if before.end_point.row + 1 < node.start_point.row:
            return f"the comment before {name} is not about it"
        text = (before.text or b"").decode().lower()
        if words and not any(word in text for word in words):
            return f"the comment before {name} says nothing of it"
        return None

    return check
