"""Java: traces of exceptions, with their causes, and how Maven tells where javac stopped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vivace.failures.failure import Failure, Found, Frame, Kind, caused

__all__ = ["read_java"]

_HEAD = re.compile(
    r"(?:\[ERROR\] +)?(?:Exception in thread \"[^\"]*\" |Caused by: |=> )?"
    r"(?P<error>(?:[a-z_]\w*\.){1,12}[A-Z]\w*)(?:: (?P<message>.*))?"
)
_AT = re.compile(
    r"\s*(?:\[ERROR\] +)?at (?:[\w.@-]+/{1,2})*(?P<name>[\w.$<>]+)"
    r"\((?P<file>[\w$]+\.(?:java|kt)):(?P<line>\d{1,9})\).*"
)
_MORE = re.compile(r"\s*(?:\[ERROR\] +)?(?:at .*|\.\.\. \d+ more)")
_MAVEN = re.compile(
    r"\[ERROR\] (?P<path>\S[^\[\]]{0,500}\.(?:java|kt)):\[(?P<line>\d{1,9}),\d{1,9}\] "
    r"(?P<message>.+)"
)
_MOST_FRAMES = 100
_BACK = 12


def read_java(lines: Sequence[str]) -> Iterator[Found]:
    """What was caused by another exception is told with it as one."""
    last: Found | None = None
    for found in _traces(lines):
        follows = last is not None and found.start == last.end
        if follows and last is not None and "Caused by: " in lines[found.start]:
            last = caused(found, last)
            continue
        if last is not None:
            yield last
        last = found
    if last is not None:
        yield last


def _traces(lines: Sequence[str]) -> Iterator[Found]:
    at = 0
    done = 0
    while at < len(lines):
        if "[ERROR]" in lines[at] and (told := _MAVEN.fullmatch(lines[at])) is not None:
            frame = Frame(told["path"], max(0, int(told["line"]) - 1))
            failure = Failure(
                kind="compile", message=told["message"], frames=(frame,), said=lines[at]
            )
            yield Found(at, at + 1, failure)
        if "at " not in lines[at] or _AT.fullmatch(lines[at]) is None:
            at += 1
            continue
        first = at
        frames: list[Frame] = []
        while at < len(lines) and _MORE.fullmatch(lines[at]):
            if (named := _AT.fullmatch(lines[at])) is not None and len(frames) < _MOST_FRAMES:
                frames.append(_frame(named))
            at += 1
        if (found := _told(lines, max(done, first - _BACK), first, at, frames)) is not None:
            done = at
            yield found


def _frame(named: re.Match[str]) -> Frame:
    """The file is told by its name alone; its folder is that of its package."""
    package = named["name"].split(".")[:-2]
    path = "/".join([*package, named["file"]])
    return Frame(path, max(0, int(named["line"]) - 1), named["name"])


def _told(
    lines: Sequence[str], start: int, first: int, end: int, frames: Sequence[Frame]
) -> Found | None:
    for at in range(first - 1, start - 1, -1):
        if (head := _HEAD.fullmatch(lines[at].strip())) is not None:
            error = head["error"].rpartition(".")[2]
            rest = [line.strip() for line in lines[at + 1 : first] if line.strip()]
            told = f"{error}: {head['message']}" if head["message"] else error
            kind: Kind = "assertion" if "Assert" in error or "Comparison" in error else "error"
            failure = Failure(
                kind=kind,
                message="\n".join([told, *rest]),
                frames=tuple(frames),
                said="\n".join(lines[at:end]),
            )
            return Found(at, end, failure)
    return None
