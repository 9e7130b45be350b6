"""The MCP server: tools over standard input and output, by the official SDK.

Nothing else is offered. The folder comes by argument, so that no client is asked for its roots;
logs go to standard error and hold no code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from vivace import __version__
from vivace.mcp import tools
from vivace.mcp.edits import Edits
from vivace.mcp.person import AtAgent
from vivace.mcp.results import Reply

__all__ = ["offered", "serve", "server_for"]

_PROGRESS_S = 0.5
_Context = ServerRequestContext[dict[str, Any], Any]
T = TypeVar("T")


def server_for(edits: Edits) -> Server[dict[str, Any]]:
    async def list_tools(_: _Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=offered())

    async def call_tool(context: _Context, params: CallToolRequestParams) -> CallToolResult:
        reply = await _called(edits, context, params)
        content = [TextContent(type="text", text=reply.text)]
        return CallToolResult(content=list(content), is_error=reply.failed)

    return Server(
        "vivace",
        version=__version__,
        title="Vivace",
        instructions=tools.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def offered() -> list[Tool]:
    return [
        Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.schema,
            annotations=ToolAnnotations(
                read_only_hint=False,
                destructive_hint=False,  # what is written can be taken back: vivace undo
                idempotent_hint=False,
                open_world_hint=False,
            ),
        )
        for tool in tools.TOOLS
    ]


async def serve(edits: Edits) -> None:
    """Until the client goes. What it asked for and did not wait for is stopped."""
    server = server_for(edits)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _called(edits: Edits, context: _Context, params: CallToolRequestParams) -> Reply:
    tool = next((each for each in tools.TOOLS if each.name == params.name), None)
    if tool is None:
        names = ", ".join(each.name for each in tools.TOOLS)
        return Reply(f"There is no tool of this name. There are: {names}.", failed=True)
    try:
        asked = msgspec.convert(params.arguments or {}, tool.arguments)
    except msgspec.ValidationError as error:
        return Reply(f"Nothing was done: the arguments are wrong. {error}.", failed=True)
    person = edits.person()
    async with anyio.create_task_group() as group:
        group.start_soon(_report, context, person)
        reply = await _ended(edits.carry_out(asked, person))
        group.cancel_scope.cancel()
    return reply


async def _ended(work: Coroutine[Any, Any, T]) -> T:
    """What comes of it. When the client cancels, the work has stopped before this ends: the model
    writes no more, and the file is free."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait([task])
    finally:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
    return task.result()


async def _report(context: _Context, person: AtAgent) -> None:
    """Tell a client that wants to know how far it is; others are told nothing."""
    told = 0
    while True:
        await anyio.sleep(_PROGRESS_S)
        if person.steps > told:
            told = person.steps
            await context.session.report_progress(told, message=person.doing)
