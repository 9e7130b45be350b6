"""``vivace ask``: a question on the command line, answered as it is generated."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path

import click
import msgspec

from vivace.cli import options
from vivace.cli.dialogue import Printed, typing
from vivace.cli.keyboard import available
from vivace.cli.output import say
from vivace.cli.places import state_root
from vivace.client.connection import ClientError, Connection, Figures, open_connection
from vivace.desk.dialogue import Dialogue
from vivace.workspace.ignore import why_not_read
from vivace.workspace.paths import Workspace, top_level

__all__ = ["ask"]


@click.command()
@click.argument("question", nargs=-1, required=True)
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Show this file to the model; may be given several times. Files that git ignores or that "
    "look like secrets are refused.",
)
@click.option("--continue", "-c", "goes_on", is_flag=True, help="Go on from the last answer.")
@click.option("--model", "-m", help="Which model answers; by default the server's first.")
@options.url
@options.key
@click.option("--max-tokens", type=int, help="Stop after this many tokens.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show the speed.")
def ask(
    question: tuple[str, ...],
    files: tuple[Path, ...],
    goes_on: bool,
    model: str | None,
    url: str,
    key: str | None,
    max_tokens: int | None,
    quiet: bool,
) -> None:
    """Ask a question; the answer appears as it is generated.

    What is piped in is shown to the model too:

        git diff | vivace ask "What could break here?"

    In a terminal you can talk to it while it writes: type a line and Enter, and the answer takes
    that direction at once. While it thinks, Tab has it answer now. Esc or Ctrl-C stops it.
    Characters that would steer the terminal are shown as �; a pipe gets the answer as it is.
    """
    body: dict[str, object] = {"input": _input(" ".join(question), files)}
    if model is not None:
        body["model"] = model
    if max_tokens is not None:
        body["max_output_tokens"] = max_tokens
    if goes_on:
        body["previous_response_id"] = _last(url)
    try:
        figures = asyncio.run(_answer(url, key, body))
    except KeyboardInterrupt:
        figures = None
        say(err=True)
    except ClientError as error:
        if goes_on and error.code == "previous_response_not_found":
            raise ClientError(
                "The last answer is not kept on this server any more; ask without -c."
            ) from None
        raise
    if figures is None:
        say("stopped", err=True)
        sys.exit(130)
    if not quiet:
        say(describe(figures), err=True, dim=True)


async def _answer(url: str, key: str | None, body: dict[str, object]) -> Figures | None:
    """None when the person stopped it."""
    async with open_connection(url, key) as connection:
        if available():
            connection.on_thinking = partial(_note, "thinking; Tab for the answer now")
            connection.on_refusal = _note
        connection.waits, printed = True, Printed()
        connection.on_back = partial(printed.note, "The connection was lost and is back.")
        dialogue = Dialogue(connection, printed)
        with typing(dialogue):
            await dialogue.answer(**body)
        say()
        if dialogue.stopped:
            return None
        _remember(url, connection)
        return connection.figures


def _note(words: str) -> None:
    say(words, err=True, dim=True)


def _input(question: str, files: tuple[Path, ...]) -> str:
    """The question last: what comes first can be cached from one question to the next."""
    shown = [f"File {path}:\n```\n{_text(path)}\n```" for path in files]
    if not sys.stdin.isatty():
        piped = sys.stdin.buffer.read().decode(errors="replace")
        if piped.strip():
            shown.append(f"Standard input:\n```\n{piped}\n```")
    return "\n\n".join([*shown, question])


def _text(path: Path) -> str:
    """A file to be shown; refused where no model may read it."""
    data = path.read_bytes()
    if path.is_file():  # not what a shell makes of <(command)
        real = path.resolve()
        workspace = Workspace(top_level(real) or real.parent)
        why = why_not_read(workspace.named(real), data)
        if why is not None:
            raise click.UsageError(why)
    return data.decode(errors="replace")


def describe(figures: Figures) -> str:
    """The speed in words, as far as there is something to measure."""
    parts = [f"{figures.tokens} tokens"]
    if figures.first_token is not None:
        parts.append(f"first after {figures.first_token:.2f} s")
    if figures.tokens_per_second is not None:
        rate = figures.tokens_per_second
        parts.append(f"{rate:.0f} tokens/s" if rate >= 10 else f"{rate:.1f} tokens/s")
    return " · ".join(parts)


def _memory() -> Path:
    return state_root() / "last-answers.json"


def _remember(url: str, connection: Connection) -> None:
    if connection.response is not None:
        known = _known() | {url: connection.response.id}
        _memory().parent.mkdir(parents=True, exist_ok=True)
        # Whoever knows an id can go on from it where a server asks for no key.
        handle, name = tempfile.mkstemp(dir=_memory().parent)
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle
            file.write(msgspec.json.encode(known))
        Path(name).replace(_memory())


def _known() -> dict[str, str]:
    try:
        return msgspec.json.decode(_memory().read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def _last(url: str) -> str:
    known = _known().get(url)
    if known is None:
        raise ClientError(f"There is no earlier answer from {url} to go on from; ask without -c.")
    return known
