"""Rules' own rewrites put into files: each checked on the text as it then is.

Fixes of one file are made from its end to its beginning, so that one does not move what another is
about; what a fix mended besides its own finding is not mended twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from vivace.desk.applying import Accepted
from vivace.desk.targets import Target
from vivace.edits.diff import between
from vivace.findings.fixes import why_not
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.finding import Finding
from vivace.syntax.source import Source
from vivace.workspace.document import read
from vivace.workspace.paths import SafePath

__all__ = ["Mended", "mend"]


class Mended(Struct, frozen=True):
    """What the fixes make of one file."""

    edit: Accepted
    fixed: int
    """How many findings they mend."""


def mend(path: SafePath, wanted: Sequence[Finding], rules: RuleSet) -> Mended:
    """The file without those of the findings that have a fix which holds; nothing is written.
    Raises WorkspaceError where it cannot be read as text that can be written again."""
    target = Target(read(path))
    source = before = Source.of(str(path), target.text)
    fixed = 0
    for finding in sorted(wanted, key=_place, reverse=True):
        for now in _still_there(finding, source, rules):
            if now.fix and why_not(source, now.fix, now, rules) is None:
                source = source.edited(now.fix)
                fixed += 1
    return Mended(Accepted(target, tuple(between(before.text, source.text))), fixed)


def _place(finding: Finding) -> tuple[tuple[int, int], tuple[int, int]]:
    return finding.lines or (0, 0), finding.columns or (0, 0)


def _still_there(finding: Finding, source: Source, rules: RuleSet) -> Iterator[Finding]:
    """The finding as the text has it now, if it does."""
    place = (finding.code, finding.lines, finding.columns)
    for now in scan(source, rules):
        if (now.code, now.lines, now.columns) == place:
            yield now
            return
