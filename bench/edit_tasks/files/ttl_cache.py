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
    """Keeps at most `capacity` entries, each for `ttl` seconds."""

    def __init__(self, capacity=128, ttl=None, clock=time.monotonic):
        self.capacity = capacity
        self.ttl = ttl if ttl is not None else 300
        self.clock = clock
        self.hits = 0
        self.misses = 0
        self._entries = OrderedDict()

    def __len__(self):
        return len(self._entries)

    def get(self, key, default=None):
        entry = self._entries.get(key)
        if entry is None:
            self.misses += 1
            return default
        if entry.is_expired(self.clock(), self.ttl):
            del self._entries[key]
            self.misses += 1
            return default
        self.hits += 1
        self._entries.move_to_end(key)
        return entry.value

    def put(self, key, value):
        self._entries[key] = Entry(value, self.clock())
        self._entries.move_to_end(key)
        while len(self._entries) > self.capacity:
            self.evict_oldest()

    def evict_oldest(self):
        key, _ = self._entries.popitem(last=False)
        return key

    def get_or_compute(self, key, compute):
        missing = object()
        value = self.get(key, missing)
        if value is missing:
            value = compute(key)
            self.put(key, value)
        return value

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

    def hit_rate(self):
        return self.hits / (self.hits + self.misses)


def warm(cache, pairs):
    for key, value in pairs:
        cache.put(key, value)
    return cache
