"""``vivace explain``: every code that an error can carry is explained, and no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from click.testing import CliRunner

import vivace
from vivace.cli.editing.report import _kind
from vivace.cli.explain import explanations, say_error
from vivace.cli.main import commands
from vivace.client.errors import ClientError, no_server
from vivace.conversation.steering import SteerCode
from vivace.errors import EditError

SOURCE = Path(vivace.__file__).parent
_POSITIONS = {"ClientError": 1, "Failed": 1, "ResponseProblem": 0, "_refusal": 1, ".fail": 0}
"""Calls that are given a code without its name, and where."""
_NO_ERRORS = {"download", "engines", "findings", "lsp"}
"""Rooms where a code is HTTP's, another server's, the editor's, or that of a finding."""


def given_codes(call: ast.Call) -> Iterator[ast.expr]:
    yield from (each.value for each in call.keywords if each.arg == "code")
    name = getattr(call.func, "id", "") or f".{getattr(call.func, 'attr', '')}"
    position = _POSITIONS.get(name, len(call.args))
    yield from call.args[position : position + 1]


def codes_in(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        match node:
            case ast.Call():
                yield from given_codes(node)
            case ast.ClassDef(body=body):
                for line in body:
                    match line:
                        case (
                            ast.Assign(targets=[ast.Name(id="code" | "default_code")], value=value)
                            | ast.AnnAssign(target=ast.Name(id="default_code"), value=value)
                        ):
                            if value is not None:
                                yield value


def expressions() -> Iterator[tuple[str, ast.expr]]:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in _NO_ERRORS:
            for found in codes_in(ast.parse(path.read_text("utf-8"))):
                yield f"{path.relative_to(SOURCE)}:{found.lineno}", found


EXPRESSIONS = list(expressions())
EMITTED = {
    *(each.value for _, each in EXPRESSIONS if isinstance(each, ast.Constant)),
    *get_args(SteerCode),
    _kind(ClientError("It broke off."))[1],
    _kind(EditError("It does not fit."))[1],
} - {None}


def test_what_is_emitted_was_found() -> None:
    """The search itself works: codes of every kind that are known to be there."""
    assert {
        "model_not_found",  # by name
        "invalid_http",  # of a table
        "engine_died",  # of a class
        "no_server",  # by position
        "server_restarted",
        "lost_midway",  # of a log
        "invalid_api_key",
        "steering_not_supported",
        "no_answer",
    } <= EMITTED


@pytest.mark.parametrize("code", sorted(EMITTED))
def test_every_code_that_can_be_emitted_is_explained(code: str) -> None:
    assert code in explanations()


@pytest.mark.parametrize("code", explanations())
def test_nothing_is_explained_that_no_error_has(code: str) -> None:
    assert code in EMITTED


def test_a_code_is_written_where_it_is_given_or_passed_on() -> None:
    """One that is put together at run time could not be found here."""
    made = [
        place
        for place, each in EXPRESSIONS
        if not isinstance(each, ast.Constant)
        and not (isinstance(each, ast.Attribute) and each.attr == "code")
        and not (isinstance(each, ast.Name) and each.id == "code")
    ]
    # What another server said.
    assert [place for place in made if not place.startswith("client/events.py:")] == []


def test_a_code_is_explained() -> None:
    ran = CliRunner().invoke(commands, ["explain", "queue_full"])
    assert ran.exit_code == 0
    first, why, *rest = ran.output.splitlines()
    assert first == "queue_full"
    assert why.startswith("Why: As many turns")
    assert any(line.startswith("Do:  Try again") for line in rest)
    assert all(len(line) <= 88 for line in rest)


def test_a_code_that_there_is_not_is_answered_with_the_nearest() -> None:
    ran = CliRunner().invoke(commands, ["explain", "que_full"])
    assert ran.exit_code == 1
    assert "Did you mean 'queue_full'?" in ran.output


def test_without_a_code_all_are_listed() -> None:
    assert CliRunner().invoke(commands, ["explain"]).output.split() == list(explanations())


def test_an_error_with_a_code_says_how_to_learn_more(capsys: pytest.CaptureFixture[str]) -> None:
    say_error(no_server("http://127.0.0.1:1/v1"))
    assert capsys.readouterr().err.splitlines()[-1] == "More on this: vivace explain no_server"


@pytest.mark.parametrize("code", [None, "insufficient_quota", "explain $(me)"])
def test_a_code_of_another_server_is_not_passed_on(
    code: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    say_error(ClientError("No.", code))
    assert capsys.readouterr().err == "vivace: No.\n"
