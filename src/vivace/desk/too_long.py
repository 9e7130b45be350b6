"""A model that cannot take what an edit shows it: said to somebody who edits a file.

The server speaks of conversations and how to shorten them, which is no help to whoever wants a
function changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vivace.client.errors import ClientError
from vivace.desk.targets import Target
from vivace.errors import EditError
from vivace.syntax.lines import lines_of

__all__ = ["TooLong", "within_reach"]


class TooLong(EditError):
    """What the edit is about is more than the model takes at once; nothing was changed."""

    code = "context_length_exceeded"
    """As servers of the Responses API call it."""


@contextmanager
def within_reach(target: Target) -> Iterator[None]:
    """While something about this file is asked."""
    try:
        yield
    except ClientError as error:
        if error.code != TooLong.code:
            raise
        raise TooLong(_words(target)) from error


def _words(target: Target) -> str:
    path = target.path
    if target.selection is None:
        count = len(lines_of(target.text))
        what = f"{path} has {count:,} lines, and what the model would have to see of it is"
        todo = f"Name the function that is meant, or give its lines: {path}:10-60"
    else:
        first, last = target.selection
        what = f"The lines {first + 1}-{last} of {path} are"
        todo = "Give fewer lines, or name a function among them"
    return f"{what} more than the model takes at once. {todo}."
