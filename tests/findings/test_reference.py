"""Every bundled rule that ast-grep can run finds the same nodes there, in all its examples and in
the labelled code that rules are tuned on."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ast_grep_py import SgRoot
from bench.finding_sets.reader import read
from tree_sitter import Node

import vivace.findings
from vivace.findings.bundled import bundled
from vivace.findings.matching import Whole
from vivace.findings.pattern import Steps
from vivace.findings.rule import Rule
from vivace.syntax.languages import LANGUAGES, parse, walk

pytestmark = pytest.mark.release

_FOLDER = Path(vivace.findings.__file__).parent / "rules"
_TUNING = Path(__file__).parents[2] / "bench" / "finding_sets" / "tuning"
_LANGUAGES = {language.name: language for language in LANGUAGES}
_Place = tuple[int, int, str]
_PAIRS = read(_TUNING)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one written in C: a tenth of the time


def _documents() -> dict[str, dict[str, Any]]:
    """The bundled rules as they are written, by id, with the conditions of their folder."""
    found: dict[str, dict[str, Any]] = {}
    every = _utils(_FOLDER / "every")
    for folder in sorted(each for each in _FOLDER.iterdir() if each.is_dir()):
        utils = every | _utils(folder)
        for path in sorted(folder.glob("*.yml")):
            # vivace: ignore[python-unsafe-yaml] likewise
            for document in yaml.load_all(path.read_text(), _Loader):
                if document and "rule" in document:
                    document["utils"] = _named(document, utils | document.get("utils", {}))
                    found[document["id"]] = document
    return found


def _utils(folder: Path) -> dict[str, Any]:
    shared = folder / "utils.yml"
    # vivace: ignore[python-unsafe-yaml] it is a safe loader, written in C
    return yaml.load(shared.read_text(), _Loader)["utils"] if shared.exists() else {}


def _named(document: dict[str, Any], utils: dict[str, Any]) -> dict[str, Any]:
    """Those that a rule names: what others name may be of another language."""
    named: dict[str, Any] = {}
    waiting: list[Any] = [document["rule"], document.get("constraints", {})]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            name = value.get("matches")
            if isinstance(name, str) and name not in named:
                named[name] = utils[name]
                waiting.append(utils[name])
            waiting += value.values()
    return named


_DOCUMENTS = _documents()
_RULES = {
    (rule.id, language.name): rule
    for language in LANGUAGES
    for rule in bundled().for_language(language.name)
    if isinstance(rule.matchers[language.name], Whole)
}


@cache
def _tuning(language: str) -> str:
    """All in one: the reference reads a rule anew for each text."""
    texts = [(pair.vulnerable, pair.fixed) for pair in _PAIRS if pair.language == language]
    return "\n".join(text for both in texts for text in both)


@cache
def _nodes(language: str, text: str) -> list[Node]:
    return list(walk(parse(text, _LANGUAGES[language]).root_node))


@cache
def _reference(language: str, text: str) -> SgRoot:
    return SgRoot(text, language)


def _ours(rule: Rule, language: str, text: str) -> list[_Place]:
    matcher = rule.matchers[language]
    assert isinstance(matcher, Whole)
    nodes = _nodes(language, text)
    met = [
        node
        for node in nodes
        if (matcher.kinds is None or node.kind_id in matcher.kinds)
        and matcher.match(node, {}, Steps(10**7, nodes[0])) is not None
    ]
    return sorted((each.start_byte, each.end_byte, each.type) for each in met)


def _theirs(rule: Rule, language: str, text: str) -> list[_Place]:
    document = _DOCUMENTS[rule.id]
    asked = {key: document[key] for key in ("rule", "constraints", "utils") if document.get(key)}
    places = []
    for node in _reference(language, text).root().find_all(asked):  # type: ignore[call-overload]
        start, end = node.range().start.index, node.range().end.index
        places.append((len(text[:start].encode()), len(text[:end].encode()), node.kind()))
    return sorted(places)


@pytest.mark.parametrize(("name", "language"), list(_RULES))
def test_as_ast_grep(name: str, language: str) -> None:
    rule = _RULES[name, language]
    for text in ("\n".join((*rule.invalid, *rule.valid)), _tuning(language)):
        assert _ours(rule, language, text) == _theirs(rule, language, text)
