"""Rules with a source, a sink and a sanitizer in each language, for tests."""

from __future__ import annotations

from vivace.findings.rule import read_rules
from vivace.findings.rule_set import RuleSet

__all__ = ["TAINT"]

TAINT = RuleSet.of(
    read_rules(
        """
id: python-sink
language: python
message: A source reaches the sink.
taint:
  sources: [{pattern: source()}, {kind: identifier, regex: ^given$, inside: {kind: parameters}}]
  sinks: [{pattern: sink($SINK)}, {pattern: "sink($SINK, $OTHER)"}]
  sanitizers: [{pattern: clean($X)}, {pattern: $X in ALLOWED}, {pattern: $X not in ALLOWED}]
---
id: script-sink
language: [javascript, typescript]
message: A source reaches the sink.
taint:
  sources: [{pattern: source()}, {pattern: req.query}]
  sinks: [{pattern: sink($SINK)}]
  sanitizers: [{pattern: clean($X)}, {pattern: ALLOWED.has($X)}]
---
id: go-sink
language: go
message: A source reaches the sink.
taint:
  sources: [{pattern: source()}]
  sinks: [{kind: call_expression, regex: ^sink, has: {field: arguments, has: {pattern: $SINK}}}]
---
id: java-sink
language: java
message: A source reaches the sink.
taint:
  sources: [{pattern: source()}]
  sinks: [{kind: method_invocation, regex: ^sink, has: {field: arguments, has: {pattern: $SINK}}}]
---
id: rust-sink
language: rust
message: A source reaches the sink.
taint:
  sources: [{pattern: source()}]
  sinks: [{pattern: sink($SINK)}]
---
id: c-sink
language: c
message: A source reaches the sink.
taint:
  sources: [{kind: call_expression, regex: ^source}]
  sinks: [{kind: call_expression, regex: ^sink, has: {field: arguments, has: {pattern: $SINK}}}]
""",
        "rules.yml",
    )
)
