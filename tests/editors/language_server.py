"""A language server for tests of editors: it says at once what a real one would think about.

Whoever begins to type ``FUNCTION`` gets the rest suggested, in the form of ``vivace lsp``: from the
first character of the line on, over a bracket that the editor has closed by itself. An edit writes
its instruction over the range: it is shown until it is redirected or stopped, or until the file
exists that the program is started with.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lsprotocol.types import (
    TEXT_DOCUMENT_INLINE_COMPLETION,
    ApplyWorkspaceEditParams,
    Command,
    InlineCompletionItem,
    InlineCompletionOptions,
    InlineCompletionParams,
    Position,
    Range,
    TextEdit,
    WorkspaceEdit,
)
from pygls.lsp.server import LanguageServer

from tests.support.waiting import eventually_async

FUNCTION = "def foo(bar):\n    return bar"

server = LanguageServer("vivace", "1")
directions: dict[str, str] = {}
over: dict[str, bool] = {}
"""Whether the edit of a document has been redirected or stopped."""


@server.feature(TEXT_DOCUMENT_INLINE_COMPLETION, InlineCompletionOptions())
def complete(params: InlineCompletionParams) -> list[InlineCompletionItem] | None:
    lines = server.workspace.get_text_document(params.text_document.uri).lines
    row, column = params.position.line, params.position.character
    line = lines[row].rstrip("\n") if row < len(lines) else ""
    typed = line[:column].lstrip()
    if not typed or not FUNCTION.startswith(typed):
        return None
    closed = len(line) - column if line[column:] == ")" else 0
    place = Range(Position(row, column - len(typed)), Position(row, column + closed))
    tell = Command(title="Accepted", command="vivace.accepted", arguments=[{"number": 7}])
    return [InlineCompletionItem(FUNCTION, range=place, command=tell)]


@server.command("vivace.edit")
async def edit(asked: dict[str, Any]) -> Any:
    hunk = {"range": asked["range"], "newText": asked["instruction"] + "\n"}
    shown = {"uri": asked["uri"], "version": 0, "hunks": [hunk], "done": False, "message": ""}
    directions[asked["uri"]], over[asked["uri"]] = asked["instruction"], False
    server.protocol.notify("vivace/edit", shown)
    gate = Path(sys.argv[1])
    await eventually_async(lambda: over[asked["uri"]] or gate.exists())
    server.protocol.notify("vivace/edit", shown | {"hunks": [], "done": True})
    words = directions.pop(asked["uri"], None)
    if words is None:
        return {"status": "stopped"}
    place = asked["range"]
    change = TextEdit(Range(Position(**place["start"]), Position(**place["end"])), f"# {words}\n")
    await server.workspace_apply_edit_async(
        ApplyWorkspaceEditParams(WorkspaceEdit(changes={asked["uri"]: [change]}))
    )
    return {"status": "applied"}


@server.command("vivace.rename")
def rename(asked: dict[str, Any]) -> None:
    place = asked["position"]
    why = f"{asked['newName']} for what stands at {place['line']}:{place['character']}"
    server.protocol.notify("vivace/status", {"state": "ready", "why": why})


@server.command("vivace.redirect")
def redirect(asked: dict[str, Any]) -> None:
    directions[asked["uri"]], over[asked["uri"]] = asked["instruction"], True


@server.command("vivace.stop")
def stop(asked: dict[str, Any]) -> None:
    directions.pop(asked["uri"], None)
    over[asked["uri"]] = True


@server.command("vivace.pause")
def pause(asked: dict[str, Any]) -> None:
    state = "paused" if asked["paused"] else "ready"
    server.protocol.notify("vivace/status", {"state": state, "why": "You paused it."})


@server.command("vivace.accepted")
def accepted(told: dict[str, Any]) -> None:
    why = f"Number {told['number']} was accepted."
    server.protocol.notify("vivace/status", {"state": "ready", "why": why})


if __name__ == "__main__":
    server.start_io()
