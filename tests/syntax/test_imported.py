"""What a file imports, name by name."""

from __future__ import annotations

import pytest

from vivace.syntax.imported import Imported, imported_by
from vivace.syntax.source import Source


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.py", "from a.b import c as d, e\n", [("d", "a.b", "c"), ("e", "a.b", "e")]),
        ("a.py", "import a, b.c as d\n", [("a", "a", ""), ("d", "b.c", "")]),
        ("a.py", "from . import a\nfrom .b import c\nimport d.e\n", []),
        ("a.ts", "import a, { b as c } from 'd';\n", [("a", "d", ""), ("c", "d", "b")]),
        ("a.ts", "import * as a from 'b';\nimport c from './c';\n", [("a", "b", "*")]),
        ("a.js", "const { a } = require('b'), c = require('./c');\n", [("a", "b", "a")]),
        ("a.go", 'package p\nimport (\n\t"a/b"\n\tc "d"\n)\n', [("b", "a/b", ""), ("c", "d", "c")]),
        ("a.go", 'package p\nimport "a/b/v2"\n', [("b", "a/b/v2", "")]),
        ("A.java", "import a.B;\nimport c.*;\n", [("B", "a.B", "")]),
        ("A.java", "import static a.B.c;\n", [("c", "a.B.c", "static")]),
        (
            "a.rs",
            "use a::{b, c::{self, D}};\n",
            [("b", "a::b", ""), ("c", "a::c", ""), ("D", "a::c::D", "")],
        ),
        ("a.rs", "use super::a;\nuse b::*;\n", []),
    ],
)
def test_what_is_imported(path: str, text: str, found: list[tuple[str, str, str]]) -> None:
    assert imported_by(Source.of(path, text)) == tuple(Imported(*each) for each in found)
