"""``vivace review``: what changed, looked at by rules and by a model, told while it is found."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

import click
import msgspec
from msgspec import Struct

from vivace import __version__
from vivace.cli import options
from vivace.cli.explain import say_error
from vivace.cli.output import put, say, styled, visible
from vivace.desk.review import (
    Asking,
    Began,
    Found,
    NotShown,
    Remarked,
    Reviewed,
    ReviewEvent,
)
from vivace.desk.review import (
    review as look_through,
)
from vivace.desk.rules import Choice, choose, rule_set, rules_for
from vivace.errors import VivaceError
from vivace.findings.markdown import markdown_of
from vivace.findings.report import Located, Skipped, json_of, printable, quoted, summary, text_of
from vivace.findings.sarif import Described, sarif_of
from vivace.findings.scan import scan
from vivace.syntax.finding import REMARK, Severity
from vivace.syntax.languages import language_of
from vivace.workspace.changes import changes_since
from vivace.workspace.paths import Workspace

__all__ = ["review"]

Format = Literal["text", "markdown", "json", "sarif"]
_COLOURS: dict[Severity, str] = {"error": "red", "warning": "yellow", "note": "cyan"}
_DEEP = "deep"


class Exit(IntEnum):
    CLEAN = 0
    FOUND = 1
    FAILED = 2
    STOPPED = 130


class _Remarks(Struct, frozen=True):
    """What a report says of remarks, as it does of rules."""

    id: str = REMARK
    message: str = "A model's remark on a changed line"
    note: str = (
        "A model wrote this. The line it quotes is there; whether it is right is for you to judge."
    )
    severity: Severity = "note"
    cwe: int | None = None
    kind: str = "review"


@click.command()
@click.argument("revision", metavar="[REV]", default="HEAD")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json", "sarif"]),
    default="text",
    show_default=True,
    help="Lines as they are found, or at the end Markdown, one JSON object, or SARIF 2.1.0.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report to this file.",
)
@click.option("--no-model", is_flag=True, help="Only what the rules find; needs no server.")
@click.option("--model", "-m", help="Which model is asked; by default the server's first.")
@click.option(
    "--deep",
    is_flag=True,
    help="Ask the tier 'deep', or the model that VIVACE_DEEP names: slower, and sees more.",
)
@options.url
@options.key
def review(
    revision: str,
    form: Format,
    output: Path | None,
    no_model: bool,
    model: str | None,
    deep: bool,
    url: str,
    key: str | None,
) -> None:
    """Review what changed in the work tree since a commit; by default since the last one.

    \b
        vivace review                            what is not committed yet
        vivace review main...                    what this branch brings, since it left main
        vivace review HEAD~3 --deep              by the larger model
        vivace review --format markdown -o review.md
        vivace review main... --no-model --format sarif -o review.sarif

    Rules look at the new lines first. Then a model is asked about one part of the change after the
    other, and each of its remarks is told as soon as it is written. A remark counts only if the
    code it quotes is in a new line; the others are dropped, and how many is said. A model errs:
    remarks are notes for you to judge, and do not change the exit status.

    Files that git ignores are left out. Files that look like secrets are never shown to a model.

    \b
    Exit status:
        0    no rule found anything
        1    rules found something in the new lines
        2    it could not be done: wrong use, no such commit, or no answer from the server
        130  interrupted
    """
    if (model is not None or deep) and no_model:
        raise click.UsageError("--no-model asks none: it goes with neither --model nor --deep.")
    if model is not None and deep:
        raise click.UsageError("--deep names a model, and so does --model. Choose one of them.")
    named = (os.environ.get("VIVACE_DEEP") or _DEEP) if deep else model
    asking = None if no_model else Asking(url, key, named)
    view = _View(Path.cwd(), streams=form == "text" and output is None)
    try:
        asyncio.run(_run(revision, asking, view))
    except KeyboardInterrupt:
        say("\nstopped", err=True)
        sys.exit(Exit.STOPPED)
    except VivaceError as error:
        view.error = error
    try:
        _report(view, form, output)
    except OSError as error:
        problem = f"{output} cannot be written: {error.strerror}. Name another file."
        view.error = VivaceError(problem)
    view.sum_up()
    sys.exit(view.status)


async def _run(revision: str, asking: Asking | None, view: _View) -> None:
    workspace = Workspace.around()
    view.root = workspace.root
    changes = await asyncio.to_thread(changes_since, workspace, revision)
    view.choice = await asyncio.to_thread(choose, workspace.root, (), Path.cwd())
    rules = rule_set(view.choice)
    async for event in look_through(changes, lambda source: scan(source, rules), asking):
        view.tell(event)


class _View:
    """What was told so far, and how it is shown."""

    def __init__(self, here: Path, *, streams: bool) -> None:
        self.root = here
        self.choice = Choice()
        """Which rules look."""
        self.found: list[Located] = []
        self.remarks: list[Located] = []
        self.skipped: list[Skipped] = []
        self.end: Reviewed | None = None
        self.error: VivaceError | None = None
        self._here = here
        self._streams = streams

    @property
    def everything(self) -> list[Located]:
        return [*self.found, *self.remarks]

    @property
    def status(self) -> Exit:
        if self.error is not None:
            return Exit.FAILED
        return Exit.FOUND if self.found else Exit.CLEAN

    def tell(self, event: ReviewEvent) -> None:
        match event:
            case Found(located):
                self.found.append(located)
                self._show(located)
            case Remarked(located):
                self.remarks.append(located)
                self._show(located)
            case NotShown(skipped):
                self.skipped.append(skipped)
                say(f"not looked at: {visible(skipped.why)}", err=True)
            case Began(path, title, number, count):
                if sys.stderr.isatty():
                    where = f"{path}, {title}" if title else path
                    say(styled(f"{number}/{count}  {where}", dim=True), err=True)
            case Reviewed():
                self.end = event

    def shown(self, each: Located) -> str:
        """The path as the person would type it where they are."""
        return os.path.relpath(self.root / each.path, self._here.resolve())

    def _show(self, each: Located) -> None:
        if not self._streams:
            return
        line = text_of(each, self.shown(each))
        if not sys.stdout.isatty():
            say(visible(line))
            sys.stdout.flush()
            return
        where, mark, rest = line.partition(f": {each.finding.severity}: ")
        colour = _COLOURS[each.finding.severity]
        say(styled(where, bold=True), styled(mark, fg=colour), styled(rest))
        if (code := quoted(each)) is not None and each.finding.lines is not None:
            say(styled(f"{each.finding.lines[0] + 1:>6} | {code}", dim=True))

    def sum_up(self) -> None:
        if self.error is not None:
            say_error(self.error)
        if self.end is None:
            return
        told = [summary(self.found)]
        if self.end.model is not None:
            told.append(f"{_number(len(self.remarks), 'remark')} by {self.end.model}")
        files = _number(self.end.files, "changed file")
        say(f"{', '.join(told)} in {files}, {self.end.seconds:.1f} s", err=True)
        if dropped := self.end.dropped:
            say(f"dropped: {_number(dropped, 'remark')} that quoted no new line", err=True)


def _report(view: _View, form: Format, output: Path | None) -> None:
    if form == "text" and output is None:
        return  # was told already
    text = _document(view, form)
    if output is None:
        put(text)
    else:
        output.write_text(text, encoding="utf-8")


def _document(view: _View, form: Format) -> str:
    match form:
        case "text":
            return "".join(
                f"{visible(text_of(each, view.shown(each)))}\n" for each in view.everything
            )
        case "markdown":
            return markdown_of(view.everything, view.skipped, _heading(view))
        case "sarif":
            value = sarif_of(view.everything, _described(view), __version__, view.skipped)
        case "json":
            value = _value(view)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _heading(view: _View) -> str:
    told = f"{summary(view.found)}, {_number(len(view.remarks), 'remark')}"
    return f"## Review: {told}"


def _value(view: _View) -> dict[str, Any]:
    end = view.end
    return {
        "version": 1,
        "findings": [json_of(each) for each in view.found],
        "remarks": [json_of(each) for each in view.remarks],
        "dropped": end.dropped if end is not None else 0,
        "skipped": [
            {"path": printable(each.path), "why": printable(each.why)} for each in view.skipped
        ],
        "files": end.files if end is not None else 0,
        "model": end.model if end is not None else None,
        "error": None if view.error is None else str(view.error),
    }


def _described(view: _View) -> Sequence[Described]:
    languages = {language.name for each in view.found if (language := language_of(each.path))}
    return [*rules_for(view.choice, languages).values(), _Remarks()]


def _number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
