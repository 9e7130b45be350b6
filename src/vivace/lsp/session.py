"""What all methods share: one editor, its documents, and how the person wants it."""

from __future__ import annotations

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
