"""The rules that documents are looked at by: ours and their project's own, as ``vivace check`` has
them, read beside whoever types."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from vivace.errors import RuleError
from vivace.lsp.documents import Document
from vivace.lsp.session import Session
from vivace.syntax.languages import LANGUAGES
from vivace.workspace.errors import WorkspaceError

if TYPE_CHECKING:
    from vivace.findings.changed import Scanner
    from vivace.findings.rule_set import RuleSet

__all__ = ["LoadRules", "Rules"]

LoadRules = Callable[[Path | None, frozenset[str]], "RuleSet"]
"""The rules of a work tree, without some kinds of them."""

_BUGS = "bug"
"""The kind of rules that can be switched off."""


class Rules:
    def __init__(self, session: Session, load: LoadRules | None = None) -> None:
        self._session = session
        self._load = load or _chosen
        self._told: set[str] = set()
        """What people have been told of files of rules that cannot be read."""
        self._tried: set[str] = set()
        """Languages whose rules have been tried out."""

    async def of(self, document: Document) -> RuleSet:
        """Those that the person wants in a document. What is wrong with a project's own is told
        once, and ours are taken."""
        without = frozenset[str]() if self._session.settings.findings.bugs else frozenset({_BUGS})
        root = await asyncio.to_thread(self._root, document)
        try:
            return await asyncio.to_thread(self._load, root, without)
        except (RuleError, WorkspaceError) as error:
            if root is None:
                raise
            if str(error) not in self._told:
                self._told.add(str(error))
                self._session.editor.tell(str(error), "warning")
            return await asyncio.to_thread(self._load, None, without)

    def _root(self, document: Document) -> Path | None:
        try:
            return self._session.files.find(document.uri).workspace.root
        except WorkspaceError:
            return None

    async def scanner(
        self, document: Document, language: str
    ) -> tuple[Scanner, frozenset[str]] | None:
        """Who looks at a document in this language, and which of the rules are certain while a line
        is still being written; None where there are no rules for it."""
        rules = await self.of(document)
        found = await asyncio.to_thread(_scanner, rules, language, language not in self._tried)
        self._tried.add(language)
        return found


def _chosen(root: Path | None, without: frozenset[str]) -> RuleSet:
    module = import_module("vivace.desk.rules")
    if root is None:
        choice = module.Choice(without=without)
    else:
        choice = module.choose(root, (), root, without=without)
    found: RuleSet = module.rule_set(choice)
    return found


def _scanner(rules: RuleSet, name: str, is_new: bool) -> tuple[Scanner, frozenset[str]] | None:
    own = rules.for_language(name)
    if not own:
        return None
    language = next((each for each in LANGUAGES if each.name == name), None)
    if is_new and language is not None:
        import_module("vivace.findings.scan").try_out(rules, language)
    scanner: Scanner = import_module("vivace.findings.changed").Scanner(rules)
    return scanner, frozenset(each.id for each in own if each.certain)
