"""What the tools do to a file, and what the agent is told; the model is scripted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcp import Client
from tests.mcp.agent import Answer, call, in_process, with_agent
from tests.support.editing import BROKEN, EVERYWHERE, LOADED, SHOP, TYPED, Project, answers
from tests.support.server import RunningGateway
from tests.support.waiting import eventually
from vivace.engines.scripted import Reply, Say, Stall

LOAD = "def load(path):\n    with open(path) as file:\n        return json.load(file)\n"
MANY = "".join(f"def f{n}(x):\n    return x\n\n\n" for n in range(60))


@pytest.fixture
def project(gateway: RunningGateway, tmp_path: Path) -> Project:
    return Project(tmp_path, gateway)


def requests(project: Project) -> int:
    return project.gateway.witness.events.count("response.created")


# -- edits ----------------------------------------------------------------------------------------


def test_an_edit_is_written_and_told_with_its_diff_and_taken_back(project: Project) -> None:
    project.play(answers(TYPED))
    answer = call(project, "edit_file", path="shop.py", instruction=EVERYWHERE)
    assert not answer.failed, answer.text
    assert project.shop.read_text() == TYPED
    assert "Written: shop.py +1 -1" in answer.text
    assert "-    def total(self):\n+    def total(self) -> int:\n" in answer.text
    assert "it parses (python)" in answer.text
    assert "local-model" in answer.text
    assert "tokens" in answer.text
    project.undo()
    assert project.shop.read_text() == SHOP


def test_the_selected_lines_are_changed(project: Project) -> None:
    project.play(answers("def load(path):\n    return json.loads(path.read_text())\n"))
    asked = {"instruction": "read it at once, without a file", "selection": "21-23"}
    answer = call(project, "edit_file", path="shop.py", **asked)
    assert not answer.failed, answer.text
    assert "path.read_text()" in project.shop.read_text()
    assert "only load (lines 21-23) changed" in answer.text


def test_a_sketch_that_says_where_it_goes_needs_no_model(project: Project) -> None:
    sketch = f"# ... existing code ...\n\n{LOAD}"
    answer = call(project, "apply_sketch", path="shop.py", sketch=sketch)
    assert not answer.failed, answer.text
    assert project.shop.read_text() == LOADED
    assert "no model: what the sketch defines was put in its place by name, 0 tokens" in answer.text
    assert requests(project) == 0
    project.undo()
    assert project.shop.read_text() == SHOP


def test_a_sketch_with_gaps_in_a_function_is_merged_by_the_model(project: Project) -> None:
    merged = SHOP.replace("return result", "return round(result, 2)")
    method = merged[merged.index("    def total") : merged.index("\n\ndef load")]
    project.play(answers(method.replace("\n    ", "\n").removeprefix("    ")))
    sketch = "def total(self):\n    # ... existing code ...\n    return round(result, 2)\n"
    answer = call(project, "apply_sketch", path="shop.py", sketch=sketch)
    assert not answer.failed, answer.text
    assert project.shop.read_text() == merged
    assert "local-model" in answer.text


# -- what stops -----------------------------------------------------------------------------------


def test_what_fails_its_checks_is_told_and_not_written(project: Project) -> None:
    project.play(answers(BROKEN))
    answer = call(project, "edit_file", path="shop.py", instruction=EVERYWHERE)
    assert answer.failed
    assert "break the syntax" in answer.text
    assert "+def load(path:" in answer.text
    assert project.shop.read_text() == SHOP


def test_what_is_suspicious_stops_with_the_reason_and_the_diff(project: Project) -> None:
    project.play(answers(SHOP.replace("return json", "json")))
    answer = call(project, "edit_file", path="shop.py", instruction=EVERYWHERE)
    assert answer.failed
    assert "let `load` return nothing any more" in answer.text
    assert "-    return json.load(file)" in answer.text
    assert "names what was said above" in answer.text
    assert project.shop.read_text() == SHOP


@pytest.mark.parametrize(
    "sketch", ["def load(path):\n    pass\n", "class Cart:\n    pass\n", "# all of it goes\n"]
)
def test_a_sketch_that_deletes_everything_stops(project: Project, sketch: str) -> None:
    project.play(answers(""))
    assert call(project, "apply_sketch", path="shop.py", sketch=sketch).failed
    assert project.shop.read_text() == SHOP


def test_what_the_agent_names_may_go(project: Project) -> None:
    sketch = "def load(path):\n    json.load(open(path))\n"
    refused = call(project, "apply_sketch", path="shop.py", sketch=sketch)
    assert "let `load` return nothing any more" in refused.text
    meant = {"sketch": sketch, "instruction": "load is to return nothing any more"}
    assert not call(project, "apply_sketch", path="shop.py", **meant).failed


def test_where_nobody_knows_the_place_the_candidates_are_told(project: Project) -> None:
    project.shop.write_text(MANY)
    answer = call(project, "edit_file", path="shop.py", instruction="use b in all functions")
    assert answer.failed
    assert "It could be:\n- f" in answer.text
    assert "selection" in answer.text
    assert requests(project) == 0


def test_a_file_that_changed_in_the_same_lines_meanwhile_is_left_alone(project: Project) -> None:
    project.play(Reply(then=(Stall(1.5), Say(f"```python\n{TYPED}```"))))

    async def story(client: Client) -> Answer:
        asked = {"path": "shop.py", "instruction": EVERYWHERE}
        calling = asyncio.create_task(client.call_tool("edit_file", asked))
        await asyncio.sleep(0)
        await asyncio.to_thread(eventually, lambda: project.gateway.engine.running() > 0, 20)
        project.shop.write_text(SHOP.replace("total(self):", "total(self, tax):"))
        return Answer(await calling)

    answer = with_agent(project, story)
    assert answer.failed
    assert "was changed since it was read, in the same lines" in answer.text
    assert "total(self, tax):" in project.shop.read_text()


def test_who_finds_no_server_is_told_what_to_start(project: Project) -> None:
    async def story() -> Answer:
        async with in_process(project, url="http://127.0.0.1:9/v1") as client:
            asked = {"path": "shop.py", "instruction": EVERYWHERE}
            return Answer(await client.call_tool("edit_file", asked))

    answer = asyncio.run(story())
    assert answer.failed
    assert "vivace up" in answer.text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"path": "shop.py"}, "instruction"),
        ({"path": "shop.py", "instruction": " "}, "empty"),
        ({"path": "shop.py", "instruction": "x" * 1_000_000}, "length"),
        ({"path": "shop.py", "instruction": "x", "selection": "a-b"}, "selection"),
        ({"path": "shop.py", "instruction": "x", "selection": "0"}, "no part of the file"),
        ({"path": "shop.py", "instruction": "x", "selection": "9-99"}, "lines 1 to 23"),
        ({"path": "shop.py", "instruction": "x", "other": 1}, "other"),
        ({"path": 1, "instruction": "x"}, "path"),
    ],
)
def test_wrong_arguments_are_explained(
    project: Project, arguments: dict[str, object], said: str
) -> None:
    answer = call(project, "edit_file", **arguments)
    assert answer.failed
    assert said in answer.text
    assert len(answer.text) < 1000


# -- many at once ---------------------------------------------------------------------------------


def test_edits_of_one_file_are_made_one_after_another(project: Project) -> None:
    async def story(client: Client) -> list[Answer]:
        first = client.call_tool("apply_sketch", {"path": "shop.py", "sketch": LOAD})
        total = "class Cart:\n    def total(self):\n        return len(self.items)\n"
        second = client.call_tool("apply_sketch", {"path": "./shop.py", "sketch": total})
        return [Answer(each) for each in await asyncio.gather(first, second)]

    answered = with_agent(project, story)
    assert [each.failed for each in answered] == [False, False], answered[1].text
    assert "with open(path)" in project.shop.read_text()
    assert "len(self.items)" in project.shop.read_text()


def test_fifty_calls_at_once_are_all_answered(project: Project) -> None:
    for number in range(50):
        (project.root / f"a{number}.py").write_text(f"def f():\n    return {number}\n")

    async def story(client: Client) -> list[Answer]:
        sketch = "def f():\n    return -1\n"
        asked = [{"path": f"a{number}.py", "sketch": sketch} for number in range(50)]
        calls = [client.call_tool("apply_sketch", each) for each in asked]
        return [Answer(each) for each in await asyncio.gather(*calls)]

    answered = with_agent(project, story)
    assert not any(each.failed for each in answered)
    assert all("-1" in (project.root / f"a{number}.py").read_text() for number in range(50))


def test_a_call_that_is_cancelled_stops_the_model_and_frees_the_file(project: Project) -> None:
    project.play(Reply(when="forever", then=(Say("```python\n"), Stall(3600))), answers(TYPED))

    async def story(client: Client) -> Answer:
        asked = {"path": "shop.py", "instruction": "change it forever in the whole file"}
        calling = asyncio.create_task(client.call_tool("edit_file", asked))
        await asyncio.to_thread(eventually, lambda: project.gateway.engine.running() > 0, 20)
        calling.cancel()
        await asyncio.to_thread(eventually, lambda: project.gateway.engine.running() == 0, 5)
        assert project.shop.read_text() == SHOP
        asked["instruction"] = EVERYWHERE
        return Answer(await client.call_tool("edit_file", asked))

    assert not with_agent(project, story).failed
    assert project.shop.read_text() == TYPED


def test_who_wants_to_know_is_told_how_far_it_is(project: Project) -> None:
    project.play(Reply(then=(Say("```python\n"), Stall(1.2), Say(f"{TYPED}```"))))
    heard: list[str | None] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    async def story(client: Client) -> Answer:
        asked = {"path": "shop.py", "instruction": EVERYWHERE}
        return Answer(await client.call_tool("edit_file", asked, progress_callback=told))

    assert not with_agent(project, story).failed
    assert "writing" in heard
