"""The person at a terminal, and nobody at the end of a pipe: what they are told, in which words."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence

from vivace.cli.dialogue import typing
from vivace.cli.editing.diff import coloured
from vivace.cli.editing.review import agreed, choose_places, review
from vivace.cli.editing.terminal import ask_answer, on_interrupt
from vivace.cli.editing.view import LiveView
from vivace.cli.output import command_output, say
from vivace.desk.applying import Accepted, Written
from vivace.desk.dialogue import Dialogue
from vivace.desk.events import (
    Answered,
    Asked,
    AttemptFailed,
    CheckBegan,
    CheckFails,
    CheckSaid,
    Conflicted,
    Ended,
    Event,
    NoAttemptPassed,
    NoFix,
    NothingWritten,
    Reconnected,
    Redirected,
    Refused,
    Stopped,
    Unchanged,
    Withdrawn,
    Wrote,
)
from vivace.desk.person import Unattended
from vivace.edits.placing.region import Region
from vivace.syntax.hunk import Hunk

__all__ = ["AtTerminal", "Piped"]


class _Told(Unattended):
    """What is said in the same words wherever it is said."""

    def __init__(self, *, json: bool = False) -> None:
        """``json``: standard output is for the report alone."""
        self._json = json
        self._command_output = command_output(err=json)

    def tell(self, event: Event) -> None:
        match event:
            case Refused():
                say(f"{event.path}: refused. {event.why}", err=True, fg="red")
            case Conflicted():
                for line in str(event.conflict).split("\n"):
                    say(coloured(line), err=True)
            case Wrote():
                say(_wrote(event.written), err=self._json)
            case CheckBegan():
                say(f"$ {event.command}", err=True, bold=True)
                self._command_output = command_output(err=self._json)
            case CheckSaid():
                self._command_output(event.data)
            case _:
                if words := _words(event):
                    say(words, err=True)


class Piped(_Told):
    """Nobody can be asked: only what somebody must know is said, on standard error."""

    def tell(self, event: Event) -> None:
        match event:
            case Asked() | Answered() | Redirected():
                return
            case Ended():
                say(_summary(event), err=True, dim=True)
            case Refused():
                super().tell(event)
                if not self._json:
                    say(event.diff, err=True, nl=False)
            case _:
                super().tell(event)


class AtTerminal(_Told):
    """Sees the diff grow, may talk to it, and decides hunk by hunk; with ``yes`` all is wanted that
    is good."""

    def __init__(self, *, yes: bool = False) -> None:
        super().__init__()
        self._yes = yes
        self._view = LiveView()
        self._seen: tuple[Hunk, ...] = ()
        """The hunks of the answer that was shown last; an earlier one may be offered."""

    def tell(self, event: Event) -> None:
        match event:
            case Asked():
                self._view.begin(event.plan, event.model)
            case Answered():
                self._view.progress(event.text, event.hunks)
            case Redirected():
                self._view.turned(event.line)
            case Withdrawn():
                self._view.withdrawn(_words(event))
            case Ended():
                self._seen = event.hunks
                self._view.finish(event.hunks, _summary(event))
            case AttemptFailed() | Reconnected():
                self._view.clear()
                say(_words(event))
            case _:
                super().tell(event)

    @contextlib.asynccontextmanager
    async def waiting(self, dialogue: Dialogue | None) -> AsyncIterator[None]:
        async with self._view.ticking():
            if dialogue is None:
                yield
                return
            with on_interrupt(dialogue.stop), typing(dialogue, self._view.pause):
                yield

    @property
    def reviews(self) -> bool:
        return not self._yes

    async def chooses(self, places: Sequence[Region]) -> Sequence[Region] | None:
        return None if self._yes else await choose_places(places, ask_answer)

    async def overrules(self, *, can_be_applied: bool) -> bool:
        return can_be_applied and await agreed(ask_answer, "Apply it all the same?")

    async def accepts(self, edits: Sequence[Accepted]) -> Sequence[Accepted]:
        return edits if self._yes else await review(edits, ask_answer, self._seen)

    async def accepts_in_part(self, problem: str) -> bool:
        return await agreed(ask_answer, f"{problem} Apply it all the same?")

    async def wants_fix(self) -> bool:
        return self._yes or await agreed(ask_answer, "The check fails. Ask for a fix?")


def _words(event: Event) -> str:
    match event:
        case Reconnected():
            return "The connection was lost and is back."
        case Withdrawn(why=why, model=model):
            asking = "Asking again" if model is None else f"Asking {model}"
            return f"{why}\n{asking}."
        case AttemptFailed():
            return f"attempt {event.number}: {event.why}"
        case NoAttemptPassed():
            return f"None of {event.attempts} attempts passed; nothing was written."
        case Unchanged():
            return f"{event.path}: {event.why}"
        case NothingWritten(refused=True):
            return "Nothing was written. Say it in other words, or try another --model."
        case NothingWritten():
            return "nothing was written"
        case Stopped(kept=True):
            return "\nThe edit is kept; to take it back: vivace undo"
        case Stopped():
            return "stopped; nothing was written"
    return _words_of_a_check(event)


def _words_of_a_check(event: Event) -> str:
    match event:
        case NoFix():
            return f"No fix was found. {event.why}"
        case CheckFails():
            steps = "" if event.entries == 1 else f" -n {event.entries}"
            kept = f"The edit is kept; to take it back: vivace undo{steps}"
            return f"The check still fails. {kept}"
    return ""


def _wrote(written: Written) -> str:
    since = "  (carried over to what was changed meanwhile)" if written.rebased else ""
    return f"{written.path}  +{written.added} -{written.removed}{since}"


def _summary(ended: Ended) -> str:
    if ended.passed:
        return f"{ended.model} · the check passed"
    parts = [ended.model]
    if (speed := ended.speed) is not None:
        parts.append(f"{speed.tokens} tokens")
        if speed.first_token is not None:
            parts.append(f"first after {speed.first_token:.2f} s")
        if speed.per_second is not None:
            parts.append(f"{speed.per_second:.0f} tokens/s")
    return " · ".join([*parts, f"{ended.seconds:.1f} s"])
