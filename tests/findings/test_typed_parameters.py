"""A type that leaves no choice of text makes a parameter harmless; one that leaves it does not."""

from __future__ import annotations

import pytest

from vivace.findings.bundled import bundled
from vivace.findings.scan import scan
from vivace.syntax.source import Source


def found(parameters: str, value: str) -> bool:
    text = (
        f"export async function rows({parameters}) {{\n"
        f"  return pool.query(`SELECT * FROM shops ORDER BY ${{{value}}}`);\n"
        "}\n"
    )
    findings = scan(Source.of("shops.ts", text), bundled())
    return [each.code for each in findings] == ["javascript-sql-injection"]


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        ("row: number", "row"),
        ("order: 'asc' | 'desc'", "order"),
        ("order?: 'asc' | 'desc' | null", "order"),
        ("order: 'asc' | 'desc' = 'asc'", "order"),
        ("\n  order:\n    | 'asc'\n    | 'desc',\n", "order"),
        ("by: keyof typeof COLUMNS", "by"),
        ("by: keyof typeof COLUMNS", "COLUMNS[by]"),
        ("text: string, by = COLUMN", "COLUMN"),
        ("{ row }: { row: number }", "row"),
        ("{ by, order }: { by: string; order: 'asc' | 'desc' }", "order"),
    ],
)
def test_a_type_leaves_no_choice(parameters: str, value: str) -> None:
    assert not found(parameters, value)


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        ("by: string", "by"),
        ("by: 'name' | string", "by"),
        ("row: number | string", "row"),
        ("{ by, order }: { by: string; order: 'asc' | 'desc' }", "by"),
        ("{ by }: Page", "by"),
        ("@Query('order') order: 'asc' | 'desc'", "order"),
    ],
)
def test_a_type_leaves_the_choice(parameters: str, value: str) -> None:
    assert found(parameters, value)
