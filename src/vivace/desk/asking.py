"""From a file and an instruction to an edit: ask, read the answer, and ask again if need be.

One ``Asker`` holds one conversation. What the server has read already is not sent again: as long as
a request begins with what was said before, only its end goes over the wire.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from vivace.client.connection import ClientError, Connection, Figures
from vivace.client.events import Response
from vivace.desk.dialogue import Dialogue
from vivace.desk.events import Answered, Asked, Ended, Redirected, Speed, Withdrawn
from vivace.desk.person import Person
from vivace.desk.surroundings import Surroundings
from vivace.desk.targets import Target
from vivace.edits.attempt import (
    Attempt,
    EditPlan,
    Outcome,
    Task,
    accepted,
    explained,
    others,
    plan,
    plan_delegate,
    redirected,
    retry,
)
from vivace.edits.context import Context
from vivace.edits.importing.project import Modules
from vivace.edits.placing.region import Region
from vivace.edits.renaming.renames import names_to_look_for
from vivace.edits.sketched import carried_out
from vivace.protocol.items import Message
from vivace.syntax.finding import Finding
from vivace.syntax.source import Source
from vivace.workspace.formatting import formatting_for
from vivace.workspace.index import Index
from vivace.workspace.instructions import instructions_for
from vivace.workspace.mentions import words_elsewhere
from vivace.workspace.paths import Workspace

if TYPE_CHECKING:
    from vivace.desk.fixing import Fixing

__all__ = ["LENIENCY", "Asker", "Made", "Sampling"]

_ROOM = 512
"""Tokens that an answer may have beside the code it repeats."""
_EXPLAINED_ROOM = 256
"""The same where it says what has to be different: a small model may never come to an end of it."""
LENIENCY = 0.0
"""Nats by which old code is preferred behind the first change of a rewrite; 0 is off."""
_ELSEWHERE = 2
"""Places that are tried after the first."""
_NO_MODEL = "no model needed"
_LONGEST = 24_000
"""Characters; a conversation that is longer makes way for a new look at the file."""


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.0
    seed: int | None = None


@dataclass(frozen=True)
class Made:
    """An edit, good or not, and how it came about."""

    target: Target
    plan: EditPlan
    outcome: Outcome
    model: str
    tier: str | None
    seconds: float
    tokens: int
    retries: int = 0


@dataclass
class _Chain:
    """What the server remembers of this connection."""

    items: tuple[Message, ...] = ()
    response_id: str = ""


@dataclass
class Asker:
    connection: Connection
    person: Person
    workspace: Workspace
    model: str
    """Empty: the server's own choice."""
    deep: str | None = None
    sketch: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    patient: bool = True
    """Whether a bad answer is asked for again."""
    leniency: float = LENIENCY
    index: Index | None = None
    """What the project around the files exports."""
    guesses: bool = False
    """Whether the likeliest places do where nobody knows which is meant: nothing will be applied
    that nobody has looked at."""
    mends: bool = False
    """Whether it is about a bug that somebody else found: a small model says what is wrong before
    it writes the code."""
    fixing: Fixing | None = None
    """The finding that is to be fixed, if that is what is asked: an edit that leaves it is none."""
    _context: Context = field(default_factory=Context)
    _chain: _Chain = field(default_factory=_Chain)
    _around: Surroundings | None = None

    async def edit(self, target: Target, instruction: str) -> Made | None:
        """The edit; None when the person stopped it."""
        began = time.perf_counter()
        self._around = Surroundings(self.index, str(target.path))
        elsewhere = self._elsewhere(target, instruction)
        task = Task(str(target.path), target.text, instruction, target.selection, elsewhere)
        made = await self._make(target, task)
        return made and replace(made, seconds=time.perf_counter() - began)

    async def _make(self, target: Target, task: Task) -> Made | None:
        if self.sketch is not None:
            made = await self._placed(target, task, self.sketch)
            if made is not None:
                return made
        asked = await self._planned(target, task, self.model)
        if _unsure(asked) and not self.guesses:
            places = await self.person.chooses(_places(asked))
            if places is None and self.deep is not None:
                deep = await self._planned(target, task, self.deep)
                if not _unsure(deep):
                    return await self._try(target, deep, self.deep)
            if not places:
                return _undecided(target, asked, self.model)
            asked = await self._planned(target, task, self.model, places)
        made = await self._try(target, asked, self.model)
        if made is not None and self.patient and _mendable(made.outcome):
            made = await self._try_others(made)
        return made

    def _elsewhere(self, target: Target, instruction: str) -> frozenset[str] | None:
        """Which of the names that a rename is about other files have."""
        source = Source.of(str(target.path), target.text)
        names = names_to_look_for(source, instruction)
        return words_elsewhere(target.path, names) if names else None

    async def _try_others(self, first: Made) -> Made | None:
        """After an answer that does not hold: elsewhere in the file, or the same with the reason
        where the model is large enough to understand it; then another model, which begins
        afresh."""
        best = first
        task, target = first.plan.task, first.target
        for places in others(first.plan, first.outcome)[:_ELSEWHERE]:
            if best.outcome.good:
                return best
            asked = await self._planned(target, task, self.model, places)
            if (found := await self._better(best, asked, self.model)) is None:
                return None
            best = found
        if not best.outcome.good and first.plan.format == "search_replace":
            asked = retry(first.plan, first.outcome)
            if (found := await self._better(best, asked, self.model)) is None:
                return None
            best = found
        if best.outcome.good or self.deep is None:
            return best
        asked = await self._planned(target, task, self.deep)
        return await self._better(best, asked, self.deep)

    async def _better(self, best: Made, asked: EditPlan, model: str) -> Made | None:
        """The better of two edits; None when the person stopped the second."""
        why = best.outcome.problems[0].person
        self.person.tell(Withdrawn(why, None if model == self.model else model))
        made = await self._try(best.target, asked, model)
        if made is None:
            return None
        chosen = min((best, made), key=lambda each: (not each.outcome.good, each.outcome.invalid))
        return replace(chosen, tokens=best.tokens + made.tokens, retries=best.retries + 1)

    # -- asking -----------------------------------------------------------------------------------

    async def _planned(
        self, target: Target, task: Task, model: str, places: Sequence[Region] | None = None
    ) -> EditPlan:
        """In a thread: a file of thousands of lines takes longer than a key may wait."""
        return await asyncio.to_thread(self._plan, target, task, model, places)

    def _plan(
        self, target: Target, task: Task, model: str, places: Sequence[Region] | None = None
    ) -> EditPlan:
        context = self._told(target)
        if self.sketch is not None:
            return plan_delegate(task, self.sketch, context, model, places)
        made = plan(task, context, model, places)
        return explained(made) if self.mends else made

    def _told(self, target: Target) -> Context:
        """What is told before the request: it only grows, so that it is read only once."""
        if _length(self._context.past) > _LONGEST:
            self._context = Context()
        rules = instructions_for(self.workspace, target.path)
        return msgspec.structs.replace(
            self._context,
            instructions="\n\n".join(each.text for each in rules),
            formatter=formatting_for(self.workspace, target.path),
        )

    async def _try(self, target: Target, asked: EditPlan, model: str) -> Made | None:
        if asked.known is not None:
            return self._without_model(target, asked, asked.known)
        self.person.tell(Asked(asked, model))
        reader = _Reader(asked, self.person)
        try:
            stopped = await self._answer(reader, asked, model)
        except ClientError as error:
            if error.code != "previous_response_not_found" or not self._chain.response_id:
                raise
            self._chain = _Chain()
            stopped = await self._answer(reader, asked, model)
        if stopped:
            self._chain = _Chain()
            return None
        response = self.connection.response
        modules = await self._around.modules() if self._around else None
        cut_off = response is not None and response.cut_off
        outcome = await asyncio.to_thread(self._finish, reader, modules, cut_off=cut_off)
        self._remember(reader.plan, outcome, response.id if response else "")
        figures = self.connection.figures
        name = (response.model if response else None) or model
        seconds = time.perf_counter() - figures.started
        self.person.tell(Ended(outcome.hunks, name, seconds, _speed(figures)))
        return Made(
            target=target,
            plan=reader.plan,
            outcome=outcome,
            model=name,
            tier=_tier(response),
            seconds=seconds,
            tokens=figures.tokens,
        )

    def _finish(self, reader: _Reader, modules: Modules | None, *, cut_off: bool) -> Outcome:
        outcome = reader.finish(modules, cut_off=cut_off)
        if self.fixing is None or not outcome.hunks or outcome.invalid:
            return outcome
        said = self.fixing.objection(reader.plan.source, outcome.hunks)
        return msgspec.structs.replace(outcome, problems=(*said, *outcome.problems))

    def _without_model(self, target: Target, asked: EditPlan, answer: str) -> Made:
        """An edit that follows from the code alone, such as a rename."""
        began = time.perf_counter()
        self.person.tell(Asked(asked, _NO_MODEL))
        reader = _Reader(asked, self.person)
        reader.show(answer)
        outcome = reader.finish(None, cut_off=False)
        seconds = time.perf_counter() - began
        self.person.tell(Ended(outcome.hunks, _NO_MODEL, seconds))
        return Made(target, asked, outcome, _NO_MODEL, None, seconds, tokens=0)

    async def _placed(self, target: Target, task: Task, sketch: str) -> Made | None:
        """A sketch whose definitions say themselves where they go."""
        began = time.perf_counter()
        modules = await self._around.modules() if self._around else None
        found = await asyncio.to_thread(carried_out, task, sketch, modules)
        if found is None:
            return None
        asked, outcome = found
        self.person.tell(Asked(asked, _NO_MODEL))
        seconds = time.perf_counter() - began
        self.person.tell(Ended(outcome.hunks, _NO_MODEL, seconds))
        return Made(target, asked, outcome, _NO_MODEL, None, seconds, tokens=0)

    async def _answer(self, reader: _Reader, asked: EditPlan, model: str) -> bool:
        """Whether the person stopped it."""
        dialogue = Dialogue(self.connection, reader)
        async with self.person.waiting(dialogue):
            await dialogue.answer(**self._body(asked, model))
        return dialogue.stopped

    def _body(self, asked: EditPlan, model: str) -> dict[str, Any]:
        known = self._chain.items
        chained = bool(self._chain.response_id) and asked.items[: len(known)] == known
        new = asked.items[len(known) :] if chained else asked.items
        body: dict[str, Any] = {
            "input": [{"role": item.role, "content": item.content} for item in new],
            "store": False,
            "temperature": self.sampling.temperature,
            "max_output_tokens": _room(asked),
            "prediction": {"type": "content", "content": asked.prediction},
        }
        if self.leniency and asked.format == "region":
            body["prediction"]["leniency"] = self.leniency
        if model:
            body["model"] = model
        if self.sampling.seed is not None:
            body["seed"] = self.sampling.seed
        if chained:
            body["previous_response_id"] = self._chain.response_id
        return body

    def _remember(self, asked: EditPlan, outcome: Outcome, response_id: str) -> None:
        """What the person does not take of it, they will have changed since."""
        self._context = accepted(self._context, asked, outcome)
        self._chain = _Chain((asked.items[0], *self._context.past), response_id)


