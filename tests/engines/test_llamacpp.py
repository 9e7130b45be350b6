"""The real llama.cpp with a real model of half a billion parameters.

One process is shared by the whole module, because loading takes seconds; a test that ends it
leaves it to the next one to start another. Prompts and answers are short: a small machine reads
some sixty tokens a second and writes some twenty. ``test_llama_server`` has what needs no model.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import httpx
import jsonschema_rs
import psutil
import pytest

from tests.engines import patches
from tests.engines.linked import LinkedRig, by_command
from tests.engines.llama import (
    MODEL,
    QWEN,
    all_end,
    family_of,
    kill,
    model,
    new_engine,
    on_loop,
    start_parent,
)
from tests.engines.suite import (
    EngineBasics,
    EngineDetails,
    EngineSuite,
    Rig,
    answer,
    begun,
    text_in,
    tokens_in,
    until,
    until_failure,
)
from tests.support.waiting import PATIENCE_S
from vivace.conversation.deltas import CallOpened, CallText, Delta, Finished, Tokens
from vivace.engines.base import Card, Chat, Sampling, Work
from vivace.engines.llamacpp import LlamaCppEngine
from vivace.errors import EngineAbsent, EngineDied, EngineError
from vivace.protocol.items import (
    CustomTool,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Item,
    Message,
    Tool,
)
from vivace.protocol.requests import Fill, JsonSchemaFormat, NamedTool, Toolbox, ToolChoice

pytest.importorskip("xllamacpp", reason="run: pip install 'vivace[llamacpp]'")

pytestmark = pytest.mark.alone
_RELEASE = pytest.mark.release

T = TypeVar("T")


def user(text: str) -> Message:
    return Message(role="user", content=text)


def ask(*items: Item | str, tokens: int = 24, **chat: Any) -> Work:
    said = [user(item) if isinstance(item, str) else item for item in items]
    sampling = Sampling(temperature=0, max_tokens=tokens, seed=1)
    return Work(id="r", model=MODEL, prompt=Chat(items=said, **chat), sampling=sampling)


class Shared:
    """One engine, and the loop it lives on; started anew when a test has ended it."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self.engine = new_engine()
        self.run(self.engine.start)

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await asyncio.wait_for(check(), 4 * PATIENCE_S)

        return self._runner.run(whole())

    def ready(self) -> LlamaCppEngine:
        async def wait() -> None:
            if self.engine.pid is None or not psutil.pid_exists(self.engine.pid):
                await self.engine.stop()
                self.engine = new_engine()
                await self.engine.start()
            await until(self.engine.healthy)

        self.run(wait)
        return self.engine

    def close(self) -> None:
        self.run(self.engine.stop)
        self._runner.close()


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    model()
    shared = Shared()
    yield shared
    shared.close()


@pytest.fixture
def engine(shared: Shared) -> LlamaCppEngine:
    return shared.ready()


def bare(engine: LlamaCppEngine) -> httpx.Client:
    """The server itself, past us."""
    by_socket = httpx.HTTPTransport(uds=str(engine.socket))
    return httpx.Client(transport=by_socket, base_url="http://localhost", timeout=60)


def processing(engine: LlamaCppEngine) -> int:
    """How many slots llama.cpp itself says are at work."""
    with bare(engine) as server:
        return sum(slot["is_processing"] for slot in server.get("/slots").json())


# -- as any engine --------------------------------------------------------------------------------


