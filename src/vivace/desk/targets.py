"""The files a person names, and which of their lines are meant."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from vivace.edits.placing.region import Selection
from vivace.syntax.lines import lines_of
from vivace.workspace.document import Document, read
from vivace.workspace.errors import PathRefused, WorkspaceError
from vivace.workspace.ignore import secret_content, why_not_read
from vivace.workspace.paths import SafePath, Workspace

__all__ = ["Target", "names_a_file", "open_target", "read_target", "split_lines", "workspace_of"]

_LINES = re.compile(r"(?P<path>.+):(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?")


@dataclass(frozen=True)
class Target:
    """A file that is to be edited, as it was read."""

    document: Document
    selection: Selection | None = None

    @property
    def path(self) -> SafePath:
        return self.document.path

    @property
    def text(self) -> str:
        return self.document.text


def split_lines(given: str) -> tuple[str, Selection | None]:
    """``PATH:LINE-LINE`` in its parts; a file whose name looks like that is meant as it is."""
    found = _LINES.fullmatch(given)
    if found is None or os.path.lexists(Path(given).expanduser()):
        return given, None
    first = int(found["first"])
    return found["path"], (first - 1, int(found["last"] or first))


def names_a_file(given: str) -> bool:
    """Whether a word is the name of a file that is there, rather than an instruction."""
    try:
        return Path(split_lines(given)[0]).expanduser().is_file()
    except (OSError, ValueError, RuntimeError):  # too long, a NUL, nobody's home
        return False


def workspace_of(given: str) -> Workspace:
    return Workspace.around(Path(split_lines(given)[0]).expanduser())


def open_target(workspace: Workspace, given: str) -> Target:
    """Read a file for an edit; refuses what no model may see, before anything is sent."""
    name, selection = split_lines(given)
    return read_target(workspace.named(name), selection)


def read_target(path: SafePath, selection: Selection | None = None) -> Target:
    """What no model may see by its name is not even opened."""
    if not os.path.lexists(path.absolute):
        raise PathRefused(f"There is no file {path}. If it is to be a new one, make it first.")
    if (why := why_not_read(path, b"")) is not None:
        raise WorkspaceError(f"{why} So no model can edit it.")
    document = read(path)
    if (what := secret_content(document.data)) is not None:
        raise WorkspaceError(
            f"{path} is not read: it seems to hold {what}. So no model can edit it."
        )
    count = len(lines_of(document.text))
    if selection is not None and not 0 <= selection[0] < selection[1] <= max(1, count):
        lines = f"{selection[0] + 1}-{selection[1]}"
        raise PathRefused(f"{path}:{lines} is no part of the file: it has the lines 1 to {count}.")
    return Target(document, selection)
