"""From a key to the finding: typing replayed into a real ``vivace lsp``, and into its core alone.

The clock starts when the key that completes what a rule finds is written to the language server, or
where the finding waits for the line to be left, the key that leaves it; it ends when the marks have
been read that have it. Each line is typed key by key somewhere in a file, and taken out again.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psutil
from msgspec import Struct

from bench._editor import Buffer, Editor
from bench._hiccups import Span, watched
from bench._report import Report, percentile
from vivace.findings.bundled import bundled
from vivace.findings.changed import Scanner
from vivace.findings.scan import scan
from vivace.lsp.typed import typed
from vivace.syntax.source import Source

__all__ = ["measure_core", "measure_typing"]

SIZES = (200, 2_000, 10_000)
"""Lines of a file."""
GOALS = {2_000: (10, 30), 10_000: (20, 60)}
"""Milliseconds from the key to the finding: p50 and p99."""
CORE_GOALS = {2_000: 10, 10_000: 25}
"""Milliseconds of the core alone: p99 of all keys."""
BETWEEN_KEYS = 0.03
WAITS = 0.15
"""Seconds after which a finding is said to wait for its line to be left."""
LONGEST = 20.0
NOBODY = "http://127.0.0.1:9/v1"
"""No model is asked."""


class Written(Struct, frozen=True):
    """How files are written in a language, and what is typed into them."""

    suffix: str
    head: str
    function: str
    """With its number; its second line is where something is typed before."""
    lines: tuple[str, ...]
    """Each of which a rule of ours finds."""
    tail: str = ""

    def file(self, count: int) -> str:
        """Of about so many lines."""
        functions = max(1, (count - self.head.count("\n")) // self.function.count("\n"))
        bodies = (self.function.replace("NUMBER", str(number)) for number in range(functions))
        return self.head + "".join(bodies) + self.tail


LANGUAGES = {
    "python": Written(
        ".py",
        "import os\n\nimport requests\n\n",
        '''\
def scale_NUMBER(value: float, url: str, name: str) -> float:
    """Scale a value by NUMBER, and move it."""
    total = value * NUMBER
    if total > len(name):
        total -= len(name)
    return total + NUMBER


''',
        (
            "    answer = requests.get(url, verify=False)",
            '    os.system("ls " + name)',
        ),
    ),
    "javascript": Written(
        ".js",
        'const { exec } = require("child_process");\n\n',
        """\
function scaleNUMBER(value, element, name) {
  let total = value * NUMBER;
  if (total > name.length) {
    total -= name.length;
  }
  return total + NUMBER;
}

""",
        (
            "  element.innerHTML = name;",
            "  exec(`ls ${name}`);",
        ),
    ),
    "c": Written(
        ".c",
        "#include <stdio.h>\n#include <string.h>\n\n",
        """\
int scale_NUMBER(int value, const char *name, char *target)
{
    int total = value * NUMBER;
    if (total > 3) {
        total -= 3;
    }
    return total + NUMBER;
}

""",
        (
            "    gets(target);",
            "    strcpy(target, name);",
        ),
    ),
    "go": Written(
        ".go",
        'package main\n\nimport (\n\t"crypto/tls"\n\t"os/exec"\n)\n\n',
        """\
func scaleNUMBER(value int, name string) int {
\ttotal := value * NUMBER
\tif total > len(name) {
\t\ttotal -= len(name)
\t}
\treturn total + NUMBER
}

""",
        (
            "\tsettings := &tls.Config{InsecureSkipVerify: true}",
            '\texec.Command("sh", "-c", name).Run()',
        ),
    ),
    "rust": Written(
        ".rs",
        "use std::process::Command;\n\n",
        """\
fn scale_NUMBER(value: u64, name: &str) -> u64 {
    let mut total = value * NUMBER;
    if total > 3 {
        total -= 3;
    }
    total + NUMBER
}