class LlamaRig(Rig):
    # A thousand tokens would take a minute.
    long_tokens = 30
    # Deltas are not joined: we stop reading, and llama.cpp waits on its socket.
    joins_for_slow_readers = False
    # Its slots know nothing of owners. It runs on a person's own machine.
    isolates_owners = False
    repeats_itself = False
    # Once it has begun, llama.cpp fails only at a call it cannot parse (see recorded/auto-broken),
    # and which prompt brings that about is up to the model.
    can_fail = False
    # What has no slot waits in a queue of its own.
    can_be_busy = False

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.llama = shared.ready()
        self.engine = self.llama

    def short(self) -> Work:
        return ask("Say hi.", tokens=16)

    def long(self) -> Work:
        return ask("Count from 1 to 100, one number a line.", tokens=self.long_tokens)

    def echo(self, word: str) -> Work:
        return ask(f"Repeat exactly, and nothing else: {word}", tokens=8)

    def counting(self) -> Work:
        return ask("Count from 1 to 9, separated by spaces.", tokens=24)

    def failing(self) -> Work:
        raise NotImplementedError

    def refused(self) -> Work:
        return ask("word " * 2000)

    def kill(self) -> None:
        assert self.llama.pid is not None
        os.kill(self.llama.pid, signal.SIGKILL)

    async def revive(self) -> None:
        await until(self.engine.healthy)

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        return self._shared.run(check)


class TestAsAnyEngine(EngineBasics):
    @pytest.fixture
    def rig(self, shared: Shared) -> Rig:
        return LlamaRig(shared)


@pytest.mark.release
class TestAsAnyEngineInDetail(EngineDetails):
    @pytest.fixture
    def rig(self, shared: Shared) -> Rig:
        return LlamaRig(shared)


@pytest.mark.release
@by_command
class TestAsAnyEngineOnANode(EngineSuite):
    @pytest.fixture
    def rig(self, shared: Shared) -> Rig:
        return LinkedRig(LlamaRig(shared), window=8)


# -- text -----------------------------------------------------------------------------------------


@pytest.mark.release
def test_it_answers(shared: Shared, engine: LlamaCppEngine) -> None:
    deltas = shared.run(lambda: answer(engine, ask("What is 2+2?", tokens=12)))
    assert "4" in text_in(deltas)


def test_a_conversation_longer_than_a_slot_is_refused_in_words(
    shared: Shared, engine: LlamaCppEngine
) -> None:
    said, error = shared.run(lambda: until_failure(engine, ask("word " * 1500)))
    assert said == []
    assert not isinstance(error, EngineDied)
    assert "context" in str(error)
    assert engine.healthy()


# -- who may reach it -----------------------------------------------------------------------------


def test_it_listens_on_no_port_and_only_this_user_reaches_its_socket(
    engine: LlamaCppEngine,
) -> None:
    """A web page can try every port there is; llama.cpp would answer it, whatever its Origin."""
    ports = [each for process in family_of(engine) for each in process.net_connections("inet")]
    assert ports == []
    folder = engine.socket.parent.stat()
    assert (folder.st_uid, folder.st_mode & 0o777) == (os.getuid(), 0o700)
    with bare(engine) as server:
        assert server.get("/health").status_code == 200


# -- slots ----------------------------------------------------------------------------------------


def test_an_aborted_answer_frees_its_slot_in_llama_cpp(
    shared: Shared, engine: LlamaCppEngine
) -> None:
    async def check() -> None:
        work = ask("Count from 1 to 1000, one number a line.", tokens=900)
        stream = engine.generate(work)
        await anext(stream)
        assert await asyncio.to_thread(processing, engine) == 1
        await stream.aclose()
        # Written in the same steps, these are shorter by far than what was aborted.
        for _ in range(10):
            if not await asyncio.to_thread(processing, engine):
                break
            await answer(engine, ask("Count from 1 to 100.", tokens=20))
        assert await asyncio.to_thread(processing, engine) == 0

    shared.run(check)


# -- structured output ----------------------------------------------------------------------------

POINT = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "label": {"enum": ["near", "far"]},
    },
    "required": ["x", "label"],
    "additionalProperties": False,
}


def test_structured_output_obeys_its_schema(shared: Shared, engine: LlamaCppEngine) -> None:
    form = JsonSchemaFormat(name="point", schema=POINT, strict=True)
    work = ask("Write a poem about points.", tokens=60, format=form)
    said = json.loads(text_in(shared.run(lambda: answer(engine, work))))
    jsonschema_rs.validator_for(POINT).validate(said)


