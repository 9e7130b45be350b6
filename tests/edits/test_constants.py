from __future__ import annotations

import pytest

from vivace.edits.constants import hoisted, only_constants, undefined
from vivace.edits.diff import between
from vivace.syntax.hunk import apply
from vivace.syntax.source import Source

CACHE = '''\
"""A cache."""

import time


class Cache:
    def __init__(self):
        self.ttl = 300
        self.name = "main"
'''
ASKED = "Replace the magic number 300 with a constant TTL."


def after(new: str, old: str = CACHE, path: str = "cache.py", instruction: str = ASKED) -> str:
    return apply(old, hoisted(Source.of(path, old), between(old, new), instruction))


USED = CACHE.replace("= 300", "= TTL")
DEFINED = USED.replace("import time\n", "import time\n\nTTL = 300\n")


@pytest.mark.parametrize(
    "new",
    [
        USED,
        USED.replace("        self.ttl", "        TTL = 300\n        self.ttl"),
        USED.replace("    def __init__", "    TTL = 300\n\n    def __init__"),
        DEFINED,
    ],
    ids=["forgotten", "in the function", "in the class", "where it belongs"],
)
def test_a_new_constant_is_defined_at_the_top(new: str) -> None:
    assert after(new) == DEFINED


def test_a_constant_that_is_asked_of_an_object_stays_in_its_class() -> None:
    new = CACHE.replace("    def __init__", "    TTL = 300\n\n    def __init__").replace(
        "self.ttl = 300", "self.ttl = self.TTL"
    )
    assert after(new) == new


def test_a_known_constant_is_not_defined_again() -> None:
    old = CACHE.replace("class Cache", "TTL = 300\n\n\nclass Cache")
    new = old.replace("ttl = 300", "ttl = TTL")
    assert after(new, old) == new


def test_a_name_for_two_values_is_left_alone() -> None:
    old = "def f():\n    return 300 + 400\n"
    new = "def f():\n    return TTL + TTL\n"
    assert after(new, old) == new


def test_nothing_is_defined_where_no_constant_is_asked_for() -> None:
    new = CACHE.replace("= 300", "= TTL")
    assert after(new, instruction="Use the setting TTL") == new


@pytest.mark.parametrize(
    "instruction",
    ["give the 300 a name, TTL", "gib der 300 einen Namen", "la valeur 300 doit avoir un nom"],
)
def test_a_value_that_is_spoken_of_is_defined_in_any_language(instruction: str) -> None:
    assert after(USED, instruction=instruction) == DEFINED


def test_a_name_that_another_file_has_is_not_defined_here() -> None:
    hunks = between(CACHE, USED)
    assert hoisted(Source.of("cache.py", CACHE), hunks, ASKED, elsewhere={"TTL"}) == hunks


def test_what_headers_define_is_not_defined_again() -> None:
    old = "#include <limits.h>\n\nchar name[4096];\n"
    new = old.replace("4096", "PATH_MAX")
    assert after(new, old, "a.c", "PATH_MAX instead of 4096") == new


@pytest.mark.parametrize(
    ("new", "names"),
    [
        ("    return MOST;\n", ["MOST"]),
        ("    return Integer.MAX_VALUE;\n", []),
        ("    final int MOST = 300;\n    return MOST;\n", []),
    ],
)
def test_a_name_in_the_place_of_a_value_is_missed_where_nothing_defines_it(
    new: str, names: list[str]
) -> None:
    old = "class A {\n  int f() {\n    return 300;\n  }\n}\n"
    before = Source.of("A.java", old)
    hunks = between(old, old.replace("    return 300;\n", new))
    assert undefined(before, before.edited(hunks), hunks) == names


@pytest.mark.parametrize(
    ("path", "head", "instruction", "defined"),
    [
        ("a.c", "#include <stdio.h>\n", ASKED, "#include <stdio.h>\n\n#define TTL 300\n"),
        ("a.cpp", "#include <list>\n", ASKED, "#include <list>\n\nconstexpr auto TTL = 300;\n"),
        ("a.cpp", "#include <list>\n", "a macro TTL", "#include <list>\n\n#define TTL 300\n"),
        ("a.ts", "/** A file. */\n", ASKED, "/** A file. */\n\nconst TTL = 300;\n"),
        ("a.ts", "", ASKED, "const TTL = 300;\n\n"),
    ],
)
def test_each_language_has_its_own_form(
    path: str, head: str, instruction: str, defined: str
) -> None:
    body = ("\n" if head else "") + "int f() { return 300; }\n"
    if path.endswith(".ts"):
        body = ("\n" if head else "") + "function f() {\n  return 300;\n}\n"
    assert after(head + body.replace("300", "TTL"), head + body, path, instruction) == (
        defined + body.replace("300", "TTL")
    )


def test_a_comment_above_the_first_definition_stays_with_it() -> None:
    old = "/** Says so. */\nfunction f() {\n  return 300;\n}\n"
    new = old.replace("300", "TTL")
    assert after(new, old, "a.ts") == "const TTL = 300;\n\n" + new


@pytest.mark.parametrize(
    ("line", "constant"),
    [
        ("TTL = 300\n", True),
        ("const TTL = 300;\n", True),
        ("#define TTL 300\n", True),
        ("static const int TTL = 300;\n", True),
        ("ttl = 300\n", False),
        ("print(TTL)\n", False),
        ("if TTL == 300:\n", False),
    ],
)
def test_definitions_of_constants_are_told_from_other_code(line: str, constant: bool) -> None:
    assert only_constants([line, "\n"]) is constant
