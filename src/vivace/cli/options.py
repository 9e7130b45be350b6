"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem

__all__ = ["config", "key", "some_file", "url"]


def some_file(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The shell completes names of files, for what may be one among other words."""
    return [CompletionItem(incomplete, type="file")]


config = click.option(
    "--config",
    "-c",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("vivace.toml"),
    envvar="VIVACE_CONFIG",
    show_default=True,
    help="The configuration file; keys are kept beside it.",
)
url = click.option(
    "--url",
    envvar="VIVACE_URL",
    default="http://127.0.0.1:8765/v1",
    show_default=True,
    help="The server.",
)
key = click.option("--key", envvar="VIVACE_KEY", help="The server's key, if it wants one.")
