"""What the project says about itself to whoever edits it: AGENTS.md, from the root to the file."""

from __future__ import annotations

import os
from dataclasses import dataclass

from vivace.workspace.document import read
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.ignore import why_not_read
from vivace.workspace.paths import SafePath, Workspace

__all__ = ["Instructions", "instructions_for"]

_NAME = "AGENTS.md"
_MOST_BYTES = 32 * 1024
"""Of all together; more would crowd out the code."""


@dataclass(frozen=True)
class Instructions:
    path: str
    text: str
    cut: bool = False
    """Whether there was more than fits."""


def instructions_for(workspace: Workspace, path: SafePath) -> list[Instructions]:
    """The nearest last, because it overrules; where not all fit, the farthest are cut first."""
    room = _MOST_BYTES
    found: list[Instructions] = []
    for depth in reversed(range(len(path.parts))):
        name = "/".join([*path.parts[:depth], _NAME])
        text = _text(workspace, name)
        kept = text.encode()[:room].decode(errors="ignore")
        room -= len(kept.encode())
        cut = len(kept) < len(text)
        if kept:
            found.append(Instructions(name, kept, cut))
        if cut:
            break
    return found[::-1]


def _text(workspace: Workspace, name: str) -> str:
    """Empty where there is none that may be read; links that stay in the workspace are usual."""
    full = workspace.root / name
    if not full.is_file():
        return ""
    try:
        real = os.path.realpath(full)
        found = workspace.resolve(real, allow=[real])  # to be read; nothing is changed
        document = read(found)
    except WorkspaceError:
        return ""
    return "" if why_not_read(found, document.data) else document.text.strip()
