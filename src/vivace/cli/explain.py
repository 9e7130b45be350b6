"""``vivace explain``: what the code of an error means, and what to do about it."""

from __future__ import annotations

import difflib
import functools
import textwrap
import tomllib
from importlib.resources import files

import click
import msgspec
from msgspec import Struct

from vivace.cli.output import say
from vivace.errors import VivaceError

__all__ = ["Explanation", "explain", "explanations", "say_error"]


class Explanation(Struct, frozen=True, forbid_unknown_fields=True):
    cause: str
    cure: str


@functools.cache
def explanations() -> dict[str, Explanation]:
    """By code, in the order in which a person would look for them."""
    text = files("vivace.cli").joinpath("explanations.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Explanation])


def say_error(error: VivaceError) -> None:
    """What went wrong, on standard error, and where more is said about it."""
    say(f"vivace: {error}", err=True)
    code = getattr(error, "code", None)
    if code in explanations():  # other servers have codes of their own
        say(f"More on this: vivace explain {code}", err=True)


@click.command()
@click.argument("code", required=False)
def explain(code: str | None) -> None:
    """Say what the CODE of an error means, and what to do about it.

    Errors of the server carry a code, and so does the JSON of vivace edit. Without CODE, all of
    them are listed.
    """
    known = explanations()
    if code is None:
        for each in known:
            say(each)
        return
    if code not in known:
        near = difflib.get_close_matches(code, known, n=1)
        advice = f"Did you mean {near[0]!r}?" if near else "To list those there are: vivace explain"
        raise click.ClickException(f"No error has the code {code!r}. {advice}")
    found = known[code]
    say(code, bold=True)
    say(_paragraph("Why: ", found.cause))
    say(_paragraph("Do:  ", found.cure))


def _paragraph(head: str, words: str) -> str:
    return textwrap.fill(words, 88, initial_indent=head, subsequent_indent=" " * len(head))
