"""``vivace lsp``: the language server, started by editors."""

from __future__ import annotations

import asyncio
import sys

import click

from vivace.cli import options
from vivace.cli.extras import from_extra
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
    with from_extra("lsp", "The language server", ("lsprotocol", "pygls")):
        from vivace.logs import log_without_code
        from vivace.lsp.address import Address
        from vivace.lsp.server import Server, serve
    log_without_code()
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # what anybody prints would be taken for a message
    asyncio.run(serve(Server(Address(url, key), state_root()), stdin, stdout))
