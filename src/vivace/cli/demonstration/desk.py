"""A copy of the sample in a folder of its own, changed and restored as any file would be."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from vivace.cli.demonstration.sample import INSTRUCTION, PATH, sample
from vivace.desk.applying import Accepted, write_all
from vivace.desk.targets import Target
from vivace.syntax.hunk import Hunk
from vivace.workspace.document import read
from vivace.workspace.journal import Journal
from vivace.workspace.paths import Workspace

__all__ = ["Desk", "desk"]


class Desk:
    def __init__(self, folder: Path) -> None:
        """``folder`` is empty; the work tree and its journal lie side by side in it."""
        tree = folder / "work"
        tree.mkdir()
        self.file = tree / PATH
        self.file.write_text(sample(), encoding="utf-8")
        workspace = Workspace(tree)
        self._journal = Journal(workspace, folder / "state")
        self._target = Target(read(workspace.resolve(PATH)), None)
        self.applied = False

    def apply(self, hunks: Sequence[Hunk]) -> None:
        write_all(self._journal, [Accepted(self._target, tuple(hunks))], INSTRUCTION)
        self.applied = True

    def undo(self) -> bool:
        """Take the edit back; whether the file is what it was, to the last byte."""
        self._journal.undo()
        self.applied = False
        return self.file.read_bytes() == self._target.document.data


@contextlib.contextmanager
def desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory(prefix="vivace-demo-") as folder:
        yield Desk(Path(folder))
