"""Somebody types in front of the language server, and sees what it marks; time passes as told."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from lsprotocol.types import Position, TextDocumentContentChangePartial

from tests.lsp.in_process import InProcess
from vivace.findings.rule import read_rules
from vivace.findings.rule_set import RuleSet
from vivace.lsp.documents import Document
from vivace.lsp.positions import Encoding

RULES = """\
id: code-injection
language: [python, javascript]
severity: error
message: $CALL runs whatever it is given.
note: An attacker who chooses the text runs code here. Read the value without running it.
rule: {any: [{pattern: eval($X)}, {pattern: exec($X)}]}
metadata: {cwe: 95}
---
id: unsafe-yaml
language: python
severity: warning
message: yaml.load makes any object that the text names.
note: Use yaml.safe_load.
rule: {pattern: yaml.load($X)}
fix: yaml.safe_load($X)
metadata: {cwe: 502, certain: true}
---
id: weak-hash
language: python
severity: info
message: MD5 does not protect anything.
rule: {pattern: hashlib.md5($X)}
fix: eval($X)
metadata: {cwe: 327}
---
id: nan-comparison
language: python
severity: warning
message: Nothing is equal to nan.
rule: {pattern: $X == nan}
metadata: {kind: bug}
"""


class Marked:
    """``with Marked() as desk: page = desk.open("a.py", text)``; what is marked is in ``page``."""

    def __init__(self, rules: str = RULES, encoding: Encoding = "utf-16", **settings: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.desk = InProcess(self.folder, RuleSet.of(read_rules(rules, "rules.yml")))
        self.encoding: Encoding = encoding
        self._numbers = count(1)
        kinds = {"codeActionKind": {"valueSet": ["quickfix"]}}
        self.desk.send(
            "initialize",
            {
                "processId": None,
                "rootUri": self.folder.as_uri(),
                "capabilities": {
                    "general": {"positionEncodings": [encoding]},
                    "workspace": {"workspaceEdit": {"documentChanges": True}},
                    "textDocument": {"codeAction": {"codeActionLiteralSupport": kinds}},
                },
                "initializationOptions": settings,
            },
            next(self._numbers),
        )
        self.desk.send("initialized", {})

    def __enter__(self) -> Marked:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.desk.close()
        self._folder.cleanup()
        if kind is None:
            assert self.desk.errors == []

    def open(self, name: str, text: str, language: str = "python") -> Page:
        return Page(self, name, text, language)

    def tell(self, method: str, params: Any) -> None:
        self.desk.send(method, params)

    def ask(self, method: str, params: Any) -> Any:
        number = next(self._numbers)
        self.desk.send(method, params, number)
        [answer] = [each for each in self.desk.sent if each.get("id") == number]
        return answer["result"]

    def passes(self, seconds: float) -> None:
        self.desk.loop.let_pass(seconds)

    def published(self, uri: str) -> list[dict[str, Any]]:
        """All that was ever said of a document."""
        said = [each for each in self.desk.sent if each.get("method", "").endswith("Diagnostics")]
        return [each["params"] for each in said if each["params"]["uri"] == uri]


class Page:
    def __init__(self, desk: Marked, name: str, text: str, language: str) -> None:
        uri = (desk.folder / name).as_uri() if ":" not in name else name
        self.document = Document(uri, name, 1, text, desk.encoding)
        self._desk = desk
        given = {"uri": uri, "languageId": language, "version": 1, "text": text}
        desk.tell("textDocument/didOpen", {"textDocument": given})
        desk.passes(0.01)

    @property
    def uri(self) -> str:
        return self.document.uri

    @property
    def text(self) -> str:
        return self.document.text

    # -- what is done -----------------------------------------------------------------------------

    def type(self, text: str, behind: str | None = None) -> None:
        """Key by key, ten in a second."""
        at = len(self.text) if behind is None else self.text.index(behind) + len(behind)
        for offset, key in enumerate(text):
            self.replace(at + offset, at + offset, key)
            self._desk.passes(0.1)

    def put(self, new: str, old: str = "", behind: str | None = None) -> None:
        """At once: in place of something, or behind it."""
        if behind is not None:
            at = self.text.index(behind) + len(behind)
            self.replace(at, at, new)
        else:
            at = self.text.index(old) if old else len(self.text)
            self.replace(at, at + len(old), new)
        self._desk.passes(0.01)

    def replace(self, start: int, end: int, new: str) -> None:
        change = TextDocumentContentChangePartial(self.document.range(start, end), new)
        place = plain(change.range)
        self.document.change(self.document.version + 1, [change])
        self._tell("didChange", contentChanges=[{"range": place, "text": new}])

    def become(self, text: str) -> None:
        """As editors say it that do not tell what changed."""
        self.document = Document(
            self.uri, self.document.path, self.document.version + 1, text, self._desk.encoding
        )
        self._tell("didChange", contentChanges=[{"text": text}])
        self._desk.passes(0.01)

    def save(self) -> None:
        self._tell("didSave")

    def close(self) -> None:
        self._tell("didClose")

    def go(self, behind: str) -> None:
        """The cursor goes there, and the editor asks what can be done."""
        self.actions(behind, [])

    def actions(self, behind: str, marks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        at = self.text.index(behind) + len(behind)
        place = marks[0]["range"] if marks else plain(self.document.range(at, at))
        asked = {
            "textDocument": {"uri": self.uri},
            "range": place,
            "context": {"diagnostics": marks, "triggerKind": 2},
        }
        return list(self._desk.ask("textDocument/codeAction", asked) or ())

    def apply(self, action: dict[str, Any]) -> None:
        [change] = action["edit"]["documentChanges"]
        assert change["textDocument"] == {"uri": self.uri, "version": self.document.version}
        for each in reversed(change["edits"]):
            start, end = (self._offset(each["range"][side]) for side in ("start", "end"))
            self.replace(start, end, each["newText"])
        self._desk.passes(0.01)

    def _offset(self, place: dict[str, int]) -> int:
        return self.document.offset(Position(**place))

    def _tell(self, what: str, **more: Any) -> None:
        named = {"uri": self.uri, "version": self.document.version}
        self._desk.tell(f"textDocument/{what}", {"textDocument": named, **more})

    # -- what is seen -----------------------------------------------------------------------------

    @property
    def said(self) -> list[dict[str, Any]]:
        return self._desk.published(self.uri)

    @property
    def marks(self) -> list[dict[str, Any]]:
        return list(self.said[-1]["diagnostics"]) if self.said else []

    @property
    def marked(self) -> list[tuple[str, str]]:
        """Each rule, and the text under its mark."""
        return [(each["code"], self.under(each)) for each in self.marks]

    def under(self, mark: dict[str, Any]) -> str:
        place = mark["range"]
        return self.text[self._offset(place["start"]) : self._offset(place["end"])]


def plain(place: Any) -> dict[str, Any]:
    return {
        side: {"line": getattr(place, side).line, "character": getattr(place, side).character}
        for side in ("start", "end")
    }
