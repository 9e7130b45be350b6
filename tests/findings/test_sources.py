"""A file without a source of a rule is passed over; one with a source anywhere is not."""

from __future__ import annotations

import pytest

from vivace.findings.bundled import bundled
from vivace.findings.changed import Scanner
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.source import Source

_SINK = "def shown(name):\n    return open(name).read()\n"
_ROUTE = "\n\n@app.get('/<path:name>')\ndef get(name):\n    return shown(name)\n"


def _rules() -> RuleSet:
    all_rules = bundled().for_language("python")
    return RuleSet.of(each for each in all_rules if each.id == "python-path-traversal")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (_SINK, []),
        (_SINK + "\n\nshown('a')\n", []),
        (_SINK + _ROUTE, [1]),
        (_SINK + _ROUTE.replace("@app.get", "@app.listen"), []),
        ("def show(request):\n    return open(request.args['name']).read()\n", [1]),
    ],
)
def test_scan_finds_what_a_source_of_the_file_reaches(text: str, lines: list[int]) -> None:
    source = Source.of("a.py", text)
    found = scan(source, _rules())
    assert [each.lines[0] for each in found if each.lines] == lines
    assert Scanner(_rules()).open(source) == found
