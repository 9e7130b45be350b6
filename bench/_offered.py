"""Faults of a suggestion that a person sees at once, found without a model or our own trimming."""

from __future__ import annotations

import re

from vivace.desk.completing import Suggestion

_GOES_ON = re.compile(r"[(\[{,\\]\s*$|\b(?:and|or|not|if|else|in|is)\s*$|[-+*/%=<>&|^]\s*$")
"""A line behind which anything may stand."""
_BRACKETS = re.compile(r"[()\[\]{}]")


def taken(text: str, found: Suggestion) -> str:
    """The text once it is accepted."""
    return text[: found.start] + found.text + text[found.end :]


def repeats_what_follows(text: str, found: Suggestion) -> bool:
    """Its last line is the next line of the file, or its end is what stands behind the cursor."""
    rest, _, below = text[found.end :].partition("\n")
    written = found.text.strip()
    following = next((line.strip() for line in below.split("\n") if line.strip()), "")
    if _says_something(following) and written.split("\n")[-1].strip() == following:
        return True
    rest = rest.strip()
    twice = max(
        (rest[:length] for length in range(len(rest) + 1) if written.endswith(rest[:length])),
        key=len,
    )
    line = text[: found.start].rpartition("\n")[2]
    return _says_something(twice) or (bool(twice) and _closed_too_often(line + found.text + rest))


def foreign_indentation(text: str, found: Suggestion) -> bool:
    """A line that it makes is indented in a way that the file is not."""
    ours, unit, used = _indentation(text)
    after = taken(text, found)
    first = text.count("\n", 0, found.start)
    lines = after.split("\n")
    for number in range(first, first + found.text.count("\n") + 1):
        lead = lines[number][: len(lines[number]) - len(lines[number].lstrip(" \t"))]
        if lead in used or not lines[number].strip():
            continue
        if ours and set(lead) != {ours}:
            return True
        before = next((line for line in reversed(lines[:number]) if line.strip()), "")
        if unit and len(lead) % unit and not _GOES_ON.search(before):
            return True
    return False


def _says_something(piece: str) -> bool:
    """More than brackets, or a letter that may be there by chance."""
    return sum(each.isalnum() for each in piece) > 2


def _closed_too_often(line: str) -> bool:
    depth = 0
    for bracket in _BRACKETS.findall(line):
        depth += 1 if bracket in "([{" else -1
    return depth < 0


def _indentation(text: str) -> tuple[str, int, set[str]]:
    """The character; how many of it make a step, by what stands behind lines that open a block; and
    every indentation there is."""
    steps = [len(lead) for lead in re.findall(r"^\S.*:[ \t]*\n+([ \t]+)\S", text, re.MULTILINE)]
    leads = re.findall(r"^[ \t]+(?=\S)", text, re.MULTILINE)
    used = set("".join(leads))
    return used.pop() if len(used) == 1 else "", min(steps, default=0), {"", *leads}
