"""The editor as somebody to talk to: what it is told, asked and shown."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Literal

from lsprotocol.types import (
    ApplyWorkspaceEditParams,
    Diagnostic,
    MessageActionItem,
    MessageType,
    PublishDiagnosticsParams,
    ShowMessageParams,
    ShowMessageRequestParams,
    WorkDoneProgressBegin,
    WorkDoneProgressEnd,
    WorkDoneProgressReport,
    WorkspaceEdit,
)
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from vivace.lsp.capabilities import Client
from vivace.lsp.extensions import EDIT_PROGRESS, STATUS, EditProgress, Status, as_json

__all__ = ["Editor", "Progress"]

Kind = Literal["error", "warning", "info"]

_KINDS = {"error": MessageType.Error, "warning": MessageType.Warning, "info": MessageType.Info}


class Editor:
    def __init__(self, server: LanguageServer) -> None:
        self.client = Client()
        self._server = server
        self._statuses: dict[str, Status] = {}
        self._numbers = count(1)

    # -- the person -------------------------------------------------------------------------------

    def tell(self, message: str, kind: Kind = "info") -> None:
        self._server.window_show_message(ShowMessageParams(type=_KINDS[kind], message=message))

    async def ask(self, question: str, answers: Sequence[str]) -> str | None:
        """Which of the answers they choose; None where they choose none."""
        try:
            chosen = await self._server.window_show_message_request_async(
                ShowMessageRequestParams(
                    type=MessageType.Warning,
                    message=question,
                    actions=[MessageActionItem(title=each) for each in answers],
                )
            )
        except JsonRpcException:
            return None  # an editor that asks nobody
        return chosen.title if chosen is not None else None

    # -- their text -------------------------------------------------------------------------------

    async def apply(self, edit: WorkspaceEdit, label: str) -> bool:
        """Whether the editor says that it made the edit; some say so when they did not."""
        try:
            answer = await self._server.workspace_apply_edit_async(
                ApplyWorkspaceEditParams(edit=edit, label=label)
            )
        except JsonRpcException:
            return False
        return answer.applied

    # -- what goes on -----------------------------------------------------------------------------

    def show_edit(self, shown: EditProgress) -> None:
        if self.client.known.edit:
            self._server.protocol.notify(EDIT_PROGRESS, as_json(shown))

    def show_status(self, status: Status) -> None:
        """Said once, until it is another."""
        if self.client.known.status and self._statuses.get(status.uri) != status:
            self._statuses[status.uri] = status
            self._server.protocol.notify(STATUS, as_json(status))

    def show_diagnostics(
        self, uri: str, version: int | None, diagnostics: Sequence[Diagnostic]
    ) -> None:
        """All of a document's text of this version, in place of those before."""
        self._server.text_document_publish_diagnostics(
            PublishDiagnosticsParams(uri=uri, version=version, diagnostics=diagnostics)
        )

    def forget_status(self, uri: str) -> None:
        self._statuses.pop(uri, None)

    async def begin_progress(self, title: str, *, is_edit: bool = True) -> Progress | None:
        """Of edits, for clients that do not draw them themselves; None where there is nothing to
        show."""
        if not self.client.progress or (is_edit and self.client.known.edit):
            return None
        token = f"vivace-{next(self._numbers)}"
        try:
            await self._server.work_done_progress.create_async(token)
        except JsonRpcException:
            return None
        return Progress(self._server, token, title)


class Progress:
    """A line that changes while something goes on, and can be cancelled by its token."""

    def __init__(self, server: LanguageServer, token: str, title: str) -> None:
        self.token = token
        self._shown = server.work_done_progress
        self._shown.begin(token, WorkDoneProgressBegin(title=title, cancellable=True))

    def report(self, message: str) -> None:
        self._shown.report(self.token, WorkDoneProgressReport(message=message))

    def end(self, message: str) -> None:
        self._shown.end(self.token, WorkDoneProgressEnd(message=message))
        self._shown.tokens.pop(self.token, None)
