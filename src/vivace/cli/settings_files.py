"""Changes to other programs' files that can be shown, made again without harm, and taken back.

Pure: an edit says what a file should hold; who reads and writes is elsewhere.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from vivace.errors import ConfigError

__all__ = ["MARK", "CannotEdit", "Edit", "ShellLines", "ShippedFile", "TomlTable", "WholeFile"]

MARK = "vivace connect"
"""Stands in every file that is ours alone and that this command wrote."""


class CannotEdit(ConfigError):
    """The file is such that only its owner can change it safely."""


class Edit(Protocol):
    @property
    def path(self) -> Path: ...

    @property
    def text(self) -> str:
        """What is added, as a person would type it."""

    def holds(self, text: str) -> bool:
        """Whether there is anything of ours in the file."""

    def apply(self, before: str | None) -> str:
        """The file with ours in it; None is a file that does not exist."""

    def without(self, text: str) -> str | None:
        """The file with ours taken out; None when that leaves nothing."""


class WholeFile(Struct, frozen=True):
    """A file of our own, which says so by its mark."""

    path: Path
    text: str
    mark: str = MARK

    def holds(self, text: str) -> bool:
        return self.mark in text

    def apply(self, before: str | None) -> str:
        return self.text

    def without(self, text: str) -> str | None:
        return None if self.holds(text) else text


class ShippedFile(Struct, frozen=True):
    """A program of our own, too long to be typed by anybody."""

    path: Path
    content: str

    @property
    def text(self) -> str:
        return f"({self.content.count(chr(10))} lines that come with Vivace)\n"

    def holds(self, text: str) -> bool:
        return MARK in text

    def apply(self, before: str | None) -> str:
        return self.content

    def without(self, text: str) -> str | None:
        return None if self.holds(text) else text


_BEGIN, _END = "# >>> vivace >>>", "# <<< vivace <<<"
_BLOCK = re.compile(rf"(?:\r?\n)?^{_BEGIN}(.*?)^{_END}[^\n]*(?:\n|\Z)", re.MULTILINE | re.DOTALL)


class ShellLines(Struct, frozen=True):
    """Lines of our own, between marks at the end of a file that somebody's shell reads."""

    path: Path
    body: str

    @property
    def text(self) -> str:
        return f"{_BEGIN}\n{self.body}{_END}\n"

    def holds(self, text: str) -> bool:
        return _BLOCK.search(text) is not None

    def apply(self, before: str | None) -> str:
        if before and self.text in before:
            return before
        rest = self.without(before) if before else None
        return f"{rest}\n{self.text}" if rest else self.text

    def without(self, text: str) -> str | None:
        rest = _BLOCK.sub("", text)
        return rest if rest == text or rest.strip() else None


class TomlTable(Struct, frozen=True):
    """A table of our own, between marks at the end of somebody's TOML file.

    The rest of the file stays byte for byte: a comment is the person's too. A table may follow any
    other, so that the end is always a right place, which it would not be for a bare key.
    """

    path: Path
    name: str
    body: str

    @property
    def text(self) -> str:
        return f"{_BEGIN}\n[{self.name}]\n{self.body}{_END}\n"

    def holds(self, text: str) -> bool:
        return _BLOCK.search(text) is not None

    def apply(self, before: str | None) -> str:
        rest = (self.without(before) if before else None) or ""
        if (wrong := _wrong(rest)) is not None:
            raise CannotEdit(f"{self.path} is not valid TOML ({wrong}); mend it first.")
        if before and self.text in before:
            return before
        after = f"{rest}\n{self.text}" if rest else self.text
        if _wrong(after) is not None:
            raise CannotEdit(
                f"{self.path} already has a {self.name} of its own. Take it out, or give it these "
                f"values:\n\n{self.body}"
            )
        return after

    def without(self, text: str) -> str | None:
        rest = _BLOCK.sub(self._foreign, text)
        if rest == text:
            return text
        return rest.rstrip() + "\n" if rest.strip() else None

    def _foreign(self, found: re.Match[str]) -> str:
        """What others put between our marks.

        Programs that rewrite a TOML file keep a last comment last, so that a table they append
        lands before our closing mark.
        """
        inner = found[1]
        other = re.search(rf"^\[(?!{re.escape(self.name)}[].])", inner, re.MULTILINE)
        return f"\n{inner[other.start() :]}" if other else ""


def _wrong(text: str) -> str | None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return None
