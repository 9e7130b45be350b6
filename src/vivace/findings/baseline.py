"""Findings that are known: a baseline holds them back, so that a team sees what is new.

A finding is known again by its fingerprint, which is made of what it says and of the code it marks,
not of the line it stands on: lines may come and go above it, and it may be indented anew. Where the
same code is marked more than once in a file, they are counted. A file that moves, or a marked line
that is rewritten, makes its findings new: somebody touched them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from vivace.errors import VivaceError
from vivace.syntax.finding import Finding

__all__ = ["BadBaseline", "Baseline", "Known", "fingerprints", "marked", "read_baseline"]

_LENGTH = 32
"""Hexadecimal digits: 128 bits, by which no two findings of a project are taken for each other."""


class BadBaseline(VivaceError):
    """A baseline file cannot be used; the message names it and says what to do."""


class Known(Struct, frozen=True, order=True):
    """A finding that is held back. Only the fingerprint decides; the rest is for who reads it."""

    path: str
    rule: str
    fingerprint: str


class Baseline(Struct, frozen=True):
    version: Literal[1]
    findings: tuple[Known, ...]

    @classmethod
    def of(cls, found: Iterable[Known]) -> Baseline:
        return cls(1, tuple(sorted(set(found))))

    @property
    def held_back(self) -> frozenset[str]:
        """The fingerprints of what is not reported."""
        return frozenset(known.fingerprint for known in self.findings)

    def text(self) -> str:
        """As it is kept: a line for each, so that two people who change it can be merged."""
        rows = ",\n".join(f"  {msgspec.json.encode(known).decode()}" for known in self.findings)
        return f'{{"version": 1, "findings": [\n{rows}\n]}}\n'


def read_baseline(data: bytes, path: str) -> Baseline:
    try:
        return msgspec.json.decode(data, type=Baseline)
    except msgspec.MsgspecError as error:
        raise BadBaseline(
            f"{path} is no baseline that this version of Vivace can read: {error}. "
            f"To write it anew: vivace check --write-baseline {path}"
        ) from error


def marked(lines: Sequence[str], finding: Finding) -> str:
    """The code a finding is about, as it stands there; empty where it is about no place."""
    if finding.lines is None:
        return ""
    start, end = finding.lines
    text = list(lines[start:end])
    if finding.columns is not None and text:
        first, last = finding.columns
        text[-1] = text[-1][:last]
        text[0] = text[0][first:]
    return "".join(text)


def fingerprints(path: str, lines: Sequence[str], findings: Iterable[Finding]) -> Iterator[str]:
    """One for each finding of a file, in their order."""
    seen: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        what = (finding.code, " ".join(marked(lines, finding).split()))
        said = "\0".join((path, *what, str(seen[what])))
        seen[what] += 1
        yield hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]
