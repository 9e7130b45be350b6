"""The ways to an edit that benchmarks compare: the plain "rewrite this file", and Vivace's."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from bench._edit_engine import Endpoint, Reply
from bench.edit_tasks import Task
from vivace.edits import attempt
from vivace.edits.context import Context
from vivace.protocol.items import Message

__all__ = [
    "TRIES",
    "Tried",
    "changed_lines",
    "plain",
    "plain_prompt",
    "plan_for",
    "room",
    "vivace",
    "whole_file",
]

_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FENCES = {"python": "python", "typescript": "typescript", "c": "c", "c++": "cpp"}


@dataclass(frozen=True)
class Tried:
    """An edited file, or None where the edit was refused, and what the model said on the way."""

    text: str | None
    replies: tuple[Reply, ...]
    why: str = ""


def plain(endpoint: Endpoint, task: Task) -> Tried:
    """The instruction, the whole file, and the whole file back."""
    asked = Message(role="user", content=plain_prompt(task))
    reply = endpoint.ask([asked], task.text, room(task.text))
    return Tried(whole_file(reply.text, task.text), (reply,))


def plain_prompt(task: Task) -> str:
    """The file before the instruction: small models do better with what they are asked last."""
    asked = task.instruction
    if task.selection is not None:
        first, last = task.selection
        lines = "".join(task.source.lines[first - 1 : last])
        asked += f"\n\nThis is about lines {first} to {last}:\n\n```\n{lines}```"
    return (
        f"{task.path}:\n\n```{_FENCES[task.language]}\n{task.text}```\n\n{asked}\n\n"
        "Answer with the whole changed file in one code block. Change nothing else."
    )


def vivace(endpoint: Endpoint, task: Task) -> Tried:
    """The edit core as ``vivace edit`` runs it on one tier: a try, its checks, and one more try."""
    plan = plan_for(task, task.text, endpoint.model)
    replies: list[Reply] = []
    for _ in range(TRIES):
        trying = attempt.Attempt(plan)
        if plan.known is None:
            replies.append(endpoint.ask(plan.items, plan.prediction, room(plan.prediction)))
        trying.feed(replies[-1].text if plan.known is None else plan.known)
        outcome = trying.finish()
        cut_off = plan.known is None and not replies[-1].complete
        if outcome.good and not cut_off:
            return Tried(outcome.text, tuple(replies))
        plan = attempt.retry(plan, outcome)
    why = "; ".join(problem.person for problem in outcome.problems)
    return Tried(None, tuple(replies), why or "the answer was cut off")


TRIES = 2


def plan_for(task: Task, text: str, model: str) -> attempt.EditPlan:
    selection = None if task.selection is None else (task.selection[0] - 1, task.selection[1])
    asked = attempt.Task(task.path, text, task.instruction, selection)
    return attempt.plan(asked, Context(), model)


def room(text: str) -> int:
    """Enough tokens to write the text once more and something beside it."""
    return 512 + len(text) // 2


def whole_file(answer: str, before: str) -> str:
    """The longest code block of the answer, or all of it; the end of the file as it was."""
    blocks = _FENCED.findall(answer)
    text = max(blocks, key=len) if blocks else answer
    return str(text).rstrip("\n") + "\n" if before.endswith("\n") else str(text)


def changed_lines(before: str, after: str) -> int:
    """Lines that went and lines that came."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    return sum(
        last - first + end - start
        for kind, first, last, start, end in matcher.get_opcodes()
        if kind != "equal"
    )
