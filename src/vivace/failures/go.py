"""Go: panics with their goroutines, and what ``go test`` says of a test that failed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vivace.failures.failure import Failure, Found, Frame

__all__ = ["read_go"]

_PANIC = re.compile(r"(?:panic|fatal error): (?P<message>.+)")
_GOROUTINE = re.compile(r"goroutine \d+ .*:")
_CALL = re.compile(r"(?P<name>\S.*)\(.*\)|created by (?P<created>\S+).*")
_AT = re.compile(r"\s+(?P<path>[^\s:][^:]{0,500}\.go):(?P<line>\d{1,9})(?: \+0x[0-9a-f]+)?")
_FAIL = re.compile(r"(?P<margin>\s*)--- FAIL: (?P<test>\S+)(?: .*)?")
_LOGGED = re.compile(r"\s+(?P<path>[\w./-]{1,300}\.go):(?P<line>\d{1,9}): (?P<message>.*)")
_REACH = 200
_MOST_FRAMES = 50
_MACHINERY = ("panic(", "testing.", "runtime.")


def read_go(lines: Sequence[str]) -> Iterator[Found]:
    at = 0
    while at < len(lines):
        found = None
        if lines[at].startswith(("panic: ", "fatal error: ")):
            found = _panic(lines, at)
        elif "--- FAIL: " in lines[at]:
            found = _test(lines, at)
        if found is not None:
            yield found
        at = max(at + 1, found.end if found else 0)


def _panic(lines: Sequence[str], at: int) -> Found | None:
    told = _PANIC.fullmatch(lines[at])
    begins = next(
        (n for n in range(at, min(len(lines), at + 20)) if _GOROUTINE.fullmatch(lines[n])), None
    )
    if told is None or begins is None:
        return None
    frames: list[Frame] = []
    name = ""
    end = begins + 1
    while end < min(len(lines), begins + _REACH) and lines[end].strip():
        if (place := _AT.fullmatch(lines[end])) is not None:
            if len(frames) < _MOST_FRAMES:
                frames.append(Frame(place["path"], max(0, int(place["line"]) - 1), name))
        elif (call := _CALL.fullmatch(lines[end])) is not None:
            name = call["name"] or call["created"] or ""
        elif not lines[end].startswith(_MACHINERY):
            break
        end += 1
    if not frames:
        return None
    message = told["message"].removesuffix(" [recovered]")
    said = "\n".join(lines[at:end])
    return Found(at, end, Failure(kind="error", message=message, frames=tuple(frames), said=said))


def _test(lines: Sequence[str], at: int) -> Found | None:
    """What the test said; without a word of it, that it failed."""
    told = _FAIL.fullmatch(lines[at])
    if told is None:
        return None
    margin = len(told["margin"])
    frames: list[Frame] = []
    said: list[str] = []
    end = at + 1
    while end < min(len(lines), at + _REACH):
        line = lines[end]
        if len(line) - len(line.lstrip()) <= margin or "--- " in line:
            break
        if (logged := _LOGGED.fullmatch(line)) is not None:
            frames.append(Frame(logged["path"], max(0, int(logged["line"]) - 1)))
            said.append(logged["message"])
        elif said:
            said.append(line.strip())
        end += 1
    if not frames:
        return None  # its parts follow, or the panic that ended it
    failure = Failure(
        kind="assertion",
        message="\n".join(said[:20]).strip() or f"{told['test']} failed",
        frames=tuple(frames),
        said="\n".join(lines[at:end]),
        test=told["test"],
    )
    return Found(at, end, failure)
