"""Many seeds, on all cores: which of them held, and how long that took."""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from chaos.defects import defective
from chaos.simulation.play import play
from chaos.verdict import Verdict, Word, judge, keep

__all__ = ["Played", "Simulated", "one", "simulate"]

_CHUNK = 25
"""Seeds that a process plays before it tells."""


class Played(Struct, frozen=True):
    seed: int
    verdict: Verdict
    entries: int


class Simulated(Struct):
    seeds: int = 0
    held: int = 0
    unknown: int = 0
    seconds: float = 0.0
    broken: list[Played] = []

    def take(self, played: Played) -> None:
        self.seeds += 1
        match played.verdict.word:
            case Word.HOLDS:
                self.held += 1
            case Word.UNKNOWN:
                self.unknown += 1
            case Word.BROKEN:
                self.broken.append(played)

    def told(self) -> str:
        lines = [f"seed {each.seed}: {_first(each.verdict)}" for each in self.broken[:20]]
        each = 1000 * self.seconds / max(1, self.seeds)
        lines.append(
            f"{self.seeds} seeds, {self.held} held, {len(self.broken)} broken, {self.unknown} hit "
            f"nothing; {self.seconds:.1f} s, {each:.1f} ms a seed"
        )
        return "\n".join(lines)


def _first(verdict: Verdict) -> str:
    first = verdict.violations[0]
    more = len(verdict.violations) - 1
    return f"{first.invariant}: {first.what}" + (f" (and {more} more)" if more else "")


def one(seed: int, defect: str | None = None, folder: Path | None = None) -> Played:
    """``folder``: where the history is kept."""
    with defective(defect):
        history = play(str(seed))
    verdict = judge(history)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        keep(folder, history, verdict)
    return Played(seed, verdict, len(history))


def simulate(
    seeds: Sequence[int], defect: str | None = None, *, processes: int = 0, until: int = 0
) -> Simulated:
    """``until``: how many broken ones are enough; 0: all seeds are played."""
    begin = time.monotonic()
    found = Simulated(broken=[])
    for played in _all(seeds, defect, processes or os.cpu_count() or 1):
        found.take(played)
        if until and len(found.broken) >= until:
            break
    found.seconds = time.monotonic() - begin
    return found


def _all(seeds: Sequence[int], defect: str | None, processes: int) -> Iterator[Played]:
    chunks = [(seeds[at : at + _CHUNK], defect) for at in range(0, len(seeds), _CHUNK)]
    if processes == 1 or len(chunks) == 1:
        for chunk in chunks:
            yield from _some(chunk)
        return
    with multiprocessing.get_context("spawn").Pool(processes, gc.freeze) as pool:
        for done in pool.imap(_some, chunks):
            yield from done


def _some(given: tuple[Sequence[int], str | None]) -> list[Played]:
    seeds, defect = given
    done = [one(seed, defect) for seed in seeds]
    gc.collect()  # which is not done while a seed is played
    return done