# -- usage ----------------------------------------------------------------------------------------


@pytest.mark.release
def test_usage_is_what_llama_cpp_counted(shared: Shared, engine: LlamaCppEngine) -> None:
    question = "Name one colour of the rainbow."
    ours = tokens_in(shared.run(lambda: answer(engine, ask(question, tokens=8))))
    with bare(engine) as server:
        chat = {"messages": [{"role": "user", "content": question}]}
        sampling = {"temperature": 0, "max_tokens": 8, "seed": 1}
        theirs = server.post("/v1/chat/completions", json=chat | sampling).json()
        prompt = server.post("/apply-template", json=chat).json()["prompt"]
        asked = {"content": prompt, "parse_special": True, "add_special": True}
        tokens = server.post("/tokenize", json=asked).json()["tokens"]
    usage, timings = theirs["usage"], theirs["timings"]
    assert (ours.input, ours.output) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert ours.input == len(tokens)
    assert ours.output == timings["predicted_n"]
    # The second of two equal questions: all of it is cached but the token that is needed again.
    assert timings["cache_n"] + timings["prompt_n"] == ours.input
    again = tokens_in(shared.run(lambda: answer(engine, ask(question, tokens=8))))
    assert again.cached == timings["cache_n"]


# -- tools ----------------------------------------------------------------------------------------

PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = FunctionTool("read_file", "Reads a file.", PATH)
LIST = FunctionTool("list_files", "Lists the files in a folder.", PATH)
PATCH = CustomTool("apply_patch", "Changes a file.")


def called(deltas: list[Delta]) -> tuple[CallOpened, str]:
    """The one call in an answer, which says nothing else."""
    opened, *rest, last = deltas
    assert isinstance(opened, CallOpened)
    assert isinstance(last, Finished)
    assert all(isinstance(each, CallText) for each in rest)
    return opened, "".join(each.text for each in rest if isinstance(each, CallText))


def calling(text: str, *tools: Tool, choice: ToolChoice = "required", tokens: int = 80) -> Work:
    return ask(text, tokens=tokens, toolbox=Toolbox(tools), tool_choice=choice)


def test_a_required_call_is_made_and_obeys_its_schema(
    shared: Shared, engine: LlamaCppEngine
) -> None:
    work = calling("Hello! How are you?", READ, LIST)
    opened, arguments = called(shared.run(lambda: answer(engine, work)))
    assert opened.name in ("read_file", "list_files")
    assert not opened.custom
    jsonschema_rs.validator_for(PATH).validate(json.loads(arguments))


@pytest.mark.release
def test_a_named_tool_is_the_one_that_is_called(shared: Shared, engine: LlamaCppEngine) -> None:
    work = calling("Read main.py.", READ, LIST, choice=NamedTool("function", "list_files"))
    opened, arguments = called(shared.run(lambda: answer(engine, work)))
    assert opened.name == "list_files"
    jsonschema_rs.validator_for(PATH).validate(json.loads(arguments))


@pytest.mark.release
def test_a_patch_of_a_small_model_is_well_formed(shared: Shared, engine: LlamaCppEngine) -> None:
    work = calling("In a.py, change the line 'x = 1' to 'x = 2'.", PATCH)
    opened, patch = called(shared.run(lambda: answer(engine, work)))
    assert (opened.name, opened.custom) == ("apply_patch", True)
    assert patches.problems(patch) == []


