"""``vivace watch``: a command run at each save, and a tried fix for what fails in it."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from pathlib import Path

import click

from vivace.cli import keyboard, options
from vivace.cli.editing.report import Exit
from vivace.cli.output import say
from vivace.cli.places import state_root
from vivace.cli.watching import AsJson, AtTerminal, Piped
from vivace.client.models import served_models
from vivace.desk.applying import Journaled
from vivace.desk.opening import Models
from vivace.desk.saves import SavedFiles
from vivace.desk.tried_fixes import Fixer
from vivace.desk.watch_events import Watcher
from vivace.desk.watching import Watching
from vivace.workspace.index import Index
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

__all__ = ["watch"]

_SIGNALLED = 128
"""What shells add to the number of the signal that ended a command."""


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument(
    "words", nargs=-1, required=True, metavar="-- COMMAND...", shell_complete=options.some_file
)
@click.option("--once", is_flag=True, help="Run it once and do not wait for saves.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line; writes nothing.")
@click.option(
    "--try",
    "attempts",
    metavar="N",
    type=click.IntRange(1, 16),
    default=1,
    help="Ask for N different fixes at once, each tried in a throwaway copy of the work tree; the "
    "first with which COMMAND passes is shown.",
)
@click.option("--model", "-m", help="Which model answers; by default the tier fast, or the first.")
@click.option(
    "--deep",
    metavar="MODEL",
    envvar="VIVACE_DEEP",
    help="Which model to ask when no fix of the first passes; by default the tier deep, if the "
    "server has one.",
)
@options.url
@options.key
def watch(
    words: tuple[str, ...],
    once: bool,
    as_json: bool,
    attempts: int,
    model: str | None,
    deep: str | None,
    url: str,
    key: str | None,
) -> None:
    """Run COMMAND whenever a file is saved; where it fails, propose a fix that was tried.

    \b
        vivace watch -- pytest -x
        vivace watch -- npm test
        vivace watch --try 5 -- cargo test
        vivace watch -- "make && ./build/test"
        vivace watch --once --json -- go test ./...

    What COMMAND prints is read: tracebacks, panics, stacks and compilers' errors of Python, Node,
    Rust, Go, Java, C, C++ and TypeScript. At the function of yours in which it failed, or that the
    failing test calls, a small change is asked for. It is put into a throwaway copy of the work
    tree, COMMAND is run there, and you see the change and whether COMMAND passed with it.

    Your files stay as they are until you accept it, hunk by hunk; vivace undo takes it back.
    Nothing but COMMAND is ever run. A test that expected something else is never changed. Files
    that git ignores are neither watched nor sent. Where this is no terminal nobody can be asked, so
    fixes are only shown. COMMAND is one word for a shell, or a program and its arguments.

    \b
    Exit status:
        with --once, that of COMMAND in the work tree as it is at the end: if you accepted a fix,
        COMMAND is run again
        1    saves cannot be watched here
        2    wrong use
        130  interrupted; what you had not accepted is not written
    """
    command = words[0] if len(words) == 1 else shlex.join(words)
    if not command.strip():
        raise click.UsageError("What is to be run? Give the command behind --")
    watcher = _watcher(as_json=as_json, stays=not once)
    models = Models(model, deep)
    try:
        status = asyncio.run(_run(command, watcher, models, url, key, attempts, once=once))
    except KeyboardInterrupt:
        say("\nstopped", err=True)
        status = Exit.STOPPED
    sys.exit(status if status >= 0 else _SIGNALLED - status)


def _watcher(*, as_json: bool, stays: bool) -> Watcher:
    if as_json:
        return AsJson()
    return AtTerminal(stays=stays) if keyboard.available() else Piped(stays=stays)


async def _run(
    command: str,
    watcher: Watcher,
    models: Models,
    url: str,
    key: str | None,
    attempts: int,
    *,
    once: bool,
) -> int:
    workspace = Workspace.around()
    here = _here(workspace)
    served = await served_models(url, key)
    fast = models.fast or ("fast" if "fast" in served else next(iter(served), ""))
    deep = models.deep or ("deep" if "deep" in served else None)
    index = Index(workspace, state_root())
    fixer = Fixer(workspace, here, url, key, fast, deep, attempts, index)
    writer = Journaled(Journal(workspace, state_root()))
    saves = None if once else SavedFiles(workspace)
    watching = Watching(command, workspace, here, fixer, writer, watcher, saves)
    try:
        if once:
            return await watching.once()
        await watching.until_stopped()
    finally:
        index.close()
    return 0


def _here(workspace: Workspace) -> str:
    """The current folder, from the root down; empty for the root itself."""
    inner = Path(os.path.realpath(Path.cwd())).relative_to(workspace.root).as_posix()
    return "" if inner == "." else inner
