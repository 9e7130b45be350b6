"""All that is printed goes through here, so that nothing foreign can steer the terminal.

What comes from a model, a server, a file or a command may hold escape sequences: they write the
clipboard, move the cursor over what stands there, or turn the reading direction around. Whether a
character passes is decided for it alone, so it does not matter how a stream is cut into pieces.

What is meant for programs (an answer, a diff, the output of a check) stays as it is, byte by byte,
where it does not go to a terminal.
"""

from __future__ import annotations

import codecs
import re
import sys
import unicodedata
from collections.abc import Callable
from typing import Any

import click

__all__ = ["Control", "command_output", "put", "readable", "say", "styled", "visible"]

_SHOWN = "\ufffd"
_STEERING = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f"  # control characters but for \t, \n and \r
    "\\u202a-\\u202e\\u2066-\\u2069"  # other reading directions: code that is not what it seems
    "\\ud800-\\udfff]"  # halves of characters, which cannot be written
)
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Control(str):
    """Text that may steer the terminal, because all that is foreign in it was made visible."""

    __slots__ = ()


def readable(text: str) -> str:
    """Running text: lines and tabs stay, and what other scripts and emoji need to be joined."""
    return _STEERING.sub(_SHOWN, text.replace("\r", ""))


def visible(text: str) -> str:
    """A line of code, or a name: every character can be seen, those that only join others too."""
    return "".join(
        _SHOWN if unicodedata.category(each) in _UNSEEN else each for each in text.expandtabs(4)
    )


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
