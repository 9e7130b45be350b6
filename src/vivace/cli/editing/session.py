"""``vivace edit`` without an instruction: one edit after the other, in the terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vivace.cli.editing.review import Ask
from vivace.cli.keyboard import ESCAPE
from vivace.cli.output import say, styled
from vivace.cli.undo import take_back
from vivace.desk.edit import Editing
from vivace.desk.targets import names_a_file, open_target, split_lines
from vivace.errors import VivaceError
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

__all__ = ["Said", "run_session", "understood"]

_WELCOME = """\
Say what to change:  PATH[:LINE[-LINE]] instruction
and then just the next instruction for the same file. /help says more, Ctrl-D ends."""
_HELP = """\
PATH instruction           change this file; it is the current one from then on
PATH:LINE-LINE instruction change these lines of it
instruction                change the current file
:LINE-LINE instruction     change these lines of the current file
/undo                      take the last edit back; again, the one before
/help                      this help
Ctrl-D                     end the session

While an answer is written: type a line and Enter to redirect it; Esc or Ctrl-C stops it.
Before Enter: Esc leaves a line unsaid."""
_LINES = re.compile(r"(:\d{1,9}(?:-\d{1,9})?)\s+(.+)", re.DOTALL)


@dataclass(frozen=True)
class Said:
    """What a line of the session means."""

    target: str | None
    """The file with its lines, as the person names it."""
    instruction: str


def understood(line: str, current: str | None) -> Said:
    """A line that begins with a file is about it; any other is about the current one.

    ``:12-20 instruction`` is about these lines of the current file.
    """
    first, _, rest = line.partition(" ")
    if names_a_file(first):
        return Said(first, rest.strip())
    lines = _LINES.fullmatch(line)
    if current is not None and lines is not None:
        return Said(split_lines(current)[0] + lines[1], lines[2].strip())
    return Said(current, line)


async def run_session(
    editing: Editing,
    journal: Journal,
    workspace: Workspace,
    ask: Ask,
    current: str | None = None,
) -> None:
    """Until Ctrl-D. ``current`` is the file to begin with, and its lines if some are meant."""
    say(_WELCOME)
    while (line := await ask(styled(f"{current or 'edit'}> ", bold=True))) is not None:
        if not line or ESCAPE in line:  # an arrow key is one too: nobody knows what it was to be
            continue
        try:
            if _is_command(line):
                _obey(line, journal)
            else:
                current = await _edit(editing, workspace, understood(line, current)) or current
        except VivaceError as error:
            say(str(error), fg="red")


def _is_command(line: str) -> bool:
    return line.startswith("/") and not names_a_file(line.split()[0])


def _obey(line: str, journal: Journal) -> None:
    match line.split():
        case ["/help"]:
            say(_HELP)
        case ["/undo"]:
            take_back(journal)
        case [("/help" | "/undo") as word, *_]:
            say(f"{word} stands alone.")
        case [word, *_]:
            say(f"{word} is no command and no file here. /help says what there is.")


async def _edit(editing: Editing, workspace: Workspace, said: Said) -> str | None:
    """What is the current file from now on; None if it was not one."""
    if said.target is None:
        say("Begin with the name of a file.")
        return None
    target = open_target(workspace, said.target)
    if not said.instruction:
        return said.target
    await editing.run([target], said.instruction)
    # Lines are those of one instruction: an edit moves them.
    return split_lines(said.target)[0]