""",
        (
            '    Command::new("sh").arg("-c").arg(format!("ls {}", name)).output();',
            "    let client = reqwest::Client::builder().danger_accept_invalid_certs(true);",
        ),
    ),
    "java": Written(
        ".java",
        "import java.security.MessageDigest;\n\nclass Scales {\n",
        """\
    int scaleNUMBER(int value, String name) throws Exception {
        int total = value * NUMBER;
        if (total > name.length()) {
            total -= name.length();
        }
        return total + NUMBER;
    }

""",
        (
            '        Runtime.getRuntime().exec("sh -c " + name);',
            '        MessageDigest digest = MessageDigest.getInstance("MD5");',
        ),
        "}\n",
    ),
}


class Found(Struct, frozen=True):
    language: str
    at_once: bool
    """Whether the line did not have to be left."""
    span: Span

    @property
    def seconds(self) -> float:
        return self.span[1] - self.span[0]


def measure_typing(report: Report, count: int, sizes: Sequence[int] = SIZES) -> None:
    """``count`` lines are typed in each language and size; each size has its goals."""
    for size in sizes:
        with watched() as hiccups:
            found, memory = asyncio.run(_typed_into(size, count))
        name = f"typing: {size:,} lines"
        report.spread(f"{name}, key to finding", [each.seconds for each in found], "ms", 1000)
        for language in LANGUAGES:
            own = [each.seconds for each in found if each.language == language]
            report.spread(f"{name}, {language}", own, "ms", 1000)
        left = sum(not each.at_once for each in found)
        report.say(f"{name}, found when the line was left", f"{left} of {len(found)}")
        report.say(f"{name}, memory of the language server", memory / 2**20, "MB")
        if size in GOALS:
            fair = report.fair(found, [each.span for each in found], hiccups)
            for share, limit in zip((0.5, 0.99), GOALS[size], strict=True):
                taken = percentile([each.seconds for each in fair], share) * 1000
                what = f"{name}: key to finding p{share * 100:.0f} within {limit} ms"
                report.goal(what, met=taken < limit, measured=f"{taken:.1f}")


async def _typed_into(size: int, count: int) -> tuple[list[Found], int]:
    """And the memory of the language server with these files open."""
    found: list[Found] = []
    dice = random.Random(18)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Editor.started(folder, NOBODY) as editor:
            for language, written in LANGUAGES.items():
                path = folder / f"scales{written.suffix}"
                buffer = editor.open(path, written.file(size), language)
                await _looked_at(editor, buffer, written)
                for number in range(count):
                    line = written.lines[number % len(written.lines)]
                    found.append(await _typed(editor, buffer, language, line, dice))
            memory = psutil.Process(editor.pid).memory_info().rss
    return found, memory


async def _looked_at(editor: Editor, buffer: Buffer, written: Written) -> None:
    """Opened, and all that is only done once is done: rules are read, caches are filled."""
    row = _a_body(buffer.text, random.Random(1))
    at = buffer.document.line_start(row)
    line = f"{written.lines[0]}\n"
    buffer.replace(at, at, line)
    await _until(editor, buffer, row, marked=True)
    buffer.replace(at, at + len(line), "")
    await _until(editor, buffer, row, marked=False)


def _a_body(text: str, dice: random.Random) -> int:
    """A line before which a statement may stand."""
    return dice.choice([row for row, line in enumerate(text.split("\n")) if "value *" in line])


async def _typed(
    editor: Editor, buffer: Buffer, language: str, line: str, dice: random.Random
) -> Found:
    row = _a_body(buffer.text, dice)
    at = buffer.document.line_start(row)
    buffer.replace(at, at, "\n")  # as Enter at the end of the line before
    margin = len(line) - len(line.lstrip())
    buffer.replace(at, at, line[:margin])
    pressed: list[float] = []
    for offset in range(margin, len(line) - 1):
        await asyncio.sleep(BETWEEN_KEYS)
        pressed.append(time.perf_counter())
        buffer.replace(at + offset, at + offset, line[offset])
    await asyncio.sleep(BETWEEN_KEYS)
    end = at + len(line)
    span: Span | None
    if _is_marked(editor, buffer, row):  # a rule that is certain does not wait for the line's end
        completed = pressed[_completed_by(language, line) - margin]
        span = completed, editor.marks[buffer.document.uri].came
        buffer.replace(end - 1, end - 1, line[-1])
    else:
        span = await _pressed(editor, buffer, row, end - 1, line[-1], WAITS)
    at_once, gone = span is not None, line
    if span is None:
        gone += "\n"
        span = await _pressed(editor, buffer, row, end, "\n", LONGEST)
    if span is None:
        raise RuntimeError(f"nothing is found in {line.strip()!r} ({language})")
    buffer.replace(at, at + len(gone) + 1, "")
    await _until(editor, buffer, row, marked=False)
    return Found(language, at_once, span)


@cache
def _completed_by(language: str, line: str) -> int:
    """The first character with which a scan finds it."""
    written = LANGUAGES[language]
    text = written.file(40)
    row = _a_body(text, random.Random(1))
    lines = text.split("\n")
    for offset in range(len(line)):
        tried = "\n".join([*lines[:row], line[: offset + 1], *lines[row:]])
        found = scan(Source.of(f"scales{written.suffix}", tried), bundled())
        if any(each.lines is not None and each.lines[0] == row for each in found):
            return offset
    raise RuntimeError(f"nothing is found in {line.strip()!r} ({language})")


async def _pressed(
    editor: Editor, buffer: Buffer, row: int, at: int, key: str, patience: float
) -> Span | None:
    """From the key to the mark on the line; None where none comes."""
    began = time.perf_counter()
    buffer.replace(at, at, key)
    try:
        await asyncio.wait_for(_until(editor, buffer, row, marked=True), patience)
    except TimeoutError:
        return None
    return began, editor.marks[buffer.document.uri].came


async def _until(editor: Editor, buffer: Buffer, row: int, *, marked: bool) -> None:
    async with asyncio.timeout(LONGEST):
        while _is_marked(editor, buffer, row) is not marked:
            editor.marked.clear()
            await editor.marked.wait()


def _is_marked(editor: Editor, buffer: Buffer, row: int) -> bool:
    marks = editor.marks.get(buffer.document.uri)
    return marks is not None and marks.on_line(row)


# -- the core alone -------------------------------------------------------------------------------


def measure_core(report: Report, count: int, sizes: Sequence[int] = SIZES) -> None:
    """Every key of the same lines, from the text to the findings, without a language server."""
    for size in sizes:
        taken: list[float] = []
        dice = random.Random(18)
        for written in LANGUAGES.values():
            for number in range(count):
                taken += _keys(written, size, written.lines[number % len(written.lines)], dice)
        report.spread(f"core: {size:,} lines, a key", taken, "ms", 1000)
        if size in CORE_GOALS:
            found = percentile(taken, 0.99) * 1000
            what = f"core: {size:,} lines, p99 within {CORE_GOALS[size]} ms"
            report.goal(what, met=found < CORE_GOALS[size], measured=f"{found:.1f}")


def _keys(written: Written, size: int, line: str, dice: random.Random) -> list[float]:
    text = written.file(size)
    row = _a_body(text, dice)
    lines = text.splitlines(keepends=True)
    at = sum(map(len, lines[:row]))
    source = Source.of(f"a{written.suffix}", text)
    scanner = Scanner(bundled())
    scanner.open(source)
    taken = []
    for end in range(1, len(line) + 1):
        after = text[:at] + line[:end] + "\n" + text[at:]
        began = time.perf_counter()
        hunks = typed(source.text, after)
        source = source.edited(hunks)
        found = scanner.edited(source, hunks)
        taken.append(time.perf_counter() - began)
    if not scanner.is_settled:
        found = scanner.settle()
    if found != scan(source, bundled()) or not any(each.lines == (row, row + 1) for each in found):
        raise RuntimeError(f"nothing is found in {line.strip()!r}")
    return taken
