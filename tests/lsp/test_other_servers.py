"""Completions and edits in the editor by servers that are not Vivace: HTTP alone, without lanes."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.editor import Editor, vivace
from tests.support.editing import EVERYWHERE, LOADED, SHOP, TYPED, code
from tests.support.files import model_file
from tests.support.plain_endpoint import PlainEndpoint, Refusal, Routes, sse

NEW_LOAD = LOADED[LOADED.index("def load") :]
INSTRUCTION = "close the file in load()"
ALWAYS = {"completion": {"timing": "always"}}


def written(said: str) -> str:
    """The edit that a model makes when it is told this."""
    return code(TYPED if "whole file" in said else NEW_LOAD)


def pieces(text: str) -> list[str]:
    return [text[at : at + 40] for at in range(0, len(text), 40)]


# -- in the shapes in which they answer -----------------------------------------------------------


def infilled(body: dict[str, Any]) -> list[bytes]:
    """llama.cpp's own form."""
    more = {"index": 0, "tokens": [1], "id_slot": 0}
    return sse(
        {**more, "content": "2", "stop": False},
        {**more, "content": "", "stop": True, "stop_type": "eos", "tokens_predicted": 1},
    )


def completed(body: dict[str, Any]) -> list[bytes]:
    return sse(
        {"choices": [{"text": "2", "index": 0, "finish_reason": None}]},
        {"choices": [{"text": "", "index": 0, "finish_reason": "stop"}]},
        "[DONE]",
    )


def responded(body: dict[str, Any]) -> list[bytes] | Refusal:
    """llama.cpp's Responses API."""
    if "input" not in body:
        return Refusal(400, {"error": {"code": 400, "message": "'input' is required"}})
    response = {"id": "resp_1", "object": "response", "status": "in_progress"}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    texts = pieces(written(body["input"][-1]["content"]))
    deltas = ({"type": "response.output_text.delta", **place, "delta": each} for each in texts)
    return sse(
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg_1"}},
        *deltas,
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    )


def chatted(body: dict[str, Any]) -> list[bytes]:
    texts = pieces(written(body["messages"][-1]["content"]))
    deltas = ({"id": "c", "choices": [{"index": 0, "delta": {"content": x}}]} for x in texts)
    end = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return sse(*deltas, end, "[DONE]")


SERVERS: dict[str, Routes] = {
    "llama.cpp": {
        "/infill": infilled,
        "/v1/completions": completed,
        "/v1/responses": responded,
        "/v1/chat/completions": chatted,
    },
    "an older llama.cpp": {"/infill": infilled, "/v1/chat/completions": chatted},
    "any other": {"/v1/completions": completed, "/v1/chat/completions": chatted},
}


@pytest.mark.parametrize("kind", SERVERS)
def test_another_server_completes_and_edits(tmp_path: Path, kind: str) -> None:
    async def work(editor: Editor) -> None:
        buffer = editor.open(tmp_path / "a.py", "x = ")
        buffer.type("4")
        item = await buffer.complete()
        assert item is not None
        assert buffer.accepted(item) == "x = 42"
        shop = editor.open(tmp_path / "shop.py", SHOP)
        assert (await editor.edit(shop, INSTRUCTION))["status"] == "applied"
        assert shop.text == LOADED
        shop.replace(0, len(shop.text), SHOP)
        assert (await editor.edit(shop, EVERYWHERE))["status"] == "applied"
        assert shop.text == TYPED

    async def session(url: str) -> None:
        async with vivace(tmp_path, url, options=ALWAYS) as (editor, _):
            await work(editor)

    with PlainEndpoint(SERVERS[kind]) as endpoint:
        asyncio.run(session(endpoint.url))


# -- the real one ---------------------------------------------------------------------------------

_LLAMA = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], 4096, 1
params.use_jinja = True
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def llama_cpp() -> Iterator[str]:
    """llama.cpp's own server, on a port of its own."""
    pytest.importorskip("xllamacpp", reason="run: pip install 'vivace[llamacpp]'")
    model = model_file("qwen2.5-coder-0.5b")
    with subprocess.Popen(
        [sys.executable, "-c", _LLAMA, str(model)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        address = next((line.strip() for line in lines if line.startswith("http")), "")
        assert address
        yield f"{address}/v1"
        process.terminate()


@pytest.mark.release
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_the_real_llama_cpp_completes_and_edits(llama_cpp: str, tmp_path: Path) -> None:
    async def session() -> None:
        async with vivace(tmp_path, llama_cpp, options=ALWAYS) as (editor, _):
            buffer = editor.open(tmp_path / "a.py", "def add(a, b):\n    return ")
            buffer.type("a")
            item = await buffer.complete()
            assert item is not None
            ast.parse(buffer.accepted(item))
            shop = editor.open(tmp_path / "shop.py", SHOP)
            ended = await editor.edit(shop, "use a with statement in load()")
            assert ended["status"] in ("applied", "refused", "nothing"), ended
            assert (shop.text != SHOP) == (ended["status"] == "applied")
            ast.parse(shop.text)

    asyncio.run(session())
