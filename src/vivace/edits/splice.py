"""From a region as it was answered to the lines that take its place.

Small models answer with more than they were asked for: the class around a method, the whole file,
an example of how to call it. What belongs to the region is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from vivace.edits.region import Region, regions
from vivace.syntax.lines import dedented, line_end, lines_of, margin_of
from vivace.syntax.source import Source

__all__ = ["own_part", "spliced"]


def own_part(answer: Sequence[str], source: Source, region: Region) -> list[str]:
    """The lines of an answer that are about the region. ``answer``: lines without their ends."""
    if source.language is None or region.kind not in ("function", "class"):
        return list(answer)
    read = Source("".join(line + "\n" for line in answer), source.language)
    given = regions(read)
    own = [each for each in given if _is(each, region)]
    if len(own) != 1:
        return list(answer)
    outside = {
        each.name
        for each in regions(source)
        if not region.contains(each) and not each.contains(region)
    }
    around = any(each.contains(own[0]) and each != own[0] for each in given)
    if around or any(each.name in outside for each in given):
        lines = answer[own[0].start : own[0].end]
        margin = margin_of(lines)
        return [dedented(line, margin) for line in lines]
    return list(answer[: _last_definition(read, given)])


def _is(each: Region, region: Region) -> bool:
    """Answers name a method with or without its class."""
    return each.name == region.name or region.name.endswith("." + each.name)


def _last_definition(read: Source, given: Sequence[Region]) -> int:
    """The line after the last definition, if what follows is only said to show how it is used."""
    last = max(each.end for each in given)
    following = [node for node in read.tree.root_node.children if node.start_point.row >= last]
    if any(node.is_error or node.is_missing for node in following):
        return len(read.lines)
    return last


def spliced(answer: Sequence[str], old: str) -> str:
    """The answer as it would stand in the file: with the old region's margin and line ends."""
    lines = lines_of(old)
    margin, end = margin_of(lines), line_end(lines)
    return "".join(margin + line + end if line else end for line in answer)
