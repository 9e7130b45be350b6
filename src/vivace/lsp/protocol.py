"""pygls' protocol, but for four things.

It keeps no documents: ours are kept elsewhere, and two copies of every file are one too many.
A command is a coroutine like any other request, so that ``$/cancelRequest`` reaches it. What cannot
be understood is answered, so that neither side waits for ever. And what goes wrong is told without
its traceback, which quotes code and ends in the editor's log.
"""

from __future__ import annotations

from typing import Any

from lsprotocol.types import (
    NOTEBOOK_DOCUMENT_DID_CHANGE,
    NOTEBOOK_DOCUMENT_DID_CLOSE,
    NOTEBOOK_DOCUMENT_DID_OPEN,
    TEXT_DOCUMENT_DID_CHANGE,
    TEXT_DOCUMENT_DID_CLOSE,
    TEXT_DOCUMENT_DID_OPEN,
    WORKSPACE_EXECUTE_COMMAND,
    ErrorCodes,
    ExecuteCommandParams,
    ResponseError,
)
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.protocol import LanguageServerProtocol, lsp_method

__all__ = ["Protocol"]

_OF_DOCUMENTS = (
    NOTEBOOK_DOCUMENT_DID_CHANGE,
    NOTEBOOK_DOCUMENT_DID_CLOSE,
    NOTEBOOK_DOCUMENT_DID_OPEN,
    TEXT_DOCUMENT_DID_CHANGE,
    TEXT_DOCUMENT_DID_CLOSE,
    TEXT_DOCUMENT_DID_OPEN,
)


class Protocol(LanguageServerProtocol):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        for each in _OF_DOCUMENTS:
            del self.fm.builtin_features[each]

    @lsp_method(WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # type: ignore[override]
        self, params: ExecuteCommandParams
    ) -> Any:
        handler = self.fm.commands.get(params.command)
        if handler is None:
            raise JsonRpcInvalidParams(f"There is no command {params.command!r}.")
        return await handler(params.arguments or [])

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            number, what = data.get("id"), error.to_response_error()
            if isinstance(number, str | int):
                if "method" in data:
                    self._send_response(number, error=what)
                else:
                    self._handle_response(number, error=what)
            raise

    def _handle_response(
        self, msg_id: str | int, result: Any = None, error: ResponseError | None = None
    ) -> None:
        asked = self._request_futures.get(msg_id)
        if asked is not None and asked.cancelled():  # nobody waits for it any more
            del self._request_futures[msg_id]
        else:
            super()._handle_response(msg_id, result, error)

    def _send_response(
        self, msg_id: str | int, result: Any = None, error: ResponseError | None = None
    ) -> None:
        if error is not None:
            error = ResponseError(code=error.code, message=_words(error))
        super()._send_response(msg_id, result, error)


def _words(error: ResponseError) -> str:
    if error.code == ErrorCodes.InternalError:
        return "Vivace failed at this; its log has the place."
    return error.message
