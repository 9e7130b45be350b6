"""From an instruction to an edit: the ways a small model answers, and what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.support.counting import calls
from vivace.edits.attempt import (
    Attempt,
    EditPlan,
    Outcome,
    Task,
    accepted,
    explained,
    plan,
    plan_delegate,
    retry,
)
from vivace.edits.context import Context
from vivace.edits.placing.region import Region, regions
from vivace.protocol.items import Message, text_of
from vivace.syntax.hunk import Hunk, apply
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source

SMALL, LARGE = "qwen2.5-coder-0.5b", "qwen3-coder-30b-a3b"

SHOP = '''\
"""A shop."""

import json


class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        # keep the order
        self.items.append(item)

    def total(self):
        result = 0
        for item in self.items:
            result += item["price"]
        return result


def load(path):
    file = open(path)
    return json.load(file)
'''
TOTAL = """\
def total(self) -> int:
    result = 0
    for item in self.items:
        result += item["price"]
    return result
"""


def made(instruction: str, text: str = SHOP, model: str = SMALL, path: str = "shop.py") -> EditPlan:
    return plan(Task(path, text, instruction), Context(), model)


def answered(asked: EditPlan, answer: str) -> Outcome:
    attempt = Attempt(asked)
    for at in range(0, len(answer), 7):
        attempt.feed(answer[at : at + 7])
    outcome = attempt.finish()
    assert apply(asked.task.text, outcome.hunks) == outcome.text
    return outcome


def codes(outcome: Outcome) -> list[str]:
    return [problem.code for problem in outcome.problems]


def test_a_small_model_sees_the_named_region_alone_without_its_margin() -> None:
    asked = made("add a return type to `Cart.total`")
    shown = text_of(asked.items[-1].content)
    assert "```python\ndef total(self):\n    result = 0\n" in shown
    assert "self.items.append" not in shown
    assert "class Cart:" not in shown
    assert asked.prediction.startswith("```python\ndef total(self):\n")


@pytest.mark.parametrize(
    "answer",
    [
        f"```python\n{TOTAL}```",
        TOTAL,
        "Here you go:\n```python\n" + "".join(f"    {x}\n" for x in TOTAL.splitlines()) + "```\n",
        "```python\nclass Cart:\n" + "".join(f"    {x}\n" for x in TOTAL.splitlines()) + "```\n",
        f"```python\n{TOTAL}\n\n# Example usage\ncart = Cart()\nprint(cart.total())\n```",
        f"```python\n{TOTAL}```\nUse it like this:\n```python\nCart().total()\n```",
        "```python\n" + TOTAL.replace("    ", "  ") + "```",
        "```python\n" + TOTAL.replace("\n", "\r\n") + "```",
        "```python\n\n" + TOTAL.replace("result = 0\n", "result = 0 \n\n") + "\n\n```",
        "```python\n" + SHOP.replace("total(self):", "total(self) -> int:") + "```",
    ],
)
def test_only_what_was_asked_is_changed_however_it_is_answered(answer: str) -> None:
    outcome = answered(made("add a return type to `Cart.total`"), answer)
    assert outcome.problems == ()
    assert outcome.hunks == (
        Hunk(13, ("    def total(self):\n",), ("    def total(self) -> int:\n",)),
    )


SAFE = {
    "a.js": (
        "class A {\n>load(name) {\n>>return read(name);\n>}\n\n>save() {\n>>write();\n>}\n}\n",
        ">load(name) {\n>>return read(name);\n>}\n",
        ">load(name) {\n>>try {\n>>>return read(name);\n>>} catch {\n>>>return null;\n>>}\n>}\n",
    ),
    "a.py": (
        "class A:\n>def load(self, name):\n>>return read(name)\n\n>def save(self):\n>>write()\n",
        ">def load(self, name):\n>>return read(name)\n",
        ">def load(self, name):\n>>try:\n>>>return read(name)\n>>except OSError:\n>>>return None\n",
    ),
    "a.go": (
        "package a\n\nfunc load(name string) string {\n>return read(name)\n}\n",
        "func load(name string) string {\n>return read(name)\n}\n",
        "func load(name string) string {\n>if bad() {\n>>return name\n>}\n>return read(name)\n}\n",
    ),
}
"""A file, a function of it and what is answered; each step of indentation is one sign."""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("\t", "    "), ("    ", "\t"), ("\t", "  "), ("  ", "    "), ("    ", "  ")],
)
@pytest.mark.parametrize("path", SAFE)
def test_an_answer_is_indented_as_the_file_is(path: str, ours: str, theirs: str) -> None:
    text, old, new = SAFE[path]
    margin = ">" if old.startswith(">") else ""
    bare = "".join(line.removeprefix(margin) for line in lines_of(new)).replace(">", theirs)
    asked = made(
        "make `load` return nothing for what cannot be read", text.replace(">", ours), path=path
    )
    outcome = answered(asked, f"```\n{bare}```\n")
    assert outcome.text == text.replace(old, new).replace(">", ours)


def test_a_file_may_be_asked_to_be_indented_anew() -> None:
    text = "def f(x):\n\tif x:\n\t\treturn 1\n"
    new = text.replace("\t", "    ")
    outcome = answered(made("use spaces for tabs", text), f"```\n{new}```\n")
    assert outcome.text == new


def test_imports_go_to_the_imports() -> None:
    outcome = answered(
        made("make `load` use pathlib"),
        "```python\nfrom pathlib import Path\nimport json\n\ndef load(path):\n"
        "    return json.loads(Path(path).read_text())\n```",
    )
    assert outcome.problems == ()
    assert "\nimport json\nfrom pathlib import Path\n\n\nclass Cart" in outcome.text
    assert outcome.text.endswith("    return json.loads(Path(path).read_text())\n")
    assert outcome.text.count("import json") == 1


def test_hunks_are_shown_before_the_answer_is_finished() -> None:
    attempt = Attempt(made("add a return type to `Cart.total`"))
    answer = "```python\n" + TOTAL
    assert attempt.feed(answer) == [
        Hunk(13, ("    def total(self):\n",), ("    def total(self) -> int:\n",))
    ]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (
            "```python\ndef load(path):\n    file = open(path)\n    return json.load(file)\n```",
            "unchanged",
        ),
        ("```python\n```", "empty"),
        ("```python\ndef load(path:\n    return 1\n```", "syntax"),
        (
            "```python\ndef load(path):\n    # ... existing code ...\n    return 1\n```",
            "placeholder",
        ),
        ("```python\ndef read(path):\n    return json.load(open(path))\n```", "unfit"),
        ("I am sorry, I cannot help with that.", "syntax"),
        ("", "empty"),
    ],
)
def test_a_bad_answer_is_told_and_why(answer: str, code: str) -> None:
    outcome = answered(made("close the file in `load`"), answer)
    assert code in codes(outcome)


def test_another_try_adds_to_the_end_and_says_what_was_wrong() -> None:
    asked = made("close the file in `load`")
    outcome = answered(asked, "```python\ndef load(path:\n```")
    again = retry(asked, outcome)
    assert again.items[: len(asked.items)] == asked.items
    assert text_of(again.items[-2].content) == outcome.answer
    assert "syntax error" in text_of(again.items[-1].content)


@pytest.mark.parametrize(
    "answer",
    [
        f"The line `def total(self):` has no return type.\n\n```python\n{TOTAL}```",
        (
            f"```python\ndef total(self):\n```\nmust be\n```python\ndef total(self) -> int:\n```\n"
            f"The whole code:\n```python\n{TOTAL}```\nNow `total` says what it returns."
        ),
        f"def total(self):\n\nhas no return type. It should be:\n```python\n{TOTAL}```",
    ],
)
def test_of_an_explained_answer_only_the_code_counts_not_the_lines_it_quotes(answer: str) -> None:
    asked = explained(made("add a return type to `Cart.total`"))
    outcome = answered(asked, answer)
    assert outcome.problems == ()
    assert outcome.hunks == (
        Hunk(13, ("    def total(self):\n",), ("    def total(self) -> int:\n",)),
    )


def test_an_answer_is_complete_when_its_code_is_and_not_with_a_quoted_line() -> None:
    attempt = Attempt(explained(made("add a return type to `Cart.total`")))
    attempt.feed("Here:\n```python\ndef total(self):\n```\nThe whole code:\n```python\n")
    assert not attempt.complete
    attempt.feed(f"{TOTAL}```\n")
    assert attempt.complete


def test_who_is_to_explain_is_shown_the_same_and_asked_for_it_last() -> None:
    asked = made("add a return type to `Cart.total`")
    again = explained(asked)
    assert text_of(again.items[-1].content).startswith(text_of(asked.items[-1].content))
    assert "and nothing else" not in text_of(again.items[0].content)
    assert again.prediction == asked.prediction
    large = made("change every value of this file", SHOP + "X = 1\n" * 100, LARGE)
    assert explained(large) == large


def test_repeated_edits_add_to_what_a_large_model_has_read() -> None:
    context, text = Context(), SHOP
    before: tuple[Message, ...] = ()
    for number in range(3):
        asked = plan(Task("shop.py", text, "add a return type to `load`"), context, LARGE)
        assert asked.items[: len(before)] == before
        outcome = answered(asked, f"```python\ndef load(path):\n    return {number}\n```")
        context, text, before = accepted(context, asked, outcome), outcome.text, asked.items
    assert "".join(text_of(item.content) for item in before).count("class Cart") == 1


def test_a_large_model_quotes_lines_of_a_large_file() -> None:
    text = SHOP + "\n".join(f"X{n} = {n}" for n in range(100)) + "\n"
    asked = made("change every value of this file", text, LARGE)
    assert asked.format == "search_replace"
    outcome = answered(
        asked,
        "shop.py\n<<<<<<< SEARCH\nX7 = 7\n=======\nX7 = 8\n>>>>>>> REPLACE\n",
    )
    assert outcome.problems == ()
    assert [(hunk.old, hunk.new) for hunk in outcome.hunks] == [(("X7 = 7\n",), ("X7 = 8\n",))]


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("<<<<<<< SEARCH\nnot there at all\n=======\nx\n>>>>>>> REPLACE\n", "not found"),
        ("<<<<<<< SEARCH\nX7 = 7\n=======\nX7 = 8\n", "cut off"),
        ("/etc/passwd\n<<<<<<< SEARCH\nX7 = 7\n=======\nX7 = 8\n>>>>>>> REPLACE\n", "/etc/passwd"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(block: str, reason: str) -> None:
    text = SHOP + "\n".join(f"X{n} = {n}" for n in range(100)) + "\n"
    outcome = answered(made("change every value of this file", text, LARGE), block)
    assert reason in outcome.problems[0].person


def test_a_sketch_is_carried_out_by_the_fast_model() -> None:
    task = Task("shop.py", SHOP, "close the file in `load`")
    asked = plan_delegate(
        task, "def load(path):\n    with open(path) as file: ...", Context(), SMALL
    )
    assert "with open(path) as file: ..." in text_of(asked.items[-1].content)
    assert asked.prediction.startswith("```python\ndef load(path):\n")
    outcome = answered(
        asked,
        "```python\ndef load(path):\n    with open(path) as file:\n"
        "        return json.load(file)\n```",
    )
    assert outcome.problems == ()


MANY = "".join(f"def step_{n}(value):\n    return value + {n}\n\n\n" for n in range(40))


def sketched(sketch: str, places: Sequence[Region] | None = None) -> EditPlan:
    task = Task("steps.py", MANY, "Make the change that is sketched.")
    return plan_delegate(task, sketch, Context(), SMALL, places)


def test_the_place_of_a_sketch_is_found_by_the_sketch() -> None:
    asked = sketched("def step_31(value):\n    return value * 31\n")
    assert asked.region.name == "step_31"
    assert asked.choice is not None
    assert asked.choice.sure


def test_a_sketch_is_carried_out_where_it_is_said_to_be() -> None:
    chosen = regions(Source.of("steps.py", MANY))[7]
    asked = sketched("# multiply instead of adding\n", [chosen])
    assert asked.shown.regions == (chosen,)
    assert asked.prediction == "```python\ndef step_7(value):\n    return value + 7\n```"
    assert "multiply instead" in text_of(asked.items[-1].content)


def test_a_file_of_no_known_language_can_be_edited() -> None:
    asked = made("fix the typo", "Helo\nworld\n", path="notes.txt")
    assert answered(asked, "```\nHello\nworld\n```").text == "Hello\nworld\n"


def test_an_empty_file_can_be_filled() -> None:
    asked = made("write a hello world", "", path="hello.py")
    assert answered(asked, '```python\nprint("hello")\n```').text == 'print("hello")\n'


def test_a_selection_is_changed_and_nothing_else() -> None:
    asked = plan(Task("shop.py", SHOP, "use a context manager", (21, 23)), Context(), SMALL)
    outcome = answered(
        asked, "```python\nwith open(path) as file:\n    return json.load(file)\n```"
    )
    assert outcome.problems == ()
    assert outcome.text.endswith(
        "def load(path):\n    with open(path) as file:\n        return json.load(file)\n"
    )


SCAN = """\
import log


