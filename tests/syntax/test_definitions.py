"""What stands right above a definition belongs to it, and nothing else does."""

from __future__ import annotations

import pytest

from vivace.syntax.source import Source


@pytest.mark.parametrize(
    ("path", "text", "lead"),
    [
        ("a.rs", "use a::b;\n\n/// Does.\n/// It.\n#[inline]\nfn f() {}\n", "/// Does.\n"),
        ("a.rs", "/// Does.\n#[inline] // why\n#[cold]\nfn f() {}\n", "/// Does.\n"),
        ("a.rs", "static A: u8 = 1; /* a */ // why\nfn f() {}\n", "fn f() {}\n"),
        ("a.py", "x = 1\n# why\n# so\ndef f():\n    pass\n", "# why\n"),
        ("a.py", "x = 1  # why\ndef f():\n    pass\n", "def f():\n"),
        ("a.py", "# of the file\n\ndef f():\n    pass\n", "def f():\n"),
        ("a.py", "if x:\n    # why\n    # so\n    def f():\n        pass\n", "    # why\n"),
        ("a.py", "if x:  # why\n    def f():\n        pass\n", "    def f():\n"),
        ("a.c", "#if A\n/* why */\nint f(void) {\n  return 1;\n}\n#endif\n", "/* why */\n"),
        ("a.c", "#if A\nint f(void) {\n  return 1;\n}\n#endif\n", "int f(void) {\n"),
        ("a.js", "x = 1\n\n/**\n * Why.\n */\n\nfunction f() {}\n", "/**\n"),
        ("a.js", "/* why */\n\nfunction f() {}\n", "function f() {}\n"),
        ("a.js", "// why\nexports.f = () => {}\n", "// why\n"),
        ("A.java", "enum E { A; // why\n  void f() {}\n}\n", "  void f() {}\n"),
    ],
)
def test_a_definition_begins_with_what_leads_it(path: str, text: str, lead: str) -> None:
    source = Source.of(path, text)
    (found,) = [each for each in source.definitions if each.name.endswith("f")]
    assert source.lines[found.start] == lead


def test_a_comment_behind_the_opening_bracket_is_not_that_of_the_first_member() -> None:
    source = Source.of("A.java", "class A { // why\n  void f() {}\n}\n")
    assert [(each.name, each.start) for each in source.definitions] == [("A", 0), ("A.f", 1)]


def test_functions_that_are_given_to_a_name_are_definitions() -> None:
    text = "exports.f = (a) => a\nThing.prototype.g = function () {}\na.b = 1\nh = class {}\n"
    assert [each.name for each in Source.of("a.js", text).definitions] == ["f", "Thing.g", "h"]


def test_it_is_known_where_a_definition_begins_behind_its_comments() -> None:
    (found,) = Source.of("a.py", "# Why.\n@cache\ndef f():\n    pass\n").definitions
    assert (found.start, found.code) == (0, 1)
