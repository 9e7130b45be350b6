"""A finding that a model is to fix, and what its edit must pass before a person sees it applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vivace.desk.targets import Target
from vivace.findings.fixes import why_not
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk
from vivace.syntax.source import Source

__all__ = ["Fixing", "finding_at"]


@dataclass(frozen=True)
class Fixing:
    finding: Finding
    rules: RuleSet

    def objection(self, before: Source, hunks: Sequence[Hunk]) -> tuple[Finding, ...]:
        """What speaks against an edit as its fix, if anything does."""
        why = why_not(before, hunks, self.finding, self.rules)
        if why is None:
            return ()
        person = f"What the model made does not fix {self.finding.code}. {why}"
        return (Finding("fix", person, f"That does not do. {why} {self.finding.model}"),)


def finding_at(target: Target, code: str, rules: RuleSet) -> Finding | None:
    """What a rule finds in the lines that are selected, or in all of them."""
    found = scan(Source.of(str(target.path), target.text), rules)
    own = [each for each in found if each.code == code and each.lines is not None]
    if target.selection is None:
        return next(iter(own), None)
    first, after = target.selection
    return next((each for each in own if _stands_in(each, first, after)), None)


def _stands_in(finding: Finding, first: int, after: int) -> bool:
    return finding.lines is not None and first <= finding.lines[0] < after