def scan(paths):
    import json
    # log.info("scans %s", paths)
    found = [json.loads(each) for each in paths]
    try:
        print(found)
    finally:
        paths.clear()
    return found
"""
_HEAD, _BODY = SCAN.split("(paths):\n")
_WRAPPED = "".join(f"    {line}" for line in _BODY.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("instruction", "right"),
    [
        (
            "scan should return None on an OSError",
            f"{_HEAD}(paths):\n    try:\n{_WRAPPED}    except OSError:\n        return None\n",
        ),
        (
            "use a dict instead of a list in scan",
            SCAN.replace(
                "[json.loads(each) for each in paths]", "dict(map(json.loads, paths))"
            ).replace("return found", "return found.items()"),
        ),
        ("uncomment the logging line in scan", SCAN.replace("# log", "log")),
    ],
)
def test_a_right_answer_is_taken_whole(instruction: str, right: str) -> None:
    outcome = answered(made(instruction, SCAN, path="scan.py"), f"```python\n{right}```\n")
    assert outcome.problems == ()
    assert outcome.text == right


def test_an_edit_of_a_long_file_takes_not_much_more_work_than_to_read_it() -> None:
    """Counted in calls, which no machine changes: 10.7 times as many; 91 where words and trees are
    read again for each check."""
    body = (
        "    total = sum(each.price_{0} for each in basket.items)\n    return round(total, {0})\n"
    )
    text = "".join(f"def price_of_{n}(basket):\n{body.format(n)}\n\n" for n in range(600))

    def read() -> None:
        assert Source.of("shop.py", text).definitions

    def edit() -> None:
        asked = made("double the total in price_of_300", text)
        assert answered(asked, asked.prediction.replace("(total,", "(2 * total,")).good

    edit()  # words are remembered from one edit to the next
    assert calls(edit) < 14 * calls(read)
