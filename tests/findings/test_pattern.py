"""Patterns match what they match in ast-grep, which is the reference."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ast_grep_py import SgRoot

from vivace.errors import RuleError
from vivace.findings.matching import Whole
from vivace.findings.pattern import Steps
from vivace.findings.rule import read_rules
from vivace.syntax.languages import LANGUAGES, parse, walk

_LANGUAGES = {language.name: language for language in LANGUAGES}
_Place = tuple[int, int, str]

_PYTHON = """
import os, sys  # first
def f(a, b=[], *rest):
    x = eval(a)
    y = f(1, 2, 3,)
    z = foo(a, # why
            b)
    if a == a and b == c:
        return os.path.join(a, b, *rest)
    with open(a) as file, open(b): pass
    return x
@app.route("/x")
class A(Base, metaclass=M):
    def m(self): self.x = self.x + 1; print(f"{self.x} é")
for i in range(10): print(i)
"""
_SCRIPT = """
import a from 'b';
const f = async (x) => { await g(x, ...y); return `a${x}`; };
el.innerHTML = x + y; el.innerHTML += z
function h(a, b = 1) { if (a === a) { return b } else { throw new Error('x', {cause: a}) } }
class A extends B { m() { super.m(); } }
h(/* c */ 1, 2,);
"""
_C = """
#include <stdio.h>
int main(int argc, char **argv) {
  char buf[10]; int n = argc * 4;
  strcpy(buf, argv[1]); printf(buf); printf("%s", buf);
  char *p = malloc(n * sizeof(int));
  if (p == p) { return 0; }
  return 1;
}
"""
_GO = """
package main
import "fmt"
func f(a string, b int) (string, error) {
	x := fmt.Sprintf("a %s", a)
	if err := db.Query(x, b); err != nil { return "", err }
	go func() { g(a) }()
	return x, nil
}
"""
_RUST = """
fn f(a: &str) -> Result<String, E> {
    let x = format!("a {}", a);
    let y = Command::new("sh").arg("-c").arg(&x).spawn()?;
    unsafe { g(a, b) };
    match y { Some(z) => z, None => h(1) }
}
"""
_JAVA = """
class A {
  void f(String a) throws E {
    String q = "select " + a;
    Statement s = c.createStatement(); s.executeQuery(q);
    if (a == a) { new Random().nextInt(5); }
  }
}
"""
_CODE = {
    "python": _PYTHON,
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "c": _C,
    "cpp": _C,
    "go": _GO,
    "rust": _RUST,
    "java": _JAVA,
}
_END = {"stopBy": "end"}
_RULES: dict[str, list[dict[str, Any]]] = {
    "python": [
        {"pattern": "eval($X)"},
        {"pattern": "$F($$$ARGS)"},
        {"pattern": "f($A, $$$)"},
        {"pattern": "foo($A, $B)"},
        {"pattern": "$A == $A"},
        {"pattern": "$X = $Y"},
        {"pattern": "$_.path.$B($$$A, $C, $$$D)"},
        {"pattern": "def $F($$$): $$$BODY"},
        {"pattern": {"context": "f(a=$X)", "selector": "keyword_argument"}},
        {"kind": "identifier", "regex": "^(a|b)$", "inside": {"kind": "call", **_END}},
        {"kind": "call", "not": {"inside": {"kind": "with_item", **_END}}},
        {"kind": "call", "has": {"field": "function", "kind": "attribute"}},
        {"kind": "identifier", "inside": {"kind": "call", "field": "function"}},
        {"kind": "identifier", "follows": {"kind": "identifier", **_END}},
        {"kind": "identifier", "precedes": {"regex": "^,$"}},
        {"kind": "block", "has": {"kind": "call", "stopBy": {"kind": "if_statement"}}},
        {"kind": "call", "inside": {"kind": "block", "stopBy": {"kind": "if_statement"}}},
        {"any": [{"pattern": "open($A)"}, {"pattern": "print($A)"}]},
        {"all": [{"pattern": "$F($A)"}, {"not": {"pattern": "open($A)"}}]},
        {"regex": "é"},
        {"pattern": "$$A", "kind": "identifier"},
    ],
    "javascript": [
        {"pattern": "$A.innerHTML = $B"},
        {"pattern": "$F($$$)"},
        {"pattern": "$A === $A"},
        {"pattern": "h(1, 2)"},
        {"pattern": "new Error($$$A)"},
        {"pattern": {"context": "class A { m() { $$$B } }", "selector": "method_definition"}},
        {"pattern": "async ($P) => { $$$B }"},
    ],
    "c": [
        {"pattern": {"context": "strcpy($A, $B);", "selector": "call_expression"}},
        {"pattern": "strcpy($A, $B)"},
        {"pattern": {"context": "int f() { printf($X); }", "selector": "call_expression"}},
        {"pattern": "if ($A == $A) { $$$B }"},
    ],
    "go": [
        {"pattern": {"context": "func f() { fmt.Sprintf($$$A) }", "selector": "call_expression"}},
        {"pattern": "if $A := $B; $C { $$$D }"},
        {"pattern": "$A := $B"},
    ],
    "rust": [
        {"pattern": "format!($$$A)"},
        {"pattern": "$A.arg($B)"},
        {"pattern": "unsafe { $$$B }"},
        {"pattern": "g($A, $B)"},
    ],
    "java": [
        {"pattern": "$S.executeQuery($Q)"},
        {"pattern": "new Random()"},
        {"pattern": "$A == $A"},
        {"pattern": "String $N = $V;"},
    ],
}
_RULES |= {"typescript": _RULES["javascript"], "tsx": _RULES["javascript"], "cpp": _RULES["c"]}
_CASES = [(language, rule) for language, rules in _RULES.items() for rule in rules]


def _ours(language: str, rule: dict[str, Any], text: str) -> list[_Place]:
    file = {"id": "x", "language": language, "message": "m", "rule": rule}
    matcher = read_rules(yaml.safe_dump(file, allow_unicode=True), "x.yml")[0].matchers[language]
    assert isinstance(matcher, Whole)
    root = parse(text, _LANGUAGES[language]).root_node
    met = [each for each in walk(root) if matcher.match(each, {}, Steps(10**6, root)) is not None]
    return [(each.start_byte, each.end_byte, each.type) for each in met]


def _theirs(language: str, rule: dict[str, Any], text: str) -> list[_Place]:
    places = []
    for node in SgRoot(text, language).root().find_all({"rule": rule}):  # type: ignore[call-overload]
        start, end = node.range().start.index, node.range().end.index
        places.append((len(text[:start].encode()), len(text[:end].encode()), node.kind()))
    return places


@pytest.mark.parametrize(("language", "rule"), _CASES)
def test_as_ast_grep(language: str, rule: dict[str, Any]) -> None:
    text = _CODE[language]
    assert sorted(_ours(language, rule, text)) == sorted(_theirs(language, rule, text))


def test_the_cases_match_something() -> None:
    found = sum(bool(_ours(language, rule, _CODE[language])) for language, rule in _CASES)
    assert found > len(_CASES) * 0.8


@pytest.mark.parametrize("pattern", ["", "$$$A", "a; b", "a = "])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(RuleError, match=r"x\.yml, line 5"):
        _ours("javascript", {"pattern": pattern}, "")
