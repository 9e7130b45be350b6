"""Errors with a place before them, as compilers, linkers, sanitizers, assertions and shells print
them; and what make says when it gives up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vivace.failures.failure import Failure, Found, Frame, Kind
from vivace.failures.own import is_test

__all__ = ["read_compilers", "read_make", "read_places"]

_PATH = r"(?P<path>(?:[A-Za-z]:)?[^\s:\"'()<>\[\]][^:\"'()<>\[\]]{0,400}\.\w{1,12})"
_ERROR = re.compile(
    rf"{_PATH}:(?P<line>\d{{1,9}})(?::\d{{1,9}})?: (?:fatal |runtime |internal compiler )?error:? "
    r"(?P<message>.+)"
)
"""gcc, clang, javac, mypy and many others; a sanitizer's ``runtime error`` too."""
_TSC = re.compile(
    rf"{_PATH}(?:\((?P<line>\d{{1,9}}),\d{{1,9}}\):|:(?P<at>\d{{1,9}}):\d{{1,9}} -) error "
    r"(?P<message>TS\d+: .+)"
)
_GO = re.compile(
    r"(?:vet: )?(?P<path>[^\s:]{1,400}\.go):(?P<line>\d{1,9}):\d{1,9}: (?P<message>\S.*)"
)
_ASSERT = re.compile(
    rf"(?:[^\s:]{{1,200}}: )?{_PATH}:(?P<line>\d{{1,9}}): (?P<name>[^:]*(?:::[^:]*)*): "
    r"(?P<message>Assertion .* failed\.)"
)
_BSD_ASSERT = re.compile(
    r"Assertion failed: (?P<message>.*), function (?P<name>[^,]+), file (?P<path>[^,]+), "
    r"line (?P<line>\d{1,9})\."
)
_LINKER = re.compile(
    r"(?:\S*\bld(?:\.\w+)?: )?(?P<path>[^\s:()]{1,400}):(?:\(\.text[^)]*\)|(?P<line>\d{1,9})): "
    r"(?P<message>undefined reference to .+)"
)
_IN_FUNCTION = re.compile(r".*: in function [`'](?P<name>[^`']+)'.*")
_SANITIZER = re.compile(r"==\d+==\s?ERROR: (?P<message>\w+Sanitizer: .+)")
_SANITIZED = re.compile(
    r"\s*#\d+ 0x[0-9a-f]+ in (?P<name>\S.*?) (?P<path>[^\s:()][^:()]{0,400}):(?P<line>\d{1,9})"
    r"(?::\d{1,9})?"
)
_SHELL = re.compile(r"(?P<path>[^\s:]{1,400}): line (?P<line>\d{1,9}): (?P<message>\S.*)")
_MAKEFILE = re.compile(
    r"(?P<path>[^\s:]*(?:[Mm]akefile|\.mk)):(?P<line>\d{1,9}): \*\*\* (?P<message>.+?)\s*Stop\."
)
_MAKE = re.compile(
    r"g?make(?:\[\d+\])?: \*\*\* (?:\[(?P<path>[^\s:\]]+):(?P<line>\d{1,9}): (?P<target>[^\]]+)\] "
    r"(?P<error>.+)|(?P<rule>No rule to make target .+))"
)
_WARNING = re.compile(r": (?:warning|note): ")
_LINE = re.compile(r"(?::|\(|\"?, line )(?P<line>\d{1,9})\b")
_APART = re.compile(r"[\s\"'`()<>\[\],:;=|]")
_SUFFIX = re.compile(r"\w\.\w{1,12}$")
_REACH = 400
_AFTER = 12
"""Lines behind an error that may show the code, what was expected and where else to look."""
_SHOWS = re.compile(r"\s*\d* ?\|.*|\s+.*|\S+:\d+:\d+: note: .*|\S*\s*\^~*")


def read_compilers(lines: Sequence[str]) -> Iterator[Found]:
    within = ""
    for at, line in enumerate(lines):
        if ": in function" in line and (named := _IN_FUNCTION.fullmatch(line)) is not None:
            within = named["name"]
        if (found := _sanitizer(lines, at) or _at(lines, at, within)) is not None:
            yield found


