"""Where drafts come from, without the client doing anything."""

from __future__ import annotations

from vivace.protocol.items import FunctionCallOutput, Item, Message
from vivace.protocol.requests import Prediction
from vivace.speculation.sources import instruction, old_text


def block(code: str) -> str:
    return f"```python\n{code}\n```"


def test_a_prediction_is_taken_as_it_is() -> None:
    items: list[Item] = [Message(role="user", content=block("shown = 1"))]
    assert old_text(items, Prediction("foretold = 1")) == "foretold = 1"


def test_else_the_code_that_was_shown_the_newest_first() -> None:
    items: list[Item] = [
        Message(role="user", content=f"Here:\n{block('a = 1')}\nand\n{block('b = 2')}\nWell?"),
        FunctionCallOutput(call_id="c", output="c = 3\n"),
        Message(role="user", content="Go on."),
    ]
    assert old_text(items, None) == "\n".join(["c = 3\n", block("b = 2"), block("a = 1")])


def test_what_was_only_said_is_not_drafted() -> None:
    assert old_text([Message(role="user", content="Write something new.")], None) == ""


def test_only_so_much_is_remembered() -> None:
    items: list[Item] = [FunctionCallOutput(call_id="c", output=letter * 40_000) for letter in "ab"]
    assert old_text(items, None) == "b" * 40_000


def test_a_block_that_is_not_closed_on_a_line_of_its_own_goes_to_the_end() -> None:
    shown = "```ts\nlet a = 1;\nlet b = 2;```"
    assert old_text([Message(role="user", content=f"Change this:\n{shown}")], None) == shown


def test_an_instruction_is_what_the_user_said_around_the_code() -> None:
    items: list[Item] = [
        Message(role="user", content=f"Here is foo:\n{block('code = 1')}\nRename it."),
        Message(role="assistant", content="an answer"),
        Message(role="user", content="Again."),
    ]
    said = instruction(items).split()
    assert said == ["Here", "is", "foo:", "Rename", "it.", "Again."]
