"""The plain prompts, try by try: with the old text as the draft, and the answer at its word.

An answer is refused where it cannot be applied, changes nothing, was cut off, or leaves a file that
does not parse; another try is told what was wrong with the one before.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from bench._edit_engine import Endpoint, TooLong
from bench.edit_runs import prompts
from bench.edit_runs.prompts import Prompt, Unfit
from bench.edit_runs.results import Done
from bench.edit_runs.tasks import Task
from bench.edit_sets.syntax import Source, Span
from vivace.protocol.items import Message

__all__ = ["PLAIN", "Plain", "Read", "plainly", "room"]

PLAIN: dict[str, Callable[[Task], Prompt]] = {
    "rewrite": prompts.rewrite,
    "search_replace": prompts.search_replace,
    "region": prompts.region,
}


@dataclass(frozen=True)
class Read:
    """What an answer comes to: a new text of the file, or why it is refused."""

    text: str | None
    why: str = ""
    code: str = ""
    """The same in a word."""


class Plain:
    """One request and its answer, while it is written."""

    def __init__(self, task: Task, arm: str, items: tuple[Message, ...] = ()) -> None:
        self._task, self._arm = task, arm
        self._prompt = PLAIN[arm](task)
        self.items = items or self._prompt.items
        self.prediction = self._prompt.prediction
        self.region = self._prompt.region
        self._said: list[str] = []
        self._why = ""

    def feed(self, delta: str) -> bool:
        """Whether a change could be shown now."""
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
            if fault := _broken(self._task, text):
                raise Unfit(f"The file with your change {fault}.", "syntax")
        except Unfit as unfit:
            self._why = str(unfit)
            return Read(None, self._why, unfit.code)
        return Read(text)

    def again(self) -> Plain:
        """The next try, told what was wrong with this one."""
        answered = Message(role="assistant", content="".join(self._said))
        asked = Message(role="user", content=f"{self._why} {self._prompt.again}")
        return Plain(self._task, self._arm, (*self.items, answered, asked))


def plainly(task: Task, arm: str, endpoint: Endpoint) -> Done:
    """The task with one try."""
    trying = Plain(task, arm)
    regions = None if trying.region is None else (Span(*trying.region),)
    try:
        reply = endpoint.ask(trying.items, trying.prediction, room(trying.prediction))
    except TooLong as error:
        codes = ("cannot be asked",)
        return Done(task.text, 0.0, 0, 0, why=str(error), codes=codes, regions=regions)
    trying.feed(reply.text)
    found = trying.finish(complete=reply.complete)
    return Done(
        text=task.text if found.text is None else found.text,
        seconds=reply.seconds,
        tokens=reply.tokens,
        requests=1,
        drafted=reply.drafted,
        why=found.why,
        codes=(found.code,) if found.code else (),
        regions=regions,
    )


def room(text: str) -> int:
    """Enough tokens to write the text once more and something beside it."""
    return 512 + len(text) // 2


def _broken(task: Task, text: str) -> str | None:
    """Why the file does not parse, though it did before, or None."""
    if task.language == "python":
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            return f"does not parse: {error}"
        return None
    worse = Source(task.language, text).errors and not Source(task.language, task.text).errors
    return "does not parse" if worse else None
