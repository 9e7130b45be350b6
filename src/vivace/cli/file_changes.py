"""Changes of a person's files: shown first, written whole, with a backup, and taken back."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
from msgspec import Struct

from vivace.cli.output import say
from vivace.cli.settings_files import Edit
from vivace.errors import ConfigError

__all__ = ["read", "undo", "undo_all", "write", "write_all", "yes"]

write = click.option("--write", is_flag=True, help="Write it, after showing the change.")
undo = click.option("--undo", is_flag=True, help="Take back what --write did.")
yes = click.option("--yes", "-y", is_flag=True, help="Do not ask before writing.")


def write_all(edits: Iterable[Edit], yes: bool) -> bool:
    """Whether all of it is there now; the person may not want it."""
    changes = []
    for edit in edits:
        before = read(edit.path)
        after = edit.apply(before)
        if after != before:
            changes.append(_Change(edit, before, after))
    if not changes:
        say("Everything is there already; nothing was changed.")
        return True
    if not _agreed(changes, "Write this?", yes):
        return False
    for change in changes:
        _put(change, keep=True)
    return True


def undo_all(edits: Iterable[Edit], yes: bool) -> bool:
    """Whether anything was taken back."""
    changes = [change for edit in edits if (change := _undoing(edit)) is not None]
    if not changes:
        say("There is nothing to undo.")
        return False
    if not _agreed(changes, "Undo this?", yes):
        return False
    for change in changes:
        _put(change, keep=False)
        backup = _backup(change.path)
        if backup.exists() and change.after == read(backup):
            backup.unlink()
        elif backup.exists():
            say(f"left     {backup}, the file as it was: it has been changed since")
    return True


def _undoing(edit: Edit) -> _Change | None:
    """The file as it was; or, when others have changed it since, as it is without ours."""
    now = read(edit.path)
    if now is None or not edit.holds(now):
        return None
    rest = edit.without(now)
    kept = read(_backup(edit.path))
    if kept is not None and not edit.holds(kept) and rest in (None, edit.without(kept)):
        return _Change(edit, now, kept)
    return _Change(edit, now, rest)


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


def read(path: Path) -> str | None:
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
