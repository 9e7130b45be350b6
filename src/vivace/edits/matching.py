"""Finding the lines a model quotes. It quotes from memory: so by and by with less strictness, but
never where two places fit. A wrong place is worse than none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from msgspec import Struct

from vivace.errors import EditError
from vivace.syntax.lines import dedented, line_end, margin_of

__all__ = ["Match", "find", "fitted"]

_ALIKE = 0.9
"""How alike lines must be to be taken for what was meant, from 0 to 1."""
_ENOUGH = 20
"""Letters and digits below which likeness says nothing."""
_LONG = 20_000
"""Characters of two lines together, beyond which comparing them takes long."""
_SHOWN = 60


class Match(Struct, frozen=True):
    """Lines ``start`` up to ``end``, which have this ``margin`` where the quote has ``quoted``."""

    start: int
    end: int
    margin: str = ""
    quoted: str = ""


def find(
    lines: Sequence[str], block: Sequence[str], near: int | None = None, *, after: int = 0
) -> Match:
    """The one place where the block stands, from line ``after`` on.

    ``near``: the edit itself says that the first place from this line on is meant.
    """
    if not any(line.strip() for line in block):
        raise EditError(
            "The edit does not say which lines it replaces. Quote at least one line that is not "
            "empty."
        )
    for way in (_exactly, _but_for_ends, _but_for_margin, _nearly):
        found = [match for match in way(lines, block) if match.start >= max(after, near or 0)]
        if near is not None:
            found = found[:1]
        if len(found) == 1:
            return found[0]
        if found:
            raise EditError(
                f"The quoted lines are ambiguous: lines {_listed(found)} fit. Quote more lines "
                "around them."
            )
    first = next(line.strip() for line in block if line.strip())
    raise EditError(
        f"The quoted lines were not found: nothing like '{first[:_SHOWN]}' and what follows it. "
        "Quote the lines as they stand in the file."
    )


def _listed(found: Sequence[Match]) -> str:
    starts = [str(match.start + 1) for match in found]
    return ", ".join(starts[:-1]) + " and " + starts[-1]


def fitted(match: Match, new: Sequence[str], lines: Sequence[str]) -> tuple[str, ...]:
    """The replacement with the margin and line ends of the place it goes to."""
    end = line_end(lines)
    result: list[str] = []
    for line in new:
        bare = line.rstrip("\r\n")
        if match.margin != match.quoted and bare.strip():
            bare = match.margin + bare.removeprefix(match.quoted)
        result.append(bare + end)
    return tuple(result)


# -- ways, from strict to lenient -----------------------------------------------------------------


def _exactly(lines: Sequence[str], block: Sequence[str]) -> Iterator[Match]:
    return _keyed(lines, block, lambda line: line.rstrip("\r\n"))


def _but_for_ends(lines: Sequence[str], block: Sequence[str]) -> Iterator[Match]:
    return _keyed(lines, block, str.rstrip)


def _keyed(
    lines: Sequence[str], block: Sequence[str], key: Callable[[str], str]
) -> Iterator[Match]:
    sought = [key(line) for line in block]
    keys = [key(line) for line in lines]
    for start in range(len(keys) - len(sought) + 1):
        if keys[start] == sought[0] and keys[start : start + len(sought)] == sought:
            yield Match(start, start + len(sought))


def _but_for_margin(lines: Sequence[str], block: Sequence[str]) -> Iterator[Match]:
    quoted = margin_of(block)
    sought = [dedented(line, quoted).rstrip() for line in block]
    for rough in _keyed(lines, block, str.strip):
        window = lines[rough.start : rough.end]
        margin = margin_of(window)
        if [dedented(line, margin).rstrip() for line in window] == sought:
            yield Match(rough.start, rough.end, margin, quoted)


def _nearly(lines: Sequence[str], block: Sequence[str]) -> Iterator[Match]:
    sought = [line.strip() for line in block]
    if sum(sum(map(str.isalnum, line)) for line in sought) < _ENOUGH:
        return
    keys = [line.strip() for line in lines]
    for start in range(len(keys) - len(sought) + 1):
        window = keys[start : start + len(sought)]
        if _likeness(window, sought) >= _ALIKE:
            end = start + len(sought)
            yield Match(start, end, margin_of(lines[start:end]), margin_of(block))


def _likeness(window: Sequence[str], sought: Sequence[str]) -> float:
    """Weighted by length; given up as soon as too much is different."""
    total = sum(map(len, sought)) + sum(map(len, window))
    lost = 0.0
    for ours, theirs in zip(window, sought, strict=True):
        if ours == theirs:
            continue
        size = len(ours) + len(theirs)
        if size > _LONG:
            return 0.0
        matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
        bound = matcher.real_quick_ratio()
        lost += size * (1 - (matcher.ratio() if bound >= 0.5 else bound))
        if lost > total * (1 - _ALIKE):
            return 0.0
    return 1 - lost / total if total else 0.0
