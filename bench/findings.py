"""Findings: how many faults are found, how often in vain, and how fast, in files and while typing.

labels   labelled pairs of files, with a fault and without: recall and false alarms by language,
         beside bandit, eslint-plugin-security and semgrep, each if it is installed
fixes    findings with a fix that may be shown: by their rules, and by ``--model`` if one is named
scan     lines of the standard library a second, beside semgrep and ast-grep with the same rules
core     a key's findings without a language server, in files of 200 to 10,000 lines
typing   from a key to the finding, through a real ``vivace lsp``

``--open-held-out`` measures labels and fixes on the set that is sealed, which is done once, when
the work on rules is over, and prints all of it.
"""

from __future__ import annotations

from typing import Any

from bench._finding_fixes import measure_fixes
from bench._finding_labels import measure_labels
from bench._finding_speed import measure_scan
from bench._findings_editor import measure_core, measure_typing
from bench._report import Report

PARTS = "labels,fixes,scan,core,typing"


def main() -> None:
    report, options = Report.from_arguments(
        "findings",
        "recall, false alarms and speed of findings",
        "tree-sitter",
        parts=(PARTS, "which of them to measure"),
        set=("tuning", "which pairs: tuning, wide or fresh"),
        open_held_out=(False, "open the sealed set and measure on it, once"),
        show=(False, "name the pairs that are missed or raise an alarm"),
        eslint=(
            "",
            "a folder whose node_modules have eslint-plugin-security and typescript-eslint",
        ),
        semgrep_rules=("", "a folder with a copy of semgrep's public rules"),
        corpus=("", "a folder of Python to scan instead of the standard library"),
        model=("", "who fixes what rules cannot, such as qwen2.5-coder-0.5b; empty: nobody"),
        engine=("llamacpp", "vllm or llamacpp"),
        url=("", "an endpoint that runs already, instead of one of our own"),
        findings=(0, "how many of them are to be fixed, evenly spread; 0 for all"),
        rounds=(3, "how often each program scans"),
        lines=(10, "lines that are typed in each language and size"),
    )
    for part in options.parts.split(","):
        _measure(part, report, options)
    report.end()


def _measure(part: str, report: Report, options: Any) -> None:
    match part:
        case "labels":
            measure_labels(
                report,
                options.set,
                held_out=options.open_held_out,
                eslint=options.eslint,
                semgrep_rules=options.semgrep_rules,
                show=options.show,
            )
        case "fixes":
            measure_fixes(report, options)
        case "scan":
            measure_scan(report, options.rounds, options.corpus)
        case "core":
            measure_core(report, options.lines)
        case "typing":
            measure_typing(report, options.lines)
        case _:
            raise SystemExit(f"there is no part {part!r}; there are: {PARTS}")


if __name__ == "__main__":
    main()
