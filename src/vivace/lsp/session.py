"""What all methods share: one editor, its documents, and how the person wants it."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivace.lsp.documents import Documents
from vivace.lsp.editor import Editor
from vivace.lsp.files import Files
from vivace.lsp.settings import Settings

__all__ = ["Session"]


@dataclass
class Session:
    editor: Editor
    files: Files
    documents: Documents = field(default_factory=Documents)
    settings: Settings = field(default_factory=Settings)
    paused: bool = False
