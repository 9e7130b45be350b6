"""Whatever happens in whatever order, the text is what the person and the edits they took made it.

Keys, moves, questions, answers in pieces, failures, cancels, edits that are redirected, stopped or
made late, undo, and time: in any order, against the real language server with an engine, an editor
and a clock that do as they are told. A change tries a few runs, a release more; many by command:

    VIVACE_RUNS=500 scripts/test tests/lsp/test_interleavings.py
"""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from lsprotocol.types import Position, Range, TextDocumentContentChangePartial

from tests.lsp.editor import KNOWN
from tests.lsp.in_process import Answer, InProcess
from tests.support.examples import examples
from vivace.client.errors import ClientError
from vivace.lsp.documents import Document
from vivace.lsp.positions import Encoding

RUNS = int(os.environ.get("VIVACE_RUNS", "0")) or examples(50)
pytestmark = pytest.mark.timeout(120 + 5 * RUNS)

CODE = "import os\n\n\n" + "".join(f"def f{n}(x):\n    y = x\n    return y\n\n\n" for n in range(3))
TEXTS = [
    CODE,
    CODE.replace("\n", "\r\n"),
    CODE.replace("import os\n", "\fimport os  # 😀 é\n").rstrip(),
    CODE.replace("y = x", "y = '𝄞'"),
    "",
]
ENCODINGS: list[Encoding] = ["utf-8", "utf-16", "utf-32"]
KEYS = ["w", "w", "x", " ", "\n", "(", "()", '""', "😀", "    ", "return", "= ", "#"]
"""``w`` is a word that was never typed before."""
PIECES = ["1", " + 2", "\n", "\n    z = 3", "x)", ")", "'", "x" * 40, "  ", "\n\n\ndef g():\n"]
MARK = re.compile(r"  # e\d+")
"""What the model adds to a line, and so all that an edit changes."""
CANCELLED = -32800


@dataclass
class Question:
    text: str
    cursor: int


