"""docs/reference/commands.md: every command with its options, as ``--help`` has them."""

from __future__ import annotations

import click
import pytest

from scripts.references import commands

PAGE = commands.text()
FOUND = {context.command_path: context for context in commands.every_command()}


def section(path: str) -> str:
    return PAGE.partition(f"\n## {path}\n")[2].partition("\n## ")[0]


def test_every_command_that_there_is_was_found() -> None:
    assert {"vivace", "vivace ask", "vivace config check", "vivace keys revoke"} <= set(FOUND)


@pytest.mark.parametrize("path", [path for path in FOUND if path != "vivace"])
def test_a_command_stands_there_with_all_its_options(path: str) -> None:
    options = [each for each in FOUND[path].command.params if isinstance(each, click.Option)]
    for option in options:
        assert all(name in section(path) for name in option.opts)
        assert option.help, f"{path} {option.opts[0]} says nothing of itself"


def test_exit_statuses_are_a_table() -> None:
    assert "| 4 | applied, but --check fails |" in section("vivace edit")
    assert (
        "| 3 | refused: it failed its checks, the file was changed in the same lines meanwhile, or "
        "what it is about is more than the model takes |"
    ) in section("vivace edit")


def test_what_is_said_of_the_exit_status_beside_the_table_is_kept() -> None:
    assert "\nExit status: with --once, that of COMMAND" in section("vivace watch")


def test_words_are_words_and_examples_are_code() -> None:
    said = section("vivace ask")
    assert "\nWhat is piped in is shown to the model too:\n" in said
    assert '```text\ngit diff | vivace ask "What could break here?"\n```' in said


def test_what_the_environment_can_give_is_said() -> None:
    assert "Also by `VIVACE_URL`." in section("vivace ask")
