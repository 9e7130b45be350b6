"""``vivace``: the commands, their help, and how an error reaches the person."""

from __future__ import annotations

import io
import sys
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from vivace import __version__
from vivace.cli.output import say
from vivace.errors import VivaceError

__all__ = ["main"]

_COMMANDS = {
    "ask": "ask",
    "check": "check",
    "completion": "completion",
    "config": "serve",
    "connect": "connect",
    "demo": "demo",
    "doctor": "doctor",
    "drain": "drain",
    "edit": "edit",
    "engine": "engine",
    "explain": "explain",
    "fleet": "fleet",
    "keys": "keys",
    "lsp": "lsp",
    "mcp": "mcp",
    "review": "review",
    "run": "run",
    "serve": "serve",
    "service": "service",
    "stats": "stats",
    "store": "store",
    "top": "top",
    "undo": "undo",
    "up": "up",
    "watch": "watch",
}
"""Each command, and the module here that has it under the same name."""


class _Commands(click.Group):
    """A command is imported when it is used: what needs no server waits for none."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        found = getattr(import_module(f"vivace.cli.{_COMMANDS[name]}"), name)
        assert isinstance(found, click.Command)
        return found

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names alone: for what they say of themselves each Tab would import all of them."""
        names = [CompletionItem(name) for name in _COMMANDS if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, context, incomplete)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="vivace")
def commands() -> None:
    """Open coding models on your own hardware, answering at the speed of typing.

    Any client of OpenAI's Responses API works with a Vivace server: the OpenAI SDK, Codex CLI,
    or curl.
    """


def main() -> None:
    try:
        sys.exit(commands.main(standalone_mode=False))
    except VivaceError as error:
        from vivace.cli.explain import say_error  # at a Tab nobody needs it

        say_error(error)
        sys.exit(1)
    except click.ClickException as error:
        error.show(words := io.StringIO())  # they quote what was given, which may be anything
        say(words.getvalue(), err=True, nl=False)
        sys.exit(error.exit_code)
    except click.Abort:
        say("Aborted!", err=True)
        sys.exit(1)
