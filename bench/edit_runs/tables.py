"""What a run comes to: counts and shares by arm, language, kind and cause, and the goals."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from bench._report import Report, wilson
from bench.edit_runs.results import OUTCOMES, Result

__all__ = ["counts", "goals", "tell"]

RIGHT = {"0.5": 0.20, "1.5": 0.55}
"""What share of the tasks a model of so many billion parameters is to get right."""
WRONG = {"1.5": 0.20}
DAMAGED, REGION, OF_ORACLE, SIZE = 0.02, 0.85, 0.9, 1.1


def counts(results: Sequence[Result]) -> dict[str, int]:
    return {outcome: sum(each.outcome == outcome for each in results) for outcome in OUTCOMES}


def tell(report: Report, results: Sequence[Result]) -> None:
    arms = list(dict.fromkeys(each.arm for each in results))
    _by_arm(report, results, arms)
    _by(report, "language", results, arms, lambda each: [each.language])
    _by(report, "kind", results, arms, lambda each: each.kinds)
    _causes(report, results, arms)
    for arm in arms:
        _summed_up(report, arm, _of(results, arm))
    for arm in (arm for arm in arms if arm != "vivace" and "vivace" in arms):
        _compared(report, arm, *_both(results, arm))


def _of(results: Iterable[Result], arm: str) -> list[Result]:
    return [each for each in results if each.arm == arm]


def _both(results: Sequence[Result], arm: str) -> tuple[list[Result], list[Result]]:
    """This arm's results and Vivace's, on the tasks that both have."""
    theirs, ours = _of(results, arm), _of(results, "vivace")
    shared = {each.task for each in theirs} & {each.task for each in ours}
    return [e for e in theirs if e.task in shared], [e for e in ours if e.task in shared]


def _by_arm(report: Report, results: Sequence[Result], arms: Sequence[str]) -> None:
    print(f"  {'way':<16}{'tasks':>6}" + "".join(f"{outcome:>20}" for outcome in OUTCOMES))
    rows = {}
    for arm in arms:
        here = _of(results, arm)
        found = counts(here)
        intervals = {outcome: wilson(count, len(here)) for outcome, count in found.items()}
        rows[arm] = {"tasks": len(here), **found, "intervals": intervals}
        cells = "".join(
            f"{f'{count} {_percent(count, len(here))}':>20}" for count in found.values()
        )
        print(f"  {arm:<16}{len(here):>6}{cells}", flush=True)
    report.figures["outcomes"] = rows


def _percent(count: int, of: int) -> str:
    """With the interval of 95%."""
    low, high = wilson(count, of)
    return f"{count / of:.0%} ({100 * low:.0f}-{100 * high:.0f})" if of else ""


def _by(
    report: Report,
    name: str,
    results: Sequence[Result],
    arms: Sequence[str],
    of: Callable[[Result], Iterable[str]],
) -> None:
    """right/wrong/damaged/stopped of each way, and what share is right."""
    print(f"  {'by ' + name:<16}" + "".join(f"{arm:>30}" for arm in arms))
    rows: dict[str, dict[str, dict[str, int]]] = {}
    for row in sorted({each for result in results for each in of(result)}):
        cells = ""
        for arm in arms:
            here = [result for result in _of(results, arm) if row in of(result)]
            found = rows.setdefault(row, {})[arm] = counts(here)
            shown = f"{'/'.join(map(str, found.values()))}  {_percent(found['right'], len(here))}"
            cells += f"{shown:>30}"
        print(f"  {row:<16}{cells}")
    report.figures[f"by {name}"] = rows


def _causes(report: Report, results: Sequence[Result], arms: Sequence[str]) -> None:
    """Why what is not right is not; a check by its codes."""
    for arm in arms:
        causes = Counter(_cause(each) for each in _of(results, arm) if each.cause is not None)
        report.figures.setdefault("causes", {})[arm] = causes
        told = ", ".join(f"{cause} {count}" for cause, count in causes.most_common())
        print(f"  {arm + ': not right because of':<44} {told or 'nothing'}")


def _cause(result: Result) -> str:
    codes = f" ({'+'.join(result.codes)})" if result.cause == "check" else ""
    return f"{result.cause}{codes}, {result.outcome}"


def _summed_up(report: Report, arm: str, results: Sequence[Result]) -> None:
    report.spread(f"{arm}: from Enter to the end", [each.seconds for each in results], "s")
    if applied := [each.seconds for each in results if each.changed]:
        report.spread(f"{arm}: from Enter to the applied edit", applied, "s")
    if arm != "try":  # of whose attempts only the one that wins tells
        report.say(f"{arm}: tokens written", sum(each.tokens for each in results))
    report.say(f"{arm}: requests to the model", sum(each.requests for each in results))
    if regions := [each.region_right for each in results if each.region_right is not None]:
        report.say(f"{arm}: right regions", _share(sum(regions), len(regions)))
    if sizes := _sizes(results):
        report.say(f"{arm}: changed lines to the reference's", statistics.median(sizes))


def _sizes(results: Iterable[Result]) -> list[float]:
    """How much larger the right edits are than the references."""
    right = (each for each in results if each.outcome == "right" and each.reference)
    return [each.changed / each.reference for each in right]


def _compared(report: Report, arm: str, theirs: Sequence[Result], ours: Sequence[Result]) -> None:
    """Task by task: a count alone hides where the other is better."""
    right = {each.task for each in theirs if each.outcome == "right"}
    mine = {each.task for each in ours if each.outcome == "right"}
    report.say(
        f"right with vivace and with {arm}",
        f"{len(mine)} and {len(right)} of {len(ours)}; with vivace alone {len(mine - right)}, "
        f"with the other alone {len(right - mine)}",
    )


# -- the goals ------------------------------------------------------------------------------------


def goals(report: Report, results: Sequence[Result], model: str, *, whole: bool) -> None:
    """A whole set must reach them; of a part of one, the interval must leave it possible."""
    ours, size = _of(results, "vivace"), _billions(model)
    if not ours:
        report.goal("there is something to count", met=False, measured="no task was tried")
        return
    found = counts(ours)
    shares = [("right", RIGHT.get(size), True), ("wrong", WRONG.get(size), False)]
    for outcome, goal, least in [*shares, ("damaged", DAMAGED, False)]:
        if goal is not None:
            _goal(report, outcome, found[outcome], len(ours), goal, least=least, whole=whole)
    regions = [each.region_right for each in ours if each.region_right is not None]
    _goal(report, "right regions", sum(regions), len(regions), REGION, least=True, whole=whole)
    theirs, same = _both(results, "oracle")
    if told := counts(theirs)["right"]:
        mine = counts(same)["right"]
        what = f"vivace as often right as told the place: at least {OF_ORACLE}"
        report.goal(what, met=mine >= OF_ORACLE * told, measured=f"{mine} against {told}")
    if sizes := _sizes(ours):
        median = statistics.median(sizes)
        what = f"changed lines at most {SIZE} of the reference's (median of the right ones)"
        report.goal(what, met=median <= SIZE, measured=f"{median:.2f}")


def _billions(model: str) -> str:
    found = re.search(r"(\d+(?:\.\d+)?)b\b", model.lower())
    return found[1] if found else ""


def _goal(
    report: Report, what: str, count: int, of: int, goal: float, *, least: bool, whole: bool
) -> None:
    low, high = (count / max(1, of),) * 2 if whole else wilson(count, of)
    report.goal(
        f"{what}: at {'least' if least else 'most'} {goal:.0%}",
        met=high >= goal if least else low <= goal,
        measured=_share(count, of),
    )


def _share(count: int, of: int) -> str:
    low, high = wilson(count, of)
    return f"{count} of {of} = {count / max(1, of):.0%} (95% interval {low:.0%} to {high:.0%})"
