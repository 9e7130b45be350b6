"""What became of one response or stream, told from all that is on record of it, in its order: what
clients, engines and faults did, and what each process logged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from chaos.history import Entry, Joined, Printed, Saw, Started, Struck, Table
from chaos.rounds import line_of

__all__ = ["tale"]

_WIDTH = 240
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) ")


def tale(history: Sequence[Entry], name: str) -> str:
    """Every line that mentions it; runs of deltas in one. Faults are always told."""
    started = next((entry for entry in history if isinstance(entry, Started)), None)
    # Logs have the time of day; all else has the clock that cannot be set.
    offset = started.wall - started.at if started is not None and started.wall else None
    lines = [
        (at, line[:_WIDTH])
        for entry in history
        for at, line in _lines(entry, name, offset)
        if name in line or isinstance(entry, Struck)
    ]
    told: list[str] = []
    deltas = 0
    of_it = _streams(history, name)
    events = [
        (entry.at, "")
        for entry in history
        if isinstance(entry, Saw) and entry.client in of_it and _is_delta(entry)
    ]
    for _, line in sorted([*lines, *events], key=lambda each: each[0]):
        if not line:
            deltas += 1
            continue
        if deltas:
            told.append(f"            … {deltas} deltas")
            deltas = 0
        told.append(line)
    return "\n".join(told)


def _is_delta(entry: Saw) -> bool:
    return str(entry.event["type"]).endswith(".delta")


def _streams(history: Sequence[Entry], name: str) -> set[str]:
    """Those that read it."""
    replays = {e.client for e in history if isinstance(e, Joined) and e.replays == name}
    told = (entry for entry in history if isinstance(entry, Saw) and not _is_delta(entry))
    return replays | {
        entry.client for entry in told if (entry.event.get("response") or {}).get("id") == name
    }


def _lines(entry: Entry, name: str, offset: float | None) -> Iterator[tuple[float, str]]:
    match entry:
        case Saw() if _is_delta(entry):
            return
        case Printed():
            for line in entry.text.splitlines():
                if name in line:
                    yield _logged(entry, line, offset)
        case Table():
            for row in entry.rows:
                short = {key: value for key, value in row.items() if key not in _LONG}
                yield entry.at, f"{entry.at % 10_000:9.3f} table {entry.name}: {short}"
        case _:
            yield entry.at, line_of(entry)


_LONG = ("input", "response", "request")


def _logged(entry: Printed, line: str, offset: float | None) -> tuple[float, str]:
    found = _STAMP.match(line)
    if found is None or offset is None:
        return entry.at, f"          {entry.process}: {line}"
    logged = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S,%f").astimezone()
    at = logged.timestamp() - offset
    return at, f"{at % 10_000:9.3f} {entry.process}: {line[found.end() :]}"
