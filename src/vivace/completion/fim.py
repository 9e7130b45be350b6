"""Fill-in-the-middle (FIM): a gap in a file, written as the model was trained to read it."""

from __future__ import annotations

from vivace.models import Fim
from vivace.protocol.requests import Fill

__all__ = ["render", "stops"]


def render(fill: Fill, fim: Fim) -> str:
    """The prompt. Other files of the repository come first, each behind its marker; what was typed
    into the gap comes last, so that the next key only adds to it."""
    parts: list[str] = []
    if fim.file_sep and (fill.files or fill.path):
        if fim.repo:
            parts.append(f"{fim.repo}{fill.repo or 'repository'}\n")
        parts += [f"{fim.file_sep}{file.path}\n{file.text}\n" for file in fill.files]
        parts.append(f"{fim.file_sep}{fill.path or 'file'}\n")
    before, after = fim.prefix + fill.prefix, fim.suffix + (fill.suffix or "")
    if fim.suffix_first:
        parts += [after, before, fill.typed, fim.middle]
    else:
        parts += [before, after, fim.middle, fill.typed]
    return "".join(parts)


def stops(fim: Fim) -> tuple[str, ...]:
    """What a model writes when it goes on past the gap."""
    marks = (fim.prefix, fim.suffix, fim.middle, fim.pad, fim.repo, fim.file_sep)
    return tuple(mark for mark in marks if mark)
