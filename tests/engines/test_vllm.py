"""vLLM inside: as any engine, and what only the real one can show.

Run with ``scripts/test-vllm --all``. It decodes nine tokens in a second here, so every answer is
short.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, get_args

import jsonschema_rs
import psutil
import pytest
from msgspec.structs import replace

from tests.engines.linked import LinkedRig, by_command
from tests.engines.suite import EngineSuite, Rig, answer, text_in, tokens_in, until
from tests.engines.thinking_suite import TEMPLATE, Thinker, ThinkingSuite, thoughts_in
from tests.support.process import alive
from tests.support.vllm import BLOCK, CARD, SharedEngine, needs_vllm, new_engine
from tests.support.waiting import eventually
from vivace.conversation.deltas import CallOpened, CallText, Delta, Finished
from vivace.engines.base import Chat, Sampling, Thoughts, Work
from vivace.engines.messages import chat_messages
from vivace.engines.token_chain import Outline, Prompt
from vivace.engines.tool_forms import ToolForms
from vivace.engines.vllm import WRITTEN_FOR, VllmEngine
from vivace.errors import ConfigError, EngineDied, EngineError
from vivace.models import ToolForm
from vivace.protocol.items import (
    AdditionalTools,
    CustomTool,
    FunctionCall,
    FunctionCallOutput,
    FunctionTool,
    Item,
    Message,
    Reasoning,
    ReasoningText,
    Role,
)
from vivace.protocol.requests import (
    Fill,
    JsonObjectFormat,
    JsonSchemaFormat,
    NamedTool,
    Toolbox,
    ToolChoice,
)

T = TypeVar("T")
pytestmark = [pytest.mark.release, needs_vllm, pytest.mark.timeout(900)]

_ids = count()


def said(text: str, role: Role = "user") -> Message:
    return Message(id=f"msg_{next(_ids)}", role=role, content=text)


def ask(*items: Item | str, tokens: int = 12, **chat: Any) -> Work:
    return work(
        Chat(items=[said(item) if isinstance(item, str) else item for item in items], **chat),
        tokens,
    )


def work(prompt: Chat | Fill, tokens: int = 12) -> Work:
    sampling = Sampling(temperature=0, max_tokens=tokens)
    return Work(id=f"resp_{next(_ids)}", model=CARD.name, prompt=prompt, sampling=sampling)


@pytest.fixture(scope="module")
def shared() -> Iterator[SharedEngine]:
    shared = SharedEngine()
    yield shared
    shared.close()


# -- as any engine --------------------------------------------------------------------------------


class VllmRig(Rig):
    long_tokens = 14
    # A restart is part of one check, and takes a minute on a quiet machine.
    patience = 600.0
    # Whatever could fail a single answer is found before its first token.
    can_fail = False
    # What does not fit into a step waits in a queue of its own.
    can_be_busy = False
    repeats_itself = False

    def __init__(self, shared: SharedEngine) -> None:
        self.shared = shared
        self.engine = shared.engine

    def short(self) -> Work:
        return ask("Repeat exactly, and nothing else: A few words.")

    def long(self) -> Work:
        return ask("Explain in detail how a bicycle works.", tokens=self.long_tokens)

    def echo(self, word: str) -> Work:
        return ask(f"Repeat exactly, and nothing else: {word}", tokens=8)

    def counting(self) -> Work:
        return ask("Count from 1 to 9, separated by spaces.", tokens=24)

    def failing(self) -> Work:
        raise NotImplementedError

    def refused(self) -> Work:
        return ask("word " * 9000)

    def kill(self) -> None:
        self.shared.kill()

    async def revive(self) -> None:
        await self.shared.back()

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        return self.shared.run(check, self.patience)


class VllmThinker(Thinker):
    """The same engine, with a chat template that opens thoughts."""

    def __init__(self, shared: SharedEngine) -> None:
        self.engine: VllmEngine = shared.engine
        self._shared = shared

    def ponders(self) -> Work:
        return ask("What is 17 times 3? Explain each step.", tokens=16)

    def run(self, check: Callable[[], Awaitable[T]]) -> T:
        async def thinking() -> T:
            self.engine.template = TEMPLATE
            self.engine._learn(self._shared.core)
            try:
                return await check()
            finally:
                self.engine.template = None
                self.engine._learn(self._shared.core)

        return self._shared.run(thinking, 600)


class TestThinking(ThinkingSuite):
    @pytest.fixture
    def thinker(self, shared: SharedEngine) -> VllmThinker:
        return VllmThinker(shared)

    def test_the_answer_finds_prompt_and_thoughts_in_the_cache_and_is_gone_on_from(
        self, thinker: VllmThinker
    ) -> None:
        async def check() -> None:
            long = "Consider this list: " + ", ".join(map(str, range(40)))
            first = ask(long, tokens=14)
            async with aclosing(thinker.engine.generate(first)) as stream:
                thoughts = [await anext(stream) for _ in range(10)]
            told = Thoughts(thoughts_in(thoughts), first.tally.trace)
            asked = first.tally.input
            deltas = await answer(thinker.engine, replace(first, thoughts=told))
            tokens = tokens_in(deltas)
            assert tokens.input > asked + 9
            assert tokens.cached >= asked // BLOCK * BLOCK
            assert isinstance(first.prompt, Chat)
            reasoning = Reasoning(id="rs", content=[ReasoningText(told.text)])
            said_so_far = [*first.prompt.items, reasoning, said(text_in(deltas), "assistant")]
            then = replace(ask(*said_so_far, "Go on."), parent_id=first.id)
            after = await answer(thinker.engine, then)
            assert tokens_in(after).cached >= (tokens.input + tokens.output) // BLOCK * BLOCK

        thinker.run(check)

    def test_an_answer_that_is_held_to_a_form_is_written_without_thoughts(
        self, thinker: VllmThinker
    ) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        work = ask("What is 2 + 2?", tokens=24, format=JsonSchemaFormat(name="sum", schema=schema))
        deltas = thinker.run(lambda: answer(thinker.engine, work))
        assert thoughts_in(deltas) == ""
        assert isinstance(json.loads(text_in(deltas))["a"], int)

    def test_thoughts_stand_before_what_a_tool_parser_reads(self, thinker: VllmThinker) -> None:
        toolbox = Toolbox((FunctionTool("look", "Looks.", {"type": "object", "properties": {}}),))
        deltas = thinker.run(
            lambda: answer(thinker.engine, ask("Say hello.", tokens=8, toolbox=toolbox))
        )
        assert thoughts_in(deltas)
        assert text_in(deltas) == ""


class TestAsAnyEngine(EngineSuite):
    @pytest.fixture
    def rig(self, shared: SharedEngine) -> Rig:
        return VllmRig(shared)

    def test_death_ends_every_answer_and_frees_every_slot(self, rig: Rig) -> None:
        super().test_death_ends_every_answer_and_frees_every_slot(rig)
        assert isinstance(rig, VllmRig)
        eventually(lambda: not any(map(_alive, rig.shared.killed)))


@by_command
class TestAsAnyEngineOnANode(EngineSuite):
    @pytest.fixture
    def rig(self, shared: SharedEngine) -> Rig:
        return LinkedRig(VllmRig(shared), window=2)


def _alive(process: Any) -> bool:
    return bool(process.is_running()) and process.status() != "zombie"


# -- what is asked of the real one ----------------------------------------------------------------


class Lab:
    """Asks the shared engine, and looks at what was sent to it."""

    def __init__(self, shared: SharedEngine) -> None:
        self.shared = shared
        self.engine = shared.engine
        self.prompts: list[Prompt] = []

    def run(self, check: Callable[[], Awaitable[T]], patience: float = 600) -> T:
        async def watched() -> T:
            book: Any = self.engine._book
            original = book.finish

            def finish(outline: Outline) -> Prompt:
                self.prompts.append(original(outline))
                return self.prompts[-1]

            book.finish = finish
            try:
                return await check()
            finally:
                del book.finish

        return self.shared.run(watched, patience)

    async def answer(self, asked: Work) -> list[Delta]:
        return await answer(self.engine, asked)

    def ask(self, *items: Item | str, **chat: Any) -> list[Delta]:
        return self.run(lambda: self.answer(ask(*items, **chat)))

    async def bare(self, asked: Work) -> str:
        """The same of ``AsyncLLM`` alone, through vLLM's own rendering."""
        from vllm.sampling_params import SamplingParams

        limits = SamplingParams(temperature=0, max_tokens=asked.sampling.max_tokens)
        prompt = await self.rendered(asked)
        async for output in self.shared.core.generate(prompt, limits, f"bare_{next(_ids)}"):
            text: str = output.outputs[0].text
        return text

    def core_unfinished(self) -> int:
        unfinished: int = self.shared.core.output_processor.get_num_unfinished_requests()
        return unfinished

    def figures(self) -> dict[str, float]:
        """The engine's own metrics, by name."""
        lines = self.engine.metrics().decode().splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name.partition("{")[0]: float(value) for name, value in pairs}

    async def rendered(self, asked: Work) -> Any:
        from vllm.renderers import ChatParams

        assert isinstance(asked.prompt, Chat)
        forms = ToolForms(asked.prompt.toolbox)
        settings = {"add_generation_prompt": True, "tokenize": False}
        if forms.declarations():
            settings["tools"] = forms.declarations()  # type: ignore[assignment]
        _, [prompt] = await self.shared.core.renderer.render_chat_async(
            [chat_messages(asked.prompt, forms)], ChatParams(chat_template_kwargs=settings)
        )
        return prompt


