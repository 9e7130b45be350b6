"""``vivace edit`` without an instruction: one edit after the other, in the terminal."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vivace.cli.editing.review import Ask
from vivace.cli.output import say, styled
from vivace.desk.edit import Editing
from vivace.desk.targets import names_a_file, open_target, split_lines
from vivace.errors import VivaceError
from vivace.workspace.paths import Workspace

__all__ = ["Said", "run_session", "understood"]

_WELCOME = """\
Say what to change:  PATH[:LINE[-LINE]] instruction
and then just the next instruction for the same file. Ctrl-D ends."""
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
    editing: Editing, workspace: Workspace, ask: Ask, current: str | None = None
) -> None:
    """Until Ctrl-D. ``current`` is the file to begin with, and its lines if some are meant."""
    say(_WELCOME)
    while (line := await ask(styled(f"{current or 'edit'}> ", bold=True))) is not None:
        said = understood(line, current)
        if not line:
            continue
        if said.target is None:
            say("Begin with the name of a file.")
            continue
        try:
            target = open_target(workspace, said.target)
            if said.instruction:
                await editing.run([target], said.instruction)
        except VivaceError as error:
            say(str(error), fg="red")
        else:
            # Lines are those of one instruction: an edit moves them.
            current = split_lines(said.target)[0] if said.instruction else said.target
