"""``vivace lsp``: the language server, started by editors."""

from __future__ import annotations

import asyncio
import sys

import click

from vivace.cli import options
from vivace.cli.places import state_root

__all__ = ["lsp"]


@click.command()
@options.url
@options.key
def lsp(url: str, key: str | None) -> None:
    """A language server on standard input and output: completions, edits and fixes in any editor.

    Editors start it themselves; vivace connect says how. It sends code to the server it is given
    and to nobody else, and logs none.
    """
    try:
        from vivace.logs import log_without_code
        from vivace.lsp.address import Address
        from vivace.lsp.server import Server, serve
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in ("lsprotocol", "pygls"):
            raise
        raise click.ClickException(
            "The language server is not installed. Install it with: pip install 'vivace[lsp]'"
        ) from None
    log_without_code()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what anybody prints would be taken for a message
    asyncio.run(serve(Server(Address(url, key), state_root()), stdin, stdout))
