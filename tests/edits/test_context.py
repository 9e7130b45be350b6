"""A context only grows: what a model has read once it need not read again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.context import Context
from vivace.protocol.items import text_of

texts = st.text("abc`\n", max_size=20)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_repeated_edits_of_a_file_only_add_to_the_end(steps: list[tuple[str, str]]) -> None:
    context = Context(instructions="Be kind.", formatter="line-length = 100")
    before: tuple[object, ...] = ()
    for number, (typed, edited) in enumerate(steps):
        asked = context.showing("a.py", typed).request("system", f"request {number}")
        assert asked[: len(before)] == before
        assert len(asked) > len(before)
        context = context.after(asked, f"answer {number}", "a.py", edited)
        before = asked


def test_the_projects_rules_come_first_and_the_request_last() -> None:
    context = Context(instructions="Use tabs.", formatter="indent = 1").showing("a", "x")
    messages = context.request("You edit code.", "Do it.")
    head = text_of(messages[0].content)
    assert messages[0].role == "system"
    assert head.index("You edit code.") < head.index("Use tabs.") < head.index("indent = 1")
    assert text_of(messages[-1].content) == "Do it."


def test_without_rules_nothing_is_said_of_them() -> None:
    assert text_of(Context().head("You edit code.").content) == "You edit code."


def test_a_file_is_shown_whole_once_and_then_what_changed() -> None:
    once = Context().showing("a.py", "x = 1\ny = 2\n")
    assert "x = 1\ny = 2\n" in text_of(once.past[0].content)
    assert once.showing("a.py", "x = 1\ny = 2\n") == once
    changed = once.showing("a.py", "x = 1\ny = 3\n")
    assert changed.past[:1] == once.past
    assert "-y = 2\n+y = 3\n" in text_of(changed.past[1].content)


def test_a_context_that_has_grown_leaves_the_old_one_as_it_was() -> None:
    context = Context()
    context.showing("a", "b")
    assert context == Context()


@given(texts)
def test_a_file_cannot_break_out_of_its_fence(text: str) -> None:
    shown = text_of(Context().showing("a", text).past[0].content)
    fence = shown.split("\n")[1]
    assert shown.split("\n")[2:].count(fence) == 1
