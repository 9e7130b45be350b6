"""From what a command printed to what went wrong: the way through the forms of all languages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from vivace.failures.compilers import read_compilers, read_make, read_places
from vivace.failures.failure import Failure, Found, Kind, Reader
from vivace.failures.go import read_go
from vivace.failures.java import read_java
from vivace.failures.node import read_node, read_tap
from vivace.failures.output import clean_lines
from vivace.failures.python import read_pytest, read_pytest_summary, read_tracebacks
from vivace.failures.rust import read_rust

__all__ = ["read"]

_READERS: tuple[tuple[Reader, ...], ...] = (
    (
        read_pytest,
        read_tracebacks,
        read_tap,
        read_node,
        read_rust,
        read_go,
        read_java,
        read_compilers,
    ),
    (read_pytest_summary,),
    (read_make, read_places),
)
"""Each row is asked where those before it find nothing: it knows less of what it reads."""
_FIRST: dict[Kind, int] = {"compile": 0, "exit": 2}
_MOST = 50
"""Failures that are told of; a thousand tests may fail for one reason."""
_LONGEST_MESSAGE = 2000
_LONGEST_SAID = 6000
"""Characters."""


def read(text: str) -> list[Failure]:
    """What went wrong, in the order in which it was printed; what cannot be compiled first, for
    whatever else is said follows from it, and last that something which was run has failed."""
    lines = clean_lines(text)
    for readers in _READERS:
        found = [each for reader in readers for each in islice(reader(lines), 4 * _MOST)]
        if found:
            failures = _distinct(_apart(found))
            return sorted(islice(failures, _MOST), key=lambda each: _FIRST.get(each.kind, 1))
    return []


def _apart(found: Iterable[Found]) -> Iterator[Found]:
    """Where two tell of the same lines, the one that begins first and knows more frames."""
    ordered = sorted(found, key=lambda each: (each.start, -len(each.failure.frames)))
    end = 0
    for each in ordered:
        if each.start >= end:
            yield each
            end = each.end


def _distinct(found: Iterable[Found]) -> Iterator[Failure]:
    seen: set[tuple[object, ...]] = set()
    for each in found:
        failure = each.failure
        about = (failure.message, failure.frames)
        if about not in seen:
            seen.add(about)
            yield replace(
                failure,
                message=failure.message[:_LONGEST_MESSAGE],
                said=_shortened(failure.said.split("\n")),
            )


def _shortened(lines: Sequence[str]) -> str:
    """The end has the reason."""
    return "\n".join(lines).strip("\n")[-_LONGEST_SAID:]
