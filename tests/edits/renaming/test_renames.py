from __future__ import annotations

import msgspec
import pytest

from vivace.edits.attempt import Attempt, Task, plan
from vivace.edits.context import Context
from vivace.edits.placing.locate import rename_scope
from vivace.edits.placing.region import whole_file
from vivace.edits.renaming.renames import Proven, Rename, asked, judged
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
    """As if no other file had any of the names."""
    found = judged(Source.of(path, text), 0, text.count("\n"), instruction, frozenset())
    return found.text if isinstance(found, Proven) else None


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


def test_a_method_is_left_to_whoever_knows_the_types() -> None:
    assert after("rename the method put to store") is None


def test_every_use_is_renamed_and_no_text_or_plain_word() -> None:
    new = after("rename warm to heat")
    assert new == CACHE.replace("def warm", "def heat")


def test_a_name_that_other_files_may_use_is_left_alone() -> None:
    source = Source.of("a.py", "def load():\n    return 1\n")
    assert not isinstance(judged(source, 0, 2, "rename load to read"), Proven)
    found = judged(source, 0, 2, "rename load to read", frozenset({"load"}))
    assert found is not None
    assert not isinstance(found, Proven)
    assert "other files" in found.why
    assert found.by_types


def test_lines_outside_of_those_that_are_given_are_never_left_behind() -> None:
    text = "def f():\n    return _g()\n\ndef _g():\n    return 1\n"
    source = Source.of("a.py", text)
    found = judged(source, 3, 5, "rename _g to _h")
    assert isinstance(found, Proven)
    assert (found.text, found.rows) == (text.replace("_g", "_h"), (1, 4))


@pytest.mark.parametrize(
    "instruction",
    [
        "x -> y",
        "`x` → `y`",
        "x umbenennen in y",
        "benenne x in y um",
        "Benenne die Variable x in y um.",
        "x in y umbenennen",
        "renomme x en y",
        "renommer la variable x en y",
        "renombra x a y",
        "rinomina x in y",
    ],
)
def test_a_rename_is_understood_in_other_words(instruction: str) -> None:
    rename = asked(instruction)
    assert rename is not None
    assert rename.names == (("x", "y"),)


def test_what_stands_before_an_arrow_may_be_where_it_is_meant() -> None:
    assert asked("typo: decimapAbbrs -> decimalAbbrs") == Rename(
        (("decimapAbbrs", "decimalAbbrs"),), scope="typo"
    )
    source = Source.of("a.py", "def load():\n    x = 1\n\n\ndef save():\n    x = 1\n")
    assert rename_scope(source, "save: x -> y", None).name == "save"
    assert rename_scope(source, "typo: x -> y", None) == whole_file(source)


def test_an_arrow_to_a_type_is_no_rename() -> None:
    assert asked("parse -> Config") is None


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
        ("def f(x, y):\n    return x\n", "a.py", "the new name is taken"),
        ("def f(x):\n    return x\ndef g(x):\n    return x\n", "a.py", "two variables"),
        ("class A:\n    def x(self): ...\nclass B:\n    def x(self): ...\n", "a.py", "two methods"),
        ("const o = { x };\no.x = 1;\n", "a.ts", "nothing declares it"),
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
    task = Task("cache.py", CACHE, "Rename `warm` to `heat`", elsewhere=frozenset())
    made = plan(task, Context(), model)
    assert made.known is not None
    attempt = Attempt(made)
    attempt.feed(made.known)
    outcome = attempt.finish()
    assert outcome.good
    assert outcome.text == after("rename warm to heat")


def test_calls_outside_of_the_function_follow_its_parameter() -> None:
    text = "def _f(size):\n    return size\n\n\nprint(_f(size=3))\n"
    made = plan(Task("a.py", text, "rename size to length in _f"), Context(), SMALL)
    assert made.known is not None
    assert "_f(length=3)" in made.known


