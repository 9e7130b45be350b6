"""What programs really printed, and what is read of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.counting import lines_run
from vivace.failures.failure import Failure, Frame
from vivace.failures.output import clean_lines
from vivace.failures.own import Project
from vivace.failures.reading import read

RECORDED = Path(__file__).parent / "recorded"
OWN = frozenset(
    {
        "asan.c",
        "bad.c",
        "bad.js",
        "bad.py",
        "chain.py",
        "com/shop/Cart.java",
        "link.c",
        "main.js",
        "Makefile",
        "shop.go",
        "shop.py",
        "shop_test.go",
        "src/cart.test.js",
        "src/cart.ts",
        "src/lib.rs",
        "src/main.rs",
        "src/main/java/com/shop/Order.java",
        "stack.c",
        "sum.js",
        "sum.test.js",
        "test_bad.py",
        "test_shop.py",
        "ut.py",
    }
)
PROJECT = Project("/home/ada/shop", OWN)

Told = tuple[str, str, str]
"""Its kind, how what is said of it begins, and its own frames: path:line, as they are printed."""

SUMMED = ("assertion", "AssertionError: assert 5 == 6", "test_shop.py:5")
DIVIDED = ("error", "ZeroDivisionError: division by zero", "shop.py:9 test_shop.py:9")

EXPECTED: dict[str, list[Told]] = {
    "pytest_long": [SUMMED, DIVIDED],
    "pytest_short": [SUMMED, DIVIDED],
    "pytest_native": [SUMMED, DIVIDED],
    "pytest_line": [SUMMED, (*DIVIDED[:2], "shop.py:9")],
    "pytest_no": [(*SUMMED[:2], "test_shop.py:?"), (*DIVIDED[:2], "test_shop.py:?")],
    "pytest_syntax": [("compile", 'File "/home/ada/shop/bad.py"', "bad.py:1 test_bad.py:1")],
    "py_syntax": [("compile", "SyntaxError: invalid syntax", "bad.py:1")],
    "py_trace": [("error", "ZeroDivisionError: division by zero", "shop.py:9")],
    "py_unittest": [("assertion", "AssertionError: 2 != 3", "ut.py:5")],
    "py_chain": [
        (
            "error",
            "KeyError: 'x'\nRuntimeError: no x",
            "chain.py:2 chain.py:5 chain.py:7 chain.py:8",
        )
    ],
    "node_trace": [("error", "TypeError: Cannot read properties", "sum.js:3 main.js:1")],
    "node_syntax": [("compile", "SyntaxError: Unexpected token ';'", "bad.js:1")],
    "node_spec": [
        ("assertion", "AssertionError [ERR_ASSERTION]: Expected values", "sum.test.js:5"),
        ("error", "TypeError [Error]: Cannot read", "sum.js:3 sum.test.js:8"),
    ],
    "node_tap": [
        ("assertion", "AssertionError: Expected values to be strictly", "sum.test.js:5"),
        ("error", "TypeError: Cannot read", "sum.js:3 sum.test.js:8"),
    ],
    "jest": [("assertion", "expect(received).toBe(expected)", "src/cart.test.js:5")],
    "tsc": [
        ("compile", "TS2322: Type 'string'", "src/cart.ts:3"),
        ("compile", "TS2304: Cannot find name", "src/cart.ts:8"),
    ],
    "cargo": [
        ("error", "index out of bounds", "src/lib.rs:2 src/lib.rs:11 src/lib.rs:10"),
        ("assertion", "assertion `left == right` failed", "src/lib.rs:16 src/lib.rs:15"),
    ],
    "old_panic": [("error", "index out of bounds: the len is 2", "src/main.rs:5")],
    "rustc": [("compile", "E0277: cannot add `&str` to `u32`", "src/lib.rs:2")],
    "go_test": [
        ("assertion", "Total([2 3]) = 4, want 5", "shop_test.go:9"),
        ("assertion", "got 1, want 0\nmore of it", "shop_test.go:21"),
    ],
    "go_panic": [("error", "runtime error: index out of range", "shop.go:4 shop_test.go:6")],
    "go_build": [
        ("compile", "undefined: itmes", "shop.go:4"),
        ("compile", "missing return", "shop.go:9"),
    ],
    "java": [
        (
            "error",
            "ArrayIndexOutOfBoundsException: Index 0",
            "com/shop/Cart.java:3 com/shop/Cart.java:5",
        )
    ],
    "javac": [("compile", "cannot find symbol", "com/shop/Cart.java:3")],
    "maven": [("compile", "cannot find symbol", "src/main/java/com/shop/Order.java:12")],
    "gcc": [
        ("compile", "\u2018c\u2019 undeclared", "bad.c:1"),
        ("compile", "expected \u2018;\u2019 before \u2018}\u2019", "bad.c:2"),
    ],
    "ld": [("compile", "undefined reference to `f'", "link.c:1")],
    "c_assert": [("assertion", "Assertion `top(a, 1) == 1' failed.", "stack.c:3")],
    "asan": [("error", "AddressSanitizer: heap-buffer-overflow", "asan.c:3 asan.c:7")],
    "make": [("exit", "test: Error 1", "Makefile:2")],
}


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text("utf-8")


def shown(failure: Failure) -> str:
    lines = (
        (each.path, "?" if each.line is None else each.line + 1)
        for each in PROJECT.own(failure).frames
    )
    return " ".join(f"{path}:{line}" for path, line in lines)


def test_everything_recorded_is_expected() -> None:
    assert {path.stem for path in RECORDED.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_was_printed_is_read(name: str) -> None:
    failures = read(recorded(name))
    told = [(each.kind, shown(each)) for each in failures]
    assert told == [(kind, places) for kind, _, places in EXPECTED[name]]
    for failure, (_, begins, _) in zip(failures, EXPECTED[name], strict=True):
        assert failure.message.startswith(begins)
        assert failure.said


@pytest.mark.parametrize("name", EXPECTED)
def test_colours_and_line_ends_change_nothing(name: str) -> None:
    plain = recorded(name)
    coloured = "\r\n".join(f"\x1b[1;31m{line}\x1b[0m" for line in plain.split("\n"))
    assert read(coloured) == read(plain)


def test_what_cannot_be_compiled_comes_first() -> None:
    failures = read(recorded("py_trace") + recorded("gcc"))
    assert [each.kind for each in failures] == ["compile", "compile", "error"]


def test_a_check_of_ones_own_is_read_before_what_make_says_of_it() -> None:
    printed = """\
