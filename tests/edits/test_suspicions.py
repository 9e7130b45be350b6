"""What a small model does by mistake is told, and what the person named is not held against it, in
whatever language they named it."""

from __future__ import annotations

import pytest

from vivace.edits.checks import problems
from vivace.edits.diff import between
from vivace.edits.importing.project import Modules, Project
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.region import whole_file
from vivace.syntax.exports import exports_of
from vivace.syntax.source import Source

CODE = """\
class Repr:
    def __init__(self, level, names):
        self.level = level
        self.maxlong = 40
        self.register(names)

    def scaled(self, n, s):
        total = n + 1
        return total * s


def a(x):
    return x + 1


def b(x):
    return x + 2
"""
WITHOUT_B = CODE.replace("\n\ndef b(x):\n    return x + 2\n", "")


def codes(new: str, instruction: str) -> set[str]:
    before = Source.of("a.py", CODE)
    hunks = between(CODE, new)
    shown = Excerpt(before, [whole_file(before)])
    found = problems(before, before.edited(hunks), hunks, shown, instruction)
    assert all(each.severity == "warning" for each in found)
    return {each.code for each in found}


@pytest.mark.parametrize(
    "instruction",
    [
        "Entferne die Funktion b",
        "we do not need b any more",
        "b wird nicht mehr gebraucht",
        "supprime la fonction b",
        "on n'a plus besoin de b",
        "elimina la función b",
        "ya no se usa b",
        "删除函数 b",
        "函数 b 不需要了",
        "関数 b を消してください",
    ],
)
def test_what_is_named_may_go_in_any_language(instruction: str) -> None:
    assert codes(WITHOUT_B, instruction) == set()


@pytest.mark.parametrize(
    ("code", "old", "new"),
    [
        ("lost", "\n\ndef b(x):\n    return x + 2\n", ""),
        ("dropped", "        self.maxlong = 40\n", ""),
        ("dropped", "        self.register(names)\n", ""),
        ("returns", "        return total * s\n", "        print(total * s)\n"),
        ("unbound", "return x + 1", "return x + offset"),
        ("foreign", "class Repr:", "import numpy\n\n\nclass Repr:"),
        ("unused", "def a(x):", "def lonely(y):\n    return y\n\n\ndef a(x):"),
    ],
)
def test_what_nobody_asked_for_is_suspicious(code: str, old: str, new: str) -> None:
    assert code in codes(CODE.replace(old, new), "make it clearer")


def test_a_local_variable_may_go_with_all_its_uses() -> None:
    new = CODE.replace(
        "        total = n + 1\n        return total * s", "        return (n + 1) * s"
    )
    assert codes(new, "make it shorter") == set()


def test_an_import_that_the_person_spoke_of_is_not_foreign() -> None:
    new = CODE.replace("class Repr:", "import numpy\n\n\nclass Repr:")
    assert codes(new, "hier bitte numpy verwenden") == set()


# -- with the project -----------------------------------------------------------------------------


def codes_in(path: str, before: str, after: str, *others: tuple[str, str]) -> set[str]:
    """What is found against an edit of a file that stands among others."""
    texts = {path: before, **dict(others)}
    exports = {each: exports_of(Source.of(each, text)) for each, text in texts.items()}
    source, hunks = Source.of(path, before), between(before, after)
    shown = Excerpt(source, [whole_file(source)])
    modules = Modules(Project(exports, texts), path)
    found = problems(source, source.edited(hunks), hunks, shown, "make it clearer", modules)
    return {each.code for each in found}


def test_an_import_from_the_project_is_not_foreign() -> None:
    after = "from text import clean\n\n\ndef f(a):\n    return clean(a)\n"
    before = "def f(a):\n    return a\n"
    assert codes_in("a.py", before, after, ("text.py", "def clean(a): ...\n")) == set()
    assert codes_in("a.py", before, after) == {"foreign"}


@pytest.mark.parametrize("module", ["fs", "fs/promises", "perf_hooks", "node:test"])
def test_what_comes_with_the_language_is_not_foreign(module: str) -> None:
    before = "export function f(a) {\n  return a;\n}\n"
    after = f'import {{ x }} from "{module}";\n\n' + before.replace("return a", "return x(a)")
    assert codes_in("a.js", before, after) == set()
    assert codes_in("a.js", before, after.replace(module, "left-pad")) == {"foreign"}


def test_what_nothing_defines_is_told_in_other_languages_too() -> None:
    before = "package a\n\nfunc f() int {\n\treturn 1\n}\n"
    after = before.replace("return 1", "return compute(1)")
    assert codes_in("a.go", before, after) == {"unbound"}
    assert codes_in("a.go", before, after, ("b.go", "package a\n\nfunc compute() {}\n")) == set()


def test_what_is_still_used_does_not_go_unseen_though_it_is_named() -> None:
    new = WITHOUT_B.replace("return x + 1", "return b(x) - 1")
    assert "lost" in codes(new, "Entferne die Funktion b")


