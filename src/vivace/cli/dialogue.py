"""The keyboard in a dialogue: a line redirects the answer, Tab ends its thinking, Esc stops it.

From the first key to Enter the answer is held back, so that the line stays whole on the screen.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator

from vivace.cli.keyboard import ESCAPE, keys
from vivace.cli.output import Control, put, say, styled
from vivace.desk.dialogue import Dialogue

__all__ = ["Printed", "typing"]

_PROMPT = "> "
_ANSWER_NOW = "\t"
_ERASE = ("\x7f", "\b")
_BACK = Control("\b \b")


class Printed:
    """The answer as it is, on standard output; in a terminal, without what would steer it."""

    complete = False
    """Who reads wants all of it."""

    def __init__(self) -> None:
        self._line = ""
        """What stands in the last line."""

    def show(self, text: str) -> None:
        put(text)
        self._line = (self._line + text).rpartition("\n")[2]

    def note(self, words: str) -> None:
        """On a line of its own; the line that it comes into is begun again below."""
        within = self._line and sys.stdout.isatty()
        if within:
            put("\n")
        say(words, err=True, dim=True)
        if within:
            put(self._line)

    def turned(self, line: str) -> str:
        return line


@contextlib.contextmanager
def typing(dialogue: Dialogue, pause: Callable[[], object] = say) -> Iterator[None]:
    """While this lasts, keys go to the dialogue. ``pause`` makes room for the line."""
    with keys(_Keyboard(dialogue, pause).typed):
        yield


class _Keyboard:
    def __init__(self, dialogue: Dialogue, pause: Callable[[], object]) -> None:
        self._dialogue = dialogue
        self._pause = pause
        self._line = ""
        self._typing = False

    def typed(self, key: str) -> None:
        if key == ESCAPE:
            self._escape()
        elif key in ("\r", "\n"):
            self._enter()
        elif key == _ANSWER_NOW:
            self._dialogue.answer_now()
        elif key in _ERASE:
            if self._line:
                self._line = self._line[:-1]
                say(_BACK, nl=False)
        elif key.isprintable():
            if not self._typing:
                self._typing = True
                self._dialogue.hold()
                self._pause()
                say(styled(_PROMPT, bold=True), nl=False)
            self._line += key
            say(key, nl=False)

    def _enter(self) -> None:
        if self._typing:
            self._end(self._line.strip())

    def _escape(self) -> None:
        if self._typing:
            self._end("")
        else:
            self._dialogue.stop()

    def _end(self, line: str) -> None:
        self._typing, self._line = False, ""
        say()
        self._dialogue.say(line)
