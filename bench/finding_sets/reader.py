"""Reads a folder of labelled pairs, strictly: an error names the file, the pair and the field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct

__all__ = ["LANGUAGES", "BadSet", "Language", "Pair", "read"]

Language = Literal["python", "javascript", "typescript", "c", "cpp", "go", "rust", "java"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
_SUFFIXES: dict[Language, str] = {
    "python": ".py",
    "javascript": ".js",
    "typescript": ".ts",
    "c": ".c",
    "cpp": ".cpp",
    "go": ".go",
    "rust": ".rs",
    "java": ".java",
}
_ID = re.compile(r"[a-z0-9][a-z0-9-]*")
_Line = Annotated[int, Meta(ge=1)]


class BadSet(Exception):
    """A file of pairs is not as FORMAT.md says; the message names file, pair and field."""


class Pair(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A small file with one fault, and the same without it."""

    id: str
    language: Language
    cwe: Annotated[int, Meta(ge=1)]
    line: _Line | Annotated[tuple[_Line, ...], Meta(min_length=1)]
    """Of ``vulnerable``, counted from 1; of several, each is right."""
    vulnerable: str
    fixed: str

    @property
    def lines(self) -> tuple[int, ...]:
        return (self.line,) if isinstance(self.line, int) else self.line

    @property
    def path(self) -> str:
        """A name that says what language the two texts are in."""
        return self.id + _SUFFIXES[self.language]


def read(folder: Path) -> list[Pair]:
    """All pairs of a folder's files; an id stands in one of them only."""
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise BadSet(f"{folder}: there is no TOML file of pairs")
    pairs: dict[str, Pair] = {}
    for file in files:
        for where, pair in _pairs(file):
            if pair.id in pairs:
                raise BadSet(f"{where}: id: stands there twice")
            pairs[pair.id] = pair
    return list(pairs.values())


def _pairs(file: Path) -> Iterator[tuple[str, Pair]]:
    try:
        raw = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadSet(f"{file}: cannot be read: {error}") from error
    rows = raw.get("pair")
    if set(raw) != {"pair"} or not isinstance(rows, list):
        raise BadSet(f"{file}: has [[pair]] tables and nothing else")
    for number, row in enumerate(rows, 1):
        where = f"{file}: pair {_called(row, number)}"
        try:
            pair = msgspec.convert(row, Pair)
        except msgspec.ValidationError as error:
            raise BadSet(f"{where}: {str(error).replace('`$.', '`')}") from error
        for fault in _faults(pair):
            raise BadSet(f"{where}: {fault}")
        yield where, pair


def _called(row: Any, number: int) -> str:
    return str(row["id"]) if isinstance(row, dict) and "id" in row else f"number {number}"


def _faults(pair: Pair) -> Iterator[str]:
    if not _ID.fullmatch(pair.id):
        yield f"id: small letters, digits and hyphens, not {pair.id!r}"
    count = len(pair.vulnerable.splitlines())
    if max(pair.lines) > count:
        yield f"line: vulnerable has {count} lines, not {max(pair.lines)}"
    if pair.vulnerable == pair.fixed:
        yield "fixed: is the same as vulnerable"
