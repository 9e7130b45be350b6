"""An agent in the person's place: what is good is wanted, and what is doubtful is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vivace.desk.applying import Accepted, Written
from vivace.desk.events import Answered, Asked, Ended, Event, Withdrawn, Wrote
from vivace.desk.person import Unattended
from vivace.edits.placing.region import Region

__all__ = ["AtAgent"]


class AtAgent(Unattended):
    """Keeps what the answer will need, and what there is to say on the way."""

    def __init__(self, folder: Path) -> None:
        self.places: Sequence[Region] = ()
        """Those of which nobody knows which is meant."""
        self.written: list[Written] = []
        self.outside = ""
        """A file beyond the folder that the edit would have changed too."""
        self.steps = 0
        """It only grows: so much has happened."""
        self.doing = "looking at the file"
        self._folder = folder

    def tell(self, event: Event) -> None:
        self.steps += 1
        match event:
            case Asked():
                self.doing = f"asking {event.model or 'the model'}"
            case Answered():
                self.doing = "writing"
            case Withdrawn():
                self.doing = f"asking {event.model or 'again'}"
            case Ended():
                self.doing = "checking"
            case Wrote():
                self.written.append(event.written)

    async def chooses(self, places: Sequence[Region]) -> None:
        self.places = places

    async def accepts(self, edits: Sequence[Accepted]) -> Sequence[Accepted]:
        """A rename may concern many files; none outside of the folder is touched."""
        for edit in edits:
            if not edit.target.path.absolute.is_relative_to(self._folder):
                self.outside = str(edit.target.path)
                return [Accepted(each.target, ()) for each in edits]
        return edits