@pytest.fixture
def lab(shared: SharedEngine) -> Lab:
    return Lab(shared)


WEATHER_SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = FunctionTool("get_weather", "The weather in a city.", WEATHER_SCHEMA)
TIME = FunctionTool("get_time", "What time it is.", {"type": "object", "properties": {}})
PATCH = CustomTool("apply_patch", "Patches.")


def called(deltas: list[Delta]) -> tuple[CallOpened, str]:
    [opened] = [delta for delta in deltas if isinstance(delta, CallOpened)]
    return opened, "".join(delta.text for delta in deltas if isinstance(delta, CallText))


def test_every_tool_form_of_the_table_is_a_parser_of_this_vllm() -> None:
    from vllm.tool_parsers import ToolParserManager

    assert set(get_args(ToolForm)) <= set(ToolParserManager.list_registered())


@pytest.mark.parametrize("choice", ["required", NamedTool("function", "get_weather")])
def test_a_call_that_must_be_made_is_made(lab: Lab, choice: ToolChoice) -> None:
    tools = Toolbox((WEATHER, TIME) if choice != "required" else (WEATHER,))
    deltas = lab.ask("Weather in Paris?", toolbox=tools, tool_choice=choice, tokens=40)
    opened, arguments = called(deltas)
    assert (opened.name, opened.custom) == ("get_weather", False)
    jsonschema_rs.validate(WEATHER_SCHEMA, json.loads(arguments))
    assert text_in(deltas) == ""
    assert isinstance(deltas[-1], Finished)
    assert deltas[-1].reason == "stop"


