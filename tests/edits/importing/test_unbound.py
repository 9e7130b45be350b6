"""Names that nothing defines are told, and only where that is sure."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from vivace.edits.importing.project import Modules, Project
from vivace.edits.importing.unbound import bound_nowhere
from vivace.syntax.exports import UNREAD, exports_of
from vivace.syntax.source import Source

GO = "package a\n\nfunc f() int {\n\treturn 1\n}\n"
JAVA = "package a;\n\nclass A {\n    int f() {\n        return 1;\n    }\n}\n"
RUST = "fn f() -> u8 {\n    1\n}\n"
PLAIN = "function f() {\n  return 1;\n}\n\nmodule.exports = f;\n"
SCRIPT = "export function f(): number {\n  return 1;\n}\n"


def names(path: str, before: str, after: str, files: Mapping[str, str] | None = None) -> list[str]:
    texts = {**(files or {}), path: before}
    exports = {each: exports_of(Source.of(each, text)) for each, text in texts.items()}
    modules = Modules(Project(exports), path)
    return bound_nowhere(Source.of(path, before), Source.of(path, after), modules)


@pytest.mark.parametrize(
    ("path", "text", "old"),
    [
        ("a/a.go", GO, "return 1"),
        ("a/A.java", JAVA, "return 1"),
        ("src/a.rs", RUST, "    1\n"),
        ("a.ts", SCRIPT, "return 1"),
        ("a.js", PLAIN, "return 1"),
    ],
)
def test_a_call_of_what_is_nowhere_is_told(path: str, text: str, old: str) -> None:
    called = text.replace(old, old.replace("1", "compute(1)"))
    assert names(path, text, called) == ["compute"]


@pytest.mark.parametrize(
    ("path", "text", "old", "new"),
    [
        ("a/a.go", GO, "\treturn 1", "\tvar x Wrong\n\treturn x.y"),
        ("a/A.java", JAVA, "return 1", "Wrong x = null; return x.y"),
        ("src/a.rs", RUST, "    1\n", "    let x: Wrong = y;\n    1\n"),
        ("a.ts", SCRIPT, "return 1", "const x: Wrong = 1; return x"),
    ],
)
def test_a_type_that_is_nowhere_is_told(path: str, text: str, old: str, new: str) -> None:
    assert names(path, text, text.replace(old, new)) == ["Wrong"]


def test_what_the_package_defines_in_another_file_is_there() -> None:
    after = GO.replace("return 1", "return compute(1)")
    assert names("a/a.go", GO, after, {"a/b.go": "package a\nfunc compute() {}\n"}) == []
    other = {"a/B.java": "package a;\nclass Wrong {}\n"}
    after = JAVA.replace("return 1", "Wrong x = null; return 1")
    assert names("a/A.java", JAVA, after, other) == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.go", GO, GO.replace("return 1", "return len(make([]string, 1))")),
        ("A.java", JAVA, JAVA.replace("return 1", "Integer x = 1; var y = x; return y")),
        ("a.rs", RUST, RUST.replace("    1", "    Some(Vec::<String>::new()); 1")),
        ("a.ts", SCRIPT, SCRIPT.replace("return 1", "return parseInt(new Map<string, Node>())")),
        ("a.js", PLAIN, PLAIN.replace("return 1", "return setTimeout(require('x'), Number(1))")),
        ("a.ts", SCRIPT, SCRIPT.replace("f()", "f<T>(x: T, g: () => T)").replace("1", "g(x)")),
    ],
)
def test_what_the_language_has_is_there(path: str, before: str, after: str) -> None:
    assert names(path, before, after) == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("a.go", GO.replace("func", 'import . "fmt"\n\nfunc', 1), "compute"),
        ("A.java", JAVA.replace("class A", "class A extends B"), "compute"),
        ("A.java", JAVA.replace("class A", "import static a.B.*;\n\nclass A"), "compute"),
        ("a.rs", "use b::*;\n" + RUST, "compute"),
        ("a.test.ts", SCRIPT, "compute"),
        ("a.js", PLAIN.replace("module.exports = f;", ""), "compute"),
    ],
)
def test_where_names_come_unseen_nothing_is_said(path: str, before: str, after: str) -> None:
    assert names(path, before, before.replace("1", f"{after}(1)")) == []


def test_a_file_of_the_package_that_was_not_read_may_define_it() -> None:
    exports = {"a.go": exports_of(Source.of("a.go", GO)), "big.go": UNREAD}
    modules = Modules(Project(exports), "a.go")
    after = Source.of("a.go", GO.replace("1", "compute(1)"))
    assert bound_nowhere(Source.of("a.go", GO), after, modules) == []


def test_without_the_whole_project_nothing_is_said() -> None:
    before, after = Source.of("a.go", GO), Source.of("a.go", GO.replace("1", "compute(1)"))
    assert bound_nowhere(before, after, None) == []
    assert bound_nowhere(before, after, Modules(Project({}, complete=False), "a.go")) == []
