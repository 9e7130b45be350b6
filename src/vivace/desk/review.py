"""A review of what changed: what the rules find in the new lines, and what a model remarks on them.

The rules go first: they need no server, and are there at once. Then a model is asked about one
excerpt after the other, and what it remarks is told while it writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from vivace.client.connection import Connection, open_connection
from vivace.client.errors import ClientError
from vivace.client.models import served_models
from vivace.desk.excerpts import Excerpt, excerpts_of, halves
from vivace.desk.remarks import SYSTEM, Dropped, RemarkReader, question
from vivace.desk.too_long import TooLong
from vivace.findings.report import Located, Skipped, located
from vivace.syntax.finding import Finding
from vivace.syntax.source import Source
from vivace.workspace.changes import Changed, Changes

__all__ = ["Asking", "Began", "Found", "NotShown", "Remarked", "ReviewEvent", "Reviewed", "review"]

_LARGEST = 1_000_000
"""Characters of a file that rules look at and that is read as code, and …"""
_WIDEST = 5_000
"""… of its longest line: what goes beyond was written by a program."""
_ROOM = 700
"""Tokens that an answer may have: a dozen remarks on one excerpt are more than anybody reads."""


class Asking(Struct, frozen=True):
    """Whom to ask for remarks."""

    url: str
    key: str | None = None
    model: str | None = None
    """None: the server's first."""


class Found(Struct, frozen=True):
    """A rule's finding in a new line."""

    located: Located


class Remarked(Struct, frozen=True):
    """A remark of the model's."""

    located: Located


class NotShown(Struct, frozen=True):
    """A file, or a part of one, that nobody looked at, or that no model may read."""

    skipped: Skipped


class Began(Struct, frozen=True):
    """The model is asked about an excerpt."""

    path: str
    title: str
    number: int
    count: int
    """Excerpts in all, as far as is known."""


class Reviewed(Struct, frozen=True):
    """All was looked at."""

    files: int
    dropped: int
    """Remarks that quoted nothing of the new lines."""
    model: str | None
    """None: none was asked."""
    seconds: float
    tokens: int


ReviewEvent = Found | Remarked | NotShown | Began | Reviewed


async def review(
    changes: Changes, look: Callable[[Source], Sequence[Finding]], asking: Asking | None
) -> AsyncGenerator[ReviewEvent, None]:
    """``look`` is what the rules find in a text; without ``asking``, no model is asked."""
    began = time.perf_counter()
    for left in changes.left_out:
        yield NotShown(Skipped(left.path, left.why))
    excerpts: list[Excerpt] = []
    for file in changes.files:
        found, shown = await asyncio.to_thread(_looked_at, file, look)
        for each in found:
            yield Found(each)
        if asking is not None and file.hidden is not None:
            yield NotShown(Skipped(str(file.path), file.hidden))
        else:
            excerpts += shown
    dropped = tokens = 0
    model = None
    if asking is not None and excerpts:
        model = asking.model or next(iter(await served_models(asking.url, asking.key)), "")
        async with open_connection(asking.url, asking.key) as connection:
            asker = _Asker(connection, model, {str(file.path): file for file in changes.files})
            async for event in asker.remarks(excerpts):
                yield event
            dropped, tokens, model = asker.dropped, asker.tokens, asker.answered
    seconds = time.perf_counter() - began
    yield Reviewed(len(changes.files), dropped, model, seconds, tokens)


def _looked_at(
    file: Changed, look: Callable[[Source], Sequence[Finding]]
) -> tuple[list[Located], list[Excerpt]]:
    path = str(file.path)
    source = Source.of(path, file.text)
    if len(file.text) > _LARGEST or max(map(len, source.lines), default=0) > _WIDEST:
        source = Source(file.text, None)
    added = file.added
    found = [each for each in look(source) if _touches(each, added)]
    return located(path, source.lines, found), excerpts_of(path, source, file.hunks)


def _touches(finding: Finding, added: Sequence[tuple[int, int]]) -> bool:
    """Whether it is about a new line, or about the file: that a rule gave up there, for example."""
    if finding.lines is None:
        return True
    start, end = finding.lines[0], max(finding.lines[1], finding.lines[0] + 1)
    return any(first < end and start < last for first, last in added)


class _Asker:
    def __init__(self, connection: Connection, model: str, files: dict[str, Changed]) -> None:
        self.answered = model
        """Who did, as far as the server says."""
        self.dropped = 0
        self.tokens = 0
        self._connection = connection
        self._model = model
        self._lines = {path: Source.of(path, file.text).lines for path, file in files.items()}

    async def remarks(self, excerpts: Sequence[Excerpt]) -> AsyncIterator[ReviewEvent]:
        waiting = list(reversed(excerpts))
        done = 0
        while waiting:
            excerpt = waiting.pop()
            yield Began(excerpt.path, excerpt.title, done + 1, done + 1 + len(waiting))
            try:
                async for finding in self._answer(excerpt):
                    lines = self._lines[excerpt.path]
                    yield Remarked(located(excerpt.path, lines, [finding])[0])
                done += 1
            except ClientError as error:
                if error.code != TooLong.code:
                    raise
                parts = halves(excerpt)
                waiting += reversed(parts)
                if not parts:
                    yield NotShown(Skipped(excerpt.path, _too_long(excerpt)))

    async def _answer(self, excerpt: Excerpt) -> AsyncIterator[Finding]:
        reader = RemarkReader(excerpt)
        async for text in self._connection.turn(**self._body(excerpt)):
            for finding in self._kept(reader.feed(text)):
                yield finding
        for finding in self._kept(reader.finish()):
            yield finding
        response = self._connection.response
        self.answered = (response.model if response else None) or self.answered
        self.tokens += self._connection.figures.tokens

    def _kept(self, read: Iterator[Finding | Dropped]) -> Iterator[Finding]:
        for each in read:
            if isinstance(each, Dropped):
                self.dropped += 1
            else:
                yield each

    def _body(self, excerpt: Excerpt) -> dict[str, Any]:
        body: dict[str, Any] = {
            "input": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": question(excerpt)},
            ],
            "store": False,
            "temperature": 0.0,
            "max_output_tokens": _ROOM,
        }
        if self._model:  # else the server's own choice
            body["model"] = self._model
        return body


def _too_long(excerpt: Excerpt) -> str:
    first, last = excerpt.rows[0][0] + 1, excerpt.rows[-1][0] + 1
    return (
        f"The lines {first}-{last} of {excerpt.path} are more than the model takes at once. Ask "
        "one with a longer context: --model, or --deep."
    )
