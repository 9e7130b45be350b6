"""Pages in Markdown: their head, and tables that stay tables whatever stands in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["code", "page", "table"]


def page(title: str, *parts: str) -> str:
    made = "<!-- Written by scripts/reference from the code: change it there. -->"
    return "\n\n".join([f"# {title}", made, *(part.strip("\n") for part in parts if part)]) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(each) for each in line)} |" for line in lines)


def code(text: object) -> str:
    return f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
