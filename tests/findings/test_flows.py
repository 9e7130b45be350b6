"""Every row of the table speaks of node types and fields that the grammars have."""

from __future__ import annotations

import pytest

from vivace.findings.flows import FLOWS
from vivace.syntax.languages import LANGUAGES, Language, field_id, kind_id

_OF_ANOTHER = {
    "c": {
        "lambda_expression",
        "for_range_loop",
        "reference_declarator",
        "try_statement",
        "catch_clause",
    }
    | {"structured_binding_declarator"},
}
"""C and C++ share a row."""


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.name)
def test_the_grammar_has_what_its_row_names(language: Language) -> None:
    flow = FLOWS[language.name]
    sets = (
        *(flow.functions, flow.names, flow.patterns, flow.keys, flow.loops, flow.aliases),
        *(flow.choices, flow.comprehensions, flow.clauses, flow.values, flow.statements),
        *(flow.blocks, flow.branches, flow.harmless, flow.addresses),
        *(flow.bindings, flow.members, flow.items, flow.calls, flow.conditions),
    )
    kinds = {kind for each in sets for kind in each}
    unknown = {kind for kind in kinds if kind_id(language, kind) is None}
    assert unknown <= _OF_ANOTHER.get(language.name, set())
    fields = {
        field
        for row in (flow.bindings, flow.members, flow.calls)
        for names in row.values()
        for field in names
    }
    fields |= set(flow.items.values()) | set(flow.conditions.values())
    assert {field for field in fields - {""} if field_id(language, field) is None} == set()
