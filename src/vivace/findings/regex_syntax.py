"""Regular expressions as rules have them: the part of Rust's syntax that is in use, as a tree.

There are no groups to remember and nothing that looks around, as in Rust, so what is read here can
be matched in a time that grows with the text and no faster.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TypeAlias

from msgspec import Struct

__all__ = [
    "Assertion",
    "Branch",
    "Chars",
    "RegexError",
    "Repeat",
    "Sequence",
    "Text",
    "Tree",
    "read",
]

_DEEPEST = 50
_MOST = 1_000
"""Repetitions, where their number is said."""
_CLASSES = {"d": r"\d", "w": r"\w", "s": r"\s", "D": r"\D", "W": r"\W", "S": r"\S"}
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0", "a": "\a"}
_ASSERTIONS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\Z"}
_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_RUN = re.compile(r"[A-Za-z0-9_ ]+(?![*+?{A-Za-z0-9_ ])")
"""Plain characters, of which the last is not repeated."""
_NUMBER = re.compile(r"[0-9a-fA-F]{2}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]+)([:)])")
_NAMED = re.compile(r"\(\?P?<\w+>")


class RegexError(ValueError):
    """The text is no regular expression that we match; the message says why."""


class Chars(Struct, frozen=True):
    """One character of a set, as Python writes it: ``[a-z]``, ``\\w``, ``.``."""

    python: str


class Text(Struct, frozen=True):
    """Characters that follow each other."""

    text: str


class Assertion(Struct, frozen=True):
    python: str


class Repeat(Struct, frozen=True):
    inner: Tree
    least: int
    most: int | None


class Sequence(Struct, frozen=True):
    parts: tuple[Tree, ...]


class Branch(Struct, frozen=True):
    parts: tuple[Tree, ...]


Tree: TypeAlias = Chars | Text | Assertion | Repeat | Sequence | Branch


def read(text: str) -> Tree:
    reader = _Reader(text)
    tree = reader.branch(0)
    if reader.at < len(text):
        raise RegexError(f"the regular expression {text!r} closes a group that was never opened.")
    return tree


@cache
def _set_error(python: str) -> str | None:
    try:
        re.compile(python)
    except re.error as error:
        return str(error)
    return None


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._any_case = False
        self._dot = "[^\\n]"

    def branch(self, depth: int) -> Tree:
        if depth > _DEEPEST:
            raise self._error("nests too deep")
        before = self._any_case, self._dot
        parts = [self._sequence(depth)]
        while self._take("|"):
            parts.append(self._sequence(depth))
        self._any_case, self._dot = before if depth else (self._any_case, self._dot)
        return parts[0] if len(parts) == 1 else Branch(tuple(parts))

    def _sequence(self, depth: int) -> Tree:
        parts: list[Tree] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            run = None if self._any_case else _RUN.match(self.text, self.at)
            if run is not None:
                parts.append(Text(run.group()))
                self.at = run.end()
                continue
            item = self._item(depth)
            if item is not None:
                parts.append(self._repeated(item))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def _item(self, depth: int) -> Tree | None:
        sign = self.text[self.at]
        if sign == "(":
            return self._group(depth)
        if sign == "[":
            return self._set()
        if sign == "\\":
            return self._escaped()
        self.at += 1
        if sign == ".":
            return Chars(self._dot)
        if sign == "^":
            return Assertion(r"\A")
        if sign == "$":
            return Assertion(r"\Z")
        if sign in "*+?{":
            raise self._error(f"repeats nothing with {sign!r}; write \\{sign} for the sign itself")
        return self._literal(sign)

    def _literal(self, sign: str) -> Chars | Text:
        if self._any_case and sign.lower() != sign.upper():
            both = {sign, sign.lower(), sign.upper()}
            return Chars(
                "[" + "".join(re.escape(each) for each in sorted(both) if len(each) == 1) + "]"
            )
        return Text(sign)

    def _group(self, depth: int) -> Tree | None:
        flags = _FLAGS.match(self.text, self.at)
        named = _NAMED.match(self.text, self.at)
        before = self._any_case, self._dot
        if flags:
            self._set_flags(flags.group(1))
            self.at = flags.end()
            if flags.group(2) == ")":
                return None
        elif named:
            self.at = named.end()
        elif self.text.startswith("(?:", self.at):
            self.at += 3
        elif self.text.startswith("(?", self.at):
            raise self._error("looks around or has flags that are not supported")
        else:
            self.at += 1
        inner = self.branch(depth + 1)
        if not self._take(")"):
            raise self._error("opens a group that is not closed")
        self._any_case, self._dot = before
        return inner

    def _set_flags(self, flags: str) -> None:
        for flag in flags:
            if flag == "i":
                self._any_case = True
            elif flag == "s":
                self._dot = "[\\d\\D]"
            elif flag != "u":
                raise self._error(f"has the flag {flag!r}, which is not supported")

    def _set(self) -> Chars:
        end = self.at + 1
        if self.text.startswith("^", end):
            end += 1
        if self.text.startswith("]", end):
            end += 1
        while end < len(self.text) and self.text[end] != "]":
            if self.text[end] == "[":
                raise self._error("has a set within a set; write \\[ for the sign itself")
            end += 2 if self.text[end] == "\\" else 1
        written = self.text[self.at : end + 1]
        if end >= len(self.text) or "&&" in written or "--" in written or "~~" in written:
            raise self._error("has a set that is not closed, or is worked out of others")
        if re.search(r"(?<!\\)(?:\\\\)*\\[pPuU]", written):
            raise self._error("names characters by class or number within a set")
        self.at = end + 1
        python = f"(?i:{written})" if self._any_case else written
        if (error := _set_error(python)) is not None:
            raise self._error(f"has a set that cannot be read: {error}")
        return Chars(python)

    def _escaped(self) -> Tree:
        sign = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if sign in _CLASSES and sign:
            return Chars(_CLASSES[sign])
        if sign in _ASSERTIONS and sign:
            return Assertion(_ASSERTIONS[sign])
        if sign in _PLAIN and sign:
            return Text(_PLAIN[sign])
        if sign == "x" and (number := _NUMBER.match(self.text, self.at)) is not None:
            self.at = number.end()
            return self._literal(chr(int(number.group(), 16)))
        if not sign or sign.isalnum():
            raise self._error(f"has '\\{sign}', which is not supported")
        return self._literal(sign)

    def _repeated(self, item: Tree) -> Tree:
        while self.at < len(self.text) and self.text[self.at] in "*+?{":
            sign = self.text[self.at]
            if sign == "{":
                count = _COUNT.match(self.text, self.at)
                if count is None:
                    raise self._error("has a '{' that is no number of repetitions; write \\{")
                self.at = count.end()
                least = int(count.group(1))
                most = least if not count.group(2) else int(count.group(3) or -1)
                if max(least, most) > _MOST or 0 <= most < least:
                    raise self._error("repeats too often")
                item = Repeat(item, least, None if most < 0 else most)
            else:
                self.at += 1
                item = Repeat(item, 1 if sign == "+" else 0, 1 if sign == "?" else None)
            self._take(
                "?"
            )  # whether it takes much or little makes no difference to whether it does
        return item

    def _take(self, sign: str) -> bool:
        if self.text.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False

    def _error(self, what: str) -> RegexError:
        return RegexError(f"the regular expression {self.text!r} {what}.")
