"""``vivace connect``: show or write what a client needs to use a running server."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from vivace.cli.agents import AGENTS
from vivace.cli.clients import CLIENTS, SMALLEST, Client, Endpoint, Person, Recipe, Served
from vivace.cli.editors import EDITORS
from vivace.cli.output import put, say
from vivace.cli.panels import PANELS
from vivace.cli.served import KeyRefused, Unreachable, complete_url, models_of, with_first
from vivace.cli.settings_files import Edit
from vivace.cli.vscode import add_extension, how_it_is_installed, remove_extension
from vivace.errors import ConfigError

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


# -- files ----------------------------------------------------------------------------------------


class _Change(Struct, frozen=True):
    edit: Edit
    before: str | None
    after: str | None
    """None: the file goes."""

    @property
    def path(self) -> Path:
        return self.edit.path

    def diff(self) -> str:
        lines = difflib.unified_diff(
            (self.before or "").splitlines(),
            (self.after or "").splitlines(),
            "/dev/null" if self.before is None else str(self.path),
            "/dev/null" if self.after is None else str(self.path),
            lineterm="",
        )
        return "\n".join(lines) + "\n"


def _backup(path: Path) -> Path:
    return path.with_name(f"{path.name}.vivace-backup")


def _read(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _write(path: Path, text: str) -> None:
    """All of it or nothing, under the permissions that the file has."""
    real = path.resolve()  # a link to somebody's dotfiles stays a link
    real.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{real.name}.", dir=real.parent)
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123 - a handle
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if real.exists():
            shutil.copymode(real, name)
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _keep(change: _Change) -> None:
    """Put the person's own words aside, unless older ones are kept already."""
    if change.before is None or change.edit.without(change.before) is None:
        return
    backup = _backup(change.path)
    if not backup.exists():
        _write(backup, change.before)
        shutil.copymode(change.path, backup)
        say(f"kept     {backup}")


def _put(change: _Change, *, keep: bool) -> None:
    try:
        if keep:
            _keep(change)
        if change.after is None:
            change.path.unlink()
            say(f"removed  {change.path}")
        else:
            _write(change.path, change.after)
            say(f"written  {change.path}")
    except OSError as error:
        raise ConfigError(f"{change.path} cannot be written: {error.strerror}.") from error


def _agreed(changes: Iterable[_Change], question: str, yes: bool) -> bool:
    for change in changes:
        say(change.diff())
    if yes or click.confirm(question):
        return True
    say("Nothing was changed.")
    return False


# -- showing, writing, undoing --------------------------------------------------------------------


def _show(name: str, client: Client, recipe: Recipe) -> None:
    if recipe.snippet:
        put(recipe.snippet)
        return
    say(f"{client.title} ({client.documentation})\n")
    if recipe.extension:
        say(f"{how_it_is_installed()}\n")
    for edit in recipe.edits:
        now = _read(edit.path)
        say(f"-- {edit.path} ({'new' if now is None else 'add to what is there'})\n")
        say(edit.text)
    _advise(recipe)
    say(f"\nTo have it written: vivace connect {name} --write")


def _advise(recipe: Recipe) -> None:
    for note in recipe.notes:
        say(f"* {note}")


def _connect(name: str, recipe: Recipe, yes: bool) -> None:
    if recipe.extension:
        if add_extension(yes):
            _advise_after(name, recipe)
        return
    changes = []
    for edit in recipe.edits:
        before = _read(edit.path)
        after = edit.apply(before)
        if after != before:
            changes.append(_Change(edit, before, after))
    if not changes:
        say("Everything is there already; nothing was changed.")
    elif not _agreed(changes, "Write this?", yes):
        return
    for change in changes:
        _put(change, keep=True)
    _advise_after(name, recipe)


def _advise_after(name: str, recipe: Recipe) -> None:
    say()
    _advise(recipe)
    say(f"* To undo: vivace connect {name} --undo")


def _disconnect(client: Client, yes: bool) -> None:
    recipe = client.recipe(_ANYWHERE, _person())
    if recipe.extension:
        remove_extension(yes)
        return
    changes = [change for edit in recipe.edits if (change := _undoing(edit)) is not None]
    if not changes:
        say("There is nothing to undo.")
        return
    if not _agreed(changes, "Undo this?", yes):
        return
    for change in changes:
        _put(change, keep=False)
        backup = _backup(change.path)
        if backup.exists() and change.after == _read(backup):
            backup.unlink()
        elif backup.exists():
            say(f"left     {backup}, the file as it was: it has been changed since")


def _undoing(edit: Edit) -> _Change | None:
    """The file as it was; or, when others have changed it since, as it is without ours."""
    now = _read(edit.path)
    if now is None or not edit.holds(now):
        return None
    rest = edit.without(now)
    kept = _read(_backup(edit.path))
    if kept is not None and not edit.holds(kept) and rest in (None, edit.without(kept)):
        return _Change(edit, now, kept)
    return _Change(edit, now, rest)


def _person() -> Person:
    beside = Path(sys.executable).with_name("vivace")
    program = "vivace" if shutil.which("vivace") or not beside.exists() else str(beside)
    return Person(Path.home(), os.environ, program)


# -- commands -------------------------------------------------------------------------------------

_server_options = (
    click.option(
        "--url",
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
_file_options = (
    click.option("--write", is_flag=True, help="Write it, after showing the change."),
    click.option("--undo", is_flag=True, help="Take back what --write did."),
    click.option("--yes", "-y", is_flag=True, help="Do not ask before writing."),
)


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
