"""Changes that neither the instruction nor another change gives a reason for are found."""

from __future__ import annotations

import pytest

from vivace.edits.diff import between
from vivace.edits.relevance import divided, said_by, unrelated

OLD = """\
def scale(n, s):
    first = n + 1
    other(first)
    return n * s


def limit(values):
    count = 64
    values.sort()
    return values[:count]
"""


def strays(new: str, instruction: str, old: str = OLD) -> list[str]:
    hunks = divided(between(old, new))
    found = unrelated(hunks, said_by(instruction, old))
    return [line.strip() for group in found for hunk in group for line in (*hunk.old, *hunk.new)]


@pytest.mark.parametrize(
    ("instruction", "wanted", "stray"),
    [
        ("add 2 to first", ("n + 1", "n + 2"), ("return n * s", "return n")),
        ("setze count auf 80", ("count = 64", "count = 80"), ("    other(first)\n", "")),
        ("把 count 改成 80", ("count = 64", "count = 80"), ("n + 1", "n + 3")),
    ],
)
def test_a_change_that_nothing_asks_for_is_a_stray(
    instruction: str, wanted: tuple[str, str], stray: tuple[str, str]
) -> None:
    right = OLD.replace(*wanted)
    assert strays(right, instruction) == []
    assert strays(right.replace(*stray), instruction) != []


def test_what_follows_from_another_change_is_none() -> None:
    new = OLD.replace("count", "most")
    assert strays(new, "call the count most") == []


def test_where_no_change_has_a_word_of_the_instruction_none_is_a_stray() -> None:
    new = OLD.replace("n + 1", "n + 2").replace("return n * s", "return s")
    assert strays(new, "mach das besser") == []


def test_what_is_only_added_is_no_stray() -> None:
    new = OLD.replace("count = 64", "count = 80").replace("(n, s):", "(n: int, s: int) -> int:")
    assert strays(new, "set count to 80") == []


def test_what_makes_way_for_a_change_beside_it_is_no_stray() -> None:
    old = "total = 0\nfor value in values:\n    total += value\nreturn total\n"
    assert strays("return sum(values)\n", "use sum here", old) == []


SEEN = """\
def dedupe(rows):
    seen = []
    result = []
    for row in rows:
        key = row.key()
        if key in seen:
            continue
        seen.append(key)
        result.append(row)
    return result
"""


@pytest.mark.parametrize(
    ("instruction", "value", "follows"),
    [
        ("use a set for seen", "seen = set()", ("seen.append(key)", "seen.add(key)")),
        ("use a set for seen", "seen = set()", ("seen.append(key)", "seen |= {key}")),
        ("use a dict for seen", "seen: Seen = dict()", ("seen.append(key)", "seen[key] = True")),
    ],
)
def test_what_is_done_with_a_value_changes_with_it(
    instruction: str, value: str, follows: tuple[str, str]
) -> None:
    right = SEEN.replace("seen = []", value).replace(*follows)
    assert strays(right, instruction, SEEN) == []


@pytest.mark.parametrize(
    "stray",
    [
        ("        seen.append(key)\n", ""),
        ("result.append(row)", "result.extend(row)"),
        ("row.key()", "row.name()"),
    ],
)
def test_a_new_value_excuses_no_loss_and_no_change_of_others(stray: tuple[str, str]) -> None:
    right = SEEN.replace("seen = []", "seen = set()")
    assert strays(right.replace(*stray), "use a set, not a list", SEEN) != []


WAITING = """\
def finish(self, event):
    target = self.target
    root = self.root
    with self.lock:
        del root.dnd
    target.leave(event)
"""
NESTED = """\
def join(parts):
    for part in parts:
        if part.name:
            if part.inner:
                join(part.inner)
            else:
                part.close()
        else:
            raise Nameless(
                part,
                "has none",
            )
"""


@pytest.mark.parametrize("old", [WAITING, NESTED])
def test_what_goes_here_and_comes_there_belongs_together(old: str) -> None:
    head, *body = old.splitlines(keepends=True)
    new = "".join([head, "    with self.lock:\n", *("    " + line for line in body)])
    assert strays(new, "hold the lock", old) == []


def test_what_was_moved_unasked_is_a_stray_at_both_ends() -> None:
    line = "    other(first)\n"
    moved = OLD.replace(line, "").replace("    return values", line + "    return values")
    found = strays(moved.replace("count = 64", "count = 80"), "set count to 80")
    assert found == ["other(first)", "other(first)"]
