"""Names that nothing binds are found, and given their home where it is beyond doubt."""

from __future__ import annotations

import pytest

from vivace.edits.names import bound_by, imports_for, unbound, used_imports


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
