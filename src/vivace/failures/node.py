"""Node: stacks of V8, with what test runners print around them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vivace.failures.failure import Failure, Found, Frame, Kind

__all__ = ["read_node", "read_tap"]

_SUFFIX = r"\.(?:[cm]?[jt]sx?|vue|svelte)"
_AT = re.compile(
    r"\s*(?:at )?(?:async )?(?:new )?(?:(?P<name>[^\s()][^()]{0,200}?) \()?"
    r"(?:file://)?(?P<path>(?:[A-Za-z]:)?[^\s():][^():]{0,500}|node:[\w/]+):(?P<line>\d{1,9})"
    r"(?::\d{1,9})\)?,?(?: \{)?"
)
_CALL = re.compile(r"\s*at .*")
_HEADER = re.compile(rf"(?:file://)?(?P<path>[^\s:][^:]{{0,500}}{_SUFFIX}):(?P<line>\d{{1,9}})")
"""Where V8 shows the line itself, before the error."""
_ERROR = re.compile(
    r"(?:Uncaught |\[cause\]: )?"
    r"(?P<text>[\w.]{0,100}(?:Error|Exception)\b(?: \[\w+\])?(?::.*)?)"
)
_TEST = re.compile(r"\s*(?:[●✖✗\u00d7]|not ok \d+ -|\d+\)) (?P<name>\S.*?)(?: \([\d.]+ ?m?s\))?")
_ASSERTED = re.compile(r"AssertionError|ERR_ASSERTION|^expect\(|Expected|expected")
_NOT_OK = re.compile(r"(?P<margin>\s*)not ok \d+(?: -)? (?P<name>\S.*)")
_FIELD = re.compile(r"\s*(?P<key>error|name|stack|code): (?P<value>.*)")
_BACK = 40
"""Lines before a stack in which the error stands."""
_MOST_FRAMES = 50
_REACH = 200
"""Lines that a test may say of its failure."""


def read_node(lines: Sequence[str]) -> Iterator[Found]:
    at = 0
    done = 0
    while at < len(lines):
        if not _is_call(lines[at]):
            at += 1
            continue
        first = at
        frames: list[Frame] = []
        while at < len(lines) and (_CALL.fullmatch(lines[at]) or _is_call(lines[at])):
            if (named := _AT.fullmatch(lines[at])) is not None and len(frames) < _MOST_FRAMES:
                frames.append(_frame(named))
            at += 1
        if (found := _told(lines, max(done, first - _BACK), first, at, frames)) is not None:
            done = at
            yield found


def _is_call(line: str) -> bool:
    """Whether it is a line of a stack; of a test runner's report it may lack the ``at``."""
    text = line.lstrip()
    if not text.startswith("at ") and ("(" not in text or not text.endswith(")")):
        return False
    named = _AT.fullmatch(line)
    if named is None:
        return False
    return text.startswith("at ") or re.search(_SUFFIX + "$", named["path"]) is not None


def _frame(named: re.Match[str]) -> Frame:
    return Frame(named["path"], max(0, int(named["line"]) - 1), (named["name"] or "").strip())


def _told(
    lines: Sequence[str], start: int, first: int, end: int, frames: list[Frame]
) -> Found | None:
    """The error that stands before a stack; a stack alone is no failure."""
    before = range(first - 1, start - 1, -1)
    begins = next((at for at in before if _ERROR.match(lines[at].strip())), None)
    if begins is None:  # an expectation of Jest's, which is headed by its test alone
        begins = next((at for at in before if lines[at].lstrip().startswith("●")), None)
    if begins is None:
        return None
    heading = _ERROR.match(lines[begins].strip())
    rest = [line.strip() for line in lines[begins + 1 : first] if line.strip()]
    message = "\n".join([*([heading["text"]] if heading else []), *rest[:20]]).strip()
    if not message:
        return None
    for at in range(begins - 1, max(start, begins - 8) - 1, -1):
        if (header := _HEADER.fullmatch(lines[at].strip())) is not None:
            place = Frame(header["path"], max(0, int(header["line"]) - 1))
            if not any(_same(place, frame) for frame in frames):
                frames.insert(0, place)
            begins = at
            break
    tests = (_TEST.fullmatch(lines[at]) for at in range(begins, max(0, begins - _BACK) - 1, -1))
    test = next((found["name"] for found in tests if found is not None), "")
    kind: Kind = "assertion" if _ASSERTED.search(message) else "error"
    kind = "compile" if message.startswith("SyntaxError") else kind
    said = "\n".join(lines[begins:end])
    failure = Failure(kind=kind, message=message, frames=tuple(frames), said=said, test=test)
    return Found(begins, end, failure)


def _same(one: Frame, other: Frame) -> bool:
    return one.line == other.line and other.path.endswith(one.path)


# -- the Test Anything Protocol -------------------------------------------------------------------


def read_tap(lines: Sequence[str]) -> Iterator[Found]:
    """What ``node --test`` says where nobody sees it: the error and its stack as fields."""
    for at, line in enumerate(lines):
        if "not ok " not in line or (told := _NOT_OK.fullmatch(line)) is None:
            continue
        margin, end = len(told["margin"]), at + 1
        while end < min(len(lines), at + _REACH) and lines[end].strip() != "...":
            if len(lines[end]) - len(lines[end].lstrip()) <= margin and lines[end].strip():
                break  # another test, and this one said nothing
            end += 1
        fields = _fields(lines[at + 1 : end])
        stack = (_AT.fullmatch(each) for each in fields.get("stack", "").split("\n"))
        frames = tuple(_frame(named) for named in stack if named is not None)[:_MOST_FRAMES]
        if not frames or "error" not in fields:
            continue  # a suite, of which a part failed
        name = fields.get("name", "")
        asserted = name == "AssertionError" or fields.get("code") == "ERR_ASSERTION"
        failure = Failure(
            kind="assertion" if asserted else "error",
            message=f"{name or 'Error'}: {fields['error']}",
            frames=frames,
            said="\n".join(lines[at:end]),
            test=told["name"],
        )
        yield Found(at, end, failure)


def _fields(lines: Sequence[str]) -> dict[str, str]:
    """Those that matter of the YAML that is printed; a text of several lines is indented."""
    found: dict[str, str] = {}
    key, margin = "", 0
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if key and (not line.strip() or indent > margin):
            found[key] = f"{found[key]}\n{line.strip()}".strip()
        elif (told := _FIELD.fullmatch(line)) is not None:
            key, margin = told["key"], indent
            value = told["value"].strip()
            found[key] = "" if value in ("|-", "|", ">-") else value.strip("'\"")
            key = key if not found[key] else ""
        else:
            key = ""
    return found
