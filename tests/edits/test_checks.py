"""What is wrong with an edit is told before it is shown; a right edit passes."""

from __future__ import annotations

import pytest

from vivace.edits.checks import problems
from vivace.edits.diff import between
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.region import Region, whole_file
from vivace.syntax.source import Source

OLD = """\
import os


def first(items):
    for item in items:
        if item:
            return item
    return None


def second(items):
    return first(items[1:])
"""
SCRIPT = "function f(a) {\n  if (a) {\n    return 1;\n  }\n  return 2;\n}\n"


def codes(
    old: str, new: str, instruction: str, path: str = "a.py", region: Region | None = None
) -> set[str]:
    before = Source.of(path, old)
    hunks = between(old, new)
    after = before.edited(hunks)
    shown = Excerpt(before, [region or whole_file(before)])
    found = problems(before, after, hunks, shown, instruction)
    assert all(problem.person and problem.model for problem in found)
    return {problem.code for problem in found}


@pytest.mark.parametrize(
    ("instruction", "old", "new"),
    [
        ("return 0 in the end", "return None", "return 0"),
        ("remove `second`", OLD[OLD.index("\n\ndef second") :], ""),
        ("rename second to other", "second", "other"),
        ("add a constant", "import os\n", "import os\n\nLIMIT = 3\n"),
        (
            "add a comment",
            "    return None",
            "    # Nothing is the same as before.\n    return None",
        ),
    ],
)
def test_a_right_edit_passes(instruction: str, old: str, new: str) -> None:
    assert codes(OLD, OLD.replace(old, new), instruction) == set()


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("unchanged", "", ""),
        ("empty", OLD, ""),
        ("syntax", "def first(items):", "def first(items:"),
        ("syntax", "    return None", "  return None"),
        ("unbound", "return None", "return Missing()"),
        ("lost", OLD[OLD.index("\n\ndef second") :], ""),
        ("twice", "    return None\n", "    return None\n\n\ndef first(x):\n    return x\n"),
        ("indentation", "    return None", "\treturn None"),
        ("line_ends", "return None\n", "return 0\r\n"),
        ("placeholder", OLD[OLD.index("    for") :], "    # ... existing code ...\n"),
        ("placeholder", "        if item:\n            return item\n", "        ...\n"),
        ("placeholder", "    return None\n", "    # rest of the function remains the same\n"),
    ],
)
def test_what_is_wrong_is_told(code: str, old: str, new: str) -> None:
    assert code in codes(OLD, OLD.replace(old, new) if old else OLD, "return zero at the end")


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("class A {\n\tf() {\n\t\tg();\n\t}\n}\n", "\t    h();\n", {"indentation"}),
        ("class A {\n    f() {\n        g();\n    }\n}\n", "    \th();\n", {"indentation"}),
        ("class A {\n\tf() {\n\t\tg();\n\t}\n}\n", "\t\t/*\n\t\t * h\n\t\t */\n", set()),
    ],
)
def test_indentation_is_not_mixed_behind_a_margin_either(
    old: str, new: str, found: set[str]
) -> None:
    at = old.index("\t\tg" if "\t" in old else "        g")
    assert codes(old, old[:at] + new + old[at:], "add a comment or h", "a.js") == found


def test_a_function_may_be_overloaded_but_not_defined_twice() -> None:
    old = "class A {\n  // One.\n  int f() { return 1; }\n};\n"
    other = old.replace("};\n", "  int f(int a) { return a; }\n};\n")
    again = old.replace("};\n", "  int f() { return 2; }\n};\n")
    assert codes(old, other, "add it for a number", "a.cpp") == set()
    assert codes(old, again, "add it for a number", "a.cpp") == {"twice"}


def test_a_property_and_its_setter_share_a_name_rightly() -> None:
    old = "class A:\n    @property\n    def x(self):\n        return 1\n"
    new = old + "\n    @x.setter\n    def x(self, value):\n        pass\n"
    assert codes(old, new, "add a setter for x") == set()


def test_much_that_vanishes_is_told() -> None:
    body = "".join(f"    print({n})\n" for n in range(20))
    assert "vanished" in codes(f"def f():\n{body}", "def f():\n    print(0)\n", "print zero first")


def test_a_change_outside_the_region_is_told() -> None:
    region = Region(3, 8, "function", "first")
    new = OLD.replace("items[1:]", "items[2:]")
    assert codes(OLD, new, "return 0", region=region) == {"outside"}


