"""Which models a server has, for clients that have to be told."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import click
import msgspec
from msgspec import Struct

from vivace.cli.clients import SMALLEST, Served
from vivace.client.get import Unanswered, get
from vivace.errors import ConfigError
from vivace.units import Name

__all__ = ["KeyRefused", "Unreachable", "complete_url", "models_of", "with_first"]


class Unreachable(Exception):
    """Nobody answers there; not an error yet, since a server may be started later."""


class KeyRefused(Exception):
    """The server wants a key, or another one; who asked knows where it came from."""


class _Row(Struct, frozen=True):
    id: Name
    """As no other can be configured: it goes into settings, where opencode would put a file of the
    person's in place of ``{file:…}`` and send that back as the model."""
    context_window: int = SMALLEST
    service_tier: bool = False
    reasoning_efforts: tuple[str, ...] = ()
    default_reasoning_effort: str | None = None


class _Listing(Struct, frozen=True):
    data: list[_Row]


def models_of(url: str, key: str | None) -> tuple[Served, ...]:
    """What the server says that it has; never empty."""
    try:
        answer = asyncio.run(get(f"{url}/models", key))
    except Unanswered as error:
        raise Unreachable from error
    if answer.status in (401, 403):
        raise KeyRefused
    try:
        rows = msgspec.json.decode(answer.body, type=_Listing).data
    except (msgspec.DecodeError, RecursionError):
        rows = []
    if answer.status != 200 or not rows:
        raise ConfigError(
            f"{url}/models answers with {answer.status} and no list of models. Is --url the "
            "address of a Vivace server, up to and including /v1?"
        )
    return tuple(
        Served(
            row.id,
            row.context_window,
            row.service_tier,
            row.reasoning_efforts,
            row.default_reasoning_effort,
        )
        for row in rows
    )


def with_first(served: tuple[Served, ...], model: str | None, url: str) -> tuple[Served, ...]:
    """The same models, with the one that is asked for at their head."""
    if model is None:
        return served
    chosen = [one for one in served if one.name == model]
    if not chosen:
        names = ", ".join(one.name for one in served)
        raise ConfigError(f"The server at {url} has no model {model!r}. It has: {names}")
    return (*chosen, *(one for one in served if one.name != model))


def complete_url(context: click.Context, option: click.Parameter, value: str) -> str:
    """For an option: an address up to and including ``/v1``, which may be left out."""
    try:
        parts = urlsplit(value)
        whole = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # half an IPv6 address, or a port that is none
        whole = False
    if not whole:
        raise click.BadParameter("it begins with http:// or https://, as http://127.0.0.1:8765/v1")
    if "@" in parts.netloc:  # everyone on the machine would see it among an agent's arguments
        raise click.BadParameter("it has a name or password in it; a key goes into $VIVACE_KEY")
    if "?" in value or "#" in value:
        raise click.BadParameter("it ends with its path, as http://127.0.0.1:8765/v1")
    return value.rstrip("/") if parts.path.strip("/") else f"{value.rstrip('/')}/v1"
