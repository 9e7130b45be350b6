"""A checker for the patches Codex takes, written from their grammar and knowing nothing of ours."""

from __future__ import annotations

from collections.abc import Sequence

_OPERATIONS = ("*** Add File: ", "*** Delete File: ", "*** Update File: ")


def problems(text: str) -> list[str]:
    """Why it is no patch; empty for a valid one."""
    lines = text.removesuffix("\n").split("\n")
    if lines[0] != "*** Begin Patch":
        return ["does not begin with '*** Begin Patch'"]
    if lines[-1] != "*** End Patch" or len(lines) < 3:
        return ["does not end with '*** End Patch'"]
    found: list[str] = []
    inner = lines[1:-1]
    starts = [place for place, line in enumerate(inner) if line.startswith(_OPERATIONS)]
    if not starts or starts[0] != 0:
        return [f"begins with no file: {inner[0]!r}"]
    for start, end in zip(starts, [*starts[1:], len(inner)], strict=True):
        found += _operation(inner[start], inner[start + 1 : end])
    return found


def _operation(head: str, body: Sequence[str]) -> list[str]:
    kind = next(each for each in _OPERATIONS if head.startswith(each))
    found = [] if head.removeprefix(kind) else [f"names no file: {head!r}"]
    if kind == "*** Delete File: ":
        return found + [f"follows a deletion: {line!r}" for line in body]
    if kind == "*** Add File: ":
        found += [] if body else ["adds a file without a line"]
        return found + [f"not an added line: {line!r}" for line in body if line[:1] != "+"]
    return found + _hunks(list(body))


def _hunks(body: list[str]) -> list[str]:
    if body and body[0].startswith("*** Move to: "):
        body = body[1:]
    if body and body[-1] == "*** End of File":
        body = body[:-1]
    if not body:
        return ["updates nothing"]
    return [f"not a line of a hunk: {line!r}" for line in body if not _in_hunk(line)]


def _in_hunk(line: str) -> bool:
    return line[:1] in ("+", "-", " ") or line == "@@" or line.startswith("@@ ")


def applied(patch: str, before: str) -> str:
    """What a file becomes; for patches with one hunk whose old lines stand in the file once."""
    _, head, *body, _ = patch.split("\n")
    if head.startswith("*** Add File: "):
        return "".join(f"{line[1:]}\n" for line in body)
    lines = [line for line in body if not line.startswith("@@")]
    old = [line[1:] for line in lines if line[0] in " -"]
    new = [line[1:] for line in lines if line[0] in " +"]
    have = before.removesuffix("\n").split("\n")
    places = [at for at in range(len(have)) if have[at : at + len(old)] == old]
    assert len(places) == 1, places
    have[places[0] : places[0] + len(old)] = new
    return "".join(f"{line}\n" for line in have)
