"""Imports that come with an answer end up with the file's own."""

from __future__ import annotations

import pytest

from vivace.edits.importing.imports import Preamble, added, only_imports, together
from vivace.syntax.hunk import Hunk, apply
from vivace.syntax.languages import Language, language_of
from vivace.syntax.lines import lines_of
from vivace.syntax.source import Source


def language(path: str) -> Language:
    found = language_of(path)
    assert found is not None
    return found


PYTHON = language("a.py")


def passed(answer: str, region: str = "def f():\n    pass\n") -> tuple[str, str]:
    preamble = Preamble(PYTHON, region)
    rest = [each for line in lines_of(answer) for each in preamble.take(line)]
    return "".join(preamble.imports), "".join(rest + preamble.finish())


@pytest.mark.parametrize(
    ("imports", "rest"),
    [
        ("import os\n", "def f():\n    return os\n"),
        ("from a import (\n    b,\n    c,\n)\n", "def f():\n    return b\n"),
        ("# needed\nimport os\nfrom a import b\n", "@b\ndef f():\n    import sys\n"),
        ("", "def f():\n    import os\n"),
        ("", "# only a comment\ndef f():\n    pass\n"),
        ("", "from_here = 1\n"),
        ("", "# nothing else\n"),
        ("", "from here on it is prose\n"),
    ],
)
def test_imports_are_taken_off_the_beginning(imports: str, rest: str) -> None:
    assert passed(imports + ("\n" if imports else "") + rest) == (imports, rest)


def test_a_region_with_imports_keeps_them() -> None:
    answer = "import os\nimport sys\n\nx = 1\n"
    assert passed(answer, "import os\n\nx = 1\n") == ("", answer)


def test_a_region_with_imports_keeps_them_though_a_line_of_it_cannot_be_read() -> None:
    region = "import os\n\n\ndef f(x):\n    return x\n\n\ndefg(x):\n    y = x\n    return y\n"
    answer = region + "\n\nz = 1\n"
    assert passed(answer, region) == ("", answer)


@pytest.mark.parametrize(
    ("path", "old", "imports", "new"),
    [
        ("a.py", "import os\n\nx = 1\n", "import sys\n", "import os\nimport sys\n\nx = 1\n"),
        ("a.py", "import os\n\nx = 1\n", "import os\n", "import os\n\nx = 1\n"),
        ("a.py", '"""Doc."""\n\nx = 1\n', "import os\n", '"""Doc."""\n\nimport os\n\nx = 1\n'),
        ("a.py", "#!/bin/sh\nx = 1\n", "import os\n", "#!/bin/sh\n\nimport os\n\nx = 1\n"),
        ("a.py", "x = 1\n", "import os\n", "import os\n\nx = 1\n"),
        ("a.py", "import a\r\nx = 1\r\n", "import os\n", "import a\r\nimport os\r\nx = 1\r\n"),
        (
            "a.c",
            "#include <a.h>\n\nint x;\n",
            "#include <b.h>\n",
            "#include <a.h>\n#include <b.h>\n\nint x;\n",
        ),
        (
            "a.ts",
            'import a from "a";\n\nf();\n',
            'import b from "b";\n',
            'import a from "a";\nimport b from "b";\n\nf();\n',
        ),
        (
            "A.java",
            "package a;\n\nclass A {}\n",
            "import b.C;\n",
            "package a;\n\nimport b.C;\n\nclass A {}\n",
        ),
    ],
)
def test_they_join_those_that_are_there(path: str, old: str, imports: str, new: str) -> None:
    assert apply(old, added(Source.of(path, old), lines_of(imports))) == new


def test_an_import_from_the_future_comes_first() -> None:
    old = "import os\n\nx = 1\n"
    new = apply(old, added(Source(old, PYTHON), ["from __future__ import annotations\n"]))
    assert new == "from __future__ import annotations\nimport os\n\nx = 1\n"


def test_code_is_not_taken_for_imports() -> None:
    assert only_imports(["import os\n", "# why\n"], PYTHON)
    assert not only_imports(["import os\n", "x = 1\n"], PYTHON)
    assert not only_imports(["# why\n"], PYTHON)


def test_an_include_with_a_remark_is_the_same_include() -> None:
    text = "#include <list>\nint a;\n"
    assert added(Source.of("a.cpp", text), ["#include <list> // for std::list\n"]) == []


def test_what_the_file_defines_itself_is_not_imported() -> None:
    text = "export type Query = string;\n\nexport function parse(text) {\n}\n"
    source = Source.of("a.ts", text)
    assert added(source, ["import { Query } from './types';\n"]) == []
    assert added(source, ["import { Other } from './types';\n"])


def test_go_imports_go_into_the_brackets_each_to_its_like() -> None:
    text = 'package a\n\nimport (\n\t"fmt"\n\t"os"\n\n\t"ex.org/z"\n)\n'
    source = Source.of("a.go", text)
    hunks = added(source, ['import "net"\n', 'import "ex.org/m"\n', 'import "fmt"\n'])
    assert source.edited(hunks).text == text.replace('"os"', '"net"\n\t"os"').replace(
        '"ex.org/z"', '"ex.org/m"\n\t"ex.org/z"'
    )
    assert all(only_imports(hunk.new, source.language) for hunk in hunks if source.language)


def test_what_is_required_goes_to_what_is_required() -> None:
    text = "'use strict'\n\nconst a = require('a')\n\nconst b = 1\n"
    source = Source.of("a.js", text)
    hunks = added(source, ["const fs = require('fs')\n"])
    assert source.edited(hunks).text == text.replace(
        "require('a')\n", "require('a')\nconst fs = require('fs')\n"
    )


def test_an_import_is_left_out_where_the_edit_changes_the_imports_itself() -> None:
    own = Hunk(0, ("import a\n", "import b\n"), ("import c\n",))
    inside, behind = Hunk(1, (), ("import d\n",)), Hunk(2, (), ("import e\n",))
    assert together([inside], [own]) == [own]
    assert together([behind], [own]) == [own, behind]


def test_the_name_of_the_package_is_no_part_of_what_was_asked_for() -> None:
    go = language_of("a.go")
    preamble = Preamble(go, "func Max() int {\n\treturn 1\n}\n")
    lines = ["package runes\n", "\n", 'import "fmt"\n', "\n", "// Max.\n", "func Max() int {\n"]
    taken = [line for each in lines for line in preamble.take(each)] + preamble.finish()
    assert taken == ["// Max.\n", "func Max() int {\n"]
    assert preamble.imports == ['import "fmt"\n']
