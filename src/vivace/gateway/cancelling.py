"""Whose cancellation it is: an order to this task, or the end of something that it waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["cancels_of_others"]


@contextmanager
def cancels_of_others() -> Iterator[None]:
    """If not this task was cancelled but something that it waited for, that is an error like any
    other, and not to be taken for an order to end."""
    try:
        yield
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("what this waited for was cancelled") from error
