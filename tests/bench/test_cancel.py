"""What llama.cpp says of its slot, when a benchmark waits for it to be free."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
from bench._cancel import Seen, SlotLog


def slot(task: int, read: int, *, busy: bool = True, written: int = 0) -> dict[str, Any]:
    next_token = [{"n_decoded": written}]
    return {
        "id_task": task,
        "is_processing": busy,
        "n_prompt_tokens_processed": read,
        "next_token": next_token,
    }


def log_of(*states: dict[str, Any]) -> SlotLog:
    """Says one after the other, and the last for ever."""
    waiting = list(states)

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json=[waiting.pop(0) if len(waiting) > 1 else waiting[0]])

    transport = httpx2.MockTransport(answer)
    return SlotLog(httpx2.Client(transport=transport, base_url="http://llama"))


def test_a_task_is_followed_from_its_first_word_until_it_has_left() -> None:
    async def check() -> tuple[Seen, Seen, int]:
        states = [
            {"is_processing": False},
            slot(1, 0),
            slot(1, 512),
            slot(1, 900, written=2),
            slot(2, 0),
        ]
        with log_of(*states) as log:
            writing = await log.next_writing(-1)
            assert writing is not None
            left = await log.left(writing.task)
            return writing, left, log.read_by(writing.task)

    writing, left, read = asyncio.run(check())
    assert (writing.task, writing.busy, writing.written) == (1, True, 2)
    assert left.task == 2
    assert read == 900


def test_a_task_that_was_soon_over_is_not_waited_for() -> None:
    async def check() -> Seen | None:
        with log_of(slot(1, 10, busy=False), slot(2, 20, busy=False)) as log:
            return await log.next_writing(1)

    over = asyncio.run(check())
    assert over is not None
    assert (over.task, over.busy) == (2, False)


def test_what_was_read_up_to_a_time_is_told_from_what_came_later() -> None:
    async def check() -> tuple[int, int]:
        with log_of(slot(1, 512), slot(1, 1024), slot(1, 1536, busy=False)) as log:
            begun = await log.next_at_work(-1)
            await log.left(begun.task)
            return log.read_by(1, begun.at), log.read_by(1)

    assert asyncio.run(check()) == (512, 1536)
