"""The pieces of a file that a model is shown together, as one text.

They stand in the order of the file with an empty line where something is left out. What becomes of
the text becomes of the file: a hunk of the one is a hunk of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from vivace.edits.placing.region import Region
from vivace.edits.placing.region import regions as definitions_in
from vivace.errors import EditError
from vivace.syntax.hunk import Hunk, shifted
from vivace.syntax.lines import line_end
from vivace.syntax.source import Source

__all__ = ["Excerpt"]

_GAP = -1
"""The row of an empty line that stands for what is left out."""


class Excerpt:
    """``regions`` in the order of the file; those that touch are one."""

    def __init__(self, source: Source, regions: Sequence[Region]) -> None:
        self.source = source
        self.regions = tuple(_joined(source, regions))

    def __len__(self) -> int:
        """Lines that may change."""
        return sum(map(len, self.regions))

    @cached_property
    def text(self) -> str:
        lines = self.source.lines
        gap = line_end(lines) if len(self.regions) > 1 else ""
        return "".join(gap if row == _GAP else lines[row] for row in self._rows)

    @cached_property
    def _rows(self) -> list[int]:
        """The line of the file that each line of the text is."""
        rows: list[int] = []
        for region in self.regions:
            if rows:
                rows.append(_GAP)
            rows += range(region.start, region.end)
        return rows

    @cached_property
    def definitions(self) -> list[Region]:
        """Those of the file that are shown whole, by their lines in the text."""
        at = {row: place for place, row in enumerate(self._rows)}
        return [
            Region(at[each.start], at[each.end - 1] + 1, each.kind, each.name)
            for each in definitions_in(self.source)
            if self.holds(each.start, each.end)
        ]

    def holds(self, start: int, end: int) -> bool:
        """Whether lines of the file, or a place between two, are within one region."""
        return any(each.start <= start and end <= each.end for each in self.regions)

    def in_file(self, hunks: Sequence[Hunk]) -> list[Hunk]:
        """Hunks of the text as hunks of the file."""
        if len(self.regions) == 1:
            return shifted(hunks, self.regions[0].start)
        return [moved for hunk in hunks for moved in self._moved(hunk)]

    def _moved(self, hunk: Hunk) -> list[Hunk]:
        rows = self._rows[hunk.start : hunk.end]
        if not rows:
            return [Hunk(self._place(hunk.start), (), hunk.new)] if hunk.new else []
        if _GAP not in rows:
            return [Hunk(rows[0], hunk.old, hunk.new)]
        gap = rows.index(_GAP)
        new = list(hunk.new)
        empty = [at for at, line in enumerate(new) if not line.strip()]
        if gap in (0, len(rows) - 1) and rows.count(_GAP) == 1:
            # The empty line was rewritten with its neighbours; it is none of the file's.
            return self._beside_gap(hunk, gap)
        if rows.count(_GAP) > 1 or len(empty) != 1:
            raise EditError("The answer runs pieces together that stand apart in the file.")
        cut = empty[0]
        before = Hunk(hunk.start, hunk.old[:gap], tuple(new[:cut]))
        after = Hunk(hunk.start + gap + 1, hunk.old[gap + 1 :], tuple(new[cut + 1 :]))
        return [*self._moved(before), *self._moved(after)]

    def _beside_gap(self, hunk: Hunk, gap: int) -> list[Hunk]:
        new = list(hunk.new)
        if gap == 0:
            while new and not new[0].strip():
                del new[0]
            return self._moved(Hunk(hunk.start + 1, hunk.old[1:], tuple(new)))
        while new and not new[-1].strip():
            del new[-1]
        return self._moved(Hunk(hunk.start, hunk.old[:-1], tuple(new)))

    def _place(self, at: int) -> int:
        """The line of the file before which to put what is put before this line of the text."""
        if at < len(self._rows) and self._rows[at] != _GAP:
            return self._rows[at]
        return self._rows[at - 1] + 1 if at else 0


def _joined(source: Source, regions: Sequence[Region]) -> list[Region]:
    joined: list[Region] = []
    for each in sorted(regions, key=lambda region: (region.start, -region.end)):
        if joined and each.start <= _next_filled(source, joined[-1].end):
            last = joined[-1]
            if each.end > last.end:
                joined[-1] = Region(last.start, each.end)
        else:
            joined.append(each)
    return joined


def _next_filled(source: Source, row: int) -> int:
    while row < len(source.lines) and not source.lines[row].strip():
        row += 1
    return row