class _Reader:
    """Reads the answer to a plan, shows it, and makes a new plan when the person redirects it."""

    def __init__(self, asked: EditPlan, person: Person) -> None:
        self.plan = asked
        self._person = person
        self._attempt = Attempt(asked)
        self._said: list[str] = []

    @property
    def complete(self) -> bool:
        return self._attempt.complete

    def show(self, text: str) -> None:
        self._said.append(text)
        self._person.tell(Answered(text, tuple(self._attempt.feed(text))))

    def turned(self, line: str) -> str:
        self.plan = redirected(self.plan, "".join(self._said), line)
        self._attempt, self._said = Attempt(self.plan), []
        self._person.tell(Redirected(line))
        return str(self.plan.items[-1].content)

    def finish(self, modules: Modules | None, *, cut_off: bool) -> Outcome:
        outcome = self._attempt.finish(modules)
        if not cut_off or self.complete:
            return outcome
        said = Finding(
            "cut_off",
            "The answer was cut off: it grew far longer than the code.",
            "Your answer was too long and was cut off. Answer with the code alone.",
        )
        return msgspec.structs.replace(outcome, problems=(said, *outcome.problems))


def _unsure(asked: EditPlan) -> bool:
    """Whether the places that would be shown are a guess; a large model finds its own."""
    choice = asked.choice
    return choice is not None and not choice.sure and len(asked.shown) < len(asked.source.lines)