@dataclass
class Edit:
    applied: int = 0
    given_up: bool = False
    """Whether the person has stopped it, or the server was told that it failed."""


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.desk = InProcess(Path(self._folder.name))
        self.numbers = count(1)
        self.heard = 0
        self.questions: dict[int, Question] = {}
        self.edits: dict[int, Edit] = {}
        self.requests: list[tuple[dict[str, Any], Edit]] = []
        """Of the server, which wait for the editor, and for the sake of which edit."""
        self.shown: tuple[int, dict[str, Any]] | None = None
        """For which text, and the suggestion."""
        self.undos: list[str] = []
        self.cursor = 0

    @initialize(text=st.sampled_from(TEXTS), encoding=st.sampled_from(ENCODINGS))
    def begin(self, text: str, encoding: Encoding) -> None:
        folder = Path(self._folder.name)
        uri = (folder / "a.py").as_uri()
        self.document = Document(uri, "a.py", 1, text, encoding)
        capabilities = {
            "general": {"positionEncodings": [encoding]},
            "workspace": {"applyEdit": True, "workspaceEdit": {"documentChanges": True}},
            "experimental": KNOWN,
        }
        params = {"processId": None, "rootUri": folder.as_uri(), "capabilities": capabilities}
        self.desk.send("initialize", params, 0)
        self.desk.send("initialized", {})
        opened = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        self.desk.send("textDocument/didOpen", {"textDocument": opened})
        self.heard = len(self.desk.sent)

    # -- the person -------------------------------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), asks=st.booleans())
    def type(self, key: str, asks: bool) -> None:
        typed = f"k{next(self.numbers)} " if key == "w" else key
        if key == "\n" and "\r\n" in self.text:
            typed = "\r\n"
        behind = self.cursor + (1 if key in ("()", '""') else len(typed))
        self.change([(self.cursor, self.cursor, typed)])
        self.cursor = behind
        if asks:
            self.ask()

    @precondition(lambda self: self.cursor > 0)
    @rule()
    def erase(self) -> None:
        start = self.cursor - (2 if self.text[: self.cursor].endswith("\r\n") else 1)
        self.change([(start, self.cursor, "")])

    @rule(part=st.floats(0, 1))
    def move(self, part: float) -> None:
        self.cursor = self._place(part)

    @rule()
    def ask(self) -> None:
        number = next(self.numbers)
        self.questions[number] = Question(self.text, self.cursor)
        place = as_json(self.document.position(self.cursor))
        params = {"textDocument": {"uri": self.document.uri}, "position": place}
        self.send("textDocument/inlineCompletion", params | {"context": {"triggerKind": 2}}, number)

    @precondition(lambda self: self.shown is not None)
    @rule()
    def accept(self) -> None:
        assert self.shown is not None
        version, item = self.shown
        self.shown = None
        if version != self.document.version:
            return  # editors show no more what was for another text
        start, end = self._span(item["range"])
        self.change([(start, end, item["insertText"])])
        self.cursor = start + len(item["insertText"])
        event("accepted")

    @precondition(lambda self: self.undos)
    @rule()
    def undo(self) -> None:
        before = self.undos.pop()
        self.change([(0, len(self.text), before)], kept=False)

    @precondition(lambda self: not self.edits)
    @rule(first=st.floats(0, 1), lines=st.integers(0, 6), whole=st.booleans(), again=st.booleans())
    def edit(self, first: float, lines: int, whole: bool, again: bool) -> None:
        line = self.document.line_of(self._place(first))
        start, end = ({"line": each, "character": 0} for each in (line, line + lines))
        asked: dict[str, Any] = {"uri": self.document.uri, "instruction": "add a comment"}
        asked |= {} if whole else {"range": {"start": start, "end": end}}
        for number in [next(self.numbers) for _ in range(1 + again)]:  # a second one is refused
            self.edits[number] = Edit()
            self.command("vivace.edit", asked, number)

    @precondition(lambda self: self.edits or self.questions or self.desk.engine.answers)
    @rule(how=st.sampled_from(["redirect", "stop", "cancel", "fail"]), which=st.integers(0, 9))
    def disturb(self, how: str, which: int) -> None:
        asked = {"uri": self.document.uri}
        waiting, answers = [*self.questions, *self.edits], self.desk.engine.answers
        if how == "redirect":
            asked |= {"instruction": "add another comment"}
            self.command("vivace.redirect", asked, next(self.numbers))
        elif how == "stop":
            self._give_up(*self.edits)
            self.command("vivace.stop", asked, next(self.numbers))
        elif how == "cancel" and waiting:
            self._give_up(waiting[which % len(waiting)])
            self.send("$/cancelRequest", {"id": waiting[which % len(waiting)]})
        elif how == "fail" and answers:
            answers[which % len(answers)].end(ClientError("Unwell.", retry_after=0.1))
            self.wait(0)

    def _give_up(self, *numbers: int) -> None:
        for each in numbers:
            if each in self.edits:
                self.edits[each].given_up = True

    @rule(seconds=st.sampled_from([0.02, 0.3, 1.0, 10.0]))
    def wait(self, seconds: float) -> None:
        self.desk.loop.let_pass(seconds)
        self.listen()

    # -- the engine -------------------------------------------------------------------------------

    @precondition(lambda self: self.desk.engine.answers)
    @rule(
        newest=st.booleans(), piece=st.sampled_from(PIECES), fits=st.booleans(), ends=st.booleans()
    )
    def write(self, newest: bool, piece: str, fits: bool, ends: bool) -> None:
        """The next piece of an answer, or all that is left of it."""
        answer = self.desk.engine.answers[-1 if newest else 0]
        if answer.path.endswith("/infill"):
            self._write_gap(answer, piece, fits=fits, ends=ends)
        else:
            self._write_edit(answer, ends=ends)
        self.wait(0)

    @precondition(lambda self: self.desk.engine.answers)
    @rule(piece=st.sampled_from(PIECES))
    def write_all(self, piece: str) -> None:
        self.write(newest=True, piece=piece, fits=True, ends=True)

    def _write_gap(self, answer: Answer, piece: str, *, fits: bool, ends: bool) -> None:
        if answer.parts is None:
            answer.parts = []
            told = answer.body["input_prefix"] + answer.body["prompt"]
            before = self.text[: self.cursor].replace("\r\n", "\n")
            if fits and before.startswith(told):
                piece = before[len(told) :] + piece
            event("a gap is filled")
        answer.say({"content": piece, "stop": False})
        if ends:
            answer.say({"content": "", "stop": True})
            answer.end()

    def _write_edit(self, answer: Answer, *, ends: bool) -> None:
        if answer.parts is None:
            old = answer.body["prediction"]["content"]
            lines = old.split("\n")
            at = max((n for n, line in enumerate(lines) if "y" in line), default=0)
            lines[at] += f"  # e{next(self.numbers)}"
            new = "\n".join(lines)
            answer.parts = [new[: len(new) // 2], new[len(new) // 2 :]]
            answer.say({"type": "response.created", "response": {"id": "r", "model": "m"}})
        for _ in range(2 if ends else 1):
            if answer.parts:
                said = {"type": "response.output_text.delta", "delta": answer.parts.pop(0)}
                answer.say(said)
        if not answer.parts:
            done = {"id": "r", "model": "m", "status": "completed"}
            answer.say({"type": "response.completed", "response": done})
            answer.end()

    # -- the editor -------------------------------------------------------------------------------

    @precondition(lambda self: self.requests)
    @rule(yes=st.booleans(), late=st.booleans())
    def answer_server(self, yes: bool, late: bool) -> None:
        request, edit = self.requests.pop(0)
        if request["method"] == "workspace/applyEdit":
            self._apply(request, edit, pretends=yes, late=late)
        else:
            actions = request["params"]["actions"]
            self.send(None, actions[0] if yes else None, request["id"])

    def _apply(self, request: dict[str, Any], edit: Edit, *, pretends: bool, late: bool) -> None:
        """An editor that has a newer text makes no edit, though some say that they did."""
        [made] = request["params"]["edit"]["documentChanges"]
        if made["textDocument"]["version"] != self.document.version:
            self.send(None, {"applied": pretends}, request["id"])
            return
        spans = [(*self._span(each["range"]), each["newText"]) for each in made["edits"]]
        before = self.text
        edit.applied += 1
        if late:
            self.send(None, {"applied": True}, request["id"])
        self.change(spans)
        if not late:
            self.send(None, {"applied": True}, request["id"])
        self._check_edit(before, self.text)
        self.wait(0.05)  # nobody undoes it before the server has looked

    def _check_edit(self, before: str, after: str) -> None:
        """It has put in one mark, and nothing else is other than it was."""
        new = Counter(MARK.findall(after)) - Counter(MARK.findall(before))
        assert sum(new.values()) == 1, (before, after)
        [mark] = new
        assert after.replace(mark, "") == before.replace(mark, "")
        event("edit made")

    # -- between them -----------------------------------------------------------------------------

    @property
    def text(self) -> str:
        return self.document.text

    def _place(self, part: float) -> int:
        at = int(part * len(self.text))
        return at - self.text[:at].endswith("\r")

    def _span(self, place: dict[str, Any]) -> tuple[int, int]:
        start, end = Position(**place["start"]), Position(**place["end"])
        return self.document.span(Range(start=start, end=end))

    def send(self, method: str | None, content: Any, number: int | str | None = None) -> None:
        self.desk.send(method, content, number)
        self.listen()

    def command(self, name: str, argument: dict[str, Any], number: int) -> None:
        content = {"command": name, "arguments": [argument]}
        self.send("workspace/executeCommand", content, number)

    def change(self, spans: list[tuple[int, int, str]], *, kept: bool = True) -> None:
        """One step, which can be undone unless it is an undo; the cursor stays where it is."""
        if kept:
            self.undos.append(self.text)
        changes = [
            TextDocumentContentChangePartial(range=self.document.range(start, end), text=new)
            for start, end, new in sorted(spans, reverse=True)
        ]
        for start, end, new in sorted(spans, reverse=True):
            if end <= self.cursor:
                self.cursor += len(new) - (end - start)
            elif start < self.cursor:
                self.cursor = start
        self.document.change(self.document.version + 1, changes)
        self.cursor = self._place(self.cursor / max(1, len(self.text)))
        versioned = {"uri": self.document.uri, "version": self.document.version}
        told = [{"range": as_json(each.range), "text": each.text} for each in changes]
        self.send("textDocument/didChange", {"textDocument": versioned, "contentChanges": told})

    def listen(self) -> None:
        while self.heard < len(self.desk.sent):
            message = self.desk.sent[self.heard]
            self.heard += 1
            if "method" not in message:
                self._hear_answer(message)
            elif "id" in message:
                [edit] = self.edits.values()  # a second one is refused before it asks for anything
                self.requests.append((message, edit))
            elif message["method"] == "vivace/edit":
                self._check_drawn(message["params"])

    def _hear_answer(self, message: dict[str, Any]) -> None:
        number = message["id"]
        if "error" in message:
            assert message["error"]["code"] == CANCELLED, message
        question = self.questions.pop(number, None)
        if question is not None and message.get("result"):
            self._check_suggestion(question, message["result"])
        edit = self.edits.pop(number, None)
        if edit is not None and "result" in message:
            self._check_end(edit, message["result"]["status"])

    def _check_suggestion(self, question: Question, items: list[dict[str, Any]]) -> None:
        """It fits the text as it is now, where it was asked for."""
        event("suggested")
        [item] = items
        assert question.text == self.text  # what was typed since may have been taken back
        start, end = self._span(item["range"])
        assert as_json(self.document.range(start, end)) == item["range"]
        assert item["range"]["start"]["line"] == item["range"]["end"]["line"]
        assert start <= question.cursor <= end
        typed = self.text[start : question.cursor]
        assert item["insertText"].startswith(typed)
        assert len(item["insertText"]) > len(typed)
        assert set(self.text[question.cursor : end]) <= set(")]}'\"`")
        self.shown = (self.document.version, item)

    def _check_drawn(self, shown: dict[str, Any]) -> None:
        assert shown["version"] == self.document.version
        lines = self.document.line_of(len(self.text))
        for each in shown["hunks"]:
            first, last = each["range"]["start"]["line"], each["range"]["end"]["line"]
            assert 0 <= first <= last <= lines

    def _check_end(self, edit: Edit, status: str) -> None:
        event(f"edit {status}")
        if status == "applied":
            assert edit.applied == 1
        elif not edit.given_up:
            assert edit.applied == 0, status

    @invariant()
    def the_server_has_the_text_that_the_person_has(self) -> None:
        known = self.desk.server.session.documents.get(self.document.uri)
        assert known is not None
        assert (known.text, known.version) == (self.text, self.document.version)
        assert self.desk.errors == [], self.desk.errors

    def teardown(self) -> None:
        if hasattr(self, "document"):
            self._let_all_end()
        self.desk.close()
        self._folder.cleanup()

    def _let_all_end(self) -> None:
        """Nobody waits for ever: when all others have answered, so has the server."""
        for _ in range(40):
            for answer in list(self.desk.engine.answers):
                answer.end(ClientError("It ends."))
            while self.requests:
                self.answer_server(yes=False, late=False)
            self.wait(2.0)
        assert (self.questions, self.edits) == ({}, {})


def as_json(value: Any) -> Any:
    """A position or a range, as JSON."""
    if hasattr(value, "line"):
        return {"line": value.line, "character": value.character}
    return {"start": as_json(value.start), "end": as_json(value.end)}


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(
    deadline=None,
    max_examples=RUNS,
    stateful_step_count=60,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