def test_a_patch_that_must_be_made_is_a_patch(lab: Lab) -> None:
    deltas = lab.ask(
        "In the file a.py replace the line `x = 1` by `x = 2`.",
        toolbox=Toolbox((PATCH, WEATHER)),
        tool_choice=NamedTool("custom", "apply_patch"),
        tokens=60,
    )
    opened, patch = called(deltas)
    assert (opened.name, opened.custom) == ("apply_patch", True)
    first, file, *body, last = patch.split("\n")
    assert (first, last) == ("*** Begin Patch", "*** End Patch")
    assert file.startswith(("*** Update File: ", "*** Add File: "))
    assert file.endswith("a.py")
    assert body
    assert {line[0] for line in body} <= set("@ +-")


def test_tools_that_must_not_be_used_leave_text(lab: Lab) -> None:
    deltas = lab.ask("Say hello.", toolbox=Toolbox((WEATHER,)), tool_choice="none")
    assert text_in(deltas)
    assert not any(isinstance(delta, CallOpened) for delta in deltas)


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 10},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_an_answer_obeys_its_schema(lab: Lab) -> None:
    form = JsonSchemaFormat(name="person", schema=PERSON)
    text = text_in(lab.ask("Describe a house by the sea.", format=form, tokens=40))
    jsonschema_rs.validate(PERSON, json.loads(text))


def test_an_answer_in_json_is_json(lab: Lab) -> None:
    # Pretty printing has no end here, so the beginning must do.
    text = text_in(lab.ask("Describe a house by the sea.", format=JsonObjectFormat(), tokens=8))
    assert text.lstrip().startswith("{")


