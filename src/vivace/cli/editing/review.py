"""Which hunks the person wants: one question each, as ``git add -p`` asks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from vivace.cli.editing.diff import GrowingDiff, coloured, grouped
from vivace.cli.editing.view import describe_region
from vivace.cli.keyboard import ESCAPE
from vivace.cli.output import say, styled
from vivace.desk.applying import Accepted
from vivace.desk.targets import Target
from vivace.edits.placing.region import Region
from vivace.syntax.finding import Finding
from vivace.syntax.hunk import Hunk

__all__ = ["Ask", "agreed", "choose_places", "review"]

Ask = Callable[[str], Awaitable[str | None]]
"""A question to the person; None when they are gone."""

_HELP = """\
y - apply this change
n - leave it out
a - apply it and all that follow in this file
d - leave out it and all that follow in this file
q - leave out it and all that follow; so does Esc
? - this help"""

_ANSWERS = {**{key: key for key in "ynadq"}, "yes": "y", "no": "n", ESCAPE: "q"}
"""Nothing else counts: what is pasted by mistake may begin with any letter."""


async def choose_places(places: Sequence[Region], ask: Ask) -> Sequence[Region]:
    """Which places are meant: one by its number, or all of them; none where that is no answer."""
    say("Which part is meant?")
    for number, each in enumerate(places, 1):
        say(f"  {number}  {describe_region(each)}")
    said = await ask(f"[1-{len(places)}, a for all of them, q] ")
    if said is not None and said.strip().lower() in ("a", "all"):
        return places
    chosen = said.strip() if said is not None else ""
    return [each for number, each in enumerate(places, 1) if chosen == str(number)]


async def review(edits: Sequence[Accepted], ask: Ask, seen: Sequence[Hunk] = ()) -> list[Accepted]:
    """What is accepted of each file, out of these; ``seen`` are the hunks that stand above the
    question already. What is suspicious is said beside the hunk it is about, and nobody accepts it
    unseen by accepting all."""
    total = sum(len(grouped(edit.hunks)) for edit in edits)
    number = 0
    done = False
    accepted: list[Accepted] = []
    for edit in edits:
        kept: list[Hunk] = []
        rest = ""
        _warn(_elsewhere(edit))
        for group in grouped(edit.hunks):
            number += 1
            doubts = [each for each in edit.doubts if _is_about(each, group)]
            answer = "q" if done else rest
            if not answer or (answer == "a" and doubts):
                if total > 1 or group != list(seen):  # one alone has mostly just been shown
                    _show(edit.target, group)
                _warn(doubts)
                answer = await _answer(ask, f"({number}/{total}) Apply this change [y,n,a,d,q,?]? ")
                rest = answer if answer in ("a", "d") else rest
                done = answer == "q"
            if answer in ("y", "a"):
                kept += group
        accepted.append(Accepted(edit.target, tuple(kept)))
    return accepted


def _is_about(doubt: Finding, group: Sequence[Hunk]) -> bool:
    lines = doubt.lines
    return lines is not None and any(
        hunk.start <= lines[1] and lines[0] <= hunk.end for hunk in group
    )


def _elsewhere(edit: Accepted) -> list[Finding]:
    """What is about the edit as a whole."""
    return [doubt for doubt in edit.doubts if not _is_about(doubt, edit.hunks)]


def _warn(doubts: Sequence[Finding]) -> None:
    for doubt in doubts:
        say(f"! {doubt.person}", fg="yellow")


async def agreed(ask: Ask, question: str) -> bool:
    """Whether the person says yes; anything else is no."""
    answer = await ask(styled(f"{question} [y,N] ", bold=True))
    return (answer or "").lower() in ("y", "yes")


async def _answer(ask: Ask, question: str) -> str:
    while True:
        said = await ask(styled(question, bold=True, fg="blue"))
        if said is None:
            return "q"
        answer = _ANSWERS.get(said.lower())
        if answer is not None:
            return answer
        if said != "?":
            say("One letter is the answer, typed and alone:")
        say(_HELP)


def _show(target: Target, group: Sequence[Hunk]) -> None:
    say(styled(str(target.path), bold=True))
    diff = GrowingDiff(target.text)
    for hunk in group:
        for line in diff.add(hunk):
            say(coloured(line))
    for line in diff.end():
        say(coloured(line))
