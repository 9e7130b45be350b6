"""``vivace stats``: what completions came to on this machine, in numbers alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any

import click
import msgspec

from vivace.cli.output import put, say
from vivace.cli.places import shortened, state_root
from vivace.desk.counts import Counts
from vivace.desk.usage import UsageFile, this_day

__all__ = ["stats"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Every day as JSON, for programs.")
@click.option("--delete", is_flag=True, help="Delete what was counted.")
def stats(as_json: bool, delete: bool) -> None:
    """What completions in your editors came to: offered, accepted, kept, and how soon they came.

    These are counts of this machine, by day. They hold no text and no names of files, and are sent
    nowhere.
    """
    file = UsageFile(state_root())
    if delete:
        say("Deleted." if file.delete() else "Nothing has been counted yet.")
        return
    days = file.days()
    if as_json:
        told = {
            "file": str(file.path),
            "days": {day.isoformat(): _figures(counts) for day, counts in days.items()},
            "all": _figures(_sum(days.values())),
        }
        put(msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n")
    elif not days:
        say("Nothing has been counted yet: vivace lsp does, while you type in an editor.")
    else:
        for line in _table(days, this_day()):
            say(line)
        say(f"\n{_MEANING}\nKept in {shortened(file.path)}; to delete it: vivace stats --delete")


_MEANING = """\
offered   handed to the editor; editors do not tell what they showed of it. One counts once, however
          much of it you typed yourself. Taken word by word it may not count as accepted.
kept      still in the file 30 seconds after it was accepted, of those whose file was still open
ahead     requests besides, made while you did not type, so that the next key need not wait
keys      how often the editor asked: at every key, or when its own delay was over
wait      from the key to the suggestion, where it had to be written first

These are counts of this machine. They hold no text and no names, and are sent nowhere."""


def _sum(counts: Iterable[Counts]) -> Counts:
    whole = Counts()
    for each in counts:
        whole.add(each)
    return whole


def _figures(counts: Counts) -> dict[str, Any]:
    return {
        "offered": counts.offered,
        "accepted": counts.accepted,
        "judged": counts.judged,
        "kept": counts.kept,
        "keys": counts.keys,
        "remembered": counts.remembered,
        "requests": counts.requests,
        "ahead": counts.ahead,
        "requests_per_key": _ratio(counts.requests, counts.keys),
        "wait_p50_s": counts.wait_of(0.5),
        "wait_p90_s": counts.wait_of(0.9),
    }


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _table(days: Mapping[date, Counts], today: date) -> Iterator[str]:
    week = today - timedelta(days=6)
    columns = {
        "today": days.get(today, Counts()),
        "7 days": _sum(counts for day, counts in days.items() if day >= week),
        f"since {min(days)}": _sum(days.values()),
    }
    yield _row("", columns)
    cells = [_cells(counts) for counts in columns.values()]
    for name in cells[0]:
        yield _row(name, (each[name] for each in cells))


def _row(name: str, cells: Iterable[str]) -> str:
    return f"{name:20}" + "".join(f"{cell:>18}" for cell in cells)


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.0f}%)" if whole else str(part)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.2g} s"


def _cells(counts: Counts) -> dict[str, str]:
    per_key = _ratio(counts.requests, counts.keys)
    return {
        "offered": str(counts.offered),
        "accepted": _share(counts.accepted, counts.offered),
        "kept after 30 s": _share(counts.kept, counts.judged),
        "keys": str(counts.keys),
        "from memory": _share(counts.remembered, counts.keys),
        "requests": str(counts.requests),
        "requests per key": "-" if per_key is None else f"{per_key:.2f}",
        "ahead": str(counts.ahead),
        "wait p50": _seconds(counts.wait_of(0.5)),
        "wait p90": _seconds(counts.wait_of(0.9)),
    }
