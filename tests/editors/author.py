"""A model that knows what the person is about to write."""

from __future__ import annotations

from collections.abc import Sequence

from vivace.engines.base import Chat, Work
from vivace.engines.scripted import Act, Reply, Say, Script, ScriptedEngine
from vivace.protocol.requests import Fill


class Author:
    """In place of an engine's script: every gap is filled with the rest of ``text``, and what else
    is asked is answered by ``replies``."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self.text = ""
        self.replies: Sequence[Reply] = ()
        self.fills: list[Fill] = []
        engine._script = self  # type: ignore[assignment]

    def writes(self, text: str, *replies: Reply) -> None:
        """From now on; what was asked before is forgotten."""
        self.text, self.replies = text, replies
        self.fills.clear()

    def reply_to(self, work: Work) -> tuple[Act, ...]:
        if isinstance(work.prompt, Chat):
            return Script(tuple(self.replies)).reply_to(work)
        self.fills.append(work.prompt)
        before = work.prompt.prefix + work.prompt.typed
        known = max(n for n in range(len(self.text) + 1) if before.endswith(self.text[:n]))
        return (Say(self.text[known:]),) if known < len(self.text) else ()
