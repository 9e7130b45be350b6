"""From a failure to edits that may mend it: each is asked for at one place, and tried.

What a model answers goes through the same checks as any edit. What holds is put into a throwaway
copy of the work tree, in which the person's own command says whether it is a fix.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from vivace.client.connection import open_connection
from vivace.client.errors import ClientError
from vivace.desk.asking import Asker, Made, Sampling
from vivace.desk.person import Unattended
from vivace.desk.suspects import Place
from vivace.desk.targets import Target
from vivace.desk.too_long import within_reach
from vivace.desk.trying import checked_in_copy
from vivace.desk.watch_events import Asking, Fix, FixFailed, Watcher
from vivace.edits.fence import fence_for
from vivace.errors import VivaceError
from vivace.failures.failure import Failure
from vivace.failures.output import Kept
from vivace.failures.own import Project
from vivace.failures.progress import gets_further
from vivace.failures.reading import read
from vivace.syntax.lines import lines_of
from vivace.workspace.ignore import secret_content
from vivace.workspace.index import Index
from vivace.workspace.paths import Workspace

__all__ = ["Fixer", "Wanted", "what_to_fix"]

_TEMPERATURE = 0.7
_AGAIN = 1.0
"""Where an attempt comes to what another one has tried."""
_MESSAGE_LINES = 12
_CHARACTERS = 2000


@dataclass(frozen=True)
class Wanted:
    """What is to pass, and what stands in the way."""

    command: str
    failure: Failure
    places: Sequence[Place]
    failures: tuple[Failure, ...] = ()
    """All of them, with frames of the project alone."""
    files: frozenset[str] = frozenset()
    """The project's, from the root down."""
    test: str = ""
    """The code of the test that failed, up to where it did."""
    seconds: float = 60.0
    """How long the command may take with a fix."""


