"""Which rules are looked for: those that come with Vivace, the project's own, and those one names.

Rules are data. They are matched against code and never executed, so a project that was just cloned
can bring its own; a file of rules that cannot be read stops the check, since a rule that is left
out in silence is one that nobody misses. A project cannot put a weaker rule in the place of ours; a
person who names a file of rules can.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import get_args

from msgspec import Struct

from vivace.errors import RuleError
from vivace.findings.bundled import bundled
from vivace.findings.rule import Kind, Rule, read_rules
from vivace.findings.rule_set import RuleSet
from vivace.syntax.languages import LANGUAGES
from vivace.workspace.document import read
from vivace.workspace.listing import list_files, shown_path
from vivace.workspace.paths import SafePath

__all__ = ["PROJECT", "Choice", "RuleText", "choose", "origins", "rule_set", "rules_for"]

PROJECT = "vivace-rules"
"""The folder of a project's own rules, at the root of the work tree."""
_SUFFIXES = (".yml", ".yaml")


class RuleText(Struct, frozen=True):
    """A file of rules as it was read."""

    path: str
    text: str


class Choice(Struct, frozen=True):
    """Which rules, in a form that another process can be told."""

    project: tuple[RuleText, ...] = ()
    named: tuple[RuleText, ...] = ()
    without: frozenset[str] = frozenset()
    """Ids of rules, and kinds of them, that are left out."""
    bundled: bool = True

    @property
    def own(self) -> tuple[RuleText, ...]:
        """What does not come with Vivace; a person's before a project's."""
        return self.named + self.project


def choose(
    root: Path,
    named: Sequence[Path],
    cwd: Path,
    *,
    without: Iterable[str] = (),
    ours: bool = True,
) -> Choice:
    """The rules for a work tree; raises RuleError or WorkspaceError with what to do."""
    folder = root / PROJECT
    project = [folder] if folder.is_dir() and not folder.is_symlink() else []
    choice = Choice(
        project=tuple(_texts(project, cwd)),
        named=tuple(_texts(named, cwd)),
        without=frozenset(without),
        bundled=ours,
    )
    _refuse_doubles(choice)
    _refuse_unknown(choice)
    return choice


@lru_cache(maxsize=4)
def rule_set(choice: Choice) -> RuleSet:
    """The rules themselves, made ready once in a process."""
    ours = bundled() if choice.bundled else RuleSet.of(())
    own = RuleSet.of(rule for text in choice.own for rule in _rules(text))
    return ours.joined(own).without(choice.without)


def rules_for(choice: Choice, languages: Iterable[str]) -> dict[str, Rule]:
    """Those that are looked for in files of these languages, by their ids."""
    rules = rule_set(choice)
    return {rule.id: rule for name in sorted(languages) for rule in rules.for_language(name)}


def origins(choice: Choice, languages: Iterable[str]) -> str:
    """How many there are and where they come from, for a person."""
    used = set(rules_for(choice, languages))
    own = {
        text.path: len(used.intersection(rule.id for rule in _rules(text))) for text in choice.own
    }
    told = [f"{len(used) - sum(own.values())} bundled"] if choice.bundled else []
    told += [f"{count} of {path}" for path, count in own.items()]
    return ", ".join(told) or "none"


@lru_cache(maxsize=256)
def _rules(text: RuleText) -> tuple[Rule, ...]:
    return read_rules(text.text, text.path)


def _texts(places: Sequence[Path], cwd: Path) -> Iterator[RuleText]:
    listing = list_files(places, cwd, _why_not)
    for each in listing.left_out:
        raise RuleError(f"{each.path} cannot be used as rules: {each.why}.")
    for path in listing.files:
        yield RuleText(shown_path(path.absolute, cwd), read(path).text)


def _why_not(path: SafePath) -> str | None:
    if path.name.endswith(_SUFFIXES):
        return None
    return f"its name does not end in {' or '.join(_SUFFIXES)}"


def _refuse_doubles(choice: Choice) -> None:
    """A person may put a rule in the place of ours; a project may not, and nobody does by mistake
    in one folder."""
    seen: dict[str, str] = {}
    for text in choice.own:
        if choice.bundled and text in choice.project:
            seen |= dict.fromkeys(_bundled_ids(), "which comes with Vivace")
        for rule in _rules(text):
            if rule.id in seen:
                raise RuleError(
                    f"{text.path}: there is a rule '{rule.id}' already, {seen[rule.id]}. Give this "
                    "one another id."
                )
            seen[rule.id] = f"in {text.path}"


def _bundled_ids() -> frozenset[str]:
    rules = bundled()
    return frozenset(rule.id for each in LANGUAGES for rule in rules.for_language(each.name))


def _refuse_unknown(choice: Choice) -> None:
    """A misspelt id would leave nothing out."""
    wanted = choice.without.difference(get_args(Kind))
    if not wanted:
        return
    known = _bundled_ids().union(rule.id for text in choice.own for rule in _rules(text))
    for name in sorted(wanted - known):
        near = difflib.get_close_matches(name, known, 1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise RuleError(f"There is no rule '{name}' to leave out.{hint}")
