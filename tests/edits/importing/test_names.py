"""Names that nothing binds are found, and given their home where it is beyond doubt."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.edits.importing.names import (
    bound_by,
    imports_for,
    new_error,
    newly_unbound,
    unbound,
    used_imports,
)
from vivace.syntax.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "import os.path\nfrom a import b as c\nos, c\n",
        "def f(a, *b, c=1, **d):\n    return a, b, c, d, f\n",
        "class A:\n    x = 1\n    y = x\n    def f(self):\n        return __class__\n",
        "try:\n    pass\nexcept E as e:\n    e\nclass E(Exception): pass\n",
        "match 1:\n    case [a, *b]:\n        a, b\n    case {'k': c, **d}:\n        c, d\n",
        "[x for x in range(3)]\nwith open('f') as f:\n    f\nif (y := 1):\n    y\n",
        "from a import *\nanything\n",
        "this is no Python at all",
        "print(__file__, __name__)\n",
    ],
)
def test_what_is_bound_somehow_is_no_problem(text: str) -> None:
    assert unbound(text) == set()


def test_what_nothing_binds_is_found() -> None:
    assert unbound("def f(x: Optional[int]) -> List[int]:\n    return y\n") == {
        "Optional",
        "List",
        "y",
    }


def test_an_import_under_another_name_does_not_bind_its_own() -> None:
    assert bound_by("import numpy as np\n") == {"np"}


def test_names_with_one_home_are_imported_from_it() -> None:
    assert imports_for({"Optional", "json", "Path", "unknown", "datetime"}) == [
        "from typing import Optional\n",
        "from pathlib import Path\n",
        "import json\n",
    ]


def test_imports_that_nothing_uses_are_left_out() -> None:
    imports = (
        "import os, sys\nimport re\nfrom __future__ import annotations\nfrom a import b as c\n"
    )
    assert used_imports(imports, "print(sys.argv, b)\n") == [
        "import os, sys\n",
        "from __future__ import annotations\n",
    ]


LINES = [
    "import os\n",
    "from a import *\n",
    "x = 1\n",
    "del x\n",
    "def f(a):\n    return a + x + os\n",
    "def g():\n    global y\n    y = f(x)\n",
    "class C:\n    def m(self):\n        return C, y\n",
    "if x:\n    import z\nelse:\n    z = y\n",
    "print(z)  # y\n",
    "print(\n",
    "  wrong = 1\n",
    "for q in os:\n    pass\nprint(q)\n",
]
TEXTS = st.lists(st.sampled_from(LINES), max_size=8).map("".join)


@given(TEXTS, TEXTS)
def test_what_an_edit_leaves_unbound_is_what_reading_both_texts_whole_shows(
    old: str, new: str
) -> None:
    before, after = Source.of("a.py", old), Source.of("a.py", new)
    assert newly_unbound(before, after) == unbound(new) - unbound(old)


@given(TEXTS, TEXTS)
def test_a_new_error_is_found_where_reading_the_whole_text_finds_it(old: str, new: str) -> None:
    before, after = Source.of("a.py", old), Source.of("a.py", new)

    def wrong(text: str) -> bool:
        try:
            ast.parse(text)
        except SyntaxError:
            return True
        return False

    assert (new_error(before, after) is not None) == (wrong(new) and not wrong(old))
