"""A task on one file that no package has: what the plain ways are tried on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.edit_runs.tasks import Task

from bench.edit_sets import Verdict

__all__ = ["BOUNDARY", "RENAME"]

_FILE = '''\
"""A small cache whose entries expire after a while."""

import time
from collections import OrderedDict


class Entry:
    def __init__(self, value, created):
        self.value = value
        self.created = created

    def is_expired(self, now, ttl):
        return now - self.created > ttl


class TtlCache:
    """Keeps each entry for `ttl` seconds."""

    def __init__(self, ttl=300, clock=time.monotonic):
        self.ttl = ttl
        self.clock = clock
        self.hits = 0
        self.misses = 0
        self._entries = OrderedDict()

    def get(self, key, default=None):
        entry = self._entries.get(key)
        if entry is None or entry.is_expired(self.clock(), self.ttl):
            self.misses += 1
            return default
        self.hits += 1
        return entry.value

    def put(self, key, value):
        self._entries[key] = Entry(value, self.clock())

    def purge(self):
        """Drop everything that has expired; returns how many entries went."""
        now = self.clock()
        expired = []
        for key, entry in self._entries.items():
            if entry.is_expired(now, self.ttl):
                expired.append(key)
        for key in expired:
            del self._entries[key]
        return len(expired)
'''
_COMPARED = "return now - self.created"


@dataclass(frozen=True, kw_only=True)
class _CacheTask(Task):
    before: str
    after: str

    @property
    def text(self) -> str:
        return _FILE

    @property
    def reference(self) -> str:
        return _FILE.replace(self.before, self.after)

    def judge(self, text: str) -> Verdict:
        """Only the line that compares may change."""
        if text == self.reference:
            return Verdict("right")
        others = [line for line in text.splitlines() if _COMPARED not in line]
        kept = [line for line in _FILE.splitlines() if _COMPARED not in line]
        return Verdict("wrong") if others == kept else Verdict("damage")

    def lay_out(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / self.path).write_text(_FILE, "utf-8")


def _task(name: str, instruction: str, before: str, after: str) -> _CacheTask:
    return _CacheTask(
        id=name,
        set="one file",
        language="python",
        kinds=("one place",),
        path="ttl_cache.py",
        instruction=instruction,
        before=before,
        after=after,
    )


BOUNDARY = _task(
    "cache-boundary",
    "Fix `is_expired`: an entry whose age is exactly the ttl has expired.",
    "created > ttl",
    "created >= ttl",
)
RENAME = _task(
    "cache-rename", "Rename the variable `expired` in `purge` to `gone`.", "expired", "gone"
)
