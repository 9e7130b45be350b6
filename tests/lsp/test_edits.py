"""Edits by instruction in the person's own buffer, while they type on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from tests.lsp.editor import Buffer, Editor, vivace
from tests.support.editing import (
    BOTH,
    BROKEN,
    EVERYWHERE,
    LOADED,
    SHOP,
    TYPED,
    answers,
    slowly,
)
from tests.support.server import RunningGateway
from vivace.conversation.deltas import Delta
from vivace.engines.base import Work as EngineWork
from vivace.engines.scripted import Fail, Reply, Say, Stall

Work = Callable[[Editor], Awaitable[None]]
LOAD = SHOP[SHOP.index("def load") :]
NEW_LOAD = LOADED[LOADED.index("def load") :]
INSTRUCTION = "close the file in load()"
DONE = {"status": "applied", "message": ""}
STOPPED = {"status": "stopped", "message": ""}
MANY = "".join(f"def f{n}(x):\n    return x\n\n\n" for n in range(60))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder / "shop.py"


def play(gateway: RunningGateway | str, path: Path, work: Work, **how: Any) -> None:
    url = gateway if isinstance(gateway, str) else gateway.url

    async def session() -> None:
        async with vivace(path.parent, url, **how) as (editor, _):
            await work(editor)

    asyncio.run(session())


def paused(text: str, before: str) -> Reply:
    """Return a reply that halts before this part until ``gateway.go_on()``."""
    said = f"```python\n{text}```\n"
    at = said.index(before)
    return Reply(then=(Say(said[:at]), Stall(3600), Say(said[at:])))


def asked_of(gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> list[EngineWork]:
    """What the engine gets to do from now on."""
    heard: list[EngineWork] = []
    generate = gateway.engine.generate

    def overheard(work: EngineWork) -> AsyncGenerator[Delta, None]:
        heard.append(work)
        return generate(work)

    monkeypatch.setattr(gateway.engine, "generate", overheard)
    return heard


@pytest.mark.parametrize(
    ("place", "cursor"),
    [(None, False), ("file = open", True), ("file = open", False), (LOAD, False)],
)
def test_an_edit_is_shown_as_it_comes_and_made_once(
    gateway: RunningGateway, shop: Path, place: str | None, cursor: bool
) -> None:
    gateway.engine.play([answers(NEW_LOAD)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        assert await editor.edit(buffer, INSTRUCTION, place, cursor=cursor) == DONE
        assert buffer.text == LOADED
        assert editor.applied == [INSTRUCTION]
        *during, applying, last = editor.shown
        assert (last["done"], last["hunks"]) == (True, [])
        assert applying["hunks"] == []  # nothing is drawn beside the lines that have come
        [hunk] = during[-1]["hunks"]
        assert "with open(path) as file" in hunk["newText"]
        assert not any(each["done"] for each in during)
        assert not shop.exists()  # what is on disk is the editor's affair

    play(gateway, shop, work, process=place is None)


def test_what_is_typed_meanwhile_stays_and_the_edit_is_carried_over(
    gateway: RunningGateway, shop: Path
) -> None:
    gateway.engine.play([paused(NEW_LOAD, "with open")])
    typed = "forty characters that the person types!\n"

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        edit = asyncio.create_task(editor.edit(buffer, INSTRUCTION))
        await editor.until(lambda: editor.shown)
        for each in typed:
            at = buffer.text.index("import json")
            buffer.replace(at, at, each)
            await editor.barrier()
        gateway.go_on()
        assert await edit == DONE
        assert buffer.text == LOADED.replace("import json", f"{typed}import json")
        assert len(editor.applied) == 1
        drawn = [each for each in editor.shown if each["hunks"]]
        assert [each["version"] for each in drawn] == [buffer.document.version - 1] * len(drawn)

    play(gateway, shop, work)


@pytest.mark.parametrize("pretends", [False, True])
def test_an_editor_that_has_a_newer_text_is_sent_the_edit_again(
    gateway: RunningGateway, shop: Path, pretends: bool
) -> None:
    gateway.engine.play([answers(NEW_LOAD)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        keys = ["", "x", " ", "#"]

        def type_on() -> None:
            if keys:
                buffer.replace(0, 0, keys.pop())

        editor.pretends, editor.before_apply = pretends, type_on
        assert await editor.edit(buffer, INSTRUCTION) == DONE
        assert buffer.text == "x #" + LOADED
        assert editor.applied == [INSTRUCTION]

    play(gateway, shop, work)


def test_an_edit_is_over_where_an_editor_says_nothing_of_it(
    gateway: RunningGateway, shop: Path
) -> None:
    gateway.engine.play([answers(NEW_LOAD)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        editor.mute = True
        assert await editor.edit(buffer, INSTRUCTION) == DONE
        assert (buffer.text, editor.applied) == (LOADED, [INSTRUCTION])

    play(gateway, shop, work)


def test_what_collides_is_handed_back_and_the_text_stays_as_it_was_typed(
    gateway: RunningGateway, shop: Path
) -> None:
    gateway.engine.play([paused(NEW_LOAD, "with open")])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        edit = asyncio.create_task(editor.edit(buffer, INSTRUCTION))
        await editor.until(lambda: editor.shown)
        buffer.type(", 'rb'", behind="open(path")
        mine = buffer.text
        await editor.barrier()
        gateway.go_on()
        ended = await edit
        assert ended["status"] == "refused"
        assert "+    with open(path) as file:" in ended["message"]
        assert "+    file = open(path, 'rb')" in ended["message"]
        assert (buffer.text, editor.applied) == (mine, [])
        assert [each.message for each in editor.client.messages] == [ended["message"]]

    play(gateway, shop, work)


@pytest.mark.parametrize("rest", [True, False])
def test_of_an_edit_that_collides_in_part_the_rest_is_the_persons_to_decide(
    gateway: RunningGateway, shop: Path, rest: bool
) -> None:
    gateway.engine.play([paused(BOTH, "def load")])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        editor.answers = ["Apply the rest" if rest else "Leave it"]
        edit = asyncio.create_task(editor.edit(buffer, EVERYWHERE))
        await editor.until(lambda: editor.shown)
        buffer.type("  # all", behind="total(self):")
        await editor.barrier()
        gateway.go_on()
        ended = await edit
        [(question, _)] = editor.asked
        assert "1 of 2 changes does not fit" in question
        assert ended["status"] == ("applied" if rest else "refused")
        own = (LOADED if rest else SHOP).replace("total(self):", "total(self):  # all")
        assert buffer.text == own

    play(gateway, shop, work)


def test_an_edit_can_be_redirected(gateway: RunningGateway, shop: Path) -> None:
    gateway.engine.play([answers(TYPED, when="types instead"), slowly(BOTH)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        edit = asyncio.create_task(editor.edit(buffer, EVERYWHERE))
        await editor.until(lambda: any(each["hunks"] for each in editor.shown))
        await editor.command(
            "vivace.redirect", {"uri": buffer.uri, "instruction": "add types instead"}
        )
        assert await edit == DONE
        assert buffer.text == TYPED

    play(gateway, shop, work, process=True)


async def stop(editor: Editor, buffer: Buffer) -> None:
    await editor.command("vivace.stop", {"uri": buffer.uri})


async def cancel(editor: Editor, buffer: Buffer) -> None:
    [number] = editor.client.protocol._request_futures
    editor.client.cancel_request(lsp.CancelParams(id=number))


@pytest.mark.parametrize("ending", [stop, cancel])
def test_an_edit_can_be_stopped(
    gateway: RunningGateway, shop: Path, ending: Callable[[Editor, Buffer], Awaitable[None]]
) -> None:
    gateway.engine.play([answers(NEW_LOAD, when="close"), slowly(BOTH)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        edit = asyncio.create_task(editor.edit(buffer, EVERYWHERE))
        await editor.until(lambda: any(each["hunks"] for each in editor.shown))
        await ending(editor, buffer)
        if ending is stop:
            assert await edit == STOPPED
        else:
            with pytest.raises(JsonRpcException):
                await edit
        assert editor.shown[-1]["done"]
        assert buffer.text == SHOP
        assert editor.client.messages == []
        await editor.until(lambda: not gateway.engine.running())
        assert await editor.edit(buffer, INSTRUCTION) == DONE

    play(gateway, shop, work)


def test_of_two_edits_of_one_file_one_is_made_and_the_other_told_why(
    gateway: RunningGateway, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.engine.play([answers(NEW_LOAD, when="close"), answers(BOTH)])
    heard = asked_of(gateway, monkeypatch)

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        with editor.at_once():
            both = [asyncio.create_task(editor.edit(buffer, INSTRUCTION)) for _ in range(2)]
            await asyncio.sleep(0)
        done, refused = sorted(await asyncio.gather(*both), key=lambda each: each["status"])
        assert done == DONE
        assert refused["status"] == "failed"
        assert "under way" in refused["message"]
        assert (buffer.text, len(heard)) == (LOADED, 1)
        [*during, last] = editor.shown
        assert last["done"]
        assert not any(each["done"] for each in during)  # what one shows, the other leaves
        assert await editor.edit(buffer, EVERYWHERE) == DONE
        assert buffer.text == BOTH

    play(gateway, shop, work)


@pytest.mark.parametrize("ended", ["failed", "stopped"])
def test_after_an_edit_that_came_to_nothing_the_next_one_is_made(
    gateway: RunningGateway, shop: Path, ended: str
) -> None:
    broken = Reply(when="whole file", then=(Fail("Unwell."),))
    slow = slowly(BOTH, when="whole file")
    gateway.engine.play([broken if ended == "failed" else slow, answers(NEW_LOAD)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        with editor.at_once():
            first = asyncio.create_task(editor.edit(buffer, EVERYWHERE))
            second = asyncio.create_task(editor.edit(buffer, INSTRUCTION))
            await asyncio.sleep(0)
        assert "under way" in (await second)["message"]
        if ended == "stopped":
            await stop(editor, buffer)
        assert (await first)["status"] == ended
        assert await editor.edit(buffer, INSTRUCTION) == DONE
        assert buffer.text == LOADED

    play(gateway, shop, work)


def test_an_edit_that_is_stopped_before_anything_was_sent_sends_nothing(
    gateway: RunningGateway, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = asked_of(gateway, monkeypatch)

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        with editor.at_once():
            edit = asyncio.create_task(editor.edit(buffer, INSTRUCTION))
            stopping = asyncio.create_task(stop(editor, buffer))
            await asyncio.sleep(0)
        await stopping
        assert await edit == STOPPED
        assert (buffer.text, heard) == (SHOP, [])

    play(gateway, shop, work)


def test_an_edit_ends_when_its_document_is_closed(gateway: RunningGateway, shop: Path) -> None:
    gateway.engine.play([slowly(BOTH)])
    shop.write_text(SHOP)

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        edit = asyncio.create_task(editor.edit(buffer, EVERYWHERE))
        await editor.until(lambda: any(each["hunks"] for each in editor.shown))
        buffer.close()
        assert await edit == STOPPED
        assert editor.applied == []
        await editor.until(lambda: not gateway.engine.running())

    play(gateway, shop, work)


def test_a_client_that_draws_nothing_sees_progress_and_cancels_by_it(
    gateway: RunningGateway, shop: Path
) -> None:
    gateway.engine.play([answers(NEW_LOAD, when="close"), slowly(BOTH)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        reports = editor.client.progress_reports
        edit = asyncio.create_task(editor.edit(buffer, EVERYWHERE))
        await editor.until(lambda: "so far" in str(reports))
        [token] = reports
        editor.client.window_work_done_progress_cancel(
            lsp.WorkDoneProgressCancelParams(token=token)
        )
        assert await edit == STOPPED
        assert await editor.edit(buffer, INSTRUCTION) == DONE
        assert buffer.text == LOADED
        assert editor.shown == []
        kinds = [type(each).__name__.removeprefix("WorkDoneProgress") for each in reports[token]]
        assert (kinds[0], kinds[-1]) == ("Begin", "End")

    play(gateway, shop, work, known={})


@pytest.mark.parametrize("wanted", [True, False])
def test_what_is_suspicious_is_asked_about(
    gateway: RunningGateway, shop: Path, wanted: bool
) -> None:
    shorter = SHOP.replace("        self.items.append(item)\n", "        pass\n")
    gateway.engine.play([answers(shorter)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        editor.answers = ["Apply it" if wanted else "Leave it"]
        ended = await editor.edit(buffer, EVERYWHERE)
        [(doubt, _)] = editor.asked
        assert "append" in doubt
        assert ended == (DONE if wanted else STOPPED)
        assert buffer.text == (shorter if wanted else SHOP)
        assert editor.client.messages == []

    play(gateway, shop, work)


def test_what_is_wrong_is_refused_with_the_reason(gateway: RunningGateway, shop: Path) -> None:
    gateway.engine.play([answers(BROKEN)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        ended = await editor.edit(buffer, EVERYWHERE)
        assert ended["status"] == "refused"
        assert "syntax" in ended["message"]
        assert (buffer.text, editor.asked, editor.applied) == (SHOP, [], [])

    play(gateway, shop, work)


@pytest.mark.parametrize("chosen", [1, None])
def test_where_the_place_is_not_clear_the_person_is_asked(
    gateway: RunningGateway, shop: Path, chosen: int | None
) -> None:
    gateway.engine.play([answers("def f1(x):\n    return -x\n")])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, MANY)
        places = [f"f{n} (lines {4 * n + 1}-{4 * n + 2})" for n in range(3)]
        editor.answers = [None if chosen is None else places[chosen]]
        ended = await editor.edit(buffer, "use b in all functions")
        assert [titles for _, titles in editor.asked] == [places]
        assert ended == (STOPPED if chosen is None else DONE)
        wanted = MANY.replace("def f1(x):\n    return x\n", "def f1(x):\n    return -x\n")
        assert buffer.text == (MANY if chosen is None else wanted)

    play(gateway, shop, work)


def test_line_ends_and_odd_characters_stay_as_they_are(gateway: RunningGateway, shop: Path) -> None:
    gateway.engine.play([answers(NEW_LOAD)])
    odd = "\f# 😀 \u2028 é\n"

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, (odd + SHOP).replace("\n", "\r\n"))
        assert await editor.edit(buffer, INSTRUCTION, "file = open") == DONE
        assert buffer.text == (odd + LOADED).replace("\n", "\r\n")

    play(gateway, shop, work)


def test_a_cell_of_a_notebook_is_edited_and_the_others_are_left(
    gateway: RunningGateway, shop: Path
) -> None:
    gateway.engine.play([answers(NEW_LOAD)])
    book = f"vscode-notebook-cell:{shop.parent}/book.ipynb"

    async def work(editor: Editor) -> None:
        cell, other = editor.open(f"{book}#W0", SHOP), editor.open(f"{book}#W1", "x = 1\n")
        assert await editor.edit(cell, INSTRUCTION) == DONE
        assert (cell.text, other.text) == (LOADED, "x = 1\n")

    play(gateway, shop, work)


def test_what_no_model_may_read_is_not_edited(
    gateway: RunningGateway, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = asked_of(gateway, monkeypatch)

    async def work(editor: Editor) -> None:
        secret = editor.open(shop.with_name(".env"), "KEY=1\n")
        token = editor.open(shop, f"{SHOP}TOKEN = 'ghp_{'a' * 36}'\n")
        for buffer in (secret, token):
            ended = await editor.edit(buffer, INSTRUCTION)
            assert ended["status"] == "failed"
            assert "no model can edit it" in ended["message"]
        assert heard == []

    play(gateway, shop, work)


def test_what_cannot_be_done_is_told(gateway: RunningGateway, shop: Path) -> None:
    gateway.engine.play([slowly(BOTH)])

    async def work(editor: Editor) -> None:
        buffer = editor.open(shop, SHOP)
        closed = editor.open(shop.with_name("other.py"), SHOP)
        closed.close()
        assert "Open it first" in (await editor.edit(closed, INSTRUCTION))["message"]
        assert "no instruction" in (await editor.edit(buffer, " "))["message"]
        assert "fewer words" in (await editor.edit(buffer, "x" * 200_000))["message"]
        assert "half a character" in (await editor.edit(buffer, "\ud83d"))["message"]
        with pytest.raises(JsonRpcException, match="uri"):
            await editor.command("vivace.edit", {"instruction": "x"})
        with pytest.raises(JsonRpcException, match=r"vivace\.fly"):
            await editor.command("vivace.fly", {})
        edit = asyncio.create_task(editor.edit(buffer, EVERYWHERE))
        await editor.until(lambda: any(each["hunks"] for each in editor.shown))
        assert "under way" in (await editor.edit(buffer, INSTRUCTION))["message"]
        await stop(editor, buffer)
        assert await edit == STOPPED
        await editor.command("vivace.redirect", {"uri": buffer.uri, "instruction": "x"})
        await editor.until(lambda: "redirected" in editor.client.messages[-1].message)

    play(gateway, shop, work)


def test_without_a_server_the_person_learns_what_to_do(gateway: RunningGateway, shop: Path) -> None:
    url = gateway.url
    gateway.stop()

    async def work(editor: Editor) -> None:
        ended = await editor.edit(editor.open(shop, SHOP), INSTRUCTION)
        assert ended["status"] == "failed"
        assert "vivace up" in ended["message"]
        await editor.until(lambda: "unreachable" in [each["state"] for each in editor.statuses])

    play(url, shop, work)
