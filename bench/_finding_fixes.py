"""How many of the findings have a fix that may be shown: by their rules alone, and by a model.

Every finding of ours in labelled files with a fault is to be fixed, each in a folder of its own, as
the quick fix of an editor does it. What is shown is checked here once more, by its text alone.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench._finding_labels import SETS, held_out_pairs, share
from bench._report import Report
from bench.edit_quality import endpoint_of, say_where
from bench.finding_sets import Pair, read
from vivace.desk.edit import Settings
from vivace.desk.fixing import Fixing
from vivace.desk.opening import Models, open_desk
from vivace.desk.person import Unattended
from vivace.desk.targets import open_target
from vivace.desk.too_long import TooLong
from vivace.edits.diff import between
from vivace.findings.bundled import bundled
from vivace.findings.fixes import why_not
from vivace.findings.rule_set import RuleSet
from vivace.findings.scan import scan
from vivace.syntax.finding import Finding
from vivace.syntax.source import Source
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.paths import Workspace

__all__ = ["Fixed", "fixed_in", "measure_fixes"]


@dataclass(frozen=True)
class _Case:
    pair: Pair
    source: Source
    finding: Finding


@dataclass(frozen=True)
class Fixed:
    case: _Case
    by_rule: bool
    by_model: bool = False
    bad: str | None = None
    """What is wrong with a fix that was shown."""
    seconds: float = 0.0
    """That the model took."""

    @property
    def code(self) -> str:
        return self.case.finding.code


def fixed_in(pairs: Sequence[Pair], url: str = "", model: str = "", most: int = 0) -> list[Fixed]:
    """What becomes of each finding, or of so many of them, evenly spread."""
    rules = bundled()
    cases = list(_cases(pairs, rules))
    if most:
        cases = cases[:: max(1, len(cases) // most)][:most]
    found = []
    for number, case in enumerate(cases):
        if model:
            print(f"\r  {number + 1} of {len(cases)} findings", end="", file=sys.stderr, flush=True)
        found.append(_fixed(case, rules, url, model))
    if model:
        print(file=sys.stderr)
    return found


def measure_fixes(report: Report, options: Any) -> None:
    """Without a model, unless the options name one."""
    pairs = held_out_pairs() if options.open_held_out else read(SETS / "tuning")
    if options.model:
        say_where(report, options)
    with endpoint_of(options) if options.model else nullcontext() as endpoint:
        url = f"{endpoint.url}/v1" if endpoint is not None else ""
        fixed = fixed_in(pairs, url, options.model, options.findings)
    _tell(report, fixed, options.model)


def _cases(pairs: Sequence[Pair], rules: RuleSet) -> Iterator[_Case]:
    for pair in pairs:
        source = Source.of(pair.path, pair.vulnerable)
        for finding in scan(source, rules):
            yield _Case(pair, source, finding)


def _fixed(case: _Case, rules: RuleSet, url: str, model: str) -> Fixed:
    source, finding = case.source, case.finding
    if finding.fix and why_not(source, finding.fix, finding, rules) is None:
        text = source.edited(finding.fix).text
        return Fixed(case, by_rule=True, bad=_wrong(case, text, rules))
    if not model:
        return Fixed(case, by_rule=False)
    with tempfile.TemporaryDirectory(prefix="fixes-") as folder:
        root = Path(folder).resolve() / "work"
        root.mkdir()
        (root / case.pair.path).write_text(source.text, "utf-8")
        began = time.perf_counter()
        try:
            applied = asyncio.run(_by_model(case, root, rules, url, model))
        except (TooLong, WorkspaceError):
            applied = False
        seconds = time.perf_counter() - began
        text = (root / case.pair.path).read_text("utf-8")
    bad = _wrong(case, text, rules) if applied else None
    return Fixed(case, by_rule=False, by_model=applied, bad=bad, seconds=seconds)


async def _by_model(case: _Case, root: Path, rules: RuleSet, url: str, model: str) -> bool:
    workspace, finding = Workspace(root), case.finding
    first, after = finding.lines or (0, 1)
    target = open_target(workspace, f"{root / case.pair.path}:{first + 1}-{max(first + 1, after)}")
    settings, state = Settings(url=url), root.parent / "state"
    async with open_desk(workspace, Unattended(), settings, Models(model), state) as desk:
        desk.asker.fixing = Fixing(finding, rules)
        return (await desk.run([target], finding.model)).applied


def _wrong(case: _Case, text: str, rules: RuleSet) -> str | None:
    return why_not(case.source, between(case.source.text, text), case.finding, rules)


def _tell(report: Report, fixed: Sequence[Fixed], model: str) -> None:
    ways: list[tuple[str, Callable[[Fixed], bool]]] = [("by its rule", lambda each: each.by_rule)]
    if model:
        ways.append((f"by its rule or {model}", lambda each: each.by_rule or each.by_model))
    by_code: dict[str, list[Fixed]] = defaultdict(list)
    for each in fixed:
        by_code[each.code].append(each)
    for way, is_fixed in ways:
        report.say(f"fixes: findings with one {way}", share(map(is_fixed, fixed)))
        for code, own in sorted(by_code.items()):
            if some := sum(map(is_fixed, own)):
                report.say(f"fixes: {code}, {way}", f"{some} of {len(own)}")
    asked = [each for each in fixed if each.seconds]
    if asked:
        report.say("fixes: of those the model was asked for", share(e.by_model for e in asked))
        report.spread("fixes: from asking the model to the end", [e.seconds for e in asked], "s")
    bad = [f"{each.case.pair.id}: {each.bad}" for each in fixed if each.bad]
    for line in bad:
        print(f"    {line}")
    report.goal("every fix that is shown passes its checks", met=not bad, measured=f"{len(bad)} no")