def test_a_selected_name_is_renamed_in_the_function_around_it() -> None:
    task = Task("cache.py", CACHE, "rename `pairs` to `entries`", (8, 9), frozenset())
    made = plan(task, Context(), SMALL)
    assert made.region.name == "Cache.fill"
    assert made.known is not None
    assert "def fill(self, entries):" in made.known


SHARED = {
    "a.py": "class A:\n    def sum_of(self):\n        return 1\n\n\n"
    "def NAME(a):\n    return a.sum_of()\n\n\nprint(NAME(A()))\n",
    "remarks.py": "def NAME(a): \n    # NAME\n\n    # NAME is fast\n    return a\n",
    "a.rs": "struct A;\n\nimpl A {\n    fn sum_of(&self) -> i32 {\n        1\n    }\n}\n\n"
    "fn NAME(a: &A) -> i32 {\n    a.sum_of()\n}\n\nfn main() {\n    NAME(&A);\n}\n",
    "a.c": "static int NAME(int n)\n{\n\treturn n;\n}\n\nstruct sum_of {\n\tint n;\n};\n\n"
    "int f(struct sum_of *t)\n{\n\treturn NAME(t->n);\n}\n",
    "a.cpp": "struct A {\n    int sum_of() const { return 1; }\n};\n\n"
    "static int NAME(A a) {\n    return a.sum_of();\n}\n\nint main() {\n    return NAME(A{});\n}\n",
    "a.go": "package a\n\ntype t struct{}\n\nfunc (a t) sum_of() int {\n\treturn 1\n}\n\n"
    "func NAME(a t) int {\n\treturn a.sum_of()\n}\n\nvar all = NAME(t{})\n",
    "a.ts": "class A {\n  sum_of(): number {\n    return 1;\n  }\n}\n\n"
    "function NAME(a: A): number {\n  return a.sum_of();\n}\n\nexport const all = NAME(new A());\n",
    "a.js": "class A {\n  sum_of() {\n    return 1;\n  }\n}\n\n"
    "function NAME(a) {\n  return a.sum_of();\n}\n\nexport const all = NAME(new A());\n",
}
"""A function and what shares its name."""


@pytest.mark.parametrize("path", SHARED)
def test_what_is_proven_is_applied_as_it_is(path: str) -> None:
    text, right = (SHARED[path].replace("NAME", name) for name in ("sum_of", "total_of"))
    task = Task(path, text, "rename sum_of to total_of", elsewhere=frozenset())
    made = plan(task, Context(), SMALL)
    assert made.known is not None
    attempt = Attempt(made)
    attempt.feed(made.known)
    outcome = attempt.finish()
    assert (outcome.text, outcome.problems) == (right, ())


# -- what a model made of a rename -----------------------------------------------------------------

LOAD = "def load():\n    return 1\n\n\ndef twice():\n    return load() * 2\n"


def outcome_of(answer: str, elsewhere: frozenset[str] | None) -> list[tuple[str, str]]:
    task = Task("a.py", LOAD, "rename load to read", elsewhere=elsewhere)
    made = msgspec.structs.replace(plan(task, Context(), SMALL), known=None)
    attempt = Attempt(made)
    attempt.feed(f"```python\n{answer}```\n")
    return [(each.code, each.person) for each in attempt.finish().problems]


def test_a_use_that_a_model_left_is_found() -> None:
    answer = LOAD.replace("def load", "def read").replace("load() * 2", "load() * 2 + 0")
    found = outcome_of(answer, frozenset())
    assert ("rename", "The rename leaves out a use, or changes something else, in line 6.") in found


def test_a_right_rename_by_a_model_is_good() -> None:
    assert outcome_of(LOAD.replace("load", "read"), frozenset()) == []


def test_a_rename_that_may_break_other_files_is_not_applied_unseen() -> None:
    [(code, why)] = outcome_of(LOAD.replace("load", "read"), None)
    assert code == "rename"
    assert "other files may use `load`" in why