def _at(lines: Sequence[str], at: int, within: str) -> Found | None:
    line = lines[at]
    if "rror" in line and (told := _ERROR.fullmatch(line) or _TSC.fullmatch(line)) is not None:
        number = told["line"] or told.groupdict().get("at")
        runtime = ": runtime error:" in line
        return _found(lines, at, told, number, "error" if runtime else "compile")
    if "ssertion" in line and (told := _ASSERT.match(line) or _BSD_ASSERT.match(line)):
        return _found(lines, at, told, told["line"], "assertion")
    if "undefined reference" in line and (told := _LINKER.fullmatch(line)) is not None:
        return _found(lines, at, told, told["line"], "compile", within)
    if ".go:" in line and (told := _GO.fullmatch(line)) is not None:
        return _found(lines, at, told, told["line"], "compile")
    if ": line " in line and (told := _SHELL.fullmatch(line)) is not None:
        return _found(lines, at, told, told["line"], "error")
    if ": *** " in line and (told := _MAKEFILE.fullmatch(line)) is not None:
        return _found(lines, at, told, told["line"], "compile")
    return None


def _found(
    lines: Sequence[str],
    at: int,
    told: re.Match[str],
    number: str | None,
    kind: Kind,
    within: str = "",
) -> Found:
    end = at + 1
    while end < min(len(lines), at + _AFTER) and lines[end] and _SHOWS.fullmatch(lines[end]):
        end += 1
    name = (told.groupdict().get("name") or within).partition("(")[0].split(" ")[-1]
    frame = Frame(told["path"], max(0, int(number) - 1) if number else None, name)
    said = "\n".join(lines[at:end])
    message = told["message"].strip()
    return Found(at, end, Failure(kind=kind, message=message, frames=(frame,), said=said))


def _sanitizer(lines: Sequence[str], at: int) -> Found | None:
    if "Sanitizer: " not in lines[at] or (told := _SANITIZER.search(lines[at])) is None:
        return None
    frames: list[Frame] = []
    end = at + 1
    while end < min(len(lines), at + 60):
        if (named := _SANITIZED.fullmatch(lines[end])) is not None:
            frames.append(Frame(named["path"], max(0, int(named["line"]) - 1), named["name"]))
        elif frames and not lines[end].strip():
            break
        end += 1
    if not frames:
        return None
    said = "\n".join(lines[at:end])
    failure = Failure(kind="error", message=told["message"], frames=tuple(frames), said=said)
    return Found(at, end, failure)


def read_make(lines: Sequence[str]) -> Iterator[Found]:
    """Of use only where what it ran did not say itself what was wrong."""
    for at, line in enumerate(lines):
        if ": *** " not in line or (told := _MAKE.fullmatch(line)) is None:
            continue
        frames = (Frame(told["path"], max(0, int(told["line"]) - 1)),) if told["path"] else ()
        message = told["rule"] or f"{told['target']}: {told['error']}"
        yield Found(at, at + 1, Failure(kind="exit", message=message, frames=frames, said=line))


def read_places(lines: Sequence[str]) -> Iterator[Found]:
    """Any line that names a line of a file: all there is to go by where nothing else is known. A
    warning is what it failed for only if nothing else is told."""
    found = list(_places(lines))
    yield from [each for each in found if _WARNING.search(each.failure.said) is None] or found


def _places(lines: Sequence[str]) -> Iterator[Found]:
    """One of a test says that the test expected something else."""
    for at, line in enumerate(lines):
        for told in _LINE.finditer(line):
            before = line[max(0, told.start() - _REACH) : told.start()]
            if (path := _path_at_the_end(before)) is not None:
                frame = Frame(path, max(0, int(told["line"]) - 1))
                kind: Kind = "assertion" if is_test(path) else "error"
                failure = Failure(kind=kind, message=line.strip(), frames=(frame,), said=line)
                yield Found(at, at + 1, failure)
                break


def _path_at_the_end(text: str) -> str | None:
    last = _APART.split(text)[-1]
    return last if _SUFFIX.search(last) else None
