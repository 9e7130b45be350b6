"""Files looked through for findings, by as many processes as there are processors to use.

Nothing of a file is executed, and nothing leaves the machine. A file that ends its process (memory
that runs out, a fault in a parser) costs that file alone: what was under way with it is looked at
again, each in a process of its own, and what ends that too is told.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from multiprocessing.context import BaseContext
from pathlib import Path

from msgspec import Struct, structs

from vivace.desk.rules import Choice, rule_set
from vivace.findings.fixes import why_not
from vivace.findings.report import Located, located
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.interpreter import children_environment
from vivace.logs import place_of
from vivace.syntax.finding import Finding
from vivace.syntax.languages import language_of
from vivace.syntax.source import Source
from vivace.workspace.document import of_text, read_in
from vivace.workspace.errors import WorkspaceError, explain
from vivace.workspace.ignore import secret_name
from vivace.workspace.listing import shown_path
from vivace.workspace.paths import SafePath, open_folder

__all__ = ["Scanned", "scan_file", "scan_files", "why_not_scanned"]

_LARGEST = 1024 * 1024
"""Bytes of a file that is looked at, and …"""
_LONGEST = 20_000
"""… characters of its longest line: what goes beyond was written by a program."""
_COLLECTED = 100_000
"""Objects after which a process that only scans files looks for cycles."""
_PORTION = 200_000
"""Bytes of code that a process is given at a time; less than two of it is not worth a process."""


class Scanned(Struct, frozen=True):
    """One file is done."""

    path: str
    """From the base; absolute outside of it."""
    found: tuple[Located, ...] = ()
    lines: int = 0
    skipped: str | None = None
    """Why it was not looked at."""


def why_not_scanned(path: SafePath) -> str | None:
    """Why a file with this name is not looked at; None where it is. What is in a file is no reason:
    a secret in it is to be found, and nobody else gets to read it."""
    if (why := secret_name(path.parts)) is not None:
        return why
    return None if language_of(path.name) else "it is in no language that rules can be about"


def scan_files(
    files: Sequence[SafePath], base: Path, choice: Choice, jobs: int
) -> Iterator[Scanned]:
    """Each file once, in the order in which they are done."""
    portions = _portions(files)
    jobs = min(jobs, len(portions))
    rules = rule_set(choice)
    if jobs < 2:
        for path in files:
            yield scan_file(path, base, rules)
        return
    for language in filter(None, {language_of(path.name) for path in files}):
        rules.plan(language)  # made ready here once, and not by each process
    done: set[SafePath] = set()
    try:
        for path, scanned in _shared_out(portions, base, choice, jobs):
            done.add(path)
            yield scanned
    except BrokenProcessPool:
        for path in files:
            if path not in done:
                yield _alone(path, base, choice)


def scan_file(path: SafePath, base: Path, rules: RuleSet) -> Scanned:
    """What a file has, or why it was not looked at."""
    name = shown_path(path.absolute, base)
    try:
        with open_folder(path) as folder:
            data, status = read_in(folder, path)
        if status.st_size > _LARGEST:
            return Scanned(name, skipped=f"it has {status.st_size / 1024 / 1024:.1f} MB")
        # A byte that is no character, in a comment say, is no reason to leave the rest unread.
        document = of_text(path, data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
    except FileNotFoundError:
        return Scanned(name, skipped="it does not exist any more")
    except OSError as error:
        return Scanned(name, skipped=str(explain("it", error)))
    except WorkspaceError:
        return Scanned(name, skipped="it is not text")
    source = Source.of(name, document.text)
    if (longest := max(map(len, source.lines), default=0)) > _LONGEST:
        return Scanned(name, skipped=f"it has a line of {longest:,} characters")
    if source.language is None:
        return Scanned(name, skipped="its brackets nest too deep")
    try:
        findings = [_checked(source, finding, rules) for finding in scan(source, rules)]
    except Exception as error:  # noqa: BLE001 - a fault of ours in one file costs no other
        fault = f"this is a fault of Vivace's, please report it: {place_of(error)}"
        return Scanned(name, skipped=fault)
    return Scanned(name, tuple(located(name, source.lines, findings)), len(source.lines))


def _checked(source: Source, finding: Finding, rules: RuleSet) -> Finding:
    """A fix is shown only where it holds."""
    if not finding.fix or why_not(source, finding.fix, finding, rules) is None:
        return finding
    return structs.replace(finding, fix=())


# -- processes ------------------------------------------------------------------------------------


def _portions(files: Sequence[SafePath]) -> list[list[SafePath]]:
    """Files of about as much code each, the largest first, so that no process ends long after the
    others."""
    sizes = sorted(((_size(path), path) for path in files), key=lambda each: -each[0])
    portions: list[list[SafePath]] = []
    room = 0
    for size, path in sizes:
        if size > room:
            portions.append([])
            room = _PORTION
        portions[-1].append(path)
        room -= size
    return portions


def _size(path: SafePath) -> int:
    try:
        return path.absolute.lstat().st_size
    except OSError:
        return 0


def _shared_out(
    portions: Sequence[Sequence[SafePath]], base: Path, choice: Choice, jobs: int
) -> Iterator[tuple[SafePath, Scanned]]:
    with ExitStack() as stack:
        # The processes are started with the pool and with what is submitted, and none later.
        with children_environment():
            pool = ProcessPoolExecutor(jobs, _context(), _begin)
            stack.callback(pool.shutdown, wait=True, cancel_futures=True)
            waiting: dict[Future[list[Scanned]], Sequence[SafePath]] = {
                pool.submit(_work, portion, base, choice): portion for portion in portions
            }
        for future in as_completed(waiting):
            yield from zip(waiting[future], future.result(), strict=True)


def _alone(path: SafePath, base: Path, choice: Choice) -> Scanned:
    try:
        ((_, scanned),) = _shared_out([[path]], base, choice, 1)
    except BrokenProcessPool:
        name = shown_path(path.absolute, base)
        return Scanned(name, skipped="the process that looked at it died")
    return scanned


def _context() -> BaseContext:
    """A copy of this process has the rules already; where other threads may hold locks that it
    would wait for, or the system's own libraries do not bear it, each begins anew."""
    alike = sys.platform == "linux" and threading.active_count() == 1
    return multiprocessing.get_context("fork" if alike else "spawn")


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever began it also ends it
    # The collector visits all rules each time, and finds nothing: trees have no cycles.
    gc.freeze()
    gc.set_threshold(_COLLECTED)


def _work(portion: Sequence[SafePath], base: Path, choice: Choice) -> list[Scanned]:
    rules = rule_set(choice)
    return [scan_file(path, base, rules) for path in portion]
