"""Python: tracebacks, and pytest's own ways to show one."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence

from vivace.failures.failure import Failure, Found, Frame, Kind, caused

__all__ = ["read_pytest", "read_pytest_summary", "read_tracebacks"]

_BEGINS = "Traceback (most recent call last):"
_GROUPED = re.compile(r"(?:E {3}|[ |]*\| )?")
"""What pytest and groups of exceptions put before a line."""
_FILE = re.compile(
    r"(?P<margin>\s*)File \"(?P<path>[^\"]+)\", line (?P<line>\d{1,9})(?:, in (?P<name>.+))?"
)
_ERROR = re.compile(
    r"(?P<kind>(?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?::\s?(?P<message>.*))?|(?:SystemExit.*)"
)
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_MOST_FRAMES = 100
_ANOTHER = re.compile(
    r"[^\s:]+:\d+[:(].*|(?:g?make(?:\[\d+\])?:|npm |FAILED |ERROR |Ran |---|___|===).*"
)
"""What somebody else says right behind the message of an error."""
_MOST_MESSAGE = 30
"""Lines: an assertion may be explained at length."""

_SECTION = re.compile(r"_{2,} (?P<name>\S.*\S|\S) _{2,}")
_RULE = re.compile(r"={3,}.*={3,}|={10,}")
_BETWEEN = re.compile(r"(?:_ ){5,}_?")
_LONG_PLACE = re.compile(r"(?P<path>[^\s:][^:]{0,500}):(?P<line>\d{1,9}):(?: (?P<error>[\w.]+))?")
_SHORT_PLACE = re.compile(
    r"(?P<path>[^\s:][^:]{0,500}):(?P<line>\d{1,9}): in (?P<name>[\w.<>\[\]]+)"
)
_SAID = re.compile(r"E(?: {3}(?P<text>.*))?")
_SUMMARY = re.compile(
    r"(?P<what>FAILED|ERROR) (?P<path>[^\s:]+\.py)(?:::(?P<test>\S+))?(?: - (?P<message>.*))?"
)
_ONE_LINE = re.compile(
    r"(?P<path>[^\s:][^:]{0,500}\.py):(?P<line>\d{1,9}): "
    r"(?P<message>[A-Z]\w{0,100}?(?:Error|Exception|Exit|Interrupt|Warning)\b.*)"
)
"""As ``pytest --tb=line`` has it."""


def read_tracebacks(lines: Sequence[str]) -> Iterator[Found]:
    """Those of Python itself, of unittest, and syntax errors, which may come without a heading."""
    at = 0
    last: Found | None = None
    while at < len(lines):
        found = None
        if _bare(lines[at]).strip() == _BEGINS or _is_syntax_error(lines, at):
            found = _traceback(lines, at)
        if found is None:
            at += 1
            continue
        at = max(found.end, at + 1)
        if last is not None and _follows(lines, last, found):
            last = caused(last, found)
            continue
        if last is not None:
            yield last
        last = found
    if last is not None:
        yield last


def _follows(lines: Sequence[str], before: Found, after: Found) -> bool:
    """Whether the second traceback is told as what became of the first."""
    if after.start - before.end > 4 or len(before.failure.frames) > _MOST_FRAMES:
        return False
    between = (_bare(line).strip() for line in lines[before.end : after.start])
    return any(line.startswith(_CHAINED) for line in between)


def _bare(line: str) -> str:
    found = _GROUPED.match(line)
    return line[found.end() :] if found else line


def _is_syntax_error(lines: Sequence[str], at: int) -> bool:
    """A file, the line itself, carets, and what is wrong with it."""
    if 'File "' not in lines[at] or not _FILE.fullmatch(_bare(lines[at])):
        return False
    rest = [_bare(line).strip() for line in lines[at + 1 : at + 5]]
    kinds = ("SyntaxError", "IndentationError", "TabError")
    return any(line.startswith(kinds) for line in rest)


def _traceback(lines: Sequence[str], start: int) -> Found | None:
    frames: deque[Frame] = deque(maxlen=_MOST_FRAMES)
    margin: int | None = None
    at = start if 'File "' in lines[start] else start + 1
    while at < len(lines):
        text = _bare(lines[at])
        if (named := _FILE.fullmatch(text)) is not None:
            margin = len(named["margin"]) if margin is None else margin
            frames.append(_frame(named))
        elif not text.strip() or (margin is not None and len(text) - len(text.lstrip()) < margin):
            break
        elif margin is None:
            return None
        at += 1
    if not frames:
        return None
    message, end = _message(lines, at)
    if not message:
        return None
    kind: Kind = "assertion" if message.startswith("AssertionError") else "error"
    if message.startswith(("SyntaxError", "IndentationError", "TabError")):
        kind = "compile"
    said = "\n".join(_bare(line) for line in lines[start:end])
    failure = Failure(kind=kind, message=message, frames=tuple(reversed(frames)), said=said)
    return Found(start, end, failure)


def _message(lines: Sequence[str], at: int) -> tuple[str, int]:
    """The error and what it says, which may be several lines, up to an empty one."""
    said: list[str] = []
    for line in lines[at : at + _MOST_MESSAGE]:
        text = _bare(line)
        if not text.strip() or (not said and not _ERROR.fullmatch(text.strip())):
            break
        if said and (_ANOTHER.fullmatch(text) or _BEGINS in text):
            break
        said.append(text.rstrip())
    return "\n".join(said).strip(), at + len(said)


def _frame(named: re.Match[str]) -> Frame:
    return Frame(
        named["path"], _number(named["line"]), (named.groupdict().get("name") or "").strip()
    )


def _number(text: str) -> int:
    return max(0, int(text) - 1)


# -- pytest ---------------------------------------------------------------------------------------


def read_pytest(lines: Sequence[str]) -> Iterator[Found]:
    """A section for each test that failed, in the long form or the short one; what is in the
    original form of Python is left to ``read_tracebacks``."""
    starts = [at for at, line in enumerate(lines) if line[:2] == "__" and _SECTION.fullmatch(line)]
    for at, start in enumerate(starts):
        until = starts[at + 1] if at + 1 < len(starts) else len(lines)
        ends = (at for at in range(start + 1, until) if lines[at][:3] == "===")
        end = next((at for at in ends if _RULE.fullmatch(lines[at])), until)
        section = _SECTION.fullmatch(lines[start])
        assert section is not None
        if (failure := _section(lines[start:end], section["name"])) is not None:
            yield Found(start, end, failure)
    for at, line in enumerate(lines):
        if ".py:" in line and (told := _ONE_LINE.fullmatch(line)) is not None:
            frame = Frame(told["path"], _number(told["line"]))
            yield Found(at, at + 1, _failure(told["message"], [frame], line, ""))


def _section(lines: Sequence[str], name: str) -> Failure | None:
    frames: list[Frame] = []
    said: list[str] = []
    error = ""
    for line in lines[1:]:
        if line.startswith("E"):
            if (told := _SAID.fullmatch(line)) is not None and len(said) < _MOST_MESSAGE:
                text = told["text"] or ""
                said.append(text)
                if (named := _FILE.fullmatch(text)) is not None:  # a file that does not parse
                    frames.append(_frame(named))
        elif line.startswith("--") and line.strip("-").strip().startswith("Captured"):
            break
        elif (place := _SHORT_PLACE.fullmatch(line)) is not None:
            frames.append(_frame(place))
        elif (place := _LONG_PLACE.fullmatch(line)) is not None and ".py" in place["path"]:
            frames.append(Frame(place["path"], _number(place["line"])))
            error = place["error"] or error
    message = "\n".join(said).strip() or error
    if not frames or not message:
        return None
    test = "" if name.startswith("ERROR collecting") else name
    return _failure(message, frames[-_MOST_FRAMES:], "\n".join(lines), test, error)


def _failure(
    message: str, frames: Sequence[Frame], said: str, test: str, error: str = ""
) -> Failure:
    asserted = message.startswith(("assert ", "AssertionError", "Failed: ")) or error in (
        "AssertionError",
        "Failed",
    )
    broken = "SyntaxError" in message or "IndentationError" in message
    kind: Kind = "compile" if broken else "assertion" if asserted else "error"
    innermost = tuple(reversed(frames))
    return Failure(kind=kind, message=message, frames=innermost, said=said, test=test)


def read_pytest_summary(lines: Sequence[str]) -> Iterator[Found]:
    """What is left where tracebacks are switched off: which tests failed, and mostly why."""
    for at, line in enumerate(lines):
        if line[:6] not in ("FAILED", "ERROR "):
            continue
        if (told := _SUMMARY.fullmatch(line)) is not None:
            test = told["test"] or ""
            name = re.sub(r"\[.*", "", test.rpartition("::")[2])
            message = told["message"] or f"{told['what'].lower()}: {test or told['path']}"
            yield Found(
                at, at + 1, _failure(message, [Frame(told["path"], None, name)], line, test)
            )
