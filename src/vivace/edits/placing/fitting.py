"""What of an answer takes the place of what was shown.

Small models answer with more than they were asked for, or with less: the class around a method, the
whole file, an example of how to call it, only the function that changed, only the lines around the
change. Definitions replace their namesakes, what is new stands behind what it came after, what was
left out stays, and the lines around a change are laid over those they repeat. What cannot be placed
is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from vivace.edits.placing.class_parts import (
    is_another_head,
    parts_of_class,
    statements_became,
)
from vivace.edits.placing.excerpt import Excerpt
from vivace.edits.placing.region import Region, regions
from vivace.edits.relevance import alike
from vivace.errors import EditError
from vivace.syntax.lines import dedented, line_end, lines_of, margin_of
from vivace.syntax.source import Source

__all__ = ["fitted", "with_margin_of"]

_TELLING = 4
"""Letters and digits of a line by which it is known again."""

_Part = tuple[int, int, list[str]]
"""From which line that was shown up to which, and what takes their place."""


def fitted(answer: Sequence[str], shown: Excerpt, said: Collection[str]) -> str:
    """The text that takes the place of the one that was shown. ``answer``: lines without margin and
    ends. ``said``: the words of the instruction; what is named there may be left out on purpose."""
    whole = _with_margin(answer, shown.text)
    language = shown.source.language
    wanted = _outermost(shown.definitions)
    if language is None or not wanted:
        return whole
    given = Source("".join(line + "\n" for line in answer), language)
    if given.errors:
        return whole  # no part of it can be trusted
    fit = _Fit(shown, wanted, given, said)
    if not fit.pairs:
        # Methods without the class that was shown with them.
        names = {_last(each.name) for each in regions(given)}
        inner = _outermost([each for each in shown.definitions if _last(each.name) in names])
        fit = _Fit(shown, inner, given, said)
        return fit.replaced() if fit.pairs else _laid_over(answer, shown, whole)
    if fit.complete:
        behind = lines_of(shown.text)[max(each.end for each in wanted) :]
        ends = not any(map(str.strip, behind))
        return _with_margin(answer[: _last_definition(given)] if ends else answer, shown.text)
    return fit.replaced()


class _Fit:
    """Definitions that were shown, and what the answer has of them."""

    def __init__(
        self, shown: Excerpt, wanted: Sequence[Region], given: Source, said: Collection[str]
    ) -> None:
        self._shown, self._wanted, self._given, self._said = shown, wanted, given, said
        self._answered = regions(given)
        self.pairs = list(self._paired())

    def _paired(self) -> Iterator[tuple[Region, Region]]:
        """Each with its namesake, or with what it is under another name."""
        taken = {match for each in self._wanted if (match := self._namesake(each))}
        for each in self._wanted:
            match = self._namesake(each)
            if match is None:
                free = [other for other in _outermost(self._answered) if other not in taken]
                match = next((other for other in free if self._was(each, other)), None)
            if match is not None:
                taken.add(match)
                yield each, match

    def _namesake(self, wanted: Region) -> Region | None:
        """The definition in an answer that this one became: answers name a method with or without
        its class, and rarely write one twice."""
        given = self._answered
        fitting = [each for each in given if each.name == wanted.name]
        fitting = fitting or [
            each
            for each in given
            if _last(each.name) == _last(wanted.name) and each.kind == wanted.kind
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _was(self, wanted: Region, other: Region) -> bool:
        if _last(other.name) not in self._said or other.kind != wanted.kind:
            return False
        old = "".join(lines_of(self._shown.text)[wanted.start : wanted.end])
        return alike(old, self._given.part(other.start, other.end))

    @property
    def complete(self) -> bool:
        """Whether the answer is the text that was shown, as it is to be: every definition in its
        order, nothing around them that was not there, nothing of the rest of the file."""
        if self._missing and not self._removed:
            return False
        there = [each for each, _ in self.pairs]
        matches = [match for _, match in self.pairs]
        if any(a.start >= b.start for a, b in pairwise(matches)):
            return False
        outer = _outermost(self._answered)
        if any(each.contains(match) and each != match for each in outer for match in matches):
            return False
        own = {each.name for each in self._shown.definitions} | {_last(each.name) for each in there}
        others = {each.name for each in regions(self._shown.source)} - own
        return not any(each.name in others for each in outer)

    @cached_property
    def _missing(self) -> list[Region]:
        """What was shown and is not in the answer, members of a class that is there too."""
        there = [each for each, _ in self.pairs]
        gone = [each for each in self._wanted if each not in there]
        return gone + [each for pair in self.pairs for each in self._left_out(*pair)]

    @cached_property
    def _removed(self) -> bool:
        """Whether what is missing was left out on purpose: it is named, and nothing else was
        done."""
        gone = {row for each in self._missing for row in range(*each.span)}
        old, new = lines_of(self._shown.text), self._given.lines
        return all(_last(each.name) in self._said for each in self._missing) and all(
            _code(old[row] for row in range(*each.span) if row not in gone)
            == _code(new[match.start : match.end])
            for each, match in self.pairs
        )

    def _left_out(self, wanted: Region, match: Region) -> list[Region]:
        """The members of a class that are missing, and those of classes in it."""
        found: list[Region] = []
        for each, new in self._inside(wanted, match):
            found += self._left_out(each, new[0]) if len(new) == 1 else [] if new else [each]
        return found

    def _inside(self, wanted: Region, match: Region) -> list[tuple[Region, list[Region]]]:
        """The members of a class with what the answer has of each: all of its name, as overloads
        are, or what it is under another."""
        answered = _members(self._answered, match)
        found = [
            (each, [other for other in answered if _last(other.name) == _last(each.name)])
            for each in _members(self._shown.definitions, wanted)
        ]
        known = {_last(each.name) for each, _ in found}
        for other in answered:
            if _last(other.name) in known:
                continue
            was = [
                new
                for each, new in found
                if not new and _last(each.name) in self._said and self._was(each, other)
            ]
            if len(was) == 1:
                was[0].append(other)
        return found

    def replaced(self) -> str:
        """What was shown, with each definition that the answer has in the place of its namesake."""
        lines = lines_of(self._shown.text)
        parts: list[_Part] = []
        for each, match in self.pairs:
            parts += self._in_place(each, match)
            for new in self._new_behind(match):
                parts.append((each.end, each.end, [line_end(lines), *self._moved(new, each)]))
        parts.sort(key=lambda part: part[:2])
        for start, stop, come in reversed(parts):
            lines[start:stop] = come
        return "".join(lines)

    def _in_place(self, wanted: Region, match: Region) -> Iterator[_Part]:
        """A definition of the answer in its place; of a class that comes in part, its parts."""
        if self._removed or not self._left_out(wanted, match):
            yield wanted.start, wanted.end, self._moved(match, wanted)
            return
        language = self._given.language
        if language is None or match.kind != wanted.kind:
            raise EditError(f"The answer has something else than a class by the name {match.name}.")
        there, come = _members(self._shown.definitions, wanted), _members(self._answered, match)
        old = parts_of_class(lines_of(self._shown.text), wanted, there, language)
        new = parts_of_class(self._given.lines, match, come, language)
        if is_another_head(old.head, new.head, self._said):
            yield old.head.start, old.head.end, self._moved(new.head, old.head)
        became = statements_became(old.statements, new.statements, self._said)
        became |= self._members_became(wanted, match)
        there, come = _in_order(there, old.statements), _in_order(come, new.statements)
        for each in come:
            place = became.get(each)
            if place is None:
                yield self._added(each, come, there, became)
            elif _is_member(each):
                yield from self._in_place(place, each)
            elif each.name != place.name:
                yield place.start, place.end, self._moved(each, place)

    def _members_became(self, wanted: Region, match: Region) -> dict[Region, Region]:
        """The members of the answer with what they were: of several with one name those that begin
        alike, then in their order."""
        old, new = lines_of(self._shown.text), self._given.lines
        became: dict[Region, Region] = {}
        inside = self._inside(wanted, match)
        for each, given in inside:
            alike = [one for one in given if new[one.start].strip() == old[each.start].strip()]
            became |= {one: each for one in alike[:1] if one not in became}
        for each, given in inside:
            rest = [one for one in given if one not in became]
            others = [one for one, same in inside if same == given and one not in became.values()]
            if each in others and rest:
                if len(rest) != len(others):
                    raise EditError(f"Which of those named {_last(each.name)} is meant is unclear.")
                became |= zip(rest, others, strict=True)
        return became

    def _added(
        self,
        each: Region,
        come: Sequence[Region],
        there: Sequence[Region],
        became: Mapping[Region, Region],
    ) -> _Part:
        """What a class does not have yet, behind what it came after; a member behind a member."""
        known = [one for one in come if one in became and _is_member(one) >= _is_member(each)]
        before = [became[one] for one in known if one.start < each.start]
        behind = [became[one] for one in known if one.start > each.start]
        if not before and _is_member(each) and not behind:
            before = [one for one in there if _is_member(one)]
        place = before[-1] if before else (behind if _is_member(each) else there)[0]
        lines = self._moved(each, next(filter(_is_member, there)))
        gap = [line_end(lines)] if _is_member(each) or _is_member(place) else []
        if before:
            return place.end, place.end, [*gap, *lines]
        return place.start, place.start, [*lines, *gap]

    def _new_behind(self, match: Region) -> Iterator[Region]:
        """Definitions beside this one in the answer that the file does not have, up to the next
        that it has."""
        known = {_last(each.name) for each in regions(self._shown.source)}
        for each in self._answered[self._answered.index(match) + 1 :]:
            if match.contains(each) or each.name.count(".") != match.name.count("."):
                continue
            if _last(each.name) in known:
                return
            yield each

    def _moved(self, each: Region, place: Region) -> list[str]:
        """Lines of the answer with the margin of the place they go to."""
        there = lines_of(self._shown.text)[place.start : place.end]
        new = self._given.lines[each.start : each.end]
        if margin_of(new[:1]) == margin_of(there[:1]):  # texts in it may have less
            return [line.rstrip() + line_end(there) for line in new]
        return with_margin_of(new, there)


def with_margin_of(lines: Sequence[str], there: Sequence[str]) -> list[str]:
    """Lines with the margin and the ends of those whose place they take."""
    margin, own, end = margin_of(lines), margin_of(there), line_end(there)
    bare = [dedented(line, margin).rstrip() for line in lines]
    return [own + line + end if line else end for line in bare]


def _with_margin(answer: Sequence[str], shown: str) -> str:
    lines = lines_of(shown)
    margin, end = margin_of(lines), line_end(lines)
    return "".join(margin + line + end if line else end for line in answer)


def _outermost(known: Sequence[Region]) -> list[Region]:
    found: list[Region] = []
    for each in known:
        if not found or not found[-1].contains(each):
            found.append(each)
    return found


def _members(known: Sequence[Region], outer: Region) -> list[Region]:
    """What is defined in a class, but not in its members."""
    if outer.kind != "class":
        return []
    return _outermost([each for each in known if outer.contains(each) and each != outer])


def _is_member(each: Region) -> bool:
    return each.kind != "selection"


def _in_order(members: Sequence[Region], statements: Sequence[Region]) -> list[Region]:
    return sorted([*members, *statements], key=lambda each: each.start)


def _code(lines: Iterable[str]) -> list[str]:
    """Without space, and without what stands for nothing."""
    return [line for each in lines if (line := each.strip()) not in ("", "pass")]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _last_definition(given: Source) -> int:
    """The line after the last definition, if what follows only shows how it is used."""
    known = regions(given)
    last = max((each.end for each in known), default=len(given.lines))
    following = [node for node in given.tree.root_node.children if node.start_point.row >= last]
    if any(node.is_error or node.is_missing for node in following):
        return len(given.lines)
    return last


def _laid_over(answer: Sequence[str], shown: Excerpt, whole: str) -> str:
    """The answer over the lines that it begins and ends with; it is a part of what was shown."""
    filled = [line.strip() for line in answer if line.strip()]
    if not filled:
        return whole
    lines = lines_of(shown.text)
    keys = [line.strip() for line in lines]
    first = _only(keys, filled[0])
    last = _only(keys, filled[-1])
    if first is None or last is None or first > last:
        raise EditError("The answer is not the code that was shown, nor a part of it.")
    margin = margin_of(lines[first : last + 1])
    bare = margin_of([line + "\n" for line in answer])
    end = line_end(lines)
    new = [dedented(line, bare) for line in answer]
    placed = [margin + line + end if line.strip() else end for line in new]
    return "".join([*lines[:first], *placed, *lines[last + 1 :]])


def _only(keys: Sequence[str], key: str) -> int | None:
    """Where this line stands, if it does once."""
    telling = sum(map(str.isalnum, key)) >= _TELLING
    return keys.index(key) if telling and keys.count(key) == 1 else None
