"""All that is printed goes through here, so that nothing foreign can steer the terminal.

What comes from a model, a server, a file or a command may hold escape sequences: they write the
clipboard, move the cursor over what stands there, or turn the reading direction around. They are
shown instead (``vivace.visible``).

What is meant for programs (an answer, a diff, the output of a check) stays as it is, byte by byte,
where it does not go to a terminal.
"""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable
from typing import Any

import click

from vivace.visible import readable, visible

__all__ = ["Control", "command_output", "put", "readable", "say", "styled", "visible"]


class Control(str):
    """Text that may steer the terminal, because all that is foreign in it was made visible."""

    __slots__ = ()


def styled(line: str, **style: Any) -> Control:
    """A line in colour."""
    return Control(click.style(visible(line), **style))


def say(*parts: str, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print something for a person, on standard output or standard error."""
    text = "".join(each if isinstance(each, Control) else readable(each) for each in parts)
    click.echo(click.style(text, **style) if style else text, err=err, nl=nl)


def put(text: str) -> None:
    """Print something for a person or a program, which gets it as it is."""
    if sys.stdout.isatty():
        say(text, nl=False)
    else:
        click.echo(text, nl=False, color=True)  # or else click takes out what looks like colours


def command_output(*, err: bool) -> Callable[[bytes], None]:
    """Where the output of a command goes, on standard output or standard error.

    It knows that it writes to a pipe; if it is made to colour that, the colours do not pass.
    """
    stream = sys.stderr if err else sys.stdout
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def show(piece: bytes) -> None:
        say(decoder.decode(piece), err=err, nl=False)

    def pass_on(piece: bytes) -> None:
        stream.buffer.write(piece)
        stream.flush()

    return show if stream.isatty() else pass_on
