"""What an agent is answered: the diff, what was checked, and what it cost; or why there is none."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from vivace.desk.asking import Made
from vivace.desk.edit import Result, diff_of
from vivace.desk.too_long import TooLong
from vivace.errors import VivaceError
from vivace.mcp.person import AtAgent
from vivace.workspace.errors import Protected

__all__ = ["Reply", "failure", "reply_of"]

_LONGEST = 30_000
"""Characters of a diff; an agent has read most of it before, or wrote it."""


class Reply(Struct, frozen=True):
    text: str
    failed: bool = False
    """Whether nothing was written."""


def failure(error: VivaceError) -> Reply:
    """An error in words that an agent can act on."""
    words = str(error)
    if isinstance(error, Protected):
        words = (
            f"{error.path} was refused: {error.why}. Only the user may have it changed: tell them, "
            "or leave it alone."
        )
    elif isinstance(error, TooLong):
        words += " Lines go into the argument selection, as in 10-60."
    return Reply(f"Nothing was written. {words}", failed=True)


def reply_of(result: Result, person: AtAgent) -> Reply:
    if result.applied:
        return Reply("\n".join(_applied(result, person)))
    return Reply("\n".join(_not_applied(result, person)), failed=True)


def _applied(result: Result, person: AtAgent) -> Iterator[str]:
    edits = [made for made in result.edits if made.outcome.hunks]
    for written in person.written:
        since = " (carried over: it had changed elsewhere meanwhile)" if written.rebased else ""
        yield f"Written: {written.path} +{written.added} -{written.removed}{since}"
    yield ""
    yield from map(_diff, edits)
    yield f"Checked: {_checked(edits[0])}."
    yield f"Made by: {_cost(edits)}."


def _not_applied(result: Result, person: AtAgent) -> Iterator[str]:
    if result.conflict is not None:
        yield result.conflict
        return
    if person.outside:
        yield f"Nothing was written: {person.outside} would have to change too, and it is outside "
        yield "of the folder that this server edits in. Leave the rename to the user."
        return
    if person.places:
        yield "Nothing was written: it is not clear which part of the file is meant. It could be:"
        yield from (f"- {each.title}" for each in person.places)
        yield "Call again with its name in the instruction, or with its lines as the selection."
        return
    yield from _refused(result)


def _refused(result: Result) -> Iterator[str]:
    reasons = [problem for made in result.edits for problem in made.outcome.problems]
    said = list(dict.fromkeys(problem.person for problem in reasons))
    yield f"Nothing was written. {' '.join(said)}".rstrip()
    shown = [made for made in result.edits if made.outcome.hunks]
    if not shown:
        yield "If the file is as it should be already, go on. Else say the change in other words, "
        yield "or make it yourself."
        return
    yield "This would have been written:"
    yield ""
    yield from map(_diff, shown)
    if any(problem.severity == "error" for problem in reasons):
        yield "Say the change in other words, or make it yourself."
    else:
        yield "If this is meant, call again with an instruction that names what was said above, or "
        yield "make the change yourself. If not, say it in other words."


def _diff(made: Made) -> str:
    text = diff_of(made)
    if len(text) <= _LONGEST:
        return text
    left_out = text.count("\n", _LONGEST)
    return f"{text[:_LONGEST]}\n... {left_out} more lines of the diff are not shown here.\n"


def _checked(made: Made) -> str:
    """What every edit has passed that is written."""
    about = ", ".join(each.title for each in made.plan.shown.regions)
    language = made.plan.source.language
    where = "only what was asked about changed" if made.plan.sketch else f"only {about} changed"
    if language is None:
        return f"{where}; no code was left out. It was not parsed: its language is not known here"
    bound = "; it uses no new name that is bound nowhere" if language.name == "python" else ""
    return (
        f"it parses ({language.name}); {where}; no definition, return value or statement was lost "
        f"that was not named{bound}"
    )


def _cost(edits: list[Made]) -> str:
    tokens = sum(made.tokens for made in edits)
    seconds = max(made.seconds for made in edits)
    by = edits[0].model
    if not tokens and edits[0].plan.sketch:
        by = "no model: what the sketch defines was put in its place by name"
    elif not tokens:
        by = f"{by}: it follows from the code alone"
    again = sum(made.retries for made in edits)
    tries = f", asked {again + 1} times" if again else ""
    return f"{by}, {tokens} tokens{tries}, {seconds:.1f} s"