def test_imports_may_be_put_in_outside_the_region() -> None:
    region = Region(3, 8, "function", "first")
    new = OLD.replace("import os\n", "import os\nimport sys\n").replace("return None", "sys.exit()")
    assert codes(OLD, new, "exit at the end", region=region) == set()


def test_a_file_that_was_broken_before_may_be_edited() -> None:
    old = OLD + "def broken(:\n"
    assert codes(old, old.replace("return None", "return 0"), "return 0") == set()


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("syntax", "  }\n  return 2", "  return 2"),
        ("placeholder", "    return 1;\n", "    // ... rest of the code\n"),
        ("placeholder", "    return 1;\n", "    /* existing code */\n"),
        ("lost", "function f", "function g"),
    ],
)
def test_other_languages_are_checked_too(code: str, old: str, new: str) -> None:
    assert code in codes(SCRIPT, SCRIPT.replace(old, new), "return 3", "a.js")


def test_text_of_no_language_is_checked_for_what_can_be_told() -> None:
    assert codes("a\nb\n", "a\nc\n", "fix it", "a.txt") == set()
    assert codes("a\nb\n", "a\nb\n", "fix it", "a.txt") == {"unchanged"}


def test_a_rename_is_no_reason_to_lose_everything_else() -> None:
    old = "".join(f"def f{n}():\n    g()\n\n\n" for n in range(5))
    assert "lost" in codes(old, "def f0():\n    h()\n", "rename g to h")


def test_a_helper_must_be_called_where_its_code_was() -> None:
    old = "def f(x):\n    y = x + 1\n    return y\n"
    helper = "def g(x):\n    return x + 1\n\n\n"
    asked = "pull the sum out"
    assert "unused" in codes(old, helper + old, asked)
    assert "unused" not in codes(old, helper + "def f(x):\n    return g(x)\n", asked)


def test_a_function_that_something_is_extracted_from_stays() -> None:
    old = "def f(x):\n    y = x + 1\n    return y\n"
    new = "def g(x):\n    return x + 1\n"
    assert "lost" in codes(old, new, "Extract the sum from `f` into a function g")


def test_the_methods_of_a_renamed_class_are_not_lost() -> None:
    old = "class Cart:\n    def add(self):\n        pass\n\n    def total(self):\n        pass\n"
    assert codes(old, old.replace("Cart", "Basket"), "rename Cart to Basket") == set()
    gone = "class Basket:\n    def add(self):\n        pass\n"
    assert "lost" in codes(old, gone, "rename Cart to Basket")


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("a.py", "def f(a):\n    return a\n", "def f(a):\n    sleep(a)\n"),
        ("a.ts", "function f(a) {\n  return a;\n}\n", "function f(a) {\n  g(a);\n}\n"),
        ("a.c", "int f(int a) {\n  return a;\n}\n", "int f(int a) {\n  g(a);\n}\n"),
    ],
)
def test_a_function_does_not_stop_giving_back_what_it_gave(path: str, old: str, new: str) -> None:
    assert "returns" in codes(old, new, "wait for a while", path)
    assert "returns" not in codes(old, new, "return nothing", path)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "import numpy as np\n"),
        ("a.py", "from .helpers import find\n"),
        ("a.ts", "import { find } from 'lodash';\n"),
        ("a.ts", "import { loads } from 'json';\n"),
        ("a.c", '#include "find.h"\n'),
    ],
)
def test_a_small_edit_brings_no_new_dependency(path: str, line: str) -> None:
    old = SCRIPT if path == "a.ts" else "int x = 1;\n" if path == "a.c" else OLD
    assert codes(old, line + old, "look for the first one", path) >= {"foreign"}
    assert "foreign" not in codes(old, line + old, "use numpy, helpers, lodash, json, find.h", path)


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("a.py", "import os\n", "import os\nimport json\n"),
        ("a.py", "import app.models\n", "import app.models\nfrom app.views import show\n"),
        ("a.ts", "let a = 1;\n", "import { readFile } from 'node:fs';\nlet a = 1;\n"),
        ("a.cpp", "int x;\n", "#include <vector>\nint x;\n"),
        ("a.rs", "fn f() {}\n", "use std::fmt;\nfn f() {}\n"),
        ("a.go", "package a\n", 'package a\n\nimport "fmt"\n'),
    ],
)
def test_what_is_there_anyway_may_be_imported(path: str, old: str, new: str) -> None:
    assert "foreign" not in codes(old, new, "do it", path)