def test_a_definition_that_is_renamed_without_its_uses_is_told() -> None:
    before = Source.of("a.ts", "function low(x) {\n  return x;\n}\nlow(1);\n")
    hunks = between(before.text, before.text.replace("function low", "function isLow"))
    shown = Excerpt(before, [whole_file(before)])
    found = problems(before, before.edited(hunks), hunks, shown, "low bitte in isLow umbenennen")
    assert "lost" in [each.code for each in found]


def test_a_loop_that_became_a_call_has_not_vanished() -> None:
    loop = (
        "    best = values[0]\n    for v in values:\n        if v > best:\n            best = v\n"
    )
    before = Source.of("a.py", f"def top(values):\n{loop}    print(best)\n    return best\n")
    hunks = between(before.text, "def top(values):\n    return max(values)\n")
    shown = Excerpt(before, [whole_file(before)])
    found = problems(before, before.edited(hunks), hunks, shown, "use max in top")
    assert "vanished" not in [each.code for each in found]


@pytest.mark.parametrize(("first", "expected"), [(0, set()), (8, {"vanished"})])
def test_lines_that_stand_elsewhere_now_have_not_vanished(first: int, expected: set[str]) -> None:
    """A body is wrapped, all of it or without its first lines."""
    body = [*(f"    name = read({n})\n" for n in range(8)), "    try:\n", "        write(name)\n"]
    body += ["    finally:\n", "        close()\n"]
    before = Source.of("a.py", "".join(["def take():\n", *body]))
    kept = "".join("    " + line for line in body[first:])
    after = f"def take():\n    try:\n{kept}    except OSError:\n        pass\n"
    hunks = between(before.text, after)
    shown = Excerpt(before, [whole_file(before)])
    found = problems(before, before.edited(hunks), hunks, shown, "pass on an OSError")
    assert {each.code for each in found} & {"vanished"} == expected


RUST = """\
/// How long a
/// line may be.
fn width() -> usize {
    80
}

fn height() -> usize {
    24
}

fn area() -> usize {
    width() * height()
}

mod tests {
    fn test_width() {
        assert_eq!(width(), 80);
    }
}
"""


@pytest.mark.parametrize(
    ("old", "new", "instruction", "expected"),
    [
        ("width(), 80", "width(), 100", "the limit should be 100", {"beside"}),
        ("width(), 80", "width(), 100", "adapt the test to the new limit", set()),
        ("    80", "    100", "the limit should be 100", set()),
        ("/// line may be.", "/// row may be at most.", "das Limit auf 100", {"beside"}),
        ("/// line may be.", "/// row may be at most.", "say row, not line", set()),
        ("/// line may be.", "/// row may be at most.", "a better comment, please", set()),
        ("fn height", "/// Rows.\nfn height", "Kommentar zu den Zeilen", set()),
    ],
)
def test_tests_and_comments_alone_are_not_changed_unless_they_are_spoken_of(
    old: str, new: str, instruction: str, expected: set[str]
) -> None:
    before = Source.of("a.rs", RUST)
    hunks = between(RUST, RUST.replace(old, new))
    shown = Excerpt(before, [whole_file(before)])
    found = problems(before, before.edited(hunks), hunks, shown, instruction)
    assert {each.code for each in found} == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("    4096", "    COLUMNS", set()),
        ("    24", "    COLUMNS", {"passed_over"}),
        ("fn width", "const COLUMNS: usize = 4096;\n\nfn width", {"unused"}),
    ],
)
def test_a_number_that_was_named_is_not_passed_over(old: str, new: str, expected: set[str]) -> None:
    text = RUST.replace("    80\n", "    4096\n")
    before = Source.of("a.rs", text)
    hunks = between(text, text.replace(old, new))
    shown = Excerpt(before, [whole_file(before)])
    found = problems(before, before.edited(hunks), hunks, shown, "make the 4096 a constant")
    assert {each.code for each in found} - {"unbound"} == expected


def test_a_definition_does_not_take_the_name_of_something_else() -> None:
    code = (
        "def length(s):\n    total = 0\n    for each in s:\n        total += 1\n"
        "    return total\n\n\n"
        "points = compile('sum')\n"
    )
    before = Source.of("a.py", code)
    shown = Excerpt(before, [whole_file(before)])
    for name, expected in {"points": {"lost"}, "size": set()}.items():
        hunks = between(code, code.replace("def length", f"def {name}"))
        asked = f"{name} as length"
        found = problems(before, before.edited(hunks), hunks, shown, asked)
        assert {each.code for each in found} == expected


@pytest.mark.parametrize(
    ("path", "code"),
    [("a.rs", RUST), ("A.java", "class A {\n  int f() {\n    return\n    80;\n  }\n}\n")],
)
def test_a_constant_that_is_defined_nowhere_is_told_in_every_language(path: str, code: str) -> None:
    before = Source.of(path, code)
    hunks = between(code, code.replace("    80", "    WIDTH"))
    shown = Excerpt(before, [whole_file(before)])
    found = problems(before, before.edited(hunks), hunks, shown, "name the 80")
    assert "unbound" in {each.code for each in found}
