"""Small projects with seeded bugs, as data: what ``vivace watch`` is to mend, and the judge."""

from bench.watch_sets.judge import broken, invalid, right
from bench.watch_sets.reader import PROJECTS, BadSet, Task, read

__all__ = ["PROJECTS", "BadSet", "Task", "broken", "invalid", "read", "right"]
