"""``vivace edit``: a change in words, seen while it is written, applied when it is accepted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from vivace.cli import keyboard, options
from vivace.cli.editing.person import AtTerminal, Piped
from vivace.cli.editing.report import EXIT, Exit, failed, print_diff, print_json
from vivace.cli.editing.session import run_session
from vivace.cli.editing.terminal import ask_line
from vivace.cli.output import say
from vivace.cli.places import state_root
from vivace.desk.edit import Settings
from vivace.desk.opening import Models, open_desk
from vivace.desk.targets import Target, names_a_file, open_target, workspace_of
from vivace.errors import VivaceError
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

__all__ = ["edit"]

_SKETCHED = "Make the change that is sketched."


@dataclass(frozen=True)
class _Output:
    """In which form the edit is wanted."""

    yes: bool
    diff: bool
    json: bool

    @property
    def applies(self) -> bool:
        return not self.diff and (self.yes or not self.json)


@click.command()
@click.argument(
    "words",
    nargs=-1,
    metavar="[PATH[:LINE[-LINE]]]... [INSTRUCTION]",
    shell_complete=options.some_file,
)
@click.option("--yes", "-y", is_flag=True, help="Apply without asking.")
@click.option("--diff", is_flag=True, help="Print a unified diff and touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; applies with --yes.")
@click.option(
    "--check",
    metavar="COMMAND",
    help="Run this in a shell after applying, and offer a fix for what fails.",
)
@click.option(
    "--try",
    "attempts",
    metavar="N",
    type=click.IntRange(1, 16),
    default=1,
    help="Make N edits at once in throwaway copies of the work tree; the first that passes "
    "--check is shown. The check finds the copy, of a project installed in editable form too; but "
    "not where it names the work tree by an absolute path, runs Python with -I, -E or -S, clears "
    "the environment, or uses a build folder that was made for the original.",
)
@click.option(
    "--sketch",
    metavar="FILE",
    help="A larger model's sketch of the change, to be carried out; - reads it from standard "
    "input.",
)
@click.option("--model", "-m", help="Which model answers; by default the server's first.")
@click.option(
    "--deep",
    metavar="MODEL",
    envvar="VIVACE_DEEP",
    help="Which model to ask when the edits of the first are refused wherever it looks; with --yes "
    "a large one also where nobody knows which part is meant.",
)
@options.url
@options.key
def edit(
    words: tuple[str, ...],
    yes: bool,
    diff: bool,
    as_json: bool,
    check: str | None,
    attempts: int,
    sketch: str | None,
    model: str | None,
    deep: str | None,
    url: str,
    key: str | None,
) -> None:
    """Change files as you say. The diff appears while it is written; you accept each part of it.

    \b
        vivace edit shop.py "close the file in load()"
        vivace edit shop.py:40-60 "return early instead of nesting"
        vivace edit api.py client.py "rename timeout to timeout_s"
        vivace edit shop.py "add type hints" --diff | git apply
        vivace edit shop.py --yes < instruction.txt
        vivace edit shop.py "make the test pass" --check "pytest -x" --try 4
        vivace edit                    a session: one instruction after the other

    In a terminal you can talk to it while it writes: type a line and Enter, and it begins again in
    that direction. Esc or Ctrl-C stops it. What was applied, vivace undo takes back.

    The instruction is one argument, the last one; without it, what is piped in. Only the named
    files are changed, and in a rename those that use the name, if the language's server finds
    them. Files that git ignores or that look like secrets are not read. Every edit is checked: that
    it parses, stays where it was asked, and drops nothing. After a bad one the next likely place is
    tried, then --deep, and otherwise it is refused; what is only suspicious is said beside the
    change when you are asked. Where it is not clear which part of a
    file is meant, you are asked, and --yes stops.

    \b
    Exit status:
        0    applied, or shown with --diff or --json
        1    nothing changed: there was nothing to change, or you rejected it
        2    wrong use
        3    refused: it failed its checks, the file was changed in the same lines meanwhile, or
             what it is about is more than the model takes
        4    applied, but --check fails
        5    no answer: there is no server, or it refused or broke off
        130  interrupted; what you had not accepted is not written
    """
    terminal = keyboard.available()
    _refuse_contradictions(yes=yes, diff=diff, as_json=as_json, check=check, attempts=attempts)
    names, instruction = _understood(words, sketch)
    if not (yes or diff or as_json or terminal):
        raise click.UsageError(
            "Nobody can be asked here, because this is no terminal. Say --yes to apply the edit, "
            "--diff to print it, or --json to have it as an object."
        )
    if instruction is None and (not terminal or len(names) > 1):
        raise click.UsageError("What is to be changed? Give the instruction as the last argument.")
    try:
        workspace = workspace_of(names[0]) if names else Workspace.around()
        targets = [open_target(workspace, name) for name in names]
    except WorkspaceError as error:
        raise click.UsageError(str(error)) from None
    if len({target.path for target in targets}) < len(targets):
        raise click.UsageError("A file is named twice; one edit changes each file once.")
    output = _Output(yes, diff, as_json)
    settings = Settings(output.applies, check, attempts, url, key)
    models = Models(model, deep, _sketch(sketch))
    try:
        status = asyncio.run(_run(workspace, targets, names, instruction, settings, models, output))
    except KeyboardInterrupt:
        say("\nstopped", err=True)
        status = Exit.STOPPED
    except VivaceError as error:
        status = failed(error, json=as_json)
    sys.exit(status)


async def _run(
    workspace: Workspace,
    targets: Sequence[Target],
    names: Sequence[str],
    instruction: str | None,
    settings: Settings,
    models: Models,
    output: _Output,
) -> Exit:
    asks = keyboard.available() and not (output.diff or output.json)
    person = AtTerminal(yes=output.yes) if asks else Piped(json=output.json)
    async with open_desk(workspace, person, settings, models, state_root()) as editing:
        if instruction is None:
            journal = Journal(workspace, state_root())
            await run_session(editing, journal, workspace, ask_line, names[0] if names else None)
            return Exit.DONE
        result = await editing.run(targets, instruction)
    if output.json:
        print_json(result)
    elif output.diff and result.status == "done":
        print_diff([made for made in result.edits if made.outcome.hunks])
    return EXIT[result.status]


def _refuse_contradictions(
    *, yes: bool, diff: bool, as_json: bool, check: str | None, attempts: int
) -> None:
    if diff and (yes or as_json):
        raise click.UsageError("--diff touches nothing: it goes with neither --yes nor --json.")
    if attempts > 1 and check is None:
        raise click.UsageError("--try needs --check COMMAND, by which it tells the edits apart.")
    if check is not None and attempts == 1 and (diff or (as_json and not yes)):
        raise click.UsageError("--check runs after an edit is applied; give --yes with it.")


def _understood(words: tuple[str, ...], sketch: str | None) -> tuple[list[str], str | None]:
    """Files and instruction: the last word is the instruction unless it names a file."""
    names, instruction = list(words), None
    if names and names[-1] == "-":
        names.pop()
        return names, _piped()
    if names and not names_a_file(names[-1]) and len(names) > 1:
        instruction = names.pop().strip()
    elif names and sketch is not None:
        instruction = _SKETCHED
    elif names and not sys.stdin.isatty():
        instruction = _piped()
    if instruction is not None and not instruction:
        raise click.UsageError("The instruction is empty.")
    return names, instruction


def _piped() -> str:
    return sys.stdin.buffer.read().decode(errors="replace").strip()


def _sketch(given: str | None) -> str | None:
    if given is None:
        return None
    try:
        return _piped() if given == "-" else Path(given).read_text(errors="replace")
    except OSError as error:
        raise click.UsageError(f"The sketch {given} cannot be read: {error.strerror}.") from None
