"""What every benchmark says of itself: the machine, the versions, the samples, and the verdict."""

from __future__ import annotations

import argparse
import json
import math
import platform
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from bench._hiccups import Hiccups, Span
from vivace import __version__
from vivace.cpus import usable_cpus

T = TypeVar("T")
ENOUGH = 50
"""Samples by which a limit can be judged."""


def _version(package: str) -> tuple[str, str]:
    """A llama-server on the PATH is taken before the wheel's."""
    if package == "xllamacpp" and (found := shutil.which("llama-server")) is not None:
        told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        lines = (told.stdout + told.stderr).splitlines()
        named = [line.removeprefix("version: ") for line in lines if line.startswith("version: ")]
        return "llama-server", named[0] if named else "of unknown version"
    # An environment of its own, such as vLLM's, reaches our code by its path.
    return package, __version__ if package == "vivace" else version(package)


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of all samples does not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def ratio_of(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """The ratio of the medians, with a bootstrap interval of 95% over the pairs."""
    return _compared(ours, theirs, lambda mine, its: mine / max(1e-9, its))


def difference_of(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """How much larger the median of ours is, likewise."""
    return _compared(ours, theirs, lambda mine, its: mine - its)


def _compared(
    ours: Sequence[float], theirs: Sequence[float], compare: Callable[[float, float], float]
) -> tuple[float, float, float]:
    dice = random.Random(1)
    pairs = list(zip(ours, theirs, strict=True))
    found = []
    for _ in range(2000):
        mine, its = zip(*dice.choices(pairs, k=len(pairs)), strict=True)
        found.append(compare(statistics.median(mine), statistics.median(its)))
    found.sort()
    return compare(statistics.median(ours), statistics.median(theirs)), found[50], found[-51]


def ratio_of_neighbours(
    ours: Sequence[float], theirs: Sequence[float]
) -> tuple[float, float, float]:
    """The median of the pairs' own ratios, likewise: the better one where a pair was measured side
    by side on a machine whose speed changes, which then is the same for both."""
    dice = random.Random(1)
    pairs = [our / max(1e-9, their) for our, their in zip(ours, theirs, strict=True)]
    drawn = sorted(statistics.median(dice.choices(pairs, k=len(pairs))) for _ in range(2000))
    return statistics.median(pairs), drawn[50], drawn[-51]


def wilson(count: int, of: int) -> tuple[float, float]:
    """The interval of 95% for a share that was counted."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, count / of
    middle = share + z * z / (2 * of)
    reach = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    whole = 1 + z * z / of
    return max(0.0, (middle - reach) / whole), min(1.0, (middle + reach) / whole)


def machine() -> str:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{usable_cpus()} x {model}, {platform.system()} {platform.release()}"


@dataclass
class Report:
    """Collects figures, prints them as they come, and ends with the goals that were missed."""

    name: str
    check: bool
    path: Path | None
    figures: dict[str, Any] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    @classmethod
    def from_arguments(
        cls, name: str, description: str, *packages: str, **options: Any
    ) -> tuple[Report, argparse.Namespace]:
        """``options`` are further command-line options: name=(default, help); False is a flag."""
        parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=description)
        parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
        parser.add_argument("--json", type=Path, help="write the figures to this file")
        for option, (default, text) in options.items():
            flag = f"--{option.replace('_', '-')}"
            if default is False:
                parser.add_argument(flag, action="store_true", help=text)
                continue
            parser.add_argument(
                flag, type=type(default), default=default, help=f"{text} [{default}]"
            )
        arguments = parser.parse_args()
        report = cls(name, arguments.check, arguments.json)
        versions = {"python": platform.python_version()}
        versions |= dict(map(_version, ("vivace", *packages)))
        print(f"{name}: {description}")
        report.say("machine", machine())
        report.say("versions", ", ".join(f"{key} {value}" for key, value in versions.items()))
        return report, arguments

    def say(self, name: str, value: Any, unit: str = "") -> None:
        self.figures[name] = value
        shown = f"{value:,.3g}" if isinstance(value, float) else f"{value}"
        print(f"  {name:<44} {shown}{' ' + unit if unit else ''}", flush=True)

    def spread(self, name: str, samples: Sequence[float], unit: str, scale: float = 1.0) -> None:
        """p50, p90 and p99 of samples, with their number."""
        values = {f"p{share}": percentile(samples, share / 100) * scale for share in (50, 90, 99)}
        self.figures[name] = {**values, "n": len(samples), "unit": unit}
        shown = "  ".join(f"{key} {value:,.2f}" for key, value in values.items())
        print(f"  {name:<44} {shown} {unit}  (n={len(samples)})", flush=True)

    def tenths(self, name: str, samples: Sequence[float]) -> None:
        """p10, p50 and p90, where low is as telling as high."""
        values = {f"p{share}": percentile(samples, share / 100) for share in (10, 50, 90)}
        self.figures[name] = {**values, "n": len(samples)}
        shown = "  ".join(f"{key} {value:,.2f}" for key, value in values.items())
        print(f"  {name:<44} {shown}  (n={len(samples)})", flush=True)

    def ratio(self, what: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
        """The ratio of the medians with its interval, where no goal is set."""
        ratio, low, high = ratio_of(ours, theirs)
        self.figures[what] = {"ratio": ratio, "low": low, "high": high, "n": len(ours)}
        print(f"  {what:<44} {ratio:.2f} (95% interval {low:.2f} to {high:.2f}, {len(ours)} pairs)")

    def difference(self, what: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
        """Of the medians, likewise; seconds that are told in milliseconds."""
        more, low, high = (1000 * each for each in difference_of(ours, theirs))
        self.figures[what] = {"more": more, "low": low, "high": high, "n": len(ours), "unit": "ms"}
        print(f"  {what:<44} {_more(more, low, high, len(ours))}", flush=True)

    def goal(self, what: str, *, met: bool, measured: str) -> None:
        self.figures.setdefault("goals", {})[what] = {"met": met, "measured": measured}
        print(f"  {'met   ' if met else 'MISSED'} {what}: {measured}", flush=True)
        if not met:
            self.missed.append(what)

    def fair(self, samples: Sequence[T], spans: Sequence[Span], hiccups: Hiccups) -> list[T]:
        """The samples that a limit in milliseconds is judged by: the machine ran all the while.
        With too few of them it cannot be judged, and that is a goal missed."""
        kept = hiccups.outside(samples, spans)
        aside = f"{len(samples) - len(kept)} of {len(samples)}"
        self.say("set aside: the machine stood still", aside)
        if len(kept) < min(ENOUGH, len(samples)):
            self.goal(f"{ENOUGH} samples to judge by", met=False, measured=f"{len(kept)}")
            self.end()
            sys.exit(int(self.check))
        return kept

    def ratio_goal(
        self, what: str, ours: Sequence[float], theirs: Sequence[float], most: float
    ) -> None:
        """Fails only when the whole interval lies on the wrong side."""
        ratio, low, high = ratio_of(ours, theirs)
        self.goal(
            f"{what}: at most {most:.2f} of it",
            met=low <= most,
            measured=f"{ratio:.2f} (95% interval {low:.2f} to {high:.2f}, {len(ours)} pairs)",
        )

    def difference_goal(
        self, what: str, ours: Sequence[float], theirs: Sequence[float], most: float
    ) -> None:
        """Seconds that are told in milliseconds; likewise."""
        more, low, high = (1000 * each for each in difference_of(ours, theirs))
        self.goal(
            f"{what}: at most {most:g} ms more",
            met=low <= most,
            measured=_more(more, low, high, len(ours)),
        )

    def end(self) -> None:
        if self.path is not None:
            self.path.write_text(json.dumps(self.figures, indent=2) + "\n")
        if self.check and self.missed:
            sys.exit(1)


def _more(more: float, low: float, high: float, pairs: int) -> str:
    return f"{more:+.2f} ms (95% interval {low:+.2f} to {high:+.2f}, {pairs} pairs)"
