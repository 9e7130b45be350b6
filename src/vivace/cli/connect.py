"""``vivace connect``: show or write what a client needs to use a running server."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from vivace.cli import file_changes
from vivace.cli.agents import AGENTS
from vivace.cli.clients import CLIENTS, SMALLEST, Client, Endpoint, Person, Recipe, Served
from vivace.cli.editors import EDITORS
from vivace.cli.file_changes import read, undo_all, write_all
from vivace.cli.output import put, say
from vivace.cli.panels import PANELS
from vivace.cli.served import KeyRefused, Unreachable, complete_url, models_of, with_first
from vivace.cli.vscode import add_extension, how_it_is_installed, remove_extension
from vivace.errors import ConfigError
from vivace.interpreter import console_script

__all__ = ["connect"]

# Undoing needs to know the places and not the words. This model fills in the middle, so that no
# place is left out.
_ANYWHERE = Endpoint("http://127.0.0.1/v1", (Served("qwen2.5-coder-0.5b"),))


@click.group()
def connect() -> None:
    """Show or write what a client needs to use a running server.

    Nothing is written without --write, which shows the change first, keeps a backup and can be
    undone with --undo.
    """


# -- the server -----------------------------------------------------------------------------------


def _refused(url: str, key_env: str | None) -> str:
    key = os.environ.get(key_env) if key_env else None
    if key:
        return f"The server at {url} does not know the key in ${key_env}."
    if key_env:
        return f"The server at {url} asks for a key, and ${key_env} is not set here."
    return (
        f"The server at {url} asks for a key. Put yours into an environment variable and name it: "
        "--key-env VIVACE_KEY"
    )


def _endpoint(url: str, model: str | None, key_env: str | None, *, writing: bool) -> Endpoint:
    try:
        served = models_of(url, os.environ.get(key_env) if key_env else None)
    except KeyRefused:
        raise ConfigError(_refused(url, key_env)) from None
    except Unreachable:
        if model is None and writing:
            raise ConfigError(
                f"No server answers at {url}, so there is no telling its model. Start it, or name "
                "the model: --model NAME"
            ) from None
        assumed = f"a context of {SMALLEST} tokens is assumed" if model else "MODEL is its name"
        say(f"No server answers at {url} now; {assumed}.\n", err=True)
        return Endpoint(url, (Served(model or "MODEL"),), key_env)
    return Endpoint(url, with_first(served, model, url), key_env)


def _variable(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    # It goes into a shell command and several files as it is; and a key pasted here by mistake
    # would be written down.
    if value is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise click.BadParameter("give the name of an environment variable, not the key itself")
    return value


# -- showing, writing, undoing --------------------------------------------------------------------


def _show(name: str, client: Client, recipe: Recipe) -> None:
    if recipe.snippet:
        put(recipe.snippet)
        return
    say(f"{client.title} ({client.documentation})\n")
    if recipe.extension:
        say(f"{how_it_is_installed()}\n")
    for edit in recipe.edits:
        now = read(edit.path)
        say(f"-- {edit.path} ({'new' if now is None else 'add to what is there'})\n")
        say(edit.text)
    _advise(recipe)
    say(f"\nTo have it written: vivace connect {name} --write")


def _advise(recipe: Recipe) -> None:
    for note in recipe.notes:
        say(f"* {note}")


def _connect(name: str, recipe: Recipe, yes: bool) -> None:
    if add_extension(yes) if recipe.extension else write_all(recipe.edits, yes):
        say()
        _advise(recipe)
        say(f"* To undo: vivace connect {name} --undo")


def _disconnect(client: Client, yes: bool) -> None:
    recipe = client.recipe(_ANYWHERE, _person())
    if recipe.extension:
        remove_extension(yes)
    else:
        undo_all(recipe.edits, yes)


def _person() -> Person:
    beside = console_script()
    program = "vivace" if shutil.which("vivace") or beside is None else str(beside)
    return Person(Path.home(), os.environ, program)


# -- commands -------------------------------------------------------------------------------------

_server_options = (
    click.option(
        "--url",
        envvar="VIVACE_URL",
        default="http://127.0.0.1:8765/v1",
        show_default=True,
        callback=complete_url,
        help="The server, up to and including /v1.",
    ),
    click.option(
        "--key-env",
        metavar="VARIABLE",
        callback=_variable,
        help="The environment variable that holds your key, if the server asks for one.",
    ),
)
_model_option = click.option("--model", help="One of the server's models; without it, its first.")
_file_options = (file_changes.write, file_changes.undo, file_changes.yes)


def _command(name: str, client: Client) -> click.Command:
    def run(
        url: str,
        key_env: str | None,
        model: str | None = None,
        write: bool = False,
        undo: bool = False,
        yes: bool = False,
    ) -> None:
        if write and undo:
            raise click.UsageError("--write and --undo do not go together.")
        if undo:
            _disconnect(client, yes)
            return
        if client.needs_model:
            endpoint = _endpoint(url, model, key_env, writing=write)
        else:
            endpoint = Endpoint(url, (Served(""),), key_env)
        recipe = client.recipe(endpoint, _person())
        if write:
            _connect(name, recipe, yes)
        else:
            _show(name, client, recipe)

    command: Callable[..., Any] = run
    told = client.recipe(_ANYWHERE, Person(Path(), {}))
    writes = bool(told.edits) or told.extension
    options = (
        *_server_options,
        *((_model_option,) if client.needs_model else ()),
        *(_file_options if writes else ()),
    )
    for option in reversed(options):
        command = option(command)
    return click.command(name, help=f"Connect {client.title}.")(command)


for _name, _client in {**CLIENTS, **AGENTS, **PANELS, **EDITORS}.items():
    connect.add_command(_command(_name, _client))