@pytest.mark.release
def test_calls_of_every_kind_may_stand_in_the_past(shared: Shared, engine: LlamaCppEngine) -> None:
    patch = "*** Begin Patch\n*** Add File: b.py\n+y = 7\n*** End Patch"
    past: list[Item] = [
        user("Read a.py and copy it."),
        FunctionCall(call_id="1", name="read_file", arguments='{"path": "a.py"}'),
        FunctionCallOutput(call_id="1", output="y = 7"),
        CustomToolCall(call_id="2", name="apply_patch", input=patch),
        CustomToolCallOutput(call_id="2", output="Done."),
        user("What is y? Only the number."),
    ]
    work = ask(*past, tokens=3, toolbox=Toolbox((READ, PATCH)))
    assert text_in(shared.run(lambda: answer(engine, work)))


@pytest.mark.release
@pytest.mark.parametrize("arguments", ["", '{"path": "a', "a.py"])
def test_a_past_call_that_was_never_finished_does_no_harm(
    shared: Shared, engine: LlamaCppEngine, arguments: str
) -> None:
    """A steered or interrupted turn leaves such a call behind."""
    past: list[Item] = [
        user("Read a.py."),
        FunctionCall(call_id="1", name="read_file", arguments=arguments),
        FunctionCallOutput(call_id="1", output="aborted"),
        user("Say hi."),
    ]
    work = ask(*past, tokens=3, toolbox=Toolbox((READ,)))
    assert text_in(shared.run(lambda: answer(engine, work)))


# -- fill in the middle ---------------------------------------------------------------------------


def test_a_gap_is_filled(shared: Shared, engine: LlamaCppEngine) -> None:
    gap = Fill(prefix="def add(a, b):\n    return ", suffix="\n\n\nprint(add(1, 2))\n")
    sampling = Sampling(temperature=0, max_tokens=12, stop=("\n",))
    work = Work(id="r", model=MODEL, prompt=gap, sampling=sampling)
    deltas = shared.run(lambda: answer(engine, work))
    assert text_in(deltas).strip() == "a + b"
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].reason == "stop"


@pytest.mark.release
def test_an_answer_begins_as_it_is_told_to(shared: Shared, engine: LlamaCppEngine) -> None:
    beginning = 'sum([a, b]) + "\\" * (0)\n'
    gap = Fill(prefix="def add(a, b):\n    return ", suffix="\n", starts_with=beginning)
    sampling = Sampling(temperature=0, max_tokens=30)
    work = Work(id="r", model=MODEL, prompt=gap, sampling=sampling)
    assert text_in(shared.run(lambda: answer(engine, work))).startswith(beginning)


@pytest.mark.release
def test_a_mark_in_a_text_is_read_as_text(shared: Shared, engine: LlamaCppEngine) -> None:
    table = files("vivace").joinpath("models.toml").read_text("utf-8")
    about_models = table[table.index("[fim.qwen]") :][:400]
    assert "<|fim_middle|>" in about_models
    gap = Fill(prefix=about_models, suffix="\n")
    work = Work(id="r", model=MODEL, prompt=gap, sampling=Sampling(max_tokens=1))

    async def as_text() -> int:
        by_socket = httpx.AsyncHTTPTransport(uds=str(engine.socket))
        async with httpx.AsyncClient(transport=by_socket) as http:
            body = {"content": about_models, "parse_special": False}
            told = await http.post("http://localhost/tokenize", json=body)
            return len(told.json()["tokens"])

    marks_and_suffix = 3 + 1
    read = tokens_in(shared.run(lambda: answer(engine, work))).input
    assert read == shared.run(as_text) + marks_and_suffix


@pytest.mark.release
def test_what_lost_its_slot_to_another_document_is_not_read_again() -> None:
    def gap(number: int) -> Work:
        lines = "".join(f"value_{number}_{line} = {line}\n" for line in range(20))
        return Work(
            id="r",
            model=MODEL,
            prompt=Fill(prefix=lines, suffix="", path=f"{number}.py"),
            sampling=Sampling(max_tokens=1),
        )

    async def check() -> list[Tokens]:
        engine = LlamaCppEngine("llama", Card(MODEL, 1024), model(), fim=QWEN, slots=1)
        await engine.start()
        try:
            return [tokens_in(await answer(engine, gap(each))) for each in (1, 2, 1)]
        finally:
            await engine.stop()

    first, _, again = on_loop(check)
    assert first.cached == 0
    assert again.input - again.cached < 8


