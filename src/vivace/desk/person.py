"""Who sits at the desk: told what happens, asked what to do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol

from vivace.desk.applying import Accepted
from vivace.desk.dialogue import Dialogue
from vivace.desk.events import Event
from vivace.edits.placing.region import Region

__all__ = ["Person", "Unattended"]


class Person(Protocol):
    def tell(self, event: Event) -> None: ...

    def waiting(self, dialogue: Dialogue | None) -> AbstractAsyncContextManager[None]:
        """While this lasts they wait, and may redirect or stop the answer of the dialogue."""

    @property
    def reviews(self) -> bool:
        """Whether they look at each hunk, beside what makes it suspicious; where they do not, a
        suspicion is a reason to refuse."""

    async def chooses(self, places: Sequence[Region]) -> Sequence[Region] | None:
        """Which of these places of the file is meant, where that is not clear; none: stop here.
        None where nobody is there to say it."""

    async def overrules(self, *, can_be_applied: bool) -> bool:
        """Whether what was refused is wanted all the same."""

    async def accepts(self, edits: Sequence[Accepted]) -> Sequence[Accepted]:
        """Which hunks of each of these edits are wanted, doubts or not."""

    async def accepts_in_part(self, problem: str) -> bool:
        """Whether their choice of hunks is wanted, though it breaks what the whole did not."""

    async def wants_fix(self) -> bool:
        """Whether to ask for an edit that makes the check pass."""


class Unattended:
    """Nobody can be asked: what is good is wanted, what is refused is not. Hears and says nothing;
    a view that shows what happens extends it."""

    def tell(self, event: Event) -> None:
        pass

    def waiting(self, dialogue: Dialogue | None) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    @property
    def reviews(self) -> bool:
        return False

    async def chooses(self, places: Sequence[Region]) -> Sequence[Region] | None:
        return None

    async def overrules(self, *, can_be_applied: bool) -> bool:
        return False

    async def accepts(self, edits: Sequence[Accepted]) -> Sequence[Accepted]:
        return edits

    async def accepts_in_part(self, problem: str) -> bool:
        return False

    async def wants_fix(self) -> bool:
        return True
