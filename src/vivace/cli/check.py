"""``vivace check``: what a person should know of their code, in a terminal, a hook or CI."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Literal

import click
import msgspec

from vivace import __version__
from vivace.cli.editing.diff import coloured
from vivace.cli.output import put, say, styled, visible
from vivace.cli.places import state_root
from vivace.cpus import usable_cpus
from vivace.desk.check import Checked, Checking, Event, Fixed, Listed, Settings, base_of
from vivace.desk.rules import Choice, choose, origins, rules_for
from vivace.errors import VivaceError
from vivace.findings.baseline import BadBaseline, Baseline, read_baseline
from vivace.findings.report import (
    SEVERITIES,
    Located,
    json_of,
    printable,
    quoted,
    summary,
    text_of,
)
from vivace.findings.sarif import sarif_of
from vivace.syntax.finding import Severity
from vivace.syntax.hunk import unified

__all__ = ["check"]

Format = Literal["text", "json", "sarif"]
_MOST_TOLD = 20
"""Files that were not looked at, named one by one."""
_REDRAW_S = 0.1
_COLOURS: dict[Severity, str] = {"error": "red", "warning": "yellow", "note": "cyan"}


class Exit(IntEnum):
    CLEAN = 0
    FOUND = 1
    FAILED = 2
    STOPPED = 130


@dataclass(frozen=True)
class _Options:
    """What is done with what was found."""

    format: Format
    output: Path | None
    baseline: Path | None
    write_baseline: Path | None
    fix: bool
    diff: bool


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sarif"]),
    default="text",
    show_default=True,
    help="A line for each finding, or one JSON object, or SARIF 2.1.0.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to this file; the findings are still shown as lines.",
)
@click.option(
    "--changed",
    metavar="REV",
    help="Only findings on lines that are other than in this commit; main... compares with where "
    "this branch left main.",
)
@click.option(
    "--baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Leave out the findings that this file knows.",
)
@click.option(
    "--write-baseline",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write all findings to this file as known ones, and report none.",
)
@click.option("--fix", is_flag=True, help="Apply the rules' own rewrites; vivace undo takes back.")
@click.option("--diff", is_flag=True, help="Only show what --fix would change.")
@click.option(
    "--bugs/--no-bugs",
    default=True,
    show_default=True,
    help="Whether to look for bugs besides vulnerabilities.",
)
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    default="note",
    show_default=True,
    help="Leave out what is less grave.",
)
@click.option(
    "--rules",
    "named",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file or folder of rules besides the bundled ones; may be given again.",
)
@click.option(
    "--bundled/--no-bundled",
    default=True,
    show_default=True,
    help="Whether to use the rules that come with Vivace.",
)
@click.option(
    "--without",
    multiple=True,
    metavar="RULE",
    help="Leave out a rule, by its id; may be given again.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out files and folders, as git ignores: a name at any depth, or a path from the "
    "root of the work tree, as in 'tests/*.py'; may be given again.",
)
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Processes; by default one a core.")
def check(
    paths: tuple[Path, ...],
    form: Format,
    output: Path | None,
    changed: str | None,
    baseline: Path | None,
    write_baseline: Path | None,
    fix: bool,
    diff: bool,
    bugs: bool,
    severity: Severity,
    named: tuple[Path, ...],
    bundled: bool,
    without: tuple[str, ...],
    exclude: tuple[str, ...],
    jobs: int | None,
) -> None:
    """Look for vulnerabilities and bugs in files and folders; by default in this one.

    \b
        vivace check
        vivace check src tests/test_login.py
        vivace check --changed main...            what this branch brings
        vivace check --diff                       what --fix would change
        vivace check --write-baseline known.json  then: --baseline known.json
        vivace check --format sarif -o check.sarif

    No model is asked, nothing is executed and nothing leaves the machine. Files that git ignores
    are left out unless you name them. A finding that is none is silenced in the code, with the
    reason: # vivace: ignore[rule-id] because it is a constant

    Rules in the folder vivace-rules of the work tree are used too.

    \b
    Exit status:
        0    nothing was found
        1    there are findings
        2    it could not run: wrong use, a file that is not there, a rule that cannot be read
        130  interrupted
    """
    _refuse_contradictions(form=form, fix=fix or diff, writes=write_baseline, baseline=baseline)
    options = _Options(form, output, baseline, write_baseline, fix, diff)
    cwd = Path.cwd()
    try:
        left_out = (*without, *(() if bugs else ("bug",)))
        choice = choose(base_of(cwd), named, cwd, without=left_out, ours=bundled)
        settings = Settings(
            paths=paths or (Path(),),
            cwd=cwd,
            jobs=jobs or usable_cpus(),
            severity=severity,
            changed=changed,
            known=_known(baseline),
            exclude=exclude,
        )
        status = _run(settings, choice, options)
    except KeyboardInterrupt:
        say("\nstopped", err=True)
        status = Exit.STOPPED
    except VivaceError as error:
        say(f"vivace: {error}", err=True)
        status = Exit.FAILED
    sys.exit(status)


def _refuse_contradictions(
    *, form: Format, fix: bool, writes: Path | None, baseline: Path | None
) -> None:
    if writes is not None and (fix or baseline is not None):
        raise click.UsageError("--write-baseline stands without --fix, --diff and --baseline.")
    if fix and form != "text":
        raise click.UsageError("--fix and --diff show a diff: they go with --format text only.")


def _run(settings: Settings, choice: Choice, options: _Options) -> Exit:
    began = time.perf_counter()
    with _progress() as tell:
        checking = Checking(settings, choice, tell)
        checked = checking.run()
    if options.write_baseline is not None:
        return _keep(checked, options.write_baseline)
    if options.fix or options.diff:
        checked = _mend(checking, checked, options)
    _report(checked, choice, options, settings)
    _sum_up(checked, choice, settings, time.perf_counter() - began)
    return Exit.FOUND if checked.found else Exit.CLEAN


# -- what is known --------------------------------------------------------------------------------


def _known(path: Path | None) -> frozenset[str]:
    if path is None:
        return frozenset()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadBaseline(
            f"{path} cannot be read: {error.strerror}. To make it: vivace check --write-baseline "
            f"{path}"
        ) from error
    return read_baseline(data, str(path)).held_back


def _keep(checked: Checked, path: Path) -> Exit:
    _write(path, Baseline.of(each.known for each in checked.found).text())
    say(f"{summary(checked.found)}: written to {path}. From now on: --baseline {path}", err=True)
    return Exit.CLEAN


# -- mending --------------------------------------------------------------------------------------


def _mend(checking: Checking, checked: Checked, options: _Options) -> Checked:
    fixed = checking.fixes(checked)
    writes = options.fix and not options.diff
    if writes:
        fixed = checking.write(fixed, state_root())
    for edit in fixed.edits:
        _show_diff(unified(str(edit.target.path), edit.target.text, edit.hunks))
    for each in fixed.skipped:
        say(f"not fixed: {visible(each.path)}: {each.why}", err=True)
    if not writes or not fixed.count:
        return checked
    say(f"{_counted(fixed)}. To take it back: vivace undo", err=True)
    return checking.run()


def _counted(fixed: Fixed) -> str:
    return f"{_number(fixed.count, 'finding')} fixed in {_number(len(fixed.edits), 'file')}"


def _show_diff(diff: str) -> None:
    if not sys.stdout.isatty():
        put(diff)
        return
    for line in diff.removesuffix("\n").split("\n"):
        say(coloured(line))


# -- telling --------------------------------------------------------------------------------------


def _report(checked: Checked, choice: Choice, options: _Options, settings: Settings) -> None:
    if options.output is not None:
        form = _text if options.format == "text" else _value
        _write(options.output, form(checked, choice, options.format, settings))
    if options.format != "text" and options.output is None:
        put(_value(checked, choice, options.format, settings))
        return
    for each in checked.found:
        _say_finding(each, settings)


def _text(checked: Checked, choice: Choice, form: Format, settings: Settings) -> str:
    return "".join(
        f"{visible(text_of(each, _from_here(each, settings)))}\n" for each in checked.found
    )


def _say_finding(each: Located, settings: Settings) -> None:
    """On a terminal, with the line that it is about; one line for a program to read."""
    line = text_of(each, _from_here(each, settings))
    if not sys.stdout.isatty():
        say(visible(line))
        return
    where, mark, rest = line.partition(f": {each.finding.severity}: ")
    colour = _COLOURS[each.finding.severity]
    say(styled(where, bold=True), styled(mark, fg=colour), styled(rest))
    if (shown := quoted(each)) is not None and each.finding.lines is not None:
        say(styled(f"{each.finding.lines[0] + 1:>6} | {shown}", dim=True))


def _value(checked: Checked, choice: Choice, form: Format, settings: Settings) -> str:
    if form == "sarif":
        rules = rules_for(choice, checked.languages).values()
        value = sarif_of(checked.found, rules, __version__, checked.skipped)
    else:
        value = {
            "version": 1,
            "findings": [json_of(each) for each in checked.found],
            "known": len(checked.known),
            "skipped": [
                {"path": printable(each.path), "why": printable(each.why)}
                for each in checked.skipped
            ],
            "files": checked.files,
            "lines": checked.lines,
        }
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _from_here(each: Located, settings: Settings) -> str:
    """The path as the person would type it where they are."""
    here, full = settings.cwd.resolve(), base_of(settings.cwd) / each.path
    return str(full.relative_to(here)) if full.is_relative_to(here) else each.path


def _sum_up(checked: Checked, choice: Choice, settings: Settings, seconds: float) -> None:
    for each in checked.skipped[:_MOST_TOLD]:
        say(f"not looked at: {visible(each.path)}: {visible(each.why)}", err=True)
    if (more := len(checked.skipped) - _MOST_TOLD) > 0:
        say(f"not looked at: {more} more; --format json names them", err=True)
    looked = f"{_number(checked.files, 'file')}, {checked.lines:,} lines, {seconds:.1f} s"
    say(
        f"{summary(checked.found)} in {looked}; rules: {origins(choice, checked.languages)}",
        err=True,
    )
    if checked.known or settings.known:
        gone = len(settings.known) - len(checked.known)
        stale = f", {gone} of the baseline not met" if gone else ""
        say(f"held back as known: {len(checked.known)}{stale}", err=True)
    if fixable := sum(1 for each in checked.found if each.finding.fix):
        say(f"{fixable} can be fixed by their rules: vivace check --diff, --fix", err=True)


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise VivaceError(f"{path} cannot be written: {error.strerror}.") from error


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Event], None]]:
    """A bar for who looks at a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    # It draws itself when it is told to: a thread that does would be in the way of processes that
    # begin as copies of this one.
    with Progress(console=Console(stderr=True), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("looking", total=None)
        drawn = 0.0

        def tell(event: Event) -> None:
            nonlocal drawn
            if isinstance(event, Listed):
                bar.update(task, total=event.files)
            else:
                bar.advance(task)
            if (now := time.monotonic()) - drawn > _REDRAW_S:
                drawn = now
                bar.refresh()

        yield tell
