"""What a history amounts to: everything held, something is broken, or that cannot be said.

Broken beats unknown beats held, so that neither a checker that crashed nor a fault that hit
nothing passes for proof. What is doubtful is said in a sentence each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path

import msgspec
from msgspec import Struct

from chaos.history import Entry, Struck, save
from chaos.invariants import INVARIANTS
from chaos.invariants.found import Found, Violation
from chaos.lives import Life
from chaos.story import Story

__all__ = ["Verdict", "Word", "judge", "keep", "open_at", "worst"]


class Word(Enum):
    HOLDS = "holds"
    UNKNOWN = "unknown"
    BROKEN = "broken"


_ORDER = tuple(Word)


def worst(words: Iterable[Word]) -> Word:
    """Of several verdicts; of none, nothing can be said."""
    return max(words, key=_ORDER.index, default=Word.UNKNOWN)


class Verdict(Struct, frozen=True):
    word: Word
    violations: list[Violation] = []
    doubts: list[str] = []
    """Why it cannot be said that all held."""
    hit: dict[str, list[str]] = {}
    """The responses that were open when each fault began, in the state that it was to hit, by its
    name and target."""
    open: dict[str, int] = {}
    """How many were open then, in whatever state."""

    @property
    def counts(self) -> bool:
        """Whether the run says something: it is broken, or was no harmless one."""
        return self.word is not Word.UNKNOWN


def judge(
    history: Sequence[Entry], invariants: dict[str, Callable[[Story], Found]] = INVARIANTS
) -> Verdict:
    try:
        story = Story(history)
    except Exception as error:  # noqa: BLE001 - a checker's own fault must not pass for proof
        return Verdict(Word.UNKNOWN, doubts=[f"the history could not be read: {error!r}"])
    violations: list[Violation] = []
    doubts = list(_thin(story))
    for name, invariant in invariants.items():
        try:
            violations += [Violation(name, what, about) for what, about in invariant(story)]
        except Exception as error:  # noqa: BLE001 - likewise
            doubts.append(f"the checker of {name} crashed: {error!r}")
    word = Word.BROKEN if violations else Word.UNKNOWN if doubts else Word.HOLDS
    return Verdict(word, violations, doubts, _hit(story), _open(story))


def _thin(story: Story) -> Iterable[str]:
    """Why this history would prove little even if all held."""
    if story.calm is None:
        yield "it never became calm"
        return
    if not story.lives:
        yield "no turn was accepted"
    for name, open_ in _hit(story).items():
        if not open_:
            yield f"{name} hit no open turn"
    for fault in story.faults:
        if fault.end is None:
            yield f"{fault.fault} of {fault.target} was never healed"
    if story.stalls:
        longest = max(stall.end - stall.begin for stall in story.stalls)
        yield f"the machine stood still for up to {longest:.1f} s: it is too busy for this"
    unseen = [life.id for life in story.lives.values() if _nobody_looked(story, life)]
    if unseen:
        yield f"nobody could look for {', '.join(unseen)} when all was calm"


def _nobody_looked(story: Story, life: Life) -> bool:
    assert story.calm is not None
    looked = any(
        call.begin >= story.calm.at and call.status is not None
        for call in story.asked("GET", life.id)
    )
    return life.stored and not looked


def _hit(story: Story) -> dict[str, list[str]]:
    hit: dict[str, list[str]] = {}
    for fault in story.faults:
        meant = [
            life.id
            for life in open_at(story, fault)
            if fault.turns is None or life.id in fault.turns
        ]
        hit[_name(fault)] = hit.get(_name(fault), []) + meant
    return hit


def _open(story: Story) -> dict[str, int]:
    return {_name(fault): len(_open_then(story, fault)) for fault in story.faults}


def _name(fault: Struck) -> str:
    return f"{fault.fault} of {fault.target}"


def open_at(story: Story, fault: Struck) -> list[Life]:
    """Responses that were open when it began; of a fault of one stream, those that it read."""
    return [
        life
        for life in _open_then(story, fault)
        if fault.target not in story.joined
        or any(reading.client == fault.target for reading in life.readings)
    ]


def _open_then(story: Story, fault: Struck) -> list[Life]:
    """Those that had been accepted and, for all that anybody saw, not ended when it began."""
    return [
        life
        for life in story.lives.values()
        if life.at < fault.begin
        and all(end.at > fault.begin for end in story.ends.get(life.id, ()))
    ]


def keep(folder: Path, history: Sequence[Entry], verdict: Verdict) -> Path:
    """What is needed to look again: the history, and what was said of it. Returns the former."""
    folder.mkdir(parents=True, exist_ok=True)
    save(folder / "history.jsonl", history)
    (folder / "verdict.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(verdict), indent=2) + b"\n"
    )
    return folder / "history.jsonl"