@dataclass(frozen=True)
class _Try:
    number: int
    place: Place
    model: str
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True)
class Fixer:
    """Whom to ask, and where."""

    workspace: Workspace
    here: str
    """Where the command runs, from the root down."""
    url: str
    key: str | None
    fast: str
    deep: str | None = None
    attempts: int = 1
    """How many different fixes are asked for at once."""
    index: Index | None = None

    async def fix(self, wanted: Wanted, watcher: Watcher) -> Fix | None:
        """The first that passes; without one, the first with which the command at least gets
        further. One model after the other is asked, the fast one first. Raises ClientError where no
        model answers."""
        better: Fix | None = None
        tried: set[tuple[str, str]] = set()
        for at_once in self._tries(wanted.places):
            async with aclosing(self._made(at_once, wanted, tried, watcher)) as fixes:
                async for fix in fixes:
                    if fix.passed:
                        return fix
                    better = better or fix
        return better

    def _tries(self, places: Sequence[Place]) -> list[list[_Try]]:
        """Which attempts run at once, and which only if those before have failed."""
        if self.attempts == 1:
            rows = [[_Try(at, place, self.fast)] for at, place in enumerate(places, 1)]
        else:
            rows = [[self._one_of_many(at, places) for at in range(self.attempts)]]
        if self.deep is not None:
            count = sum(map(len, rows))
            deep = [_Try(count + at, each, self.deep) for at, each in enumerate(places[:2], 1)]
            rows += [[each] for each in deep]
        return rows

    def _one_of_many(self, at: int, places: Sequence[Place]) -> _Try:
        """Half of them at the likeliest place. The first at each is what would come without the
        others."""
        others = places[1:]
        if not others or at % 2 == 0:
            place, nth = places[0], at // 2 if others else at
        else:
            place, nth = others[at // 2 % len(others)], at // 2 // len(others)
        sampling = Sampling(_TEMPERATURE, seed=at) if nth else Sampling()
        return _Try(at + 1, place, self.fast, sampling)

    async def _made(
        self,
        at_once: Sequence[_Try],
        wanted: Wanted,
        tried: set[tuple[str, str]],
        watcher: Watcher,
    ) -> AsyncGenerator[Fix]:
        for each in at_once:
            watcher.tell(Asking(each.number, each.place.title, each.model))
        tasks = [asyncio.create_task(self._attempt(each, wanted, tried)) for each in at_once]
        unanswered: list[ClientError] = []
        try:
            for done in asyncio.as_completed(tasks):
                made = await done
                if isinstance(made, Fix):
                    yield made
                elif isinstance(made, FixFailed):
                    watcher.tell(made)
                else:
                    unanswered.append(made)
            if len(unanswered) == len(at_once):
                raise unanswered[0]  # nobody is there to be asked again
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _attempt(
        self, attempt: _Try, wanted: Wanted, tried: set[tuple[str, str]]
    ) -> Fix | FixFailed | ClientError:
        try:
            made = await self._asked(attempt, wanted, attempt.sampling)
            if self.attempts > 1 and _key(made) in tried:
                again = Sampling(_AGAIN, seed=1000 + attempt.number)
                made = await self._asked(attempt, wanted, again)
            if (why := _why_not(made)) is not None:
                return FixFailed(attempt.number, why)
            assert made is not None
            if _key(made) in tried:
                return FixFailed(attempt.number, "it is the same as another attempt.")
            tried.add(_key(made))
            return await self._tried(attempt, made, wanted)
        except ClientError as error:
            return error
        except VivaceError as error:
            return FixFailed(attempt.number, str(error))

    async def _asked(self, attempt: _Try, wanted: Wanted, sampling: Sampling) -> Made | None:
        place = attempt.place
        target = Target(place.document, place.lines)
        async with open_connection(self.url, self.key) as connection:
            asker = Asker(
                connection,
                Unattended(),
                self.workspace,
                attempt.model,
                sampling=sampling,
                patient=False,
                index=self.index,
                guesses=True,
                mends=True,
            )
            with within_reach(target):
                return await asker.edit(target, what_to_fix(wanted, place))

    async def _tried(self, attempt: _Try, made: Made, wanted: Wanted) -> Fix | FixFailed:
        said = Kept()
        try:
            async with asyncio.timeout(wanted.seconds):
                ran = await checked_in_copy(
                    self.workspace, [made], wanted.command, self.here, said.add
                )
        except TimeoutError:
            why = f"with it, {wanted.command} does not end within {wanted.seconds:.0f} s."
            return FixFailed(attempt.number, why)
        if ran.checked.passed:
            return Fix(made, attempt.place, passed=True)
        if await asyncio.to_thread(self._is_further, wanted, said.text, ran.root):
            return Fix(made, attempt.place, passed=False)
        return FixFailed(attempt.number, f"with it, {wanted.command} still fails.")

    def _is_further(self, wanted: Wanted, said: str, copy: Path) -> bool:
        """Whether a command that still fails gets further than before."""
        project = Project(str(copy), wanted.files, self.here)
        own = (project.own(failure) for failure in read(said))
        return gets_further(wanted.failures, [failure for failure in own if failure.frames])


def _key(made: Made | None) -> tuple[str, str]:
    return (str(made.target.path), made.outcome.text) if made is not None else ("", "")


def _why_not(made: Made | None) -> str | None:
    """Why an edit is not worth trying; what is only suspicious is told where it is offered."""
    if made is None:
        return "it was stopped."
    outcome = made.outcome
    if outcome.invalid or not outcome.hunks:
        return outcome.problems[0].person if outcome.problems else "the model changed nothing."
    return None


# -- what is asked --------------------------------------------------------------------------------


def what_to_fix(wanted: Wanted, place: Place) -> str:
    """The instruction. A small model takes what it is told beside the reason for code that it is to
    change: so it gets the reason, the line, and the test alone."""
    failure = wanted.failure
    parts = ["Fix the bug in this code."]
    if wanted.test:
        fence = fence_for(wanted.test)
        parts.append(f"This test is right, and it fails:\n{fence}\n{wanted.test}\n{fence}")
    parts.append(f"`{wanted.command}` fails with:")
    parts.append(_first_lines(failure.message, _MESSAGE_LINES))
    if place.at is not None and (line := _line(place.document.text, place.at)):
        parts.append(f"It fails at this line:\n{line}")
    return _without_secrets("\n".join(parts))[:_CHARACTERS]


def _line(text: str, at: int) -> str:
    lines = lines_of(text)
    return lines[at].strip()[:200] if at < len(lines) else ""


def _first_lines(text: str, most: int) -> str:
    return "\n".join(text.splitlines()[:most])


def _without_secrets(text: str) -> str:
    """What a program prints may hold a key, which must not get to a model."""
    kept = (line for line in text.splitlines() if secret_content(line.encode()) is None)
    return "\n".join(kept)
