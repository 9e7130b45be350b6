"""Rules of every form, for tests that compare: what they find is no matter."""

from __future__ import annotations

from vivace.findings.rule import Rule, read_rules
from vivace.findings.rule_set import RuleSet

__all__ = ["RULES", "rules_of", "set_of"]

RULES = """
id: eval
language: python
severity: error
message: eval of $X
note: It runs any code. Use ast.literal_eval.
rule: {pattern: eval($X)}
fix: ast.literal_eval($X)
metadata: {cwe: 95, certain: true}
valid: ["literal_eval(x)", "x.eval(y)"]
invalid: ["eval(x)", "y = [eval(x)]"]
---
id: shell
language: python
severity: warning
message: a shell for $F
rule:
  pattern: subprocess.$F($$$ARGS)
  has: {pattern: "shell=True", stopBy: end}
constraints: {F: {regex: "^(run|call|Popen)$"}}
---
id: unclosed
language: python
severity: warning
message: an open file
rule:
  pattern: open($$$ARGS)
  not: {inside: {kind: with_item, stopBy: end}}
metadata: {kind: bug}
---
id: after-return
language: python
message: never run
rule:
  kind: expression_statement
  follows: {kind: return_statement, stopBy: end}
metadata: {kind: bug}
---
id: mutable-default
language: python
message: a default that is shared
rule:
  kind: default_parameter
  has: {field: value, any: [{kind: list}, {kind: dictionary}]}
metadata: {kind: bug}
---
id: large-class
language: python
message: a class with eval in it
rule:
  kind: class_definition
  has: {pattern: eval($X), stopBy: end}
---
id: same-twice
language: python
message: compared with itself
rule: {pattern: $A == $A}
---
id: helper
language: python
message: through a name
rule: {matches: call-of-run}
utils:
  call-of-run: {any: [{pattern: run($$$)}, {pattern: start($$$)}]}
"""


def rules_of(text: str) -> tuple[Rule, ...]:
    return read_rules(text, "rules.yml")


def set_of(text: str = RULES) -> RuleSet:
    return RuleSet.of(rules_of(text))