def test_a_schema_that_cannot_be_followed_fails_its_request_only(lab: Lab) -> None:
    form = JsonSchemaFormat(name="wrong", schema={"type": "nonsense"})

    async def check() -> None:
        with pytest.raises(EngineError) as refused:
            await lab.answer(ask("hi", format=form))
        assert not isinstance(refused.value, EngineDied)
        assert "nonsense" in str(refused.value)
        assert lab.engine.healthy()
        assert lab.engine.running() == 0

    lab.run(check)


def test_a_prompt_without_room_for_an_answer_is_refused(lab: Lab) -> None:
    with pytest.raises(EngineError, match="no room"):
        lab.ask("word " * 9000)


def test_a_gap_is_filled(lab: Lab) -> None:
    fill = Fill(prefix="def add(a, b):\n    return ", suffix="\n\n\nprint(add(1, 2))\n")
    assert text_in(lab.run(lambda: lab.answer(work(fill, 6)))).startswith("a + b")


def test_a_mark_in_a_text_is_read_as_text(lab: Lab) -> None:
    encode = lab.engine._engine.renderer.tokenizer.encode
    fill = Fill(prefix="x = '<|fim_middle|>'", suffix="")
    read = tokens_in(lab.run(lambda: lab.answer(work(fill, 1)))).input
    marks = 3
    assert read == marks + len(encode("x = '<")) + len(encode("|fim_middle|>'"))


def test_an_answer_begins_as_it_is_told_to(lab: Lab) -> None:
    beginning = 'sum([a, b]) + "\\" * (0)\n'
    fill = Fill(prefix="def add(a, b):\n    return ", suffix="\n", starts_with=beginning)
    assert text_in(lab.run(lambda: lab.answer(work(fill, 30)))).startswith(beginning)


def test_plain_text_is_continued(lab: Lab) -> None:
    text = text_in(lab.run(lambda: lab.answer(work(Fill(prefix="1, 2, 3, 4, 5, 6,"), 4))))
    assert text.replace(" ", "").startswith("7")


def test_long_items_of_every_kind_are_counted_when_it_matters(lab: Lab) -> None:
    # Beyond half of the context a guess does not do any more.
    long = "some words " * 4000
    items: list[Item] = [
        said(long),
        FunctionCall(call_id="c", name="f", arguments=json.dumps({"text": long})),
        FunctionCallOutput(call_id="c", output=long),
        AdditionalTools(tools=[FunctionTool("f", long)]),
    ]

    async def check() -> list[int]:
        return [lab.engine.count([item], CARD.name) for item in items]

    assert min(lab.run(check)) > 7500


# -- conversations --------------------------------------------------------------------------------

BEGINNING = "Remember this list: " + ", ".join(str(number) for number in range(100, 130))


def test_the_template_only_grows(lab: Lab) -> None:
    async def check() -> str:
        assert lab.engine._book is not None
        return lab.engine._book.growth

    assert lab.run(check) == "append_only"


def test_a_continued_conversation_is_cached_up_to_its_last_whole_block(lab: Lab) -> None:
    async def check() -> None:
        first = ask(BEGINNING)
        assert isinstance(first.prompt, Chat)
        one = await lab.answer(first)
        past = [*first.prompt.items, said(text_in(one), "assistant")]
        second = replace(ask(*past, "Which number came first?"), parent_id=first.id)
        two = tokens_in(await lab.answer(second))
        before = tokens_in(one)
        assert [prompt.continued for prompt in lab.prompts] == [False, True]
        old, new = (prompt.ids for prompt in lab.prompts)
        assert new[: len(old)] == old
        # The last token that was said has not been read by the model yet.
        assert two.cached == (before.input + before.output - 1) // BLOCK * BLOCK
        assert two.input == len(new)

    lab.run(check)


def test_owners_share_no_cache_and_no_chain(lab: Lab) -> None:
    async def check() -> None:
        first = replace(ask(BEGINNING), owner="one")
        assert isinstance(first.prompt, Chat)
        said_first = text_in(await lab.answer(first))
        again = tokens_in(await lab.answer(replace(first, id="resp_again")))
        assert again.cached > 0
        past = [*first.prompt.items, said(said_first, "assistant")]
        stranger = replace(ask(*past, "go on"), parent_id=first.id, owner="other")
        assert tokens_in(await lab.answer(stranger)).cached == 0
        assert not lab.prompts[-1].continued

    lab.run(check)


