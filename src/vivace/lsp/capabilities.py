"""What the client can, read once when it introduces itself."""

from __future__ import annotations

from typing import Any

import msgspec
from lsprotocol.types import ClientCapabilities, PositionEncodingKind
from msgspec import Struct
from pygls.capabilities import ServerCapabilitiesBuilder, get_capability

from vivace.lsp.extensions import Known
from vivace.lsp.positions import Encoding

__all__ = ["Client", "read_capabilities"]

_ENCODINGS: dict[PositionEncodingKind, Encoding] = {
    PositionEncodingKind.Utf8: "utf-8",
    PositionEncodingKind.Utf16: "utf-16",
    PositionEncodingKind.Utf32: "utf-32",
}


class Client(Struct, frozen=True):
    encoding: Encoding = "utf-16"
    """The first of its own that we know, as pygls announces it."""
    versioned_edits: bool = False
    """Whether it refuses an edit that was made for an older text."""
    progress: bool = False
    inline_completion: bool = False
    """Whether it shows suggestions behind the cursor."""
    code_actions: bool = False
    """Whether a code action may say which diagnostic it fixes, and of which kind it is."""
    known: Known = Known()


def read_capabilities(told: ClientCapabilities) -> Client:
    def can(path: str) -> bool:
        return bool(get_capability(told, path, False))

    encoding = ServerCapabilitiesBuilder.choose_position_encoding(told)
    return Client(
        encoding=_ENCODINGS[PositionEncodingKind(encoding)],
        versioned_edits=can("workspace.workspace_edit.document_changes"),
        progress=can("window.work_done_progress"),
        inline_completion=can("text_document.inline_completion"),
        code_actions=can("text_document.code_action.code_action_literal_support"),
        known=_known(told.experimental),
    )


def _known(experimental: Any) -> Known:
    try:
        return msgspec.convert((experimental or {}).get("vivace", {}), Known)
    except (AttributeError, TypeError, msgspec.ValidationError):
        return Known()  # a client that means something else by it
