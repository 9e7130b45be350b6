"""Commands whose packages are an extra."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

import click

from vivace.extras import how_to_install

__all__ = ["from_extra"]


@contextlib.contextmanager
def from_extra(extra: str, what: str, packages: Collection[str]) -> Iterator[None]:
    """Imports that need the packages of an extra: without them, how to install it is said."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] not in packages:
            raise
        raise click.ClickException(
            f"{what} is not installed. Install it with: {how_to_install(extra)}"
        ) from None