stack.c:3:17: warning: variable 'next' set but not used [-Wunused-but-set-variable]
test_stack.c:63: top is 3, expected 5
1 check failed
make: *** [Makefile:5: test] Error 1
"""
    told = [(each.kind, each.frames[0].path, each.message) for each in read(printed)]
    assert told == [
        ("assertion", "test_stack.c", "test_stack.c:63: top is 3, expected 5"),
        ("exit", "Makefile", "test: Error 1"),
    ]


def test_warnings_are_read_where_nothing_else_is_told() -> None:
    [only] = read("stack.c:3:17: warning: variable 'next' set but not used\n")
    assert [(each.path, each.line) for each in only.frames] == [("stack.c", 2)]


def test_the_name_of_a_test_is_known() -> None:
    tests = {name: [each.test for each in read(recorded(name))] for name in EXPECTED}
    assert tests["pytest_long"] == ["test_total", "test_mean_of_nothing"]
    assert tests["node_tap"] == ["sums", "no value"]
    assert tests["cargo"] == ["tests::third_of_two", "tests::third_of_three"]
    assert tests["go_test"] == ["TestTotal", "TestTable/empty"]


def test_a_thousand_tests_that_fail_alike_are_told_of_in_part() -> None:
    said = "".join(recorded("py_trace").replace("line 9", f"line {n}") for n in range(1, 1001))
    assert 1 < len(read(said)) <= 50


def test_what_passes_and_what_says_nothing_has_no_failure() -> None:
    assert read("") == []
    assert read("3 passed in 0.1s\n") == []
    assert read("ok  \texample.com/shop\t0.002s\n") == []


# -- anything may be printed ----------------------------------------------------------------------

LINES = sorted({line for name in EXPECTED for line in recorded(name).split("\n")})
pieces = st.one_of(
    st.sampled_from(LINES),
    st.text(max_size=30),
    st.text(alphabet="\x1b[]0;m\r\t :()'\"/._-|^E>", max_size=40),
    st.tuples(st.sampled_from(LINES), st.integers(0, 60)).map(lambda pair: pair[0][: pair[1]]),
)


@given(st.lists(pieces, max_size=40).map("\n".join))
def test_any_output_is_read_without_a_crash(text: str) -> None:
    for failure in read(text):
        assert failure.message
        assert len(failure.message) <= 2000
        assert len(failure.said) <= 6000
        assert all(frame.line is None or frame.line >= 0 for frame in failure.frames)
        own = PROJECT.own(failure)
        assert {frame.path for frame in own.frames} <= OWN


HOSTILE = {
    "one line": "a" * 5_000_000,
    "escapes": "\x1b[" * 500_000,
    "unended titles": "\x1b]0;" * 300_000,
    "colons": ":1: " * 400_000,
    "paths": "a/" * 600_000 + "x.py:1: AssertionError",
    "dots": "a.py:1" * 100_000 + "\n" + "\n".join("a." * 490 + ":1: error: x" for _ in range(3000)),
    "assertions": "\n".join("x: " * 300 + "Assertion" for _ in range(4000)),
    "frames": "Traceback (most recent call last):\n" + '  File "a.py", line 1, in f\n' * 50_000,
    "tracebacks": 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError\n' * 20_000,
    "chained": 'Traceback (most recent call last):\n  File "a.py", line 1\nKeyError\n\n'
    "During handling of the above exception, another exception occurred:\n\n" * 5000,
    "sections": "____ test ____\n" * 50_000,
    "stack": "Error: x\n" + "    at f (a.js:1:1)\n" * 50_000,
    "names": "\n".join("    at " + "x" * 980 + " (" for _ in range(4000)),
    "java": "java.lang.X: y\n" + "\tat a.b.C.d(C.java:1)\n" * 50_000,
    "packages": "\n".join("a." * 490 + "X" for _ in range(1000)) + "\n\tat a.B.c(B.java:1)",
    "caused": (
        "java.lang.X: y\n\tat a.b.C.d(C.java:1)\n" + "Caused by: java.lang.Y: z\n"
        "\tat a.b.C.e(C.java:2)\n" * 3000
    ),
    "errors": "error: x\n --> " * 40_000,
    "goroutines": "panic: x\ngoroutine 1 [running]:\n" * 20_000,
    "tests of go": "--- FAIL: T (0s)\n    a.go:1: x\n" * 20_000,
    "not ok": "not ok 1 - x\n  stack: |-\n    f (a.js:1:1)\n" * 20_000,
    "spaces": (" " * 990 + "\n") * 1000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_hostile_output_runs_a_bounded_number_of_lines(name: str) -> None:
    """The dearest runs 115 for each line that is read; no expression is given a longer one."""
    lines = clean_lines(HOSTILE[name])
    assert len(lines) <= 12_000
    assert max(map(len, lines)) <= 1000
    assert lines_run(lambda: read(HOSTILE[name])) <= 5_000 + 400 * len(lines)


# -- whose file it is -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "file"),
    [
        ("shop.py", "shop.py"),
        ("./shop.py", "shop.py"),
        ("/home/ada/shop/shop.py", "shop.py"),
        ("/home/ada/shop/src/../shop.py", "shop.py"),
        ("/usr/lib/shop.py", None),
        ("/home/ada/shop2/shop.py", None),
        ("lib.rs", "src/lib.rs"),
        ("../sum.js", "sum.js"),
        ("Cart.java", "com/shop/Cart.java"),
        ("node:internal/modules/cjs/loader", None),
        ("<frozen importlib._bootstrap>", None),
        ("", None),
        ("/home/ada/shop/.venv/lib/python3.11/site-packages/pluggy/_hooks.py", None),
    ],
)
def test_a_printed_path_means_a_file_of_the_project_or_none(printed: str, file: str | None) -> None:
    assert PROJECT.file(printed) == file


def test_a_name_that_two_files_have_means_neither_unless_one_is_here() -> None:
    files = frozenset({"a/main.c", "b/main.c"})
    assert Project("/x", files).file("main.c") is None
    assert Project("/x", files, "b").file("main.c") == "b/main.c"


def test_a_frame_that_is_named_twice_is_kept_once() -> None:
    frames = (Frame("shop.py", 1), Frame("/home/ada/shop/shop.py", 1), Frame("/usr/x.py", 1))
    failure = Failure(kind="error", message="x", frames=frames)
    assert PROJECT.own(failure).frames == (Frame("shop.py", 1),)
