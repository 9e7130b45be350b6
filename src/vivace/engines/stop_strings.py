"""Ends a text before a stop string, however the text is cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["StopStrings"]


class StopStrings:
    """``feed`` gives back what may be told; what may be the beginning of a stop string is held."""

    def __init__(self, strings: Iterable[str]) -> None:
        self._strings = tuple(filter(None, strings))
        self._held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """What can be told now; once a stop string is ``reached``, nothing more."""
        if self.reached or not self._strings:
            return "" if self.reached else text
        whole = self._held + text
        found = [(at + len(each), at) for each in self._strings if (at := whole.find(each)) >= 0]
        if found:
            self.reached = True
            return whole[: min(found)[1]]  # the first that is complete, as if read by characters
        told = len(whole) - max(self._begun(whole, each) for each in self._strings)
        self._held = whole[told:]
        return whole[:told]

    def rest(self) -> str:
        """What was held, now that the text is at its end."""
        held, self._held = "" if self.reached else self._held, ""
        return held

    @staticmethod
    def _begun(text: str, string: str) -> int:
        """How many characters at the end of the text are the beginning of the string."""
        lengths = range(min(len(string) - 1, len(text)), 0, -1)
        return next((length for length in lengths if text.endswith(string[:length])), 0)
