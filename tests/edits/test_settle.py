"""Noise is undone; what was asked stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.settle import about_comments, about_layout, keep_comments, settle
from vivace.syntax.languages import LANGUAGES

OLD = """\
    def f(self):
        for x in self.xs:
            print(x)

        return None
"""
ASKED = OLD.replace("None", "1")

PYTHON = LANGUAGES[0]

lines = st.lists(st.sampled_from(["a", "  b", "    c", "", "d  ", "\te"]), max_size=10)
texts = st.tuples(lines, st.sampled_from(["\n", "\r\n"]), st.booleans()).map(
    lambda made: made[1].join(made[0]) + (made[1] if made[2] and made[0] else "")
)


@pytest.mark.parametrize(
    "noisy",
    [
        ASKED,
        ASKED.replace("\n", "\r\n"),
        ASKED.removesuffix("\n"),
        ASKED.replace(":\n", ":  \n"),
        "\n\n" + ASKED + "\n\n",
        ASKED.replace("print(x)\n\n", "print(x)\n"),
        ASKED.replace("self.xs:\n", "self.xs:\n\n"),
        "".join(line.removeprefix("    ") + "\n" for line in ASKED.split("\n")[:-1]),
        "".join(("    " + line if line else "") + "\n" for line in ASKED.split("\n")[:-1]),
        "    def f(self):\n      for x in self.xs:\n        print(x)\n\n      return 1\n",
        "\tdef f(self):\n\t\tfor x in self.xs:\n\t\t\tprint(x)\n\n\t\treturn 1\n",
    ],
)
def test_noise_is_undone_and_the_change_stays(noisy: str) -> None:
    assert settle(OLD, noisy) == ASKED


LOOP = "        for x in self.xs:\n            print(x)\n"
WRAPPED = """\
        try:
            for x in self.xs:
                print(x)
        finally:
            pass
"""


@pytest.mark.parametrize(
    ("was", "asked"), [(LOOP, WRAPPED), ("        return None\n", "            return None\n")]
)
def test_a_part_that_is_indented_anew_stays_so(was: str, asked: str) -> None:
    new = OLD.replace(was, asked)
    assert settle(OLD, new) == new


def test_a_selection_that_was_wrapped_stays_wrapped() -> None:
    old = "    a = 1\n    b = 2\n"
    new = "    try:\n        a = 1\n        b = 2\n    except E:\n        pass\n"
    assert settle(old, new) == new


@given(texts)
def test_a_text_is_settled_as_itself(text: str) -> None:
    assert settle(text, text) == text


@given(texts, texts)
def test_settling_twice_changes_nothing_more(old: str, new: str) -> None:
    once = settle(old, new)
    assert settle(old, once) == once


@given(texts, texts)
def test_no_word_is_lost_or_made_up(old: str, new: str) -> None:
    assert settle(old, new).split() == new.split()


@pytest.mark.parametrize(
    ("instruction", "layout"),
    [
        ("fix the indentation", True),
        ("remove trailing whitespace", True),
        ("convert tabs to four characters", True),
        ("use an f-string to format names", False),
        ("add a docstring", False),
    ],
)
def test_layout_is_left_alone_when_it_is_what_was_asked(instruction: str, layout: bool) -> None:
    assert about_layout(instruction) == layout


CODE = "# why\nx = 1\ny = 2  # beside\nz = 3\n"


@pytest.mark.parametrize(
    ("new", "kept"),
    [
        (CODE.replace("z = 3", "z = 4").replace("# why\n", ""), CODE.replace("z = 3", "z = 4")),
        (
            CODE.replace("z = 3", "z = 4").replace("x = 1", "# Set x\nx = 1"),
            CODE.replace("z = 3", "z = 4"),
        ),
        (CODE.replace("z = 3", "# four\nz = 4"), CODE.replace("z = 3", "# four\nz = 4")),
        (CODE.replace("# why\n", ""), CODE.replace("# why\n", "")),  # nothing else was changed
    ],
)
def test_comments_stay_where_nothing_else_was_changed(new: str, kept: str) -> None:
    assert keep_comments(CODE, new, PYTHON) == kept


def test_what_heads_a_file_or_a_function_stays_when_the_code_below_it_changes() -> None:
    old = '"""Says."""\n\nimport os\n\n\ndef f():\n    """Does."""\n    # now\n    return 1\n'
    new = "def f():\n    return 2\n"
    assert keep_comments(old, new, PYTHON) == old.replace("return 1", "return 2")


def test_a_docstring_that_is_written_anew_is_not_kept() -> None:
    old = 'def f():\n    """Does."""\n    return 1\n'
    new = 'def f():\n    """Does more."""\n    return 2\n'
    assert keep_comments(old, new, PYTHON) == new


def test_a_string_that_looks_like_a_comment_is_none() -> None:
    old = 'x = """\n# not a comment\n"""\nz = 3\n'
    new = old.replace("not a comment", "still not").replace("z = 3", "z = 4")
    assert keep_comments(old, new, PYTHON) == new


@pytest.mark.parametrize(
    ("instruction", "comments"),
    [("add a docstring", True), ("remove the TODO", True), ("add type hints", False)],
)
def test_comments_are_left_alone_when_they_are_what_was_asked(
    instruction: str, comments: bool
) -> None:
    assert about_comments(instruction) == comments


@pytest.mark.parametrize("first", ["import os", "# why", "import os\n    # why"])
def test_what_was_moved_does_not_stay_where_it_was_as_well(first: str) -> None:
    body = f"    {first}\n    try:\n        a = 2\n    finally:\n        g()\n"
    inner = "".join("    " + line for line in body.splitlines(keepends=True))
    new = f"def f():\n    try:\n{inner}    except OSError:\n        pass\n"
    assert keep_comments("def f():\n" + body, new, PYTHON) == new


@pytest.mark.parametrize("code", ["x = 3", 'say("x", 3)'])
def test_a_comment_that_became_code_is_not_kept(code: str) -> None:
    old = f"# why\n# {code}\ny = 2\n"
    assert keep_comments(old, old.replace(f"# {code}", code), PYTHON) == f"# why\n{code}\ny = 2\n"
    assert keep_comments(old, "x = 4\ny = 2\n", PYTHON) == f"# why\n# {code}\nx = 4\ny = 2\n"
