"""An agent with a project: the official SDK's client, and our server behind it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from mcp_types import CallToolResult, TextContent

from mcp import Client, StdioServerParameters
from tests.support.editing import Project
from vivace.desk.opening import Models
from vivace.mcp.edits import Edits
from vivace.mcp.server import server_for

T = TypeVar("T")


def environment(project: Project) -> dict[str, str]:
    """The person's, with our modules where this process finds them."""
    return project.home.environment | {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}


def started(project: Project, *arguments: str) -> StdioServerParameters:
    """``vivace mcp`` as a process of its own."""
    program, *rest = project.home.command("mcp", "--url", project.gateway.url, *arguments)
    return StdioServerParameters(
        command=program, args=rest, env=environment(project), cwd=project.root
    )


@asynccontextmanager
async def in_process(
    project: Project, folder: Path | None = None, url: str = ""
) -> AsyncIterator[Client]:
    state = Path(project.home.environment["XDG_STATE_HOME"]) / "vivace"
    address = url or project.gateway.url
    edits = Edits(folder or project.root, address, None, Models(), state)
    async with Client(server_for(edits)) as client:
        yield client


def with_agent(
    project: Project, story: Callable[[Client], Awaitable[T]], folder: Path | None = None
) -> T:
    async def run() -> T:
        async with in_process(project, folder) as client:
            return await story(client)

    return asyncio.run(run())


def call(project: Project, tool: str, folder: Path | None = None, /, **arguments: object) -> Answer:
    async def story(client: Client) -> CallToolResult:
        return await client.call_tool(tool, dict(arguments))

    return Answer(with_agent(project, story, folder))


class Answer:
    def __init__(self, result: CallToolResult) -> None:
        [content] = result.content
        assert isinstance(content, TextContent)
        self.text = content.text
        self.failed = bool(result.is_error)
