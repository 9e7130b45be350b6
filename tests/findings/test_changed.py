"""After any edits the findings are those of a fresh scan."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.findings.rules_for_tests import set_of
from tests.findings.taint_rules import TAINT
from tests.support.examples import examples
from vivace.findings import changed
from vivace.findings.changed import Scanner
from vivace.findings.scan import scan
from vivace.syntax.hunk import Hunk
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

_RULES = set_of()
_START = """import subprocess


class Runner:
    def run(self, code, names=[]):
        result = eval(code)
        subprocess.run(code, shell=True)
        with open(code) as file:
            run(file)
        return result

    def other(self):
        file = open("name")
        return file
        print(file)


def top(a, b={}):
    if a == a:
        # vivace: ignore[eval] it is a constant
        return eval("1")
    start(a)


subprocess.call("ls", shell=True)
"""
_LINES = st.sampled_from(
    [
        "\n",
        "    x = eval(y)\n",
        "        subprocess.run(a, shell=True)\n",
        "def f(a=[]):\n",
        "    return 1\n",
        "class A:\n",
        "    pass\n",
        "open(x)\n",
        "with open(x) as f:\n",
        '"""\n',
        "foo(\n",
        ")\n",
        "    x = '\n",
        "# vivace: ignore[eval]\n",
        "        eval(1)  # vivace: ignore[eval] why not\n",
        "é = eval('é')\n",
        "    x = f'{eval(y)}', f\"{eval('y')}\"\n",
        '    x = f"""\n',
        "x = eval(  # why\n",
        "if a == a: run(1)\n",
    ]
)
_KEYS = st.sampled_from([*"aex()[]{}'\"=:#, \\", "eval(", "é", "\t", "return ", "open(x)"])


class Typing(RuleBasedStateMachine):
    """One types, deletes and pastes; whether the text is right is no matter."""

    start, known = _START, _RULES

    @initialize(copies=st.integers(1, 3))
    def opened(self, copies: int) -> None:
        self.source = Source.of("a.py", self.start * copies)
        self.scanner = Scanner(self.known)
        self.findings = self.scanner.open(self.source)

    def edit(self, hunks: list[Hunk]) -> None:
        self.source = self.source.edited(hunks)
        self.findings = self.scanner.edited(self.source, hunks)

    def place(self, at: int) -> int:
        return at % (len(self.source.lines) + 1)

    @rule(at=st.integers(0, 200), column=st.integers(0, 60), keys=_KEYS)
    def type_keys(self, at: int, column: int, keys: str) -> None:
        lines = self.source.lines
        if not lines:
            return
        row = at % len(lines)
        line = lines[row]
        column = min(column, len(line.rstrip("\n")))
        for end in range(1, len(keys) + 1):
            old = line[:column] + keys[: end - 1] + line[column:]
            new = line[:column] + keys[:end] + line[column:]
            self.edit([Hunk(row, (old,), (new,))])

    @rule(at=st.integers(0, 200), column=st.integers(0, 60))
    def rub_out(self, at: int, column: int) -> None:
        lines = self.source.lines
        if lines:
            row = at % len(lines)
            line = lines[row]
            column = min(column, max(0, len(line.rstrip("\n")) - 1))
            new = line[:column] + line[column + 1 :]
            self.edit([Hunk(row, (line,), tuple(lines_of(new)))] if new.endswith("\n") else [])

    @rule(at=st.integers(0, 200), count=st.integers(1, 6))
    def delete(self, at: int, count: int) -> None:
        start = self.place(at)
        self.edit([Hunk(start, tuple(self.source.lines[start : start + count]), ())])

    @rule(at=st.integers(0, 200), lines=st.lists(_LINES, min_size=1, max_size=5))
    def paste(self, at: int, lines: list[str]) -> None:
        before = self.source.lines
        start = self.place(at)
        if start == len(before) and before and not before[-1].endswith("\n"):
            start -= 1
        self.edit([Hunk(start, (), tuple(lines))])

    @rule(first=st.integers(0, 200), second=st.integers(0, 200), lines=st.lists(_LINES, max_size=2))
    def two_places(self, first: int, second: int, lines: list[str]) -> None:
        one, other = sorted(
            (first % (len(self.source.lines) or 1), second % (len(self.source.lines) or 1))
        )
        if one + 1 < other:
            self.edit(
                [
                    Hunk(one, tuple(self.source.lines[one : one + 1]), tuple(lines)),
                    Hunk(other, (), ("    run(1)\n",)),
                ]
            )

    @precondition(lambda self: not self.scanner.is_settled)
    @rule()
    def pause(self) -> None:
        self.findings = self.scanner.settle()
        assert self.scanner.is_settled

    @invariant()
    def as_a_fresh_scan(self) -> None:
        if hasattr(self, "scanner") and self.scanner.is_settled:
            fresh = Source.of("a.py", self.source.text)
            assert self.findings == scan(fresh, self.known)

    def teardown(self) -> None:
        if hasattr(self, "scanner"):
            assert self.scanner.settle() == scan(Source.of("a.py", self.source.text), self.known)


class TypingInALongFile(Typing):
    """Where a broken text is not read at once."""

    @initialize(copies=st.integers(1, 3))
    def opened(self, copies: int) -> None:
        self.small, changed._SMALL = changed._SMALL, 0
        super().opened(copies)

    def teardown(self) -> None:
        super().teardown()
        changed._SMALL = self.small


_HELPED = """def page(given):
    name = chosen(given)
    sink(path_of(name))
    sink(checked(name))


def chosen(value, other=1):
    return value


def path_of(name):
    part, rest = both(name)
    return part


def both(name):
    return name, source()


def checked(name):
    if name not in ALLOWED:
        raise ValueError
    return name


def saved(name, text=""):
    sink(text)
    sink(name)


def asked():
    saved(1, both(source()))
    saved(checked(source()))


sink(chosen(source()))
saved(source())
"""
_HELPER_LINES = st.sampled_from(
    [
        "\n",
        "    return value\n",
        "    return name, 1\n",
        "    return 1, name\n",
        "    return path_of(value)\n",
        "def chosen(value):\n",
        "def path_of(name, other):\n",
        "def both(a):\n",
        "    value = clean(value)\n",
        "    sink(both(source()))\n",
        "    saved(source())\n",
        "saved(1, source())\n",
        "def saved(name):\n",
        "sink(path_of(source()))\n",
        "    name = chosen(source())\n",
        "class A:\n",
        "foo(\n",
        '"""\n',
    ]
)


class TypingAroundHelpers(Typing):
    """What a function returns is asked for elsewhere."""

    start, known = _HELPED, TAINT

    @rule(at=st.integers(0, 200), lines=st.lists(_HELPER_LINES, min_size=1, max_size=4))
    def paste_helpers(self, at: int, lines: list[str]) -> None:
        before = self.source.lines
        start = self.place(at)
        if start == len(before) and before and not before[-1].endswith("\n"):
            start -= 1
        self.edit([Hunk(start, (), tuple(lines))])


TestTypingAroundHelpers = TypingAroundHelpers.TestCase
TestTypingAroundHelpers.settings = settings(
    max_examples=examples(25), stateful_step_count=20, deadline=None
)
TestTyping = Typing.TestCase
TestTyping.settings = settings(max_examples=examples(25), stateful_step_count=20, deadline=None)
TestTypingInALongFile = TypingInALongFile.TestCase
TestTypingInALongFile.settings = settings(
    max_examples=examples(25), stateful_step_count=20, deadline=None
)