def test_a_tool_turn_continues_the_call_as_the_model_wrote_it(lab: Lab) -> None:
    tools = Toolbox((WEATHER,))

    async def check() -> None:
        first = ask("Weather in Paris?", toolbox=tools, tool_choice="required", tokens=40)
        assert isinstance(first.prompt, Chat)
        opened, arguments = called(await lab.answer(first))
        call = FunctionCall(id="fc", call_id="c", name=opened.name, arguments=arguments)
        output = FunctionCallOutput(id="fco", call_id="c", output="rain")
        past = [*first.prompt.items, call, output]
        second = replace(ask(*past, toolbox=tools, tokens=4), parent_id=first.id)
        tokens = tokens_in(await lab.answer(second))
        assert lab.prompts[-1].continued
        assert tokens.cached >= len(lab.prompts[0].ids) // BLOCK * BLOCK

    lab.run(check)


def test_an_aborted_answer_is_continued_as_far_as_it_went(lab: Lab) -> None:
    async def check() -> None:
        first = ask(BEGINNING, tokens=30)
        assert isinstance(first.prompt, Chat)
        heard: list[Delta] = []
        async with aclosing(lab.engine.generate(first)) as stream:
            async for delta in stream:
                heard.append(delta)
                if len(heard) == 4:
                    break
        past = [*first.prompt.items, said(text_in(heard), "assistant")]
        second = replace(ask(*past, "Go on."), parent_id=first.id)
        assert text_in(await lab.answer(second))
        assert lab.prompts[-1].continued
        whole = await lab.rendered(second)
        assert lab.prompts[-1].ids == whole["prompt_token_ids"]

    lab.run(check)


def test_what_follows_a_warm_up_is_what_would_stand_alone(lab: Lab) -> None:
    async def check() -> None:
        warm = replace(ask(BEGINNING, instructions="Be brief."), generate=False)
        assert isinstance(warm.prompt, Chat)
        assert [type(delta) for delta in await lab.answer(warm)] == [Finished]
        then = ask(*warm.prompt.items, "Which came first?", instructions="Be brief.", tokens=2)
        tokens = tokens_in(await lab.answer(replace(then, parent_id=warm.id)))
        assert tokens.cached > BLOCK
        assert lab.prompts[-1].ids == (await lab.rendered(then))["prompt_token_ids"]

    lab.run(check)


def test_a_conversation_is_rendered_as_vllm_renders_it(lab: Lab) -> None:
    asked = ask(
        "Weather in Paris?",
        FunctionCall(id="fc", call_id="c", name="get_weather", arguments='{"city": "Paris"}'),
        FunctionCallOutput(id="fco", call_id="c", output="rain"),
        said("It rains.", "assistant"),
        said("Mind the tests.", "system"),
        "And in Rome?",
        instructions="Be brief.",
        toolbox=Toolbox((WEATHER, PATCH)),
        tokens=1,
    )

    async def check() -> None:
        await lab.answer(asked)
        ours, theirs = lab.prompts[-1].ids, (await lab.rendered(asked))["prompt_token_ids"]
        decode = lab.shared.core.renderer.tokenizer.decode
        assert decode(ours) == decode(theirs)
        assert ours == theirs

    lab.run(check)


# -- nothing is lost on the way -------------------------------------------------------------------

_SUBJECTS = "a list, a dict, a set, a tuple, a class, a loop, a file, a thread, a test, a lock"
PROMPTS = [
    form.format(subject)
    for subject in _SUBJECTS.split(", ")
    for form in (
        "What is {} in Python?",
        "Write one line of Python with {}.",
        "When is {} a bad idea?",
        "Name two uses of {}.",
        "Comment: {}, naïve or not? 你好",
    )
]


def test_greedy_text_is_that_of_the_bare_engine(lab: Lab) -> None:
    async def check() -> None:
        differing = []
        for prompt in PROMPTS:
            asked = ask(prompt)
            await lab.shared.core.reset_prefix_cache()
            ours = text_in(await lab.answer(asked))
            await lab.shared.core.reset_prefix_cache()
            theirs = await lab.bare(asked)
            if ours != theirs:
                differing.append((prompt, ours, theirs))
        assert differing == []

    lab.run(check, patience=880)


