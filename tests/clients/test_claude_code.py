"""The real Claude Code CLI against a real gateway; only the model is scripted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.support.claude_code import ClaudeCode, environment, program
from tests.support.http import key, keys
from tests.support.server import MODEL, RunningGateway, configuration
from vivace.cli.connect import connect
from vivace.engines.scripted import Call, Reply, Say, Think
from vivace.protocol.requests import CreateResponse


@pytest.mark.release
def test_an_answer_reaches_the_user(gateway: RunningGateway, tmp_path: Path) -> None:
    gateway.engine.play(
        [
            Reply(
                when="Good morning",
                then=(
                    Think("Hm."),
                    Say("And a good day."),
                ),
            )
        ]
    )

    transcript = ClaudeCode(tmp_path, gateway.url).run("Good morning")

    assert transcript.result["result"] == "And a good day."
    usage = transcript.result["usage"]
    assert usage["input_tokens"] > 5_000
    assert usage["output_tokens"] > 4


def test_a_command_is_run_and_its_output_comes_back(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    # The output is nowhere in the command, so only a shell can have made it.
    command = json.dumps({"command": "echo about $((6 * 7)) apples", "description": "Count"})
    gateway.engine.play(
        [
            Reply(when="How many", after="message", then=(Think("Hm."), Call("Bash", command))),
            Reply(when="about 42 apples", after="tool", then=(Say("There are 42."),)),
        ]
    )

    claude = ClaudeCode(tmp_path, gateway.url)
    transcript = claude.run("How many are there?", "--allowedTools", "Bash")

    assert [block["content"] for block in transcript.blocks("tool_result")] == ["about 42 apples"]
    assert transcript.result["result"] == "There are 42."
    assert transcript.result["usage"]["cache_read_input_tokens"] > 5_000


@pytest.mark.release
def test_an_edit_changes_the_file(gateway: RunningGateway, tmp_path: Path) -> None:
    claude = ClaudeCode(tmp_path, gateway.url)
    greeting = claude.workspace / "greeting.txt"
    greeting.write_text("Dear reader,\ngoodbye.\n")
    read = {"file_path": str(greeting)}
    edit = {**read, "old_string": "goodbye", "new_string": "welcome"}
    gateway.engine.play(
        [
            Reply(when="Be polite", after="message", then=(Call("Read", json.dumps(read)),)),
            Reply(when="goodbye", after="tool", then=(Call("Edit", json.dumps(edit)),)),
            Reply(when="updated", after="tool", then=(Say("It is polite now."),)),
        ]
    )

    transcript = claude.run("Be polite", "--permission-mode", "acceptEdits")

    assert greeting.read_text() == "Dear reader,\nwelcome.\n"
    assert transcript.result["result"] == "It is polite now."


@pytest.mark.release
def test_a_conversation_that_has_become_too_long_is_compacted_and_goes_on(tmp_path: Path) -> None:
    replies = [
        Reply(when="Do NOT call any tools", then=(Say("<summary>They met.</summary>"),)),
        Reply(when="a second question", then=(Say("The second answer."),)),
        Reply(when="a first question", then=(Say("word by word ", times=1230),)),
    ]
    config = configuration(engine={"context": 17_000, "burst": 64})
    with RunningGateway(replies, config=config) as gateway:
        claude = ClaudeCode(tmp_path, gateway.url)
        claude.run("Now a first question")
        long = "Now a second question. " + "Please mind it. " * 750

        transcript = claude.run(long, "--continue")

        refused = 'vivace_requests_refused_total{code="context_length_exceeded"}'
        assert refused in gateway.http.get("/metrics").text
    assert transcript.said("compact_boundary")
    assert transcript.result["result"] == "The second answer."


@pytest.mark.release
def test_it_has_us_count_what_fills_its_context(
    gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner, counted = gateway.gateway.runner.planner, list[int]()
    count = planner.count

    async def noted(request: CreateResponse, owner: str) -> int:
        counted.append(await count(request, owner))
        return counted[-1]

    monkeypatch.setattr(planner, "count", noted)
    shown = ClaudeCode(tmp_path, gateway.url).run("/context").result["result"]
    assert "Context Usage" in shown
    assert max(counted) > 3_000


@pytest.mark.release
def test_our_command_connects_it_with_a_key(tmp_path: Path) -> None:
    replies = [Reply(when="Good morning", then=(Say("And a good day."),))]
    config = configuration(engine={"context": 32_768}, keys=keys("ada"))
    variables = {**environment(tmp_path), "VIVACE_KEY": key("ada")}
    with RunningGateway(replies, config=config) as gateway:
        options = ["--url", gateway.url, "--key-env", "VIVACE_KEY", "--write", "--yes"]
        done = CliRunner(env={**variables, "CLAUDE_CONFIG_DIR": None}).invoke(
            connect, ["claude", *options]
        )
        assert done.exception is None, done.output
        settings = tmp_path / ".claude/vivace.json"
        form = ("--output-format", "json")
        ran = subprocess.run(
            [program(), "--settings", settings, "-p", "Good morning", *form],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    told = json.loads(ran.stdout)
    assert told["result"] == "And a good day."
    assert told["modelUsage"][MODEL]["contextWindow"] == 32_768
