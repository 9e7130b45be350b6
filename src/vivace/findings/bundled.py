"""The rules that come with Vivace: a folder for each language, a file for each rule."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from vivace.findings.rule import Rule, read_rules, read_utils
from vivace.findings.rule_set import RuleSet
from vivace.findings.yaml_lines import Table

__all__ = ["bundled"]

_FOLDERS = {
    "javascript": ("javascript", "typescript"),
    "typescript": ("javascript", "typescript"),
    "tsx": ("javascript", "typescript"),
    "c": ("c", "cpp"),
    "cpp": ("c", "cpp"),
}
"""A rule for several languages stands in the folder of one of them."""
_SHARED = "utils.yml"
"""What the rules of a folder look for together: where requests come in, what a check is."""
_EVERY = "every"
"""The folder of what rules for all languages look for."""


@cache
def bundled() -> RuleSet:
    return RuleSet(_for_language)


def _for_language(name: str) -> tuple[Rule, ...]:
    folders = _FOLDERS.get(name, (name,))
    return tuple(rule for each in folders for rule in _folder(each) if name in rule.languages)


@cache
def _folder(name: str) -> tuple[Rule, ...]:
    folder = files("vivace.findings").joinpath("rules", name)
    if not folder.is_dir():
        return ()
    shared = _shared(name)
    rules: list[Rule] = []
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        if file.name.endswith(".yml") and file.name != _SHARED:
            rules += read_rules(
                file.read_text("utf-8"), f"{name}/{file.name}", shared, trusted=True
            )
    return tuple(rules)


def _shared(name: str) -> Table:
    together = Table()
    together.lines = {}
    for each in (_EVERY, name):
        file = files("vivace.findings").joinpath("rules", each, _SHARED)
        if file.is_file():
            utils = read_utils(file.read_text("utf-8"), f"{each}/{_SHARED}")
            together.update(utils)
            together.lines |= utils.lines
    return together
