"""``vivace mcp``: edits as tools, for any agent that speaks MCP."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import click

from vivace.cli import options
from vivace.cli.extras import from_extra
from vivace.cli.output import say
from vivace.cli.places import state_root

__all__ = ["mcp"]


@click.command()
@click.argument(
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    required=False,
)
@click.option("--model", "-m", help="Which model answers; by default the server's first.")
@click.option(
    "--deep",
    metavar="MODEL",
    envvar="VIVACE_DEEP",
    help="Which model to ask when the edits of the first are refused wherever it looks.",
)
@options.url
@options.key
def mcp(folder: Path, model: str | None, deep: str | None, url: str, key: str | None) -> None:
    """An MCP server on standard input and output: edits of files in FOLDER, as tools for agents.

    Agents start it themselves; vivace connect mcp says how. FOLDER is the current one if none is
    given. Every edit is made and checked as by vivace edit --yes, and taken back by vivace undo.
    Files outside of FOLDER, that git ignores, or that look like secrets are neither read nor
    changed. Code goes to the server that is named here and to nobody else; none is logged.
    """
    with from_extra("mcp", "The MCP server", ("mcp", "mcp_types")):
        from vivace.mcp.server import serve
    from vivace.desk.opening import Models
    from vivace.logs import log_without_code
    from vivace.mcp.edits import Edits

    _refuse_all_of_the_disk(folder)
    if sys.stdin.isatty():
        say("This waits for an agent; vivace connect mcp says how to have one start it.", err=True)
    log_without_code()
    # Nothing is half done at any moment, so there is nothing to wait for.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    edits = Edits(folder, url, key, Models(model, deep), state_root())
    try:
        asyncio.run(serve(edits))
    except* BrokenPipeError:
        pass  # the client went before it had its answer


def _refuse_all_of_the_disk(folder: Path) -> None:
    """Some clients start their servers wherever they are themselves."""
    real = Path(os.path.realpath(folder))
    if real in (Path(real.anchor), Path(os.path.realpath(Path.home()))):
        raise click.UsageError(
            f"{real} is no project, so nothing is edited there. Name the folder of one: vivace mcp "
            "FOLDER"
        )
