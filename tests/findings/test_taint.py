"""What others choose is followed from name to name, and no further than it goes."""

from __future__ import annotations

import pytest

from tests.findings.taint_rules import TAINT
from vivace.findings.scan import scan
from vivace.syntax.source import Source


def lines(path: str, text: str) -> list[int]:
    """The lines with findings, from 1."""
    return [each.lines[0] + 1 for each in scan(Source.of(path, text), TAINT) if each.lines]


@pytest.mark.parametrize(
    "body",
    [
        "sink(source())",
        "x = source(); sink(x)",
        "x = source(); y = 'a' + x; sink(y)",
        "x = source(); sink(f'a {x} b')",
        "x = source(); sink('a %s' % x)",
        "x = source(); sink('a {}'.format(x))",
        "x = source(); sink(x.strip().lower())",
        "x = source(); sink(x['key'].name)",
        "x = 'a'; x += source(); sink(x)",
        "x = []; x.append(source()); sink(' '.join(x))",
        "x = {}; x['a'] = source(); sink(x)",
        "a, b = source(); sink(b)",
        "sink([part for part in source()])",
        "sink(''.join(part.strip() for part in source()))",
        "sink(other if c else source())",
        "sink(other or source())",
        "if (x := source()):\n        sink(x)",
        "for x in source():\n        sink(x)",
        "with source() as x:\n        sink(x)",
        "x = source()\n    if c:\n        x = 'a'\n    sink(x)",
        "self.x = source(); sink(self.x)",
        "x = source()\n    def inner():\n        sink(x)",
        "sink(given)",
        "await other(); sink(await source())",
    ],
)
def test_it_passes(body: str) -> None:
    assert lines("a.py", f"async def f(self, given):\n    {body}\n") != []


@pytest.mark.parametrize(
    "body",
    [
        "sink('a')",
        "x = source(); sink(other)",
        "x = source(); x = 'a'; sink(x)",
        "x = source(); sink(clean(x))",
        "x = clean(source()); sink(x)",
        "x = source(); sink(lookup(x))",
        "x = source(); sink(TABLE[x])",
        "x = source(); sink(len(x))",
        "x = source(); sink(x == 'a')",
        "x = source(); sink('a', x)",
        "x = source(); sink('a' if x else 'b')",
        "x = source(); sink(', '.join('?' for _ in x))",
        "x = source()\n    if x not in ALLOWED:\n        raise ValueError\n    sink(x)",
        "x = source()\n    y = x.name\n    if y not in ALLOWED:\n        return\n    sink(x)",
        "x = source(); clean(x); sink(x)",
        "x = source()\n    if x: x = clean(x)\n    sink(x)",
        "sink(x); x = source()",
        "def inner(x):\n        sink(x)\n    x = source()",
    ],
)
def test_it_goes_no_further(body: str) -> None:
    assert lines("a.py", f"def f(self, given):\n    {body}\n") == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.js", "const { a } = req.query; sink(`x ${a}`);"),
        ("a.js", "const f = (req) => { let s = 'a'; s += req.query.b; sink(s); };"),
        ("a.js", "function f(req) { sink(req.query.list.map((a) => a.trim()).join(' ')); }"),
        ("a.js", "function f(req) { req.query.list.forEach((a) => { sink(a); }); }"),
        (
            "a.ts",
            "class A { f(): void { const a: string = String(source()); sink(a as string); } }",
        ),
        ("a.go", 'package a\n\nfunc f() {\n\ta := source()\n\tsink(fmt.Sprintf("x %s", a))\n}\n'),
        ("a.go", "package a\n\nfunc f() {\n\tfmt.Fprintf(&b, source())\n\tsink(b.String())\n}\n"),
        ("A.java", 'class A { void f() { String a = source(); sink("x" + a); } }'),
        ("a.rs", 'fn f() { let a = source(); sink(format!("x {}", a)); }'),
        ("a.c", 'int f(void) { char b[9]; char *a = source(1); sprintf(b, "%s", a); sink(b); }'),
    ],
)
def test_it_passes_in_every_language(path: str, text: str) -> None:
    assert len(lines(path, text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (
            "a.js",
            "function f(req) { sink(req.query.list.map((a, index) => `$${index}`).join(', ')); }",
        ),
        ("a.js", "function f(req) { sink(ALLOWED.has(req.query.a) ? req.query.a : 'b'); }"),
        ("a.js", "function f(req) { sink(req.query.a.length); sink(TABLE[req.query.a]); }"),
        ("a.go", 'package a\n\nfunc f() {\n\ta := source()\n\tsink("x", lookup(a))\n}\n'),
        ("A.java", "class A { void f() { int a = Integer.parseInt(source()); sink(a); } }"),
    ],
)
def test_it_goes_no_further_in_any_language(path: str, text: str) -> None:
    assert lines(path, text) == []


def test_a_file_is_a_scope_of_its_own() -> None:
    text = "x = source()\nsink(x)\n\n\ndef f(x):\n    sink(x)\n"
    assert lines("a.py", text) == [2]


def test_what_nests_deep_ends() -> None:
    chain = " + ".join(["'a'"] * 2000)
    assert lines("a.py", f"def f():\n    x = source()\n    sink({chain} + x)\n") == [3]
    assert lines("a.py", "def f():\n    sink(" + "(" * 200 + "source()" + ")" * 200 + ")\n") == []
