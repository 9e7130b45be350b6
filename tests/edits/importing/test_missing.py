"""Imports that an edit forgot: from the project, from the standard library, or from neither."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from vivace.edits.importing.missing import missing
from vivace.edits.importing.project import Manifest, Modules, Project
from vivace.syntax.exports import exports_of
from vivace.syntax.source import Source

MANIFESTS = (Manifest("go.mod", "", "example.org/m"), Manifest("Cargo.toml", "", "it"))


def lines(path: str, before: str, after: str, files: Mapping[str, str] | None = None) -> list[str]:
    """What is imported when the one text becomes the other, among these files."""
    texts = {**(files or {}), path: before}
    exports = {each: exports_of(Source.of(each, text)) for each, text in texts.items()}
    modules = Modules(Project(exports, texts, MANIFESTS), path)
    return missing(Source.of(path, before), Source.of(path, after), modules)


PACKAGE = {"src/p/__init__.py": "", "src/p/text.py": "def normalise(s): ...\n"}


# -- from the project -----------------------------------------------------------------------------


def test_python_imports_what_one_module_exports() -> None:
    after = "def f(s):\n    return normalise(s)\n"
    assert lines("src/p/a.py", "", after, PACKAGE) == ["from p.text import normalise\n"]


def test_python_imports_relatively_where_the_file_does() -> None:
    head = "from .b import c\n"
    found = lines(
        "src/p/q/a.py", head, head + "normalise(c)\n", {**PACKAGE, "src/p/q/__init__.py": ""}
    )
    assert found == ["from ..text import normalise\n"]


def test_what_two_modules_export_is_not_guessed() -> None:
    twice = {**PACKAGE, "src/p/other.py": "def normalise(s): ...\n"}
    assert lines("src/p/a.py", "", "normalise(1)\n", twice) == []


def test_what_a_test_defines_is_no_home_for_the_code() -> None:
    twice = {**PACKAGE, "tests/helpers.py": "def normalise(s): ...\n"}
    assert lines("src/p/a.py", "", "normalise(1)\n", twice) == ["from p.text import normalise\n"]


def test_a_module_that_imports_the_file_is_not_imported_by_it() -> None:
    around = {**PACKAGE, "src/p/text.py": "from p import a\ndef normalise(s): ...\n"}
    assert lines("src/p/a.py", "", "normalise(1)\n", around) == []


@pytest.mark.parametrize(
    ("head", "line"),
    [
        ("import { b } from './b';\n", "import { normalise } from '../text';\n"),
        ('import { b } from "./b.js"\n', 'import { normalise } from "../text.js"\n'),
        ("const b = require('./b');\n", "const { normalise } = require('../text');\n"),
    ],
)
def test_a_script_imports_as_it_does_already(head: str, line: str) -> None:
    files = {"text.js": "export function normalise(s) {}\n"}
    assert lines("lib/a.js", head, f"{head}normalise(b);\n", files) == [line]


def test_typescript_imports_types_as_such_where_the_file_does() -> None:
    head = "import type { B } from './b';\n"
    files = {"a/text.ts": "export interface Words {}\n"}
    after = head + "let x: Words;\n"
    assert lines("a/a.ts", head, after, files) == ["import type { Words } from './text';\n"]


def test_go_imports_the_package_of_a_name() -> None:
    files = {"util/u.go": "package util\nfunc Norm() {}\n"}
    after = "package a\nfunc f() { util.Norm() }\n"
    assert lines("a/a.go", "package a\n", after, files) == ['import "example.org/m/util"\n']


def test_go_imports_no_package_that_imports_its_own() -> None:
    files = {"util/u.go": 'package util\nimport "example.org/m/a"\nfunc Norm() {}\n'}
    assert lines("a/a.go", "package a\n", "package a\nfunc f() { util.Norm() }\n", files) == []


def test_go_needs_no_import_for_what_its_package_has() -> None:
    files = {"a/b.go": "package a\nvar log = logger{}\n"}
    assert lines("a/a.go", "package a\n", "package a\nfunc f() { log.Print() }\n", files) == []


def test_java_imports_a_class_of_another_package_only() -> None:
    files = {
        "a/Near.java": "package a;\nclass Near {}\n",
        "b/Far.java": "package b;\npublic class Far {}\n",
    }
    before = "package a;\nclass A { }\n"
    after = "package a;\nclass A { Near n; Far f; }\n"
    assert lines("a/A.java", before, after, files) == ["import b.Far;\n"]


def test_rust_imports_by_the_path_of_the_module() -> None:
    files = {
        "src/lib.rs": "mod a;\npub mod text;\n",
        "src/text.rs": "mod inner;\npub fn normalise() {}\n",
        "src/text/inner.rs": "pub fn hidden() {}\n",
    }
    after = "fn f() { normalise(); hidden(); }\n"
    assert lines("src/a.rs", "", after, files) == ["use crate::text::normalise;\n"]


def test_c_includes_the_header_that_declares_it_unless_another_brings_it() -> None:
    files = {"text.h": "int normalise(int);\n", "all.h": '#include "text.h"\n'}
    after = "int f(void) { return normalise(1); }\n"
    assert lines("a.c", "", after, files) == ['#include "text.h"\n']
    head = '#include "all.h"\n'
    assert lines("a.c", head, head + after, files) == []


def test_an_index_that_is_not_complete_is_not_asked_who_is_the_only_one() -> None:
    exports = {each: exports_of(Source.of(each, text)) for each, text in PACKAGE.items()}
    modules = Modules(Project(exports, complete=False), "src/p/a.py")
    assert missing(Source.of("a.py", ""), Source.of("a.py", "normalise(1)\n"), modules) == []


# -- as others import it --------------------------------------------------------------------------


def test_what_others_import_in_one_way_is_imported_so() -> None:
    files = {"p/b.py": "from msgspec import Struct\n", "p/c.py": "from msgspec import Struct\n"}
    after = "class A(Struct): ...\n"
    assert lines("p/a.py", "", after, files) == ["from msgspec import Struct\n"]


def test_what_others_import_in_two_ways_is_not_guessed() -> None:
    files = {"p/b.py": "from attrs import make\n", "p/c.py": "from other import make\n"}
    assert lines("p/a.py", "", "make(1)\n", files) == []


def test_a_name_that_could_be_any_variable_has_to_be_imported_twice() -> None:
    one = {"b.js": "import client from 'client';\n"}
    assert lines("a.js", "", "client.get();\n", one) == []
    two = {**one, "c.js": "import client from 'client';\n"}
    assert lines("a.mjs", "", "client.get();\n", two) == ['import client from "client";\n']


@pytest.mark.parametrize(
    ("path", "other", "after", "line"),
    [
        ("a.py", "import numpy as np\n", "np.zeros(1)\n", "import numpy as np\n"),
        ("a.ts", "import * as vs from 'vs';\n", "vs.a();\n", 'import * as vs from "vs";\n'),
        ("a.ts", "import { A as B } from 'p';\n", "new B();\n", 'import { A as B } from "p";\n'),
        ("a.js", "const { A } = require('p');\n", "new A();\n", 'const { A } = require("p");\n'),
        ("a.go", 'package a\nimport y "g.in/yaml.v3"\n', "y.Go()", 'import y "g.in/yaml.v3"\n'),
        ("a.go", 'package a\nimport "g.in/yaml.v3"\n', "yaml.Go()", 'import "g.in/yaml.v3"\n'),
        (
            "A.java",
            "import org.junit.Test;\n",
            "class A { @Test void t() {} }",
            "import org.junit.Test;\n",
        ),
        (
            "a.rs",
            "use serde::{de::Error as E, Serialize};\n",
            "fn f(a: Serialize) {}",
            "use serde::Serialize;\n",
        ),
    ],
)
def test_in_each_language(path: str, other: str, after: str, line: str) -> None:
    suffix = path.partition(".")[2]
    head = "package a\n" if suffix == "go" else ""
    body = f"func f() {{ {after} }}\n" if head else after
    found = lines(path, head, head + body, {f"b.{suffix}": other, f"c.{suffix}": other})
    assert found == [line]


def test_what_the_file_imports_under_another_name_than_its_path_is_there() -> None:
    text = 'package a\n\nimport "g.in/yaml.v3"\n\nvar a = 1\n'
    other = {"b.go": 'package a\nimport "g.in/yaml.v3"\n'}
    assert lines("a.go", text, text + "func f() { yaml.Go() }\n", other) == []


# -- from the standard library --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "after", "found"),
    [
        (
            "a.py",
            "Optional[Path]\n",
            ["from typing import Optional\n", "from pathlib import Path\n"],
        ),
        ("a.py", "islice(a, 1)\na = 1\n", ["from itertools import islice\n"]),
        ("a.py", "time.sleep(1)\n", ["import time\n"]),
        ("a.py", "datetime.now()\n", []),
        ("a.py", "call(1)\n", []),
        ("a.js", "f(path.join(a, b));\n", ['const path = require("path");\n']),
        ("a.ts", "export const a = path.join('a');\n", ['import * as path from "path";\n']),
        ("a.js", "console.log(new Map(), path.nothing());\n", []),
        ("a.go", "package a\nfunc f() { fmt.Println() }\n", ['import "fmt"\n']),
        ("a.go", "package a\nfunc f() { rand.Intn(3) }\n", ['import "math/rand"\n']),
        ("a.go", "package a\nfunc f() { template.New(3) }\n", []),
        ("A.java", "class A { List<String> a; }\n", ["import java.util.List;\n"]),
        ("A.java", "import java.util.*;\nclass A { List<String> a; }\n", []),
        ("a.rs", "fn f() -> HashMap<u8, String> { }\n", ["use std::collections::HashMap;\n"]),
        ("a.rs", "fn f() { mem::swap(a, b); }\n", ["use std::mem;\n"]),
        ("a.rs", "use super::x;\nfn f() -> Result<Error> { Ok(x) }\n", []),
        ("a.cc", "std::string_view a;\n", ["#include <string_view>\n"]),
    ],
)
def test_what_one_module_of_the_library_exports(path: str, after: str, found: list[str]) -> None:
    assert missing(Source.of(path, ""), Source.of(path, after), None) == found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.rs", "use std::sync::Arc;\nfn f() { Arc::new(1); }\n"),
        ("a.go", 'package a\nimport "fmt"\nfunc f() { fmt.Println() }\n'),
        ("A.java", "import java.util.List;\nclass A { List<A> a; }\n"),
        ("a.js", "const fs = require('fs');\nfs.readFileSync(fs);\n"),
    ],
)
def test_what_the_edit_imports_itself_is_not_missing(path: str, text: str) -> None:
    assert missing(Source.of(path, ""), Source.of(path, text), None) == []


def test_what_came_with_the_answer_is_not_missing() -> None:
    before, after = Source.of("a.py", ""), Source.of("a.py", "Path()\n")
    assert missing(before, after, None, "from mine import Path\n") == []
