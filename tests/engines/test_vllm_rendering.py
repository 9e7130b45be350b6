"""What embedded vLLM is asked is what ``vllm serve`` would ask, byte for byte, for three families.

No model is loaded: chat templates (``scripts/data template-qwen3 …``), a tokenizer, and vLLM's own
way from a request to its prompt.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.files import data_file
from tests.support.vllm import MODEL, needs_vllm
from vivace import models
from vivace.engines.base import Chat
from vivace.engines.hub_template import HubTemplate
from vivace.engines.messages import chat_messages
from vivace.engines.token_chain import ChainBook
from vivace.engines.tool_forms import ToolForms
from vivace.models import Thinking
from vivace.protocol.items import (
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Item,
    Message,
    Reasoning,
    ReasoningText,
)
from vivace.protocol.requests import Toolbox

pytestmark = [pytest.mark.release, needs_vllm]

TOOLS = Toolbox(
    (FunctionTool("read", "Reads a file.", {"type": "object", "properties": {"path": {}}}),)
)
ASKED: list[Item] = [Message(id="m0", role="user", content="What is in a.py?")]
IN_A_TOOL_TURN: list[Item] = [
    *ASKED,
    Reasoning(id="r0", content=[ReasoningText("I had better look.")]),
    FunctionCall(id="f0", call_id="c0", name="read", arguments='{"path": "a.py"}'),
    FunctionCallOutput(id="o0", call_id="c0", output="x = 1"),
]
A_TURN_LATER: list[Item] = [
    *IN_A_TOOL_TURN,
    Reasoning(id="r1", content=[ReasoningText("So it is.")]),
    Message(id="m1", role="assistant", content="One line."),
    Message(id="m2", role="user", content="And b.py?"),
]


@pytest.fixture(scope="module")
def renderer() -> Any:
    for name, *_ in FAMILIES:  # without them there is nothing to be slow for
        data_file(name)
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.renderers import renderer_from_config

    arguments = AsyncEngineArgs(model=str(MODEL), max_model_len=8192)
    return renderer_from_config(arguments.create_engine_config())


def theirs(renderer: Any, template: str, chat: Chat, told: dict[str, Any]) -> str:
    """``told`` are fields of the request."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    forms = ToolForms(chat.toolbox)
    request = ChatCompletionRequest(
        messages=chat_messages(chat, forms, thoughts=True),
        tools=forms.declarations() or None,
        chat_template=template,
        **told,
    )
    tools = [tool.model_dump() for tool in request.tools] if request.tools else None
    asked = request.build_chat_params(None, "auto").with_defaults(
        {"tools": tools, "tokenize": False}
    )
    _, [prompt] = asyncio.run(renderer.render_chat_async([request.messages], asked))
    text: str = renderer.tokenizer.decode(prompt["prompt_token_ids"])
    return text


def ours(renderer: Any, template: str, chat: Chat, thinking: Thinking | None) -> str:
    writer = HubTemplate(renderer.tokenizer, chat_template=template)
    book = ChainBook(writer, "unstable", thinking=thinking)
    text: str = renderer.tokenizer.decode(book.prompt(chat, ToolForms(chat.toolbox), None, "").ids)
    return text


FAMILIES = [
    # What the table of models calls it, and what its model card has a client of vLLM's server say.
    ("template-qwen3", "qwen3.8-27b", "enable_thinking"),
    ("template-deepseek-v3.1", "deepseek-v3.1", "thinking"),
    ("template-glm-4.7", "glm-4.7-flash", "enable_thinking"),
]


@pytest.mark.parametrize(("name", "model", "switch"), FAMILIES)
@pytest.mark.parametrize("effort", [None, "none", "high"])
@pytest.mark.parametrize(
    "items",
    [ASKED, IN_A_TOOL_TURN, A_TURN_LATER],
    ids=["asked", "in a tool turn", "a turn later"],
)
def test_what_is_asked_is_what_vllm_serve_would_ask(
    renderer: Any, name: str, model: str, switch: str, effort: str | None, items: list[Item]
) -> None:
    template = data_file(name).read_text("utf-8")
    chat = Chat(items=items, instructions="Be brief.", toolbox=TOOLS, effort=effort)
    unknown: dict[str, Any] = {} if effort is None else {"reasoning_effort": effort}
    assert ours(renderer, template, chat, None) == theirs(renderer, template, chat, unknown)
    known = models.find(model)
    assert known is not None
    kwargs = {} if effort is None else {"chat_template_kwargs": {switch: effort != "none"}}
    by_table = ours(renderer, template, chat, known.thinking)
    assert by_table == theirs(renderer, template, chat, kwargs)


@pytest.mark.parametrize("name", ["template-qwen3", "template-glm-4.7"])
def test_thoughts_are_kept_in_a_tool_turn_and_dropped_after_it(renderer: Any, name: str) -> None:
    template = data_file(name).read_text("utf-8")
    for items, kept in ((IN_A_TOOL_TURN, True), (A_TURN_LATER, False)):
        text = ours(renderer, template, Chat(items=items, toolbox=TOOLS), None)
        assert ("I had better look." in text) == kept
