"""Small editing tasks with deterministic checkers, in Python, TypeScript, C and C++."""

from __future__ import annotations

from bench.edit_tasks import c_family, python, typescript
from bench.edit_tasks.task import Task, Verdict

__all__ = ["TASKS", "Task", "Verdict"]

TASKS: tuple[Task, ...] = (*python.TASKS, *typescript.TASKS, *c_family.TASKS)
