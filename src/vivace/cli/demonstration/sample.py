"""The file that is changed, what is asked of it, and whether that is what happened."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from vivace.edits.diff import between
from vivace.edits.placing.region import Region, regions
from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

__all__ = [
    "ASKED_DEFAULT",
    "INSTRUCTION",
    "PATH",
    "REDIRECT",
    "REDIRECTED_DEFAULT",
    "Verdict",
    "judge",
    "line_count",
    "sample",
]

PATH = "warehouse.py"
INSTRUCTION = (
    "Give `fetch` a parameter `timeout` with default 10 and pass it to `send` instead of 30."
)
ASKED_DEFAULT = 10
REDIRECT = "the default must be 5"
REDIRECTED_DEFAULT = 5

_FUNCTION, _PARAMETER, _PASSED_TO = "fetch", "timeout", "send"
_NEEDED = (f"def {_FUNCTION}(", f"self.{_PASSED_TO}(")
"""What stands in the lines that have to change."""


@dataclass(frozen=True)
class Verdict:
    """What became of the file, compared with what was asked."""

    done: bool
    """Whether the function has the parameter and passes it on."""
    added: int
    removed: int
    others: int
    """Lines added or removed that the change did not need."""

    @property
    def right(self) -> bool:
        return self.done and not self.others


@cache
def sample() -> str:
    """A text and no module: nobody runs it."""
    return (files("vivace.cli.demonstration") / "warehouse.txt").read_text(encoding="utf-8")


def line_count() -> int:
    return len(lines_of(sample()))


def judge(text: str, default: int) -> Verdict:
    """How a new text of the sample meets the wish for a parameter with this default."""
    hunks = between(sample(), text)
    return Verdict(
        done=_done(text, default),
        added=sum(len(hunk.new) for hunk in hunks),
        removed=sum(len(hunk.old) for hunk in hunks),
        others=sum(map(_others, hunks)),
    )


def _others(hunk: Hunk) -> int:
    place = _function_lines()
    if hunk.start < place.start or hunk.end > place.end:
        return len(hunk.old) + len(hunk.new)
    return sum(not any(mark in line for mark in _NEEDED) for line in (*hunk.old, *hunk.new))


@cache
def _function_lines() -> Region:
    known = regions(Source.of(PATH, sample()))
    return next(each for each in known if each.name.split(".")[-1] == _FUNCTION)


def _done(text: str, default: int) -> bool:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == _FUNCTION
    ]
    return len(found) == 1 and _takes(found[0].args, default) and _passes(found[0])


def _takes(arguments: ast.arguments, default: int) -> bool:
    plain = [*arguments.posonlyargs, *arguments.args]
    known: dict[str, ast.expr | None] = {
        each.arg: value
        for each, value in zip(reversed(plain), reversed(arguments.defaults), strict=False)
    }
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    known |= {each.arg: value for each, value in named}
    found = known.get(_PARAMETER)
    return isinstance(found, ast.Constant) and found.value == default


def _passes(function: ast.FunctionDef) -> bool:
    """Whether it calls the other function with the parameter where the number stood."""
    calls = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == _PASSED_TO
    ]
    last = _last_argument(calls[0]) if len(calls) == 1 else None
    return isinstance(last, ast.Name) and last.id == _PARAMETER


def _last_argument(call: ast.Call) -> ast.expr | None:
    if len(call.args) == 4 and not call.keywords:
        return call.args[3]
    named = {each.arg: each.value for each in call.keywords}
    return named.get("seconds") if len(call.args) + len(named) == 4 else None
