"""Both ways side by side while they run, and in plain text when they are over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.layout import Layout
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from vivace.cli.demonstration.sample import INSTRUCTION, PATH, REDIRECT, Verdict, line_count
from vivace.cli.demonstration.sides import Edit, Plain, Stopwatch, Tokens
from vivace.cli.output import visible

__all__ = ["Screen", "draw", "summary"]

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_AROUND = 9
"""Rows that are not of the code: the header, the borders, and the lines with the stopwatches."""
_BORDERS = 4


class Screen:
    """The whole terminal, which is as it was afterwards."""

    def __init__(self, plain: Plain, edit: Edit) -> None:
        self._plain = plain
        self._edit = edit
        self._console = Console(markup=False, highlight=False, emoji=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def draw(self) -> None:
        width, height = self._console.size
        self._live.update(draw(self._plain, self._edit, width, height), refresh=True)


def draw(plain: Plain, edit: Edit, width: int, height: int) -> RenderableType:
    room, wide = max(3, height - _AROUND), max(20, width // 2 - _BORDERS)
    header = Text.assemble(
        (f"{PATH}, {line_count()} lines", "bold"),
        f" · both ways with {visible(edit.model) or 'the same model'}\n",
        INSTRUCTION,
        no_wrap=True,
        overflow="ellipsis",
    )
    panes = Layout()
    panes.split_row(
        Layout(_pane("the plain way: all of the file", _plain_body(plain, room), plain.watch)),
        Layout(_pane("vivace edit", _edit_body(edit, room, wide), edit.watch)),
    )
    screen = Layout()
    screen.split_column(
        Layout(header, size=2),
        panes,
        Layout(Text("q ends", style="dim"), size=1),
    )
    return screen


def _pane(title: str, body: RenderableType, watch: Stopwatch) -> Panel:
    return Panel(body, title=title, border_style="bold" if watch.running else "dim")


def _plain_body(plain: Plain, room: int) -> RenderableType:
    state = _state(plain.watch, plain.answer, plain.status == "completed")
    about = f"{state} · {_rows_of(plain.text)} of {line_count()} lines"
    lines = plain.answer.split("\n")[-room:]
    return Group(
        _figures(plain.watch, plain.tokens), _line(about, "dim"), "", *(_line(x) for x in lines)
    )


def _edit_body(edit: Edit, room: int, width: int) -> RenderableType:
    region = edit.plan.region
    state = _state(edit.watch, edit.said, edit.outcome is not None)
    written = min(len(region), max(0, _rows_of(edit.said) - 1))
    about = f"{state} · {written} of {len(region)} lines, those of {region.name}"
    rows = [*_typed(edit), *_result(edit)] or [_line("")]
    diff = _fitting(edit.diff, room - len(rows) + 1, width)
    return Group(
        _figures(edit.watch, edit.tokens),
        _line(about, "dim"),
        *rows,
        *(_whole(line, _STYLES.get(line[:1], "")) for line in diff),
    )


def _state(watch: Stopwatch, said: str, done: bool) -> str:
    if watch.running:
        return "writes" if said else "reads"
    if not watch.stopped:
        return "comes next"
    return "done" if done else "not finished"


def _typed(edit: Edit) -> Iterator[Text]:
    if edit.typed:
        cursor = "▌" if edit.redirected is None else ""
        yield _line(f"> {edit.typed}{cursor}", "bold")


def _result(edit: Edit) -> Iterator[Text]:
    if edit.again and edit.outcome is None:
        yield _line(f"{edit.again} Asked again.", "yellow")
    if edit.outcome is None:
        return
    if not edit.outcome.good:
        yield _line(f"refused: {edit.outcome.problems[0].person}", "yellow")
    elif edit.undone is None:
        yield _line("applied", "bold green")
    else:
        yield _line(f"applied, and undone: {_undone(edit)}", "bold green")


def _figures(watch: Stopwatch, tokens: Tokens) -> Text:
    rate = tokens.per_second
    speed = f" · {rate:.0f} tokens/s" if rate is not None else ""
    clock = (f"{watch.seconds:5.1f} s", "bold")
    return Text.assemble(clock, f" · {tokens.count:,} tokens{speed}", no_wrap=True)


def _fitting(diff: Sequence[str], room: int, width: int) -> Sequence[str]:
    """What is changed goes before what stands around it."""
    if sum(-(-len(line) // width) for line in diff) <= room:
        return diff
    return [line for line in diff if line[:1] != " "][-room:]


def _rows_of(text: str) -> int:
    return text.count("\n")


def _line(text: str, style: str = "") -> Text:
    return Text(visible(text), style=style, no_wrap=True, overflow="ellipsis")


def _whole(text: str, style: str) -> Text:
    """A line that is too long goes on below: its end may be what was changed."""
    return Text(visible(text), style=style, overflow="fold")


# -- when it is over ------------------------------------------------------------------------------


def summary(plain: Plain, edit: Edit, url: str) -> str:
    """What happened, to be read and copied."""
    rows = [
        ("", "plain rewrite", "vivace edit"),
        ("time", _plain_time(plain), _edit_time(edit)),
        ("tokens", str(plain.tokens), _edit_tokens(edit)),
        ("lines changed", _changed(plain.verdict), _changed(edit.verdict)),
        ("as asked", _plain_right(plain), _edit_right(edit)),
        ("undo", "-", _undone(edit)),
    ]
    widths = [max(len(row[at]) for row in rows) for at in (0, 1)]
    table = [
        f"  {name:<{widths[0]}}  {left:<{widths[1]}}  {right}".rstrip()
        for name, left, right in rows
    ]
    head = [
        f"{PATH}, {line_count()} lines · {visible(edit.model) or 'one model'} at {url}",
        f"  asked       {INSTRUCTION}",
        f"  redirected  {REDIRECT}  ({_when(edit)})",
        "",
    ]
    return "\n".join([*head, *table])


def _when(edit: Edit) -> str:
    if edit.redirected is None:
        return "not reached"
    return f"typed to vivace edit, Enter at {edit.redirected:.1f} s"


def _plain_time(plain: Plain) -> str:
    seconds = f"{plain.watch.seconds:.1f} s"
    return seconds if plain.status == "completed" else f"not finished after {seconds}"


def _edit_time(edit: Edit) -> str:
    seconds = f"{edit.watch.seconds:.1f} s"
    return seconds if edit.outcome is not None else f"not finished after {seconds}"


def _edit_tokens(edit: Edit) -> str:
    before = f", after about {edit.earlier:,} in answers that do not count" if edit.earlier else ""
    return f"{edit.tokens}{before}"


def _changed(verdict: Verdict | None) -> str:
    return "-" if verdict is None else f"+{verdict.added} -{verdict.removed}"


def _plain_right(plain: Plain) -> str:
    if plain.verdict is None:
        return f"{_rows_of(plain.text)} of {line_count()} lines written"
    return _right(plain.verdict)


def _edit_right(edit: Edit) -> str:
    if edit.verdict is not None:
        return _right(edit.verdict)
    if edit.outcome is None:
        return "-"
    return f"refused, nothing was changed: {edit.outcome.problems[0].person}"


def _right(verdict: Verdict) -> str:
    done = "yes" if verdict.done else "no"
    others = f"{verdict.others} other lines changed" if verdict.others else "nothing else changed"
    return f"{done}, and {others}"


def _undone(edit: Edit) -> str:
    if edit.undone is None:
        return "-"
    return "the file is as it was" if edit.undone else "the file is not what it was"
