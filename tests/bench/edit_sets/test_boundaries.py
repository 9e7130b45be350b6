from __future__ import annotations

import pytest
from bench.edit_sets.boundaries import outside, touchable
from bench.edit_sets.errors import BadSet
from bench.edit_sets.schema import Language
from bench.edit_sets.syntax import Source

PYTHON = """\
import os

LIMIT = 3


class Basket:
    size = 0

    @property
    def first(self):
        return 1

    def second(self):
        return 2


def third():
    return 3
"""


def strayed(
    before: str, reference: str, after: str, language: Language = "python", *named: str
) -> str | None:
    old, right = Source(language, before), Source(language, reference)
    may = touchable(old, right, named)
    return outside(old, Source(language, after), may, right)


def edited(*replaced: tuple[str, str], text: str = PYTHON) -> str:
    for old, new in replaced:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


REFERENCE = edited(("return 2", "return 22"))


def test_the_function_of_the_reference_may_be_written_otherwise() -> None:
    after = edited(("        return 2", "        two = 20\n        return two + 2"))
    assert strayed(PYTHON, REFERENCE, after) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return 1", "return 11"),
        ("return 3", "return 33"),
        ("LIMIT = 3\n", ""),
        ("    @property\n", ""),
        ("    size = 0\n", "    size = 1\n"),
        ("class Basket:", "class Basket(object):"),
    ],
)
def test_what_the_reference_leaves_alone_may_not_change(old: str, new: str) -> None:
    assert strayed(PYTHON, REFERENCE, edited(("return 2", "return 22"), (old, new)))
    assert strayed(PYTHON, REFERENCE, edited((old, new)))


def test_a_lost_tail_is_noticed() -> None:
    assert strayed(PYTHON, REFERENCE, REFERENCE[: REFERENCE.index("\ndef third")])


def test_line_ends_may_not_change() -> None:
    assert strayed(PYTHON, REFERENCE, REFERENCE.replace("\n", "\r\n"))


def test_new_definitions_and_imports_may_come_between_the_old_ones() -> None:
    after = edited(
        ("import os\n", "import os\nimport re\n"),
        ("return 2\n", "return helper()\n"),
        ("\ndef third", "\ndef helper():\n    return 22\n\n\ndef third"),
    )
    assert strayed(PYTHON, REFERENCE, after) is None


def test_an_import_may_grow_but_lose_nothing() -> None:
    grown = edited(("import os", "import os, re"), ("return 2", "return 22"))
    assert strayed(PYTHON, REFERENCE, grown) is None
    lost = edited(("import os", "import re"), ("return 2", "return 22"))
    assert strayed(PYTHON, REFERENCE, lost) == "imports lost os"


def test_a_line_behind_a_function_must_not_become_its_end() -> None:
    after = edited(("return 2", "return 22"), ("return 1\n", "return 1\n        print(1)\n"))
    assert strayed(PYTHON, REFERENCE, after) == "the function at line 9 may not change"


def test_a_second_definition_that_hides_the_first_is_noticed() -> None:
    after = REFERENCE + "\n\ndef third():\n    return 4\n"
    assert strayed(PYTHON, REFERENCE, after) == "third is defined twice"


def test_an_example_call_at_the_end_is_noticed() -> None:
    after = REFERENCE + "\n\nprint(third())\n"
    assert "runs when the file is loaded" in (strayed(PYTHON, REFERENCE, after) or "")


def test_a_reference_that_adds_a_method_lets_it_stand_elsewhere_in_the_class() -> None:
    method = "    def fourth(self):\n        return 4\n\n"
    reference = edited(("    def second", f"{method}    def second"))
    after = edited(("    @property", f"{method}    @property"))
    assert strayed(PYTHON, reference, after) is None


def test_a_reference_that_adds_to_the_end_of_a_function_opens_it() -> None:
    reference = PYTHON.replace("    size = 0", "    size = 0\n    more = 1")
    assert strayed(PYTHON, reference, reference) is None
    longer = PYTHON.replace("        return 1\n", "        return 1\n        # never\n")
    assert strayed(PYTHON, longer, edited(("return 1", "return 11"))) is None


@pytest.mark.parametrize("name", ["third", "Basket.first", "9-11", "*"])
def test_a_task_can_allow_more(name: str) -> None:
    old = "return 3" if name == "third" else "return 1"
    after = edited(("return 2", "return 22"), (old, f"{old}0"))
    assert strayed(PYTHON, REFERENCE, after)
    assert strayed(PYTHON, REFERENCE, after, "python", name) is None


def test_a_name_that_is_not_in_the_file_is_refused() -> None:
    with pytest.raises(BadSet, match=r"no definition called Basket\.fifth"):
        strayed(PYTHON, REFERENCE, REFERENCE, "python", "Basket.fifth")


def two(declared: str, start: str = "", end: str = "") -> str:
    """A file with the functions one and two."""
    functions = (f"{declared.format(name)} {{\n  return {n};\n}}\n\n" for n, name in NAMES)
    return f"{start}{''.join(functions)}{end}"


NAMES = ((1, "one"), (2, "two"))
OTHERS: dict[Language, str] = {
    "javascript": two("function {}()", "(function () {\n" + "// filler\n" * 70, "})();\n"),
    "typescript": two("{}(): number", "export class A {\n", "}\n"),
    "c": two("int {}(void)", "#ifndef A\n#define A\n", "#endif\n"),
    "cpp": two("int {}()", "namespace a {\n", "}\n"),
    "go": two("func {}() int", "package a\n\n"),
    "rust": two("fn {}() -> u8", "impl A {\n", "}\n"),
    "java": two("int {}()", "class A {\n", "}\n"),
}


@pytest.mark.parametrize("language", OTHERS)
def test_one_of_two_functions_may_change_in_every_language(language: Language) -> None:
    text = OTHERS[language]
    reference = edited(("return 1;", "return 11;"), text=text)
    assert (
        strayed(text, reference, edited(("return 1;", "return 10;"), text=text), language) is None
    )
    other = edited(("return 2;", "return 22;"), text=text)
    assert strayed(text, reference, other, language)
    assert strayed(text, reference, other, language, "two") is None
