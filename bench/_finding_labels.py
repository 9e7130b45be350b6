"""How many of the labelled faults are found, and how often there is an alarm where none is."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench._finding_tools import Bandit, Eslint, Reported, Semgrep, Tool
from bench._report import Report, wilson
from bench.edit_sets.seal import open_sealed
from bench.finding_sets import LANGUAGES, Language, Pair, read
from vivace.findings.bundled import bundled
from vivace.findings.scan import scan
from vivace.syntax.source import Source

__all__ = [
    "SETS",
    "Judged",
    "held_out_pairs",
    "judged",
    "measure_labels",
    "same_class",
    "share",
]

SETS = Path(__file__).parent / "finding_sets"
RECALL, IN_EACH, ALARMS = 0.8, 0.6, 0.1
"""The goals: faults found, in every language too, and mended files with an alarm."""
_SAME = (
    {77, 78},
    {22, 23, 73},
    {94, 95},
    {119, 120, 121, 122, 242, 676, 787},
    {131, 190, 680},
    {259, 321, 798},
    {326, 327, 328, 916},
    {330, 335, 337, 338},
    {295, 297, 599},
)
"""Numbers that CWE has for one class."""


@dataclass(frozen=True)
class Judged:
    """What became of a pair."""

    pair: Pair
    found: bool
    """On the line, and of its class where the program tells one."""
    alarm: bool
    """Something was said of the text that is mended."""
    elsewhere: bool = False
    """It was not found; but something was, on another line or of another class."""


@dataclass(frozen=True)
class Ours:
    name: str = "vivace"
    languages: tuple[Language, ...] = LANGUAGES

    def lacks(self) -> str | None:
        return None

    def version(self) -> str:
        return ""

    def found(self, folder: Path) -> Iterator[Reported]:
        rules = bundled()
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = str(path.relative_to(folder))
            for each in scan(Source.of(name, path.read_text("utf-8")), rules):
                first, after = each.lines or (0, 1)
                cwes = frozenset(int(one.removeprefix("CWE-")) for one in each.evidence)
                yield Reported(name, first + 1, after, cwes)


def same_class(ours: int, theirs: int) -> bool:
    return ours == theirs or any({ours, theirs} <= group for group in _SAME)


def judged(tool: Tool, pairs: Sequence[Pair]) -> list[Judged]:
    """Every pair in a language the program knows. It runs once, as some take minutes to read their
    rules."""
    own = [pair for pair in pairs if pair.language in tool.languages]
    said: dict[str, list[Reported]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name:
        for text in ("vulnerable", "fixed"):
            folder = Path(name, text)
            folder.mkdir()
            for pair in own:
                (folder / pair.path).write_text(getattr(pair, text), "utf-8")
        for each in tool.found(Path(name)):
            said[each.path].append(each)
    return [
        _judged(pair, said[f"vulnerable/{pair.path}"], said[f"fixed/{pair.path}"]) for pair in own
    ]


def _judged(pair: Pair, vulnerable: Sequence[Reported], fixed: Sequence[Reported]) -> Judged:
    found = any(_is_right(pair, each) for each in vulnerable)
    return Judged(pair, found, bool(fixed), elsewhere=bool(vulnerable) and not found)


def _is_right(pair: Pair, each: Reported) -> bool:
    there = any(each.first <= line <= each.last for line in pair.lines)
    return there and (not each.cwes or any(same_class(pair.cwe, cwe) for cwe in each.cwes))


def measure_labels(
    report: Report, name: str, *, held_out: bool, eslint: str, semgrep_rules: str, show: bool
) -> None:
    pairs = held_out_pairs() if held_out else read(SETS / name)
    name = "held out" if held_out else name
    report.say(f"labels: pairs, {name}", len(pairs))
    ours = judged(Ours(), pairs)
    _tell(report, "vivace", ours)
    _goals(report, ours)
    if show:
        _show(ours)
    for tool in (Bandit(), Eslint(eslint), Semgrep(semgrep_rules)):
        if (lacks := tool.lacks()) is not None:
            report.say(f"labels: {tool.name}", f"not measured: {lacks}")
            continue
        title = f"{tool.name} {tool.version()}"
        _tell(report, title, judged(tool, pairs))
        _tell(report, "vivace, the same pairs", [each for each in ours if _knows(tool, each)])


def _knows(tool: Tool, each: Judged) -> bool:
    return each.pair.language in tool.languages


def held_out_pairs() -> list[Pair]:
    """Opened for this run alone, and not kept."""
    digest = (SETS / "held_out.sha256").read_text().split()[0]
    with tempfile.TemporaryDirectory() as name:
        open_sealed(SETS / "held_out.sealed", digest, Path(name))
        return read(Path(name))


def _tell(report: Report, title: str, found: Sequence[Judged]) -> None:
    for language in (*dict.fromkeys(each.pair.language for each in found), None):
        own = [each for each in found if language in (None, each.pair.language)]
        where = f"labels: {title}, {language or 'all'}"
        report.say(where, f"found {share(each.found for each in own)}")
        alarms = share(each.alarm for each in own)
        report.say(f"{where}: alarms in mended files", alarms)


def share(these: Iterable[bool]) -> str:
    all_of = list(these)
    low, high = wilson(sum(all_of), len(all_of))
    percent = 100 * sum(all_of) / max(1, len(all_of))
    interval = f"95% interval {100 * low:.0f} to {100 * high:.0f}%"
    return f"{sum(all_of)} of {len(all_of)} ({percent:.0f}%; {interval})"


def _goals(report: Report, found: Sequence[Judged]) -> None:
    recall = sum(each.found for each in found) / len(found)
    alarms = sum(each.alarm for each in found) / len(found)
    report.goal(f"recall at least {RECALL:.0%}", met=recall >= RECALL, measured=f"{recall:.0%}")
    report.goal(
        f"false alarms at most {ALARMS:.0%}", met=alarms <= ALARMS, measured=f"{alarms:.0%}"
    )
    for language in dict.fromkeys(each.pair.language for each in found):
        own = [each.found for each in found if each.pair.language == language]
        part = sum(own) / len(own)
        report.goal(
            f"recall in {language} at least {IN_EACH:.0%}",
            met=part >= IN_EACH,
            measured=f"{part:.0%}",
        )


def _show(found: Sequence[Judged]) -> None:
    for each in found:
        if not each.found:
            how = "found elsewhere or as another class" if each.elsewhere else "missed"
            print(f"    {each.pair.id} (CWE-{each.pair.cwe}): {how}")
        if each.alarm:
            print(f"    {each.pair.id} (CWE-{each.pair.cwe}): alarm in the mended file")
