"""Real agents that send everything again at every turn: each goes on from its own last turn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.claude_code import ClaudeCode
from tests.support.codex import Codex, Dialect
from tests.support.server import RunningGateway
from vivace.engines.scripted import Call, Reply, Say, Think

STEPS = 6


def play_loop(gateway: RunningGateway, tool: str, **arguments: str | int) -> None:
    """A command, what it printed, the next command; at the end a word."""

    def step(number: int) -> Call:
        command = {name: f"{value}".format(number) for name, value in arguments.items()}
        return Call(tool, json.dumps(command))

    between = [
        Reply(
            after="tool",
            when=rf"step {number}\b",
            then=(Think("What next?"), Say("Next."), step(number + 1)),
        )
        for number in range(1, STEPS)
    ]
    last = Reply(after="tool", when=rf"step {STEPS}\b", then=(Say("Done."),))
    gateway.engine.play([*between, last, Reply(when="Work", after="message", then=(step(1),))])


def found(gateway: RunningGateway) -> dict[str, float | None]:
    """Later turns, by whether the one before was known."""
    registry = gateway.gateway.metrics.registry
    return {
        known: registry.get_sample_value("vivace_resent_conversations_total", {"known": known})
        for known in ("yes", "no")
    }


def test_codex_over_http(gateway: RunningGateway, tmp_path: Path) -> None:
    play_loop(gateway, "exec_command", cmd="echo step {}")

    transcript = Codex(tmp_path, gateway.url, Dialect(websocket=False)).run("Work")

    assert transcript.answers[-1] == "Done."
    assert found(gateway) == {"yes": STEPS, "no": None}


@pytest.mark.release
def test_claude_code(gateway: RunningGateway, tmp_path: Path) -> None:
    play_loop(gateway, "Bash", command="echo step {}", description="Step {}")

    claude = ClaudeCode(tmp_path, gateway.url)
    transcript = claude.run("Work", "--allowedTools", "Bash")
    gateway.engine.play([Reply(when="Thanks", then=(Say("Gladly."),))])
    later = claude.run("Thanks", "--continue")

    assert transcript.result["result"] == "Done."
    assert later.result["result"] == "Gladly."
    assert found(gateway) == {"yes": STEPS + 1, "no": None}
