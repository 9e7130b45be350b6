"""How many lines a second are looked through, beside semgrep and ast-grep with the same rules.

The rules are patterns that all three write alike but for what stands for several arguments. Each
program is a process of its own, with as many workers as there are processors; they take turns.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench._finding_tools import missing
from bench._report import Report
from vivace.cpus import usable_cpus

__all__ = ["measure_scan"]

_PATTERNS = (
    *("os.system($A)", "os.popen($A)", "eval($A)", "exec($A)", "pickle.loads($A)"),
    *("pickle.load($A)", "marshal.loads($A)", "yaml.load($A)", "hashlib.md5($$$A)"),
    *("hashlib.sha1($$$A)", "tempfile.mktemp($$$A)", "random.random()", "random.choice($A)"),
    *("ssl._create_unverified_context($$$A)", "subprocess.call($$$A)", "subprocess.run($$$A)"),
    *("$A.execute($B % $C)", "$A.execute($B + $C)", "requests.get($$$A)", "telnetlib.Telnet($$$A)"),
)
_LEFT_OUT = frozenset(
    {"site-packages", "dist-packages", "__pycache__", "build", "dist", "test", "tests"}
)
_PROGRAM = "from vivace.cli.main import main; main()"


@dataclass(frozen=True)
class _Contender:
    name: str
    command: tuple[str, ...]
    lacks: str | None = None


def _rules(folder: Path) -> tuple[Path, Path, Path]:
    """In ast-grep's form, which is ours, in a file for us and a file for it, and in semgrep's."""
    ours = [
        {
            "id": f"pattern-{number}",
            "language": "python",
            "severity": "warning",
            "message": f"Pattern {number}",
            "rule": {"pattern": pattern},
        }
        for number, pattern in enumerate(_PATTERNS)
    ]
    theirs = [
        {
            "id": f"pattern-{number}",
            "languages": ["python"],
            "severity": "WARNING",
            "message": f"Pattern {number}",
            "pattern": pattern.replace("$$$A", "..."),
        }
        for number, pattern in enumerate(_PATTERNS)
    ]
    places = folder / "ours.yml", folder / "ast-grep.yml", folder / "semgrep.yml"
    places[0].write_text(yaml.safe_dump_all(ours))
    places[1].write_text(yaml.safe_dump_all(ours))
    places[2].write_text(yaml.safe_dump({"rules": theirs}))
    return places


def _contenders(rules: tuple[Path, Path, Path], corpus: Path, jobs: int) -> list[_Contender]:
    ours = (sys.executable, "-c", _PROGRAM, "check", "--format", "json", f"--jobs={jobs}")
    options = ("--json", "--quiet", "--metrics=off", "--disable-version-check", "--no-git-ignore")
    return [
        _Contender("vivace", (*ours, "--no-bundled", "--rules", str(rules[0]), str(corpus))),
        _Contender("vivace, all rules that come with it", (*ours, str(corpus))),
        _Contender(
            "ast-grep",
            (
                *("ast-grep", "scan", "--json=compact", f"--threads={jobs}"),
                *("--rule", str(rules[1]), str(corpus)),
            ),
            missing("ast-grep"),
        ),
        _Contender(
            "semgrep",
            ("semgrep", "scan", *options, f"--jobs={jobs}", f"--config={rules[2]}", str(corpus)),
            missing("semgrep"),
        ),
    ]


def measure_scan(report: Report, rounds: int, corpus: str) -> None:
    """``corpus``: a folder of Python; by default the standard library."""
    source = Path(corpus) if corpus else Path(os.__file__).parent
    with tempfile.TemporaryDirectory() as name:
        copy, lines, files = _copied(source, Path(name, "corpus"))
        report.say("scan: corpus", f"{source.name}, {files:,} files, {lines:,} lines")
        contenders = _contenders(_rules(Path(name)), copy, usable_cpus())
        times: dict[str, list[float]] = {each.name: [] for each in contenders if not each.lacks}
        for each in contenders:
            if each.lacks is not None:
                report.say(f"scan: {each.name}", f"not measured: {each.lacks}")
        for number in range(rounds):
            for each in contenders:
                if each.lacks is None:
                    seconds, count = _timed(each.command, Path(name))
                    times[each.name].append(seconds)
                    if not number:
                        report.say(f"scan: {each.name}, findings", count)
    for who, took in times.items():
        rate = lines / statistics.median(took)
        report.say(f"scan: {who}", round(rate), f"lines/s (median of {len(took)})")
    if "semgrep" in times:
        report.ratio_goal("time of vivace beside semgrep", times["vivace"], times["semgrep"], 1.0)
    if "ast-grep" in times:
        report.ratio("time of vivace beside ast-grep", times["vivace"], times["ast-grep"])


def _copied(source: Path, target: Path) -> tuple[Path, int, int]:
    """The corpus without what is installed into it, which differs between machines, and without
    what not all of them read, such as tests, which semgrep passes over."""
    lines = files = 0
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        if _LEFT_OUT.intersection(parts):
            continue
        data = path.read_bytes()
        if len(data) > 900_000 or max(map(len, data.split(b"\n"))) > 4_000:
            continue
        place = target.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        lines += data.count(b"\n")
        files += 1
    return target, lines, files


def _timed(command: Sequence[str], cwd: Path) -> tuple[float, int]:
    began = time.perf_counter()
    ran = subprocess.run(command, capture_output=True, cwd=cwd, check=False)
    seconds = time.perf_counter() - began
    if not ran.stdout.strip():
        raise RuntimeError(f"{command[0]} says nothing: {ran.stderr.decode()[-500:]}")
    said = json.loads(ran.stdout)
    results = said if isinstance(said, list) else said.get("results", said.get("findings", []))
    return seconds, len(results)
