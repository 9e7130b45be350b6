"""What ``vivace top`` shows of gateways and engine nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from vivace.cli.output import visible
from vivace.client.fleet import FleetSeen, GatewaySeen, NodeSeen

if TYPE_CHECKING:  # as in top.py
    from rich.table import Table
    from rich.text import Text

__all__ = ["ago", "fleet_tables"]

_COLOURS = {"ready": "green", "gone": "bold red", "away": "bold red"}
"""Of a state; the others are those of being drained."""


def fleet_tables(seen: FleetSeen) -> Iterator[Table]:
    """None where one gateway is alone: of that the rest tells."""
    if len(seen.gateways) > 1 or any(each.state != "ready" for each in seen.gateways):
        yield _gateways(seen.gateways)
    if seen.nodes:
        yield _nodes(seen.nodes)


def _gateways(rows: Iterable[GatewaySeen]) -> Table:
    table = _table(("gateway", ""), ("running", "heard of"))
    for row in rows:
        name = f"{row.name or row.id} (this one)" if row.here else row.name or row.id
        table.add_row(
            visible(name), _state(row.state), str(row.running), ago(row.last_heard_seconds)
        )
    return table


def _nodes(rows: Iterable[NodeSeen]) -> Table:
    table = _table(("node", ""), ("running", "waiting", "heard of"))
    for row in rows:
        told = f"{row.state}: {row.trouble}" if row.trouble else row.state
        table.add_row(
            visible(row.name),
            _state(row.state, told),
            f"{row.running}/{row.slots}",
            str(row.waiting),
            ago(row.last_heard_seconds),
        )
    return table


def _state(state: str, told: str = "") -> Text:
    from rich.text import Text

    return Text(visible(told or state), _COLOURS.get(state, "yellow"))


def _table(names: Iterable[str], figures: Iterable[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for title in names:
        table.add_column(title, overflow="fold")
    for title in figures:
        table.add_column(title, justify="right")
    return table


def ago(seconds: float | None) -> str:
    if seconds is None:
        return "never"
    if seconds < 2:
        return "now"
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
