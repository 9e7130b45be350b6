"""A program's run in a terminal as an SVG: what it left there, or a film that moves as it did.

A program that draws the whole screen each time begins with the cursor at home: what stands between
two such beginnings is a scene. Of a program that writes line after line, every piece is one.

A scene may also be a screenshot (PNG), which fills the window.

The film begins with its last scene, so that the first look shows what it is for; without animation,
or where the person wants none, that scene is all there is. Every run of letters is placed by
itself: not all that show SVG keep the space between them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import NamedTuple

from rich.console import Console
from rich.style import Style
from rich.text import Text

ADVANCE, LEADING, MARGIN = 7.2, 16, 16
_HOME = "\x1b[H"
_LEFT = "\x1b[?1049l"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-LN-Za-ln-z]")
"""What moves the cursor or hides it; colours end in m."""
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LETTERS = re.compile(r"\S+(?: \S+)*")
_STILL = 2.5
"""Seconds that the last scene is seen before the film begins."""
_COLOURS = {1: "#f87171", 2: "#4ade80", 3: "#facc15", 6: "#67e8f9"}


class Scene(NamedTuple):
    when: float
    rows: Sequence[str]
    screenshot: bytes = b""


class _Piece(NamedTuple):
    row: int
    column: int
    text: str
    style: str


class _Screenshot(NamedTuple):
    png: bytes
    columns: int
    rows: int


def scenes(heard: Sequence[tuple[float, str]]) -> tuple[list[Scene], str]:
    """The screens that were drawn, and what remains on the terminal after them."""
    text = ""
    marks: list[tuple[int, float]] = []
    for when, piece in heard:
        marks.append((len(text), when))
        text += piece.replace("\r", "")
    drawn, _, rest = text.partition(_LEFT)
    found = []
    at = 0
    for part in drawn.split(_HOME):
        when = max((time for start, time in marks if start <= at), default=0.0)
        rows = _CONTROL.sub("", part).split("\n")
        if any(row.strip() for row in rows):
            found.append(Scene(when, rows))
        at += len(part) + len(_HOME)
    return found, _CONTROL.sub("", rest)


def growing(heard: Sequence[tuple[float, str]], columns: int) -> list[Scene]:
    """The screens of a program that writes line after line and moves no cursor."""
    found: list[Scene] = []
    rows = [""]
    for when, text in heard:
        for part in re.split(r"(\n)", _ESCAPE.sub("", text.replace("\r", ""))):
            if part == "\n":
                rows.append("")
                continue
            while part:
                room = columns - len(rows[-1])
                rows[-1] += part[:room]
                part = part[room:]
                if part:
                    rows.append("")
        found.append(Scene(when, list(rows)))
    return found


def still(rows: Sequence[str], columns: int, caption: str) -> str:
    """One screen, in which nothing moves."""
    pieces = (_text(piece) for piece in _pieces(Scene(0.0, rows)))
    return _document(pieces, len(rows), columns, caption)


def film(played: Sequence[Scene], columns: int, caption: str) -> str:
    """Each piece of text is there from the scene that brings it to the one that takes it away."""
    # Rounded first, so that what ends and what begins meet.
    begun = played[0].when
    shown = [played[-1]._replace(when=0.0)]
    shown += [scene._replace(when=round(_STILL + scene.when - begun, 2)) for scene in played]
    height = max(len(scene.rows) for scene in shown)
    pieces = (_moving(piece, first, last) for piece, first, last in _runs(shown, columns, height))
    return _document(pieces, height, columns, caption)


def _document(pieces: Iterable[str], height: int, columns: int, caption: str) -> str:
    width, total = 2 * MARGIN + columns * ADVANCE, 60 + (height + 1) * LEADING
    below = f'<text x="{MARGIN}" y="{total - 14}" class="dim">{escape(caption)}</text>'
    body = "\n".join(pieces)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {total}">
<style>
  text {{ font: 12px Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d4d4d8 }}
  .bold {{ font-weight: bold; fill: #fafafa }} .dim {{ fill: #8b8b94 }}
  .while {{ opacity: 0; animation-name: there }} .from {{ animation: come 10ms backwards }}
  @keyframes there {{ from, to {{ opacity: 1 }} }}
  @keyframes come {{ from {{ opacity: 0 }} }}
  @media (prefers-reduced-motion: reduce) {{ .while, .from {{ animation: none }} }}
</style>
<rect width="100%" height="100%" rx="8" fill="#18181b"/>
<circle cx="20" cy="18" r="5" fill="#ef4444"/><circle cx="38" cy="18" r="5" fill="#f59e0b"/>
<circle cx="56" cy="18" r="5" fill="#22c55e"/>
{body}
{below}
</svg>
"""


def _runs(
    shown: Sequence[Scene], columns: int, height: int
) -> Iterator[tuple[_Piece | _Screenshot, float, float | None]]:
    """Every piece with its time; those of the last scene have no end."""
    since: dict[_Piece | _Screenshot, float] = {}
    for scene in shown:
        now: set[_Piece | _Screenshot] = set(_pieces(scene))
        if scene.screenshot:
            now.add(_Screenshot(scene.screenshot, columns, height))
        for piece in [each for each in since if each not in now]:
            yield piece, since.pop(piece), scene.when
        for piece in now:
            since.setdefault(piece, scene.when)
    for piece, first in since.items():
        yield piece, first, None


def _pieces(scene: Scene) -> Iterator[_Piece]:
    console = Console(width=500, force_terminal=True)
    for row, line in enumerate(scene.rows):
        column = 0
        for segment in Text.from_ansi(line).render(console):
            text = segment.text.rstrip("\n")
            for letters in _LETTERS.finditer(text):
                start = column + letters.start()
                yield _Piece(row, start, letters[0], _style(segment.style))
            column += len(text)


def _style(style: Style | None) -> str:
    if style is None:
        return ""
    if style.color is not None and style.color.number in _COLOURS:
        return f'style="fill:{_COLOURS[style.color.number]}"'
    return 'class="bold"' if style.bold else 'class="dim"' if style.dim else ""


def _moving(piece: _Piece | _Screenshot, first: float, last: float | None) -> str:
    if last is None:
        moves = f'class="from" style="animation-delay:{first:.2f}s"'
    else:
        times = f"animation-delay:{first:.2f}s;animation-duration:{last - first:.2f}s"
        moves = f'class="while" style="{times}"'
    drawn = _text(piece) if isinstance(piece, _Piece) else _image(piece)
    return f"<g {moves}>{drawn}</g>"


def _image(shot: _Screenshot) -> str:
    size = f'width="{shot.columns * ADVANCE:.0f}" height="{shot.rows * LEADING}"'
    data = b64encode(shot.png).decode()
    return f'<image x="{MARGIN}" y="34" {size} href="data:image/png;base64,{data}"/>'


def _text(piece: _Piece) -> str:
    x, y = MARGIN + piece.column * ADVANCE, 48 + piece.row * LEADING
    # As wide as its cells, whatever font is found.
    size = f'textLength="{len(piece.text) * ADVANCE:.1f}"'
    return f'<text x="{x:.1f}" y="{y}" {size} {piece.style}>{escape(piece.text)}</text>'
