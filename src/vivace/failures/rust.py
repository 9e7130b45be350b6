"""Rust: panics, with or without their backtraces, and the errors of its compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vivace.failures.failure import Failure, Found, Frame, Kind

__all__ = ["read_rust"]

_PANIC = re.compile(
    r"thread '(?P<thread>[^']*)'(?: \(\d+\))? panicked at (?P<path>[^\s':][^:]{0,500}):"
    r"(?P<line>\d{1,9}):\d{1,9}:?"
)
_OLD_PANIC = re.compile(
    r"thread '(?P<thread>[^']*)' panicked at '(?P<message>.*)', (?P<path>[^\s:][^:]{0,500}):"
    r"(?P<line>\d{1,9}):\d{1,9}"
)
_NUMBERED = re.compile(r"\s*\d{1,4}:\s+(?:0x[0-9a-f]+ - )?(?P<name>\S.*)")
_AT = re.compile(r"\s+at (?P<path>[^\s:][^:]{0,500}):(?P<line>\d{1,9})(?::\d{1,9})?")
_ERROR = re.compile(r"error(?:\[(?P<code>E\d+)\])?: (?P<message>.+)")
_ARROW = re.compile(r"\s*--> (?P<path>[^\s:][^:]{0,500}):(?P<line>\d{1,9}):\d{1,9}")
_MOST_MESSAGE = 20
_MOST_FRAMES = 50
_REACH = 60
"""Lines that one error of the compiler may have."""
_ENDS_MESSAGE = ("note: ", "stack backtrace:", "thread '", "---- ", "test result", "failures:")


def read_rust(lines: Sequence[str]) -> Iterator[Found]:
    for at, line in enumerate(lines):
        if "panicked at" in line:
            if (found := _panic(lines, at)) is not None:
                yield found
        elif line.startswith("error") and (found := _compiler(lines, at)) is not None:
            yield found


def _panic(lines: Sequence[str], at: int) -> Found | None:
    old = _OLD_PANIC.search(lines[at])
    named = old or _PANIC.search(lines[at])
    if named is None:
        return None
    said = [old["message"]] if old else []
    end = at + 1
    for line in lines[end : end + _MOST_MESSAGE]:
        if not line.strip() or line.startswith(_ENDS_MESSAGE):
            break
        said.append(line)
        end += 1
    message = "\n".join(said).strip() or "it panicked"
    frames = [Frame(named["path"], max(0, int(named["line"]) - 1))]
    end = _backtrace(lines, end, frames)
    kind: Kind = "assertion" if message.startswith("assertion") else "error"
    thread = named["thread"]
    failure = Failure(
        kind=kind,
        message=message,
        frames=tuple(frames),
        said="\n".join(lines[at:end]),
        test="" if thread == "main" else thread,
    )
    return Found(at, end, failure)


def _backtrace(lines: Sequence[str], at: int, frames: list[Frame]) -> int:
    """Those behind the first, if they were asked for; where they end."""
    if at >= len(lines) or not lines[at].startswith("stack backtrace:"):
        return at
    name = ""
    for end in range(at + 1, len(lines)):
        if (place := _AT.fullmatch(lines[end])) is not None:
            frame = Frame(place["path"], max(0, int(place["line"]) - 1), name)
            if len(frames) < _MOST_FRAMES and not _begins_with(frames, frame):
                frames.append(frame)
        elif (numbered := _NUMBERED.fullmatch(lines[end])) is not None:
            name = numbered["name"]
        else:
            return end
    return len(lines)


def _begins_with(frames: Sequence[Frame], frame: Frame) -> bool:
    first = frames[0]
    return frame.line == first.line and frame.path.endswith(first.path)


def _compiler(lines: Sequence[str], at: int) -> Found | None:
    told = _ERROR.fullmatch(lines[at])
    if told is None or at + 1 >= len(lines):
        return None
    frames: list[Frame] = []
    end = at + 1
    while end < min(len(lines), at + _REACH) and lines[end].strip():
        if (arrow := _ARROW.fullmatch(lines[end])) is not None:
            frames.append(Frame(arrow["path"], max(0, int(arrow["line"]) - 1)))
        end += 1
    if not frames:
        return None  # "could not compile", which only sums up
    code = f"{told['code']}: " if told["code"] else ""
    said = "\n".join(lines[at:end])
    failure = Failure(
        kind="compile", message=code + told["message"], frames=tuple(frames), said=said
    )
    return Found(at, end, failure)
