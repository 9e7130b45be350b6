"""What a file defines for others, in each language."""

from __future__ import annotations

import pytest

from vivace.syntax.exports import UNREAD, Exports, exports_of
from vivace.syntax.source import Source


def exports(path: str, text: str) -> Exports:
    return exports_of(Source.of(path, text))


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.py", "def f(): ...\nclass C: ...\nA, b = 1, 2\nX: int = 1\n", "f C A b X"),
        ("a.py", "if x:\n    def f(): ...\nelse:\n    g = 1\n", "f g"),
        ("a.py", "@d\ndef f(): ...\n_g = 1\n", "f"),
        ("a.py", "__all__ = ['_g']\ndef f(): ...\n_g = 1\n", "_g"),
        ("a.ts", "export const a = 1, b = 2;\nexport interface I {}\nconst c = 1;\n", "a b I"),
        ("a.ts", "const a = 1;\nexport { a as b };\nexport { z } from './z';\n", "b"),
        ("a.js", "module.exports = { a, b: c, d() {} };\nexports.e = 1;\n", "a b d e"),
        (
            "a.go",
            "package p\nfunc F() {}\nfunc (t T) M() {}\nvar A, b = 1, 2\ntype T int\n",
            "F A T",
        ),
        ("a.rs", "pub fn f() {}\nfn g() {}\npub(crate) struct S;\npub mod m;\n", "f S m"),
        ("A.java", "package a.b;\npublic class A { void m() {} }\nclass B {}\n", "A"),
        (
            "a.h",
            "#define M 1\nint f(int);\ntypedef struct { int x; } T;\nenum E { EA };\n",
            "M f T E EA",
        ),
        ("a.hpp", "namespace n { class C {}; template <class T> T g(T t); }\n", "C g"),
    ],
)
def test_what_others_may_import(path: str, text: str, names: str) -> None:
    assert exports(path, text).names == tuple(names.split())


@pytest.mark.parametrize(
    ("path", "text", "own"),
    [
        ("a.py", "_f = 1\n", "_f"),
        ("a.go", "package p\nfunc f() {}\n", "f"),
        ("A.java", "class B { class C {} void m() {} }\n", "B C m"),
    ],
)
def test_what_only_its_own_package_sees(path: str, text: str, own: str) -> None:
    assert exports(path, text).own == tuple(own.split())


def test_go_and_java_name_their_package() -> None:
    assert exports("a.go", "package p\n").package == "p"
    assert exports("A.java", "package a.b;\nclass A {}\n").package == "a.b"


@pytest.mark.parametrize(
    "text", ["export default class A {}\n", "module.exports = A;\n", "export default A;\n"]
)
def test_a_script_exports_one_thing_without_a_name(text: str) -> None:
    assert exports("a.js", text).default == "A"


def test_what_a_file_imports_itself_is_as_it_is_written() -> None:
    python = "import a.b as c\nfrom . import d\nif TYPE_CHECKING:\n    from e import f\n"
    assert exports("a.py", python).includes == ("a.b", ".", ".d")
    assert exports("a.go", 'package p\nimport (\n\tx "a/b"\n)\n').includes == ("a/b",)
    assert exports("a.c", '#include "b.h"\n#include <c.h>\n').includes == ('"b.h"', "<c.h>")


def test_a_file_in_no_language_we_know_may_define_anything() -> None:
    assert exports("a.txt", "def f(): ...\n") == UNREAD
