from __future__ import annotations

import pytest

from vivace.edits.attempt import Attempt, Task, plan
from vivace.edits.context import Context
from vivace.edits.renames import Rename, asked, renamed
from vivace.syntax.source import Source

SMALL, LARGE = "qwen2.5-coder-0.5b", "qwen3-coder-30b-a3b"

CACHE = '''\
"""put is a word here."""


class Cache:
    def put(self, key, value):
        self.items[key] = value

    def fill(self, pairs):
        for key, value in pairs:
            self.put(key, value)  # put it


def warm(cache, key):
    cache.put(key, 1)
    print(f"{key} was put", key=key)
'''


def after(instruction: str, text: str = CACHE, path: str = "cache.py") -> str | None:
    lines = text.count("\n")
    return renamed(Source.of(path, text), 0, lines, instruction)


@pytest.mark.parametrize(
    ("instruction", "rename"),
    [
        ("Rename x to y.", Rename((("x", "y"),))),
        ("rename `x` to `y` everywhere", Rename((("x", "y"),))),
        ("Rename x to y, including all the places where it is called.", Rename((("x", "y"),))),
        ("Rename the method `x` to `y` and update its callers.", Rename((("x", "y"),), "method")),
        ("rename the variable x in f to y", Rename((("x", "y"),), "variable", "f")),
        ("Rename the parameter x to y in `A.f`", Rename((("x", "y"),), "parameter", "A.f")),
        (
            "Rename the parameters a and b of merge to x and y",
            Rename((("a", "x"), ("b", "y")), "parameter", "merge"),
        ),
        ("rename the class Foo to Bar in the whole file", Rename((("Foo", "Bar"),), "class")),
    ],
)
def test_an_instruction_that_is_a_rename_is_understood(instruction: str, rename: Rename) -> None:
    assert asked(instruction) == rename


@pytest.mark.parametrize(
    "instruction",
    [
        "rename x to something better",
        "rename x to y and make it async",
        "Rename `x` to `y` and return `z`",
        "rename self.x to self.y",
        "rename x and y to z",
        "Give x a better name",
        "Add a parameter x",
        "",
    ],
)
def test_an_instruction_that_asks_for_more_is_left_to_a_model(instruction: str) -> None:
    assert asked(instruction) is None


def test_every_use_is_renamed_and_no_comment_or_text() -> None:
    new = after("rename the method put to store")
    assert new is not None
    assert new == (
        CACHE.replace("def put", "def store")
        .replace("self.put", "self.store")
        .replace("cache.put", "cache.store")
    )


def test_the_name_of_an_argument_elsewhere_is_not_a_variable_of_ours() -> None:
    text = "def f(key):\n    g(key=key)\n    return f'{key}'\n"
    assert after("rename the parameter `key` to `name`", text) == (
        "def f(name):\n    g(key=name)\n    return f'{name}'\n"
    )


def test_a_field_in_short_is_written_out() -> None:
    text = "function f(a: number) {\n  return { a, b: o.a };\n}\n"
    assert after("rename the variable a to x", text, "f.ts") == (
        "function f(x: number) {\n  return { a: x, b: o.a };\n}\n"
    )


@pytest.mark.parametrize(
    ("text", "path", "why"),
    [
        ("def f(x):\n    return x.x\n", "a.py", "a variable and a field"),
        ("def f(x, y):\n    return x\n", "a.py", "the new name is taken"),
        ("def f(x):\n    return x\ndef g(x):\n    return x\n", "a.py", "two variables"),
        ("class A:\n    def x(self): ...\nclass B:\n    def x(self): ...\n", "a.py", "two methods"),
        ("const o = { x };\no.x = 1;\n", "a.ts", "a variable and a field at once"),
        ("def f(z):\n    return z\n", "a.py", "not there"),
    ],
)
def test_what_could_mean_two_things_is_left_to_a_model(text: str, path: str, why: str) -> None:
    assert after("rename `x` to `y`", text, path) is None, why


def test_a_struct_and_a_variable_may_have_one_name_in_c() -> None:
    text = "int sum(struct map *m)\n{\n    return m->size;\n}\n"
    assert after("rename the parameter m to map", text, "a.c") == text.replace(
        "*m)", "*map)"
    ).replace("m->", "map->")


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_a_plan_for_a_rename_knows_the_answer(model: str) -> None:
    made = plan(Task("cache.py", CACHE, "Rename `put` to `store`"), Context(), model)
    assert made.known is not None
    attempt = Attempt(made)
    attempt.feed(made.known)
    outcome = attempt.finish()
    assert outcome.good
    assert outcome.text == after("rename put to store")


def test_a_rename_in_a_function_leaves_the_rest_of_the_file_alone() -> None:
    made = plan(Task("cache.py", CACHE, "rename `key` to `name` in `warm`"), Context(), SMALL)
    assert made.region.name == "warm"
    assert made.known is not None
    assert "def warm(cache, name):" in made.known


def test_a_selected_name_is_renamed_in_the_function_around_it() -> None:
    made = plan(Task("cache.py", CACHE, "rename `pairs` to `entries`", (8, 9)), Context(), SMALL)
    assert made.region.name == "Cache.fill"
    assert made.known is not None
    assert "def fill(self, entries):" in made.known
