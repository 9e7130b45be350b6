"""An answer while it is written: which gap it is for, and whether it still fits what is typed."""

from __future__ import annotations

from msgspec import Struct

from vivace.completion.anchor import Anchor
from vivace.completion.extent import Cut, cut, so_far
from vivace.completion.trimming import Place

__all__ = ["Running"]

_BLIND = 24
"""Characters that may be typed while an answer has not begun; then it is hardly about them."""


class Running(Struct):
    number: int
    anchor: Anchor
    place: Place
    told: str
    """What was typed since the anchor, as far as the model knows it."""
    line: str
    """What stands before the answer on its first line."""
    one_line: bool
    starts_with: str = ""
    ends: str | None = None
    """The end of a suggestion behind what is told, where this is to follow that suggestion."""
    text: str = ""
    glimpsed: int = 0
    """How many of its lines were whole when it was last looked at in the making."""

    @property
    def so_far(self) -> str:
        return so_far(self.text, self.line, one_line=self.one_line)

    @property
    def parts(self) -> tuple[Cut, ...]:
        """What will be shown: behind the cursor; and where a suggestion that is to be followed ends
        its line, the next lines too, for who takes it and begins a new one."""
        here = cut(self.text, self.line, one_line=self.one_line)
        if self.one_line or self.ends is None or not here.whole or here.text != self.ends:
            return (here,)
        return (here, cut(self.text[len(here.text) + 1 :], "", one_line=False))

    @property
    def whole(self) -> bool:
        return all(part.whole for part in self.parts)

    def may_fit(self, anchor: Anchor, typed: str) -> bool:
        """Whether what it writes may still go on from what is typed."""
        if anchor != self.anchor or not typed.startswith(self.told):
            return False
        since = typed[len(self.told) :]
        if not self.text:
            return len(since) <= _BLIND and "\n" not in since.strip(" \t")
        return self.text.startswith(since) or since.startswith(self.text)
