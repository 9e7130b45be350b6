"""Includes that came with an answer stay if they are used, and those it forgot are found."""

from __future__ import annotations

from vivace.edits.importing.headers import forgotten, used


def test_a_standard_header_that_nothing_uses_is_left_out() -> None:
    lines = [
        "#include <iostream>\n",
        "#include <numeric>\n",
        '#include "own.h"\n',
        "#include <x>\n",
    ]
    text = "double f() { return std::accumulate(a, b, 0.0); }\n"
    assert used(lines, text) == lines[1:]


def test_what_is_used_for_the_first_time_brings_its_header() -> None:
    before = "std::vector<int> a;\n"
    after = before + "int b = std::accumulate(a.begin(), a.end(), 0) + std::something();\n"
    assert forgotten(before, after) == ["#include <numeric>\n"]
    assert forgotten(after, after) == []