# -- slots ----------------------------------------------------------------------------------------


def test_an_aborted_answer_frees_its_slot_within_a_step(lab: Lab) -> None:
    async def steps_until_it_was_free() -> int:
        steps = lab.shared.steps
        steps.clear()
        async with aclosing(lab.engine.generate(ask(BEGINNING, tokens=40))) as stream:
            for _ in range(5):
                await anext(stream)
            assert steps[-1].running == 1
            steps.clear()
        await until(lambda: any(step.running == 0 for step in steps))
        number, free = next((at, step) for at, step in enumerate(steps) if step.running == 0)
        assert (free.waiting, free.cache) == (0, 0.0)
        assert lab.core_unfinished() == 0
        return number

    async def check() -> None:
        assert max([await steps_until_it_was_free() for _ in range(10)]) <= 1

    lab.run(check)


def test_two_hundred_aborts_leak_nothing(lab: Lab) -> None:
    async def abort(number: int) -> None:
        if number % 2:  # after its first words
            stream = lab.engine.generate(ask(f"{BEGINNING}: {number}", tokens=40))
            await anext(stream)
            await stream.aclose()
        else:  # while it waits, or reads its prompt, which no cache has
            stream = lab.engine.generate(ask(f"{number}: {BEGINNING}", tokens=40))
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.01 * (number % 10))
            reading.cancel()
            await asyncio.wait([reading])
            await stream.aclose()

    async def check() -> None:
        for batch in range(0, 200, 10):
            await asyncio.gather(*(abort(number) for number in range(batch, batch + 10)))
        assert lab.engine.running() == 0
        assert lab.core_unfinished() == 0
        await until(lambda: lab.shared.steps[-1].running == 0)
        last = lab.shared.steps[-1]
        assert (last.running, last.waiting, last.cache) == (0, 0, 0.0)
        figures = lab.figures()
        assert figures["vllm:num_requests_running"] == 0
        assert figures["vllm:num_requests_waiting"] == 0
        assert figures["vllm:kv_cache_usage_perc"] == 0
        assert text_in(await lab.answer(ask("Say hello.")))

    lab.run(check, patience=880)


# -- life -----------------------------------------------------------------------------------------


_GATEWAY = """
import asyncio
from multiprocessing import active_children
from tests.support.vllm import new_engine

async def main() -> None:
    await new_engine().start()
    print("pids", *(each.pid for each in active_children()), flush=True)
    await asyncio.sleep(600)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_it_ends_with_a_gateway_that_is_killed(tmp_path: Path) -> None:
    """Or it would keep the memory, of which the gateway that is started next finds none."""
    program, root = tmp_path / "gateway.py", Path(__file__).parents[2]
    program.write_text(_GATEWAY)
    path = os.pathsep.join((str(root / "src"), str(root)))
    with subprocess.Popen(
        [sys.executable, program],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    ) as gateway:
        assert gateway.stdout is not None
        told = next(line for line in gateway.stdout if line.startswith(b"pids"))
        cores = [psutil.Process(int(pid)) for pid in told.split()[1:]]
        left = [*cores, *(each for core in cores for each in core.children(recursive=True))]
        assert left
        gateway.kill()
    eventually(lambda: not any(map(alive, left)))


def test_arguments_that_vllm_does_not_have_are_named() -> None:
    engine = new_engine(no_such_argument=1)
    with pytest.raises(ConfigError, match="no_such_argument"):
        asyncio.run(engine.start())
    assert not engine.healthy()


def test_another_version_of_vllm_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import vllm

    monkeypatch.setattr(vllm, "__version__", "0.33.1")
    with pytest.raises(ConfigError) as refused:
        asyncio.run(new_engine().start())
    assert "0.33.1" in str(refused.value)
    assert WRITTEN_FOR in str(refused.value)


def test_nothing_of_the_settings_stays_in_our_environment(lab: Lab) -> None:
    async def check() -> None:
        assert "VLLM_CPU_KVCACHE_SPACE" not in os.environ
        assert "VLLM_NO_USAGE_STATS" not in os.environ

    lab.run(check)
