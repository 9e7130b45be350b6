"""The ways to an edit, try by try: three plain prompts, and Vivace's.

All have the same: one model, the old text as the draft, and another try that is told what was wrong
with the first. A plain answer is refused where it cannot be applied, changes nothing, was cut off,
or leaves a file that does not parse; what else is checked is Vivace's own.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bench import _plain_edits
from bench._plain_edits import Prompt, Unfit
from bench.edit_runs.tasks import Task
from bench.edit_sets.syntax import Source
from vivace.edits import attempt
from vivace.edits.context import Context
from vivace.protocol.items import Message

__all__ = ["ARMS", "PLAIN", "TRIES", "Plain", "Read", "Try", "plan_for", "room"]

TRIES = 2

Form = Callable[[Task], Prompt]


@dataclass(frozen=True)
class Read:
    """What an answer comes to: a new text of the file, or why it is refused."""

    text: str | None
    why: str = ""
    code: str = ""
    """The same in a word."""


class Try(Protocol):
    """One request and its answer, while it is written."""

    @property
    def items(self) -> tuple[Message, ...]: ...

    @property
    def prediction(self) -> str: ...

    @property
    def known(self) -> str | None:
        """The answer itself, where no model is needed to know it."""

    def feed(self, delta: str) -> bool:
        """Whether a change could be shown now."""

    def finish(self, *, complete: bool) -> Read: ...

    def again(self) -> Try:
        """The next try, told what was wrong with this one."""


class Plain:
    """A plain prompt, and its answer taken at its word."""

    known = None

    def __init__(self, task: Task, form: Form, items: tuple[Message, ...] = ()) -> None:
        self._task, self._form = task, form
        self._prompt = form(task)
        self.items = items or self._prompt.items
        self.prediction = self._prompt.prediction
        self.region = self._prompt.region
        self._said: list[str] = []
        self._why = ""

    def feed(self, delta: str) -> bool:
        self._said.append(delta)
        return bool(self._prompt.watch(delta))

    def finish(self, *, complete: bool) -> Read:
        try:
            if not complete:
                raise Unfit("Your answer was too long and was cut off.", "cut_off")
            text = self._prompt.apply("".join(self._said))
            if text == self._task.text:
                change = "You changed nothing. Make the change that was asked for."
                raise Unfit(change, "unchanged")
            if fault := broken(self._task, text):
                raise Unfit(f"The file with your change {fault}.", "syntax")
        except Unfit as unfit:
            self._why = str(unfit)
            return Read(None, self._why, unfit.code)
        return Read(text)

    def again(self) -> Plain:
        answered = Message(role="assistant", content="".join(self._said))
        asked = Message(role="user", content=f"{self._why} {self._prompt.again}")
        return Plain(self._task, self._form, (*self.items, answered, asked))


class Vivace:
    """The edit core as ``vivace edit`` runs it on one tier."""

    def __init__(self, plan: attempt.EditPlan) -> None:
        self._plan = plan
        self._attempt = attempt.Attempt(plan)
        self.items, self.prediction, self.known = plan.items, plan.prediction, plan.known

    def feed(self, delta: str) -> bool:
        return bool(self._attempt.feed(delta))

    def finish(self, *, complete: bool) -> Read:
        self._outcome = self._attempt.finish()
        if self._outcome.good and complete:
            return Read(self._outcome.text)
        why = "; ".join(problem.person for problem in self._outcome.problems)
        return Read(None, why or "the answer was cut off")

    def again(self) -> Vivace:
        return Vivace(attempt.retry(self._plan, self._outcome))


def _without_model(form: Callable[[Task], Plain]) -> Callable[[Task, str], Try]:
    return lambda task, _: form(task)


PLAIN: dict[str, Callable[[Task], Plain]] = {
    "rewrite": lambda task: Plain(task, _plain_edits.rewrite),
    "search_replace": lambda task: Plain(task, _plain_edits.search_replace),
    "region": lambda task: Plain(task, _plain_edits.region),
}
ARMS: dict[str, Callable[[Task, str], Try]] = {
    **{name: _without_model(form) for name, form in PLAIN.items()},
    "vivace": lambda task, model: Vivace(plan_for(task, model)),
}
"""The first try of each, by the task and the model."""


def plan_for(task: Task, model: str) -> attempt.EditPlan:
    asked = attempt.Task(task.path, task.text, task.instruction, _plain_edits.selected(task))
    return attempt.plan(asked, Context(), model)


def room(text: str) -> int:
    """Enough tokens to write the text once more and something beside it."""
    return 512 + len(text) // 2


def broken(task: Task, text: str) -> str | None:
    """Why the file does not parse, though it did before, or None."""
    if task.language == "python":
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            return f"does not parse: {error}"
        return None
    worse = Source(task.language, text).errors and not Source(task.language, task.text).errors
    return "does not parse" if worse else None
