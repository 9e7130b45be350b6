"""What a model is told before it is asked, so that what it was told never changes.

Engines keep what they have read, as long as it stays the same from the beginning on. So a context
only grows: instructions and the project's rules first, then a file as it was, then what was asked
and answered, and the newest request last. An edit never changes an earlier message, and a model
that reads the next request has read all but the end of it already.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from vivace.edits.diff import between
from vivace.edits.fence import fence_for
from vivace.protocol.items import Message
from vivace.syntax.hunk import unified

__all__ = ["Context"]


class Context(Struct, frozen=True, kw_only=True):
    """Frozen: each step gives a longer one, and the old one stays good."""

    instructions: str = ""
    """The project's own rules, as AGENTS.md has them."""
    formatter: str = ""
    """The settings of the project's formatter."""
    past: tuple[Message, ...] = ()
    files: dict[str, str] = {}
    """The files as the past tells of them."""

    def request(self, system: str, text: str) -> tuple[Message, ...]:
        """The messages of a request, newest last."""
        return (self.head(system), *self.past, Message(role="user", content=text))

    def head(self, system: str) -> Message:
        """What stands before all requests."""
        parts = [system]
        if self.instructions.strip():
            parts.append("Rules of this project:\n" + self.instructions.strip())
        if self.formatter.strip():
            parts.append("Settings of its formatter:\n" + self.formatter.strip())
        return Message(role="system", content="\n\n".join(parts))

    def showing(self, path: str, text: str) -> Context:
        """With the file as it is now: whole the first time, then what the person changed since."""
        known = self.files.get(path)
        if known == text:
            return self
        if known is None:
            shown = f"{path} as it is now:\n{_fenced(text)}"
        else:
            diff = unified(path, known, between(known, text))
            shown = f"I have changed this since:\n{_fenced(diff, 'diff')}"
        message = Message(role="user", content=shown)
        return replace(self, past=(*self.past, message), files={**self.files, path: text})

    def after(self, messages: Sequence[Message], answer: str, path: str, text: str) -> Context:
        """With a request that was sent, its answer, and the file as it became by it."""
        said = Message(role="assistant", content=answer)
        return replace(self, past=(*messages[1:], said), files={**self.files, path: text})


def _fenced(text: str, kind: str = "") -> str:
    fence = fence_for(text)
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{fence}{kind}\n{text}{end}{fence}"
