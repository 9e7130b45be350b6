"""What all methods share: one editor, its documents, and how the person wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vivace.lsp.documents import Document, Documents
from vivace.lsp.editor import Editor
from vivace.lsp.files import Files
from vivace.lsp.settings import Settings
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.paths import SafePath

__all__ = ["Session"]


@dataclass
class Session:
    editor: Editor
    files: Files
    documents: Documents = field(default_factory=Documents)
    settings: Settings = field(default_factory=Settings)
    paused: bool = False
    notebooks: dict[str, list[str]] = field(default_factory=dict)
    """Which documents are the cells of each, in their order."""

    def notebook_of(self, document: Document) -> Sequence[str] | None:
        """The cells of the notebook that a document is a cell of, if it is one."""
        return next((cells for cells in self.notebooks.values() if document.uri in cells), None)

    def text_before(self, document: Document) -> str:
        """What a cell goes on from: the cells before it in its language, which were run before it,
        as far as a model may read them. Nothing before any other document."""
        cells = self.notebook_of(document) or [document.uri]
        earlier = map(self.documents.get, cells[: cells.index(document.uri)])
        return "".join(
            f"{cell.text.rstrip()}\n\n"
            for cell in earlier
            if cell is not None
            and cell.path == document.path
            and self.files.known_to_be_readable(cell)
        )

    @property
    def completes(self) -> bool:
        """Whether completions come by themselves."""
        return self.settings.completion.enabled and not self.paused

    def opened(self, path: SafePath) -> Document | None:
        """The document that is this file, under whatever name it is open."""
        return next((each for each in self.documents if self._is(each, path)), None)

    def _is(self, document: Document, path: SafePath) -> bool:
        try:
            return self.files.find(document.uri).path.absolute == path.absolute
        except WorkspaceError:
            return False
