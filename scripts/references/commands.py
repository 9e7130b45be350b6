"""The command line, from what ``--help`` says."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

import click

from scripts.references.tables import code, page, table
from vivace.cli.main import commands

__all__ = ["every_command", "text"]

_INTRODUCTION = """
What each command does, as `vivace COMMAND --help` says it too. An option that a variable of the
environment can give is listed with that variable; what is typed wins.
"""
_STATUS = re.compile(r"^ +(\d+) +(.*(?:\n {7,}.*)*)$", re.MULTILINE)


def text() -> str:
    _, *found = every_command()
    rows = [(_link(each.command_path), _first_sentence(each.command)) for each in found]
    summary = table(("command", "what it does"), rows)
    return page("Commands", _INTRODUCTION, summary, *map(_section, found))


def _link(path: str) -> str:
    return f"[{path}](#{path.replace(' ', '-')})"


def every_command() -> Iterator[click.Context]:
    """``vivace`` itself first, then each command, before those that stand below it."""
    # With its settings, by which it is called: a command remembers its first option for help.
    return _below(click.Context(commands, info_name="vivace", **commands.context_settings))


def _below(context: click.Context) -> Iterator[click.Context]:
    yield context
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            inner = context.command.get_command(context, name)
            assert inner is not None
            yield from _below(click.Context(inner, info_name=name, parent=context))


def _first_sentence(command: click.Command) -> str:
    return re.split(r"(?<=\.) ", " ".join(_help(command)[0].split()))[0]


def _help(command: click.Command) -> list[str]:
    return inspect.cleandoc(command.help or "").split("\n\n")


def _section(context: click.Context) -> str:
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    parts = [f"## {context.command_path}", f"```text\n{usage}\n```"]
    parts += [_paragraph(each) for each in _help(context.command)]
    if rows := [_option(each, context) for each in context.command.params if _is_shown(each)]:
        parts.append(table(("option", "meaning"), rows))
    return "\n\n".join(parts)


def _paragraph(words: str) -> str:
    """One that click leaves as it stands is an example, or the list of exit statuses."""
    as_it_stands = words.startswith("\b\n")
    lines = words.removeprefix("\b\n")
    if lines.startswith("Exit status:"):
        return _statuses(lines.removeprefix("Exit status:"))
    if as_it_stands or lines.startswith(" "):
        return f"```text\n{textwrap.dedent(lines)}\n```"
    return " ".join(lines.split())


def _statuses(lines: str) -> str:
    rows = [(number, " ".join(when.split())) for number, when in _STATUS.findall(lines)]
    rest = " ".join(_STATUS.sub("", lines).split())
    return (f"Exit status: {rest}.\n\n" if rest else "") + table(("exit status", "when"), rows)


def _is_shown(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.hidden


def _option(option: click.Parameter, context: click.Context) -> tuple[str, str]:
    record = option.get_help_record(context)
    assert isinstance(option, click.Option)
    assert record is not None
    names, words = record
    if option.envvar is not None:
        words = f"{words} Also by {code(option.envvar)}."
    return code(names), " ".join(words.split())
