"""Test the vLLM engine where vLLM is missing or played."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import pytest

from tests.engines.suite import until
from tests.support.vllm import CARD, new_engine
from tests.support.waiting import PATIENCE_S
from vivace.engines.base import Chat, Work
from vivace.engines.token_chain import ChainBook, Messages
from vivace.engines.tool_forms import ToolForms
from vivace.engines.vllm import VllmEngine
from vivace.errors import ConfigError
from vivace.extras import how_to_install
from vivace.protocol.items import Message
from vivace.protocol.requests import Fill, Toolbox
from vivace.supervisor import Supervisor


def ask(text: str, **chat: Any) -> Work:
    return work(Chat(items=[Message(id="msg_1", role="user", content=text)], **chat))


def work(prompt: Chat | Fill) -> Work:
    return Work(id="resp_1", model=CARD.name, prompt=prompt)


def test_without_vllm_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=re.escape(how_to_install("vllm"))):
        new_engine()


@pytest.mark.parametrize("where", ["loading", "learning"])
def test_whatever_goes_wrong_while_it_comes_back_it_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Without vLLM: what is watched is played."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    supervisor = Supervisor(first=0.01)
    engine = VllmEngine("vllm", CARD, "model", supervisor=supervisor)
    cores: list[mock.Mock] = []
    broken = {"loading": False, "learning": False}

    def load() -> mock.Mock:
        if broken["loading"]:
            raise RuntimeError("what nobody foresaw")
        cores.append(mock.Mock(errored=False))
        return cores[-1]

    def learn(core: mock.Mock) -> None:
        if broken["learning"]:
            raise RuntimeError("what nobody foresaw")

    async def check() -> None:
        await engine.start()
        broken[where] = True
        cores[0].errored = True
        cores[0].shutdown.side_effect = RuntimeError("it will not even be buried")
        await until(lambda: supervisor.watched["engine-vllm"].restarts > 1)
        assert not engine.healthy()
        broken[where] = False
        await until(engine.healthy)
        await engine.stop()

    monkeypatch.setattr(engine, "_load", load)
    monkeypatch.setattr(engine, "_learn", learn)
    asyncio.run(check())
    assert all(core.shutdown.called for core in cores)


# -- where prompts are written --------------------------------------------------------------------


class SlowTemplate:
    """Notes who writes; what is long is not written before ``go_on`` is set."""

    def __init__(self) -> None:
        self.writers: list[threading.Thread] = []
        self.go_on = threading.Event()

    def render(self, messages: Messages, tools: list[dict[str, Any]], *, opens: bool) -> str:
        return "".join(str(message["content"]) for message in messages)

    def told(self, arguments: Mapping[str, Any]) -> SlowTemplate:
        return self

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        self.writers.append(threading.current_thread())
        assert len(text) < 10_000 or self.go_on.wait(PATIENCE_S), "nothing else ran meanwhile"
        return [0] * (len(text) // 4)

    def encode_parts(self, parts: Sequence[str]) -> list[int]:
        return self.encode("".join(parts))


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> tuple[VllmEngine, SlowTemplate]:
    """Without vLLM: all of it that is needed to write a prompt."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "jinja2", mock.Mock(TemplateError=RuntimeError))
    engine, template = VllmEngine("vllm", CARD, "model"), SlowTemplate()
    engine._template = template  # type: ignore[assignment]
    engine._book = ChainBook(template, "append_only")
    template.writers.clear()
    return engine, template


LONG = "word " * 10_000


@pytest.mark.parametrize(
    ("asked", "beside"),
    [
        (ask("Hello"), False),
        (ask(LONG), True),
        (ask("Hello", instructions=LONG), True),
        (work(Fill(prefix="def f")), False),
        (work(Fill(prefix=LONG)), True),
    ],
    ids=["short", "long", "long instructions", "short gap", "long gap"],
)
def test_only_a_short_prompt_is_written_on_the_event_loop(
    unstarted: tuple[VllmEngine, SlowTemplate], asked: Work, beside: bool
) -> None:
    engine, template = unstarted
    book = engine._book
    assert book is not None

    async def check() -> None:
        chat = asked.prompt if isinstance(asked.prompt, Chat) else Chat(items=())
        writing = asyncio.create_task(engine._written(asked, ToolForms(chat.toolbox), book))
        await until(lambda: bool(template.writers))
        template.go_on.set()
        assert (await writing)[0].ids

    asyncio.run(check())
    assert {thread is threading.main_thread() for thread in template.writers} == {not beside}


def test_a_prompt_that_is_given_up_while_it_is_written_leaves_no_trace(
    unstarted: tuple[VllmEngine, SlowTemplate],
) -> None:
    engine, template = unstarted
    book = engine._book
    assert book is not None

    async def check() -> None:
        gone = [
            asyncio.create_task(engine._written(ask(LONG), ToolForms(Toolbox()), book))
            for _ in range(3)
        ]
        await until(lambda: bool(template.writers))
        for task in gone:
            task.cancel()
        await asyncio.wait(gone)
        # Only the one that had begun is still in the way, not the two that waited.
        template.go_on.set()
        await engine._written(ask(LONG), ToolForms(Toolbox()), book)
        assert len(template.writers) == 2

    asyncio.run(check())