# -- death ----------------------------------------------------------------------------------------


@pytest.mark.release
def test_killed_in_mid_stream_it_comes_back_by_itself(
    shared: Shared, engine: LlamaCppEngine
) -> None:
    before = engine.pid

    async def check() -> None:
        task = await begun(engine, ask("Count from 1 to 100.", tokens=200))
        kill(engine)
        with pytest.raises(EngineDied):
            await task
        await until(lambda: not engine.healthy())
        await until(engine.healthy)
        assert engine.pid != before
        assert text_in(await answer(engine, ask("Say hi.", tokens=4)))

    shared.run(check)


@pytest.mark.release
def test_all_that_is_asked_while_it_comes_back_ends_with_a_death(
    shared: Shared, engine: LlamaCppEngine
) -> None:
    """Not with a refusal: that would be an error of the request, and not be tried elsewhere."""

    async def check() -> set[type[EngineError]]:
        kill(engine)
        await until(lambda: not engine.healthy())
        kinds = set()
        back = asyncio.create_task(until(engine.healthy))
        while not back.done():
            try:
                await answer(engine, ask("Say hi.", tokens=1))
            except EngineError as error:
                kinds.add(type(error))
            await asyncio.sleep(0)
        return kinds

    assert shared.run(check) == {EngineAbsent}


@pytest.mark.release
def test_stopping_leaves_no_process(shared: Shared) -> None:
    async def check() -> None:
        engine = new_engine()
        await engine.start()
        assert engine.pid is not None
        family = [psutil.Process(engine.pid), *psutil.Process(engine.pid).children(recursive=True)]
        running = await begun(engine, ask("Count from 1 to 100.", tokens=200))
        await engine.stop()
        with pytest.raises(EngineError):
            await running
        assert not engine.healthy()
        assert not [process for process in family if process.is_running()]

    shared.run(check)


@pytest.mark.release
def test_stopped_while_it_comes_back_it_leaves_no_process(shared: Shared) -> None:
    async def check() -> None:
        engine = new_engine()
        await engine.start()
        first = engine.pid
        kill(engine)
        await until(lambda: engine.pid != first)
        assert engine.pid is not None
        again = psutil.Process(engine.pid)
        await engine.stop()
        assert not again.is_running()

    shared.run(check)


@pytest.mark.release
def test_the_child_does_not_outlive_a_parent_that_was_killed() -> None:
    parent, family = start_parent(model())
    parent.kill()
    parent.wait()
    assert all_end(family)


# -- a model that cannot be loaded ----------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    ["text", *(pytest.param(each, marks=_RELEASE) for each in ("corrupt", "cut", "missing"))],
)
def test_a_file_that_is_no_model_is_explained(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "broken.gguf"
    if kind != "missing":
        with model().open("rb") as whole:
            head = whole.read(2_000_000)
        content = {"corrupt": b"GGUF" + b"\xff" * 1000, "cut": head, "text": b"<html>not found"}
        path.write_bytes(content[kind])
    engine = new_engine(path)

    async def check() -> str:
        with pytest.raises(EngineDied) as caught:
            await asyncio.wait_for(engine.start(), PATIENCE_S)
        assert not engine.healthy()
        assert engine.pid is None or not psutil.pid_exists(engine.pid)
        await engine.stop()
        return str(caught.value)

    reason = asyncio.run(check())
    assert "Traceback" not in reason
    assert len(reason) < 400
    assert re.search("fail|gguf|no such file", reason, re.IGNORECASE)
    # The clock and the level of llama.cpp's log are nothing to a person.
    assert not re.search(r"\d\.\d\d\.\d{3}\.\d{3}", reason)