def _places(asked: EditPlan) -> Sequence[Region]:
    return asked.choice.regions if asked.choice is not None else asked.shown.regions


def _undecided(target: Target, asked: EditPlan, model: str) -> Made:
    places = ", ".join(each.title for each in _places(asked))
    why = (
        f"It is not clear which part of the file is meant; it could be {places}. Name it, or give "
        f"its lines, as in {target.path}:10-20."
    )
    problem = Finding("unsure", why, why)
    outcome = Outcome(hunks=(), text=target.text, problems=(problem,), answer="")
    return Made(target, asked, outcome, model, None, 0.0, tokens=0)


def _mendable(outcome: Outcome) -> bool:
    """Whether another answer could be better: none is where other files may use what is renamed."""
    return any(problem.code != "rename" for problem in outcome.problems)


def _room(asked: EditPlan) -> int:
    beside = _EXPLAINED_ROOM if asked.explained else _ROOM
    return beside + len(asked.prediction) // 2


def _tier(response: Response | None) -> str | None:
    if response is None:
        return None
    named = response.model if response.model in ("fast", "deep") else None
    return response.tier or named


def _speed(figures: Figures) -> Speed:
    return Speed(figures.tokens, figures.first_token, figures.tokens_per_second, figures.drafted)


def _length(items: Sequence[Message]) -> int:
    return sum(len(str(item.content)) for item in items)
