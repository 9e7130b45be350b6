"""What was offered, accepted and kept: each counted once, and nothing but counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import Buffer, Editor, scripted
from tests.lsp.scripted import Line
from tests.support import virtual_time
from vivace.desk.completing import Suggestion
from vivace.desk.counts import Counts
from vivace.desk.usage import Usage, UsageFile
from vivace.lsp.documents import Documents
from vivace.lsp.offers import Offers

TEXT = "total = \nprint(total)\n"
CURSOR = TEXT.index("\n")


class Desk:
    """One document, and offers that are judged half a minute after they were accepted."""

    def __init__(self, folder: Path) -> None:
        self.documents = Documents()
        self.document = self.documents.open("file:///a.py", "a.py", 1, TEXT)
        self.usage = Usage(UsageFile(folder), every=3600.0)
        self.kept_after = 30.0
        self.offers = Offers(self.documents, self.usage, self.kept_after)

    def offer(self, text: str, typed: str = "") -> int:
        """``text`` behind what is typed; its number."""
        shown = TEXT[:CURSOR] + typed + TEXT[CURSOR:]
        at = CURSOR + len(typed)
        command = self.offers.offer(self.document, shown, Suggestion(text, at, at))
        [told] = cast("list[dict[str, int]]", command.arguments)
        return told["number"]

    def becomes(self, text: str) -> None:
        whole = lsp.TextDocumentContentChangeWholeDocument(text=text)
        self.documents.change("file:///a.py", self.document.version + 1, [whole])


def counted(folder: Path, work: Callable[[Desk], Awaitable[None]]) -> Counts:
    async def session() -> Counts:
        desk = Desk(folder)
        await work(desk)
        await asyncio.sleep(2 * desk.kept_after)
        counts = desk.usage.counts.take()
        await desk.usage.close()
        return counts

    return virtual_time.run(session())


def test_what_is_typed_through_is_one_offer(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        numbers = {
            desk.offer("sum(prices)"),
            desk.offer("m(prices)", "su"),
            desk.offer("sum(prices)"),
        }
        assert len(numbers) == 1
        assert desk.offer("max(prices)") not in numbers

    assert counted(tmp_path, work).offered == 2


def test_an_offer_is_accepted_once_and_only_if_it_was_made(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        number = desk.offer("sum(prices)")
        for each in (number, number, 99):
            desk.offers.accepted(each)

    assert counted(tmp_path, work).accepted == 1


@pytest.mark.parametrize(
    ("then", "kept"),
    [
        (TEXT.replace("= ", "= sum(prices)"), 1),
        ("import os\n\n" + TEXT.replace("total = ", "    all = sum(prices) + 1"), 1),
        (TEXT.replace("= ", "= sum(prices)").replace("\n", "\r\n"), 1),
        (TEXT, 0),
        (TEXT.replace("= ", "= sum(costs)"), 0),
    ],
)
def test_what_still_stands_later_was_kept_wherever_it_has_moved(
    tmp_path: Path, then: str, kept: int
) -> None:
    async def work(desk: Desk) -> None:
        desk.offers.accepted(desk.offer("sum(prices)"))
        desk.becomes(then)

    counts = counted(tmp_path, work)
    assert (counts.accepted, counts.judged, counts.kept) == (1, 1, kept)


def test_the_same_words_elsewhere_are_not_the_accepted_ones(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.offers.accepted(desk.offer("print(total)"))

    assert counted(tmp_path, work).kept == 0


def test_of_a_file_that_is_closed_nobody_can_tell(tmp_path: Path) -> None:
    async def work(desk: Desk) -> None:
        desk.offers.accepted(desk.offer("sum(prices)"))
        desk.documents.close("file:///a.py")

    counts = counted(tmp_path, work)
    assert (counts.accepted, counts.judged) == (1, 0)


def test_an_editor_tells_what_was_accepted_and_only_numbers_are_kept(tmp_path: Path) -> None:
    async def take(editor: Editor, buffer: Buffer) -> None:
        item = await buffer.complete()
        assert item is not None
        assert item.command is not None
        [told] = cast("list[dict[str, int]]", item.command.arguments)
        await editor.command(item.command.command, told)

    async def session() -> None:
        async with scripted(tmp_path, [Line("secret", "NEW")]) as (editor, _):
            buffer = editor.open(tmp_path / "private.py", "secret")
            await take(editor, buffer)
            buffer.type(" secret")
            assert await buffer.complete() is not None
            buffer.type(" again, secret")
            await take(editor, buffer)

    asyncio.run(session())
    kept = UsageFile(tmp_path / ".state").path.read_text()
    days: dict[str, Any] = json.loads(kept)["days"]
    assert list(days.values()) == [{"offered": 3, "accepted": 2}]
    assert not any(word in kept for word in ("secret", "NEW", "private", str(tmp_path)))
