"""Jobs that run one after the other, the most urgent first."""

import heapq
import itertools


class Job:
    def __init__(self, name, action, priority=0):
        self.name = name
        self.action = action
        self.priority = priority
        self.tries = 0
        self.error = None

    def run(self):
        self.tries += 1
        return self.action()


class JobQueue:
    """A queue of jobs; those with the same priority run in the order they came."""

    def __init__(self, log=None):
        self._heap = []
        self._order = itertools.count()
        self._log = log or (lambda text: None)
        self.failed = []

    def push(self, job):
        heapq.heappush(self._heap, (-job.priority, next(self._order), job))

    def pop(self):
        return heapq.heappop(self._heap)[2]

    def __len__(self):
        return len(self._heap)

    def run_next(self):
        """Run one job; a job that fails is tried three times in all."""
        job = self.pop()
        try:
            result = job.run()
        except Exception as error:
            job.error = error
            if job.tries < 3:
                self.push(job)
            else:
                self.failed.append(job)
            return None
        self._log("done: " + job.name)
        return result

    def run_all(self):
        results = []
        while len(self._heap) > 0:
            results.append(self.run_next())
        return results

    def cancel(self, name):
        """Take the waiting jobs with this name out; returns how many there were."""
        kept = []
        for entry in self._heap:
            if entry[2].name != name:
                kept.append(entry)
        removed = len(self._heap) - len(kept)
        self._heap = kept
        heapq.heapify(self._heap)
        return removed

    def names(self):
        return [entry[2].name for entry in sorted(self._heap)]


def backoff(n, base=0.5, limit=30.0):
    """Seconds to wait before the next try."""
    delay = base * 2**n
    if delay > limit:
        delay = limit
    return delay


def schedule(n):
    return [backoff(i) for i in range(n)]
