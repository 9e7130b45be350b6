"""``vivace undo``: the files as they were before the last edit."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import click

from vivace.cli.output import say, visible
from vivace.cli.places import state_root
from vivace.edits.diff import changes
from vivace.workspace.journal import Entry, Journal, Restoration
from vivace.workspace.paths import Workspace

__all__ = ["take_back", "undo"]


@click.command()
@click.option(
    "--steps",
    "-n",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many edits to take back.",
)
@click.option("--list", "listing", is_flag=True, help="Only say which edits can be taken back.")
@click.option("--dry-run", is_flag=True, help="Only say what would be restored.")
@click.option("--force", is_flag=True, help="Even where this loses what was changed since.")
@click.option("--redo", is_flag=True, help="Take the last undo back instead.")
def undo(steps: int, listing: bool, dry_run: bool, force: bool, redo: bool) -> None:
    """Take the last edits back.

    Every file of an edit is restored, or none is. A file that was changed since is not touched
    unless you say --force; and vivace undo --redo brings everything back, your changes too.

    The edits of the git work tree you are in are kept, or those of the current folder. The exit
    status is 0 if it was done and 1 if there was nothing to do or something in the way.
    """
    if redo and (listing or dry_run or steps > 1):
        raise click.UsageError("--redo stands alone, or with --force.")
    journal = Journal(Workspace.around(), state_root())
    if listing:
        _show_entries(journal.entries())
        return
    if redo:
        _show_files(journal.redo(force=force))
        say("The undo is taken back.", err=True)
        return
    if not dry_run:
        take_back(journal, steps, force=force)
        return
    _announce(journal, steps)
    _show_files(journal.preview(steps))


def take_back(journal: Journal, steps: int = 1, *, force: bool = False) -> None:
    """The last edits, and say which they were."""
    _announce(journal, steps)
    _show_files(journal.undo(steps, force=force))
    say("Taken back. To have it again: vivace undo --redo", err=True)


def _announce(journal: Journal, steps: int) -> None:
    for entry in journal.entries()[:steps]:
        say(_describe(entry), err=True)


def _show_entries(entries: Iterable[Entry]) -> None:
    empty = True
    for entry in entries:
        empty = False
        say(_describe(entry))
        for path in entry.paths:
            say(f"  {path}")
    if empty:
        say("There is no edit to take back here.", err=True)


def _describe(entry: Entry) -> str:
    half = "  (cut short)" if entry.interrupted else ""
    return f"{_local(entry.when):%Y-%m-%d %H:%M}  {_one_line(entry.title)}{half}"


def _local(when: datetime) -> datetime:
    return when.astimezone()


def _one_line(title: str) -> str:
    shown = visible(" ".join(title.split()))
    return shown if len(shown) <= 72 else f"{shown[:71]}…"


def _show_files(restored: Iterable[Restoration]) -> None:
    for each in restored:
        added, removed = _counted(each.now or b"", each.then or b"")
        kind = "  (removed)" if each.then is None else "  (back again)" if each.now is None else ""
        since = "  (was changed since)" if each.changed else ""
        say(f"  {each.path}  +{added} -{removed}{kind}{since}")


def _counted(before: bytes, after: bytes) -> tuple[int, int]:
    """Lines that come and go."""
    found = changes(before.splitlines(), after.splitlines())
    return sum(d - c for _, _, c, d in found), sum(b - a for a, b, _, _ in found)
